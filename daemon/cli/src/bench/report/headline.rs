//! The figures in one sentence, which is true whatever they are.

use ropeway_bench::Size;

use super::peers::{best_forms, speed_up};
use super::records::{Records, Row};
use crate::bench::digits;
use crate::bench::verdict::Verdict;

/// What early binding saves, what hides, and how others do.
pub(super) fn of(records: &Records) -> String {
    let parts: Vec<_> = [saving(records), hiding(records), standing(records)].into_iter().flatten().collect();
    let Some((last, before)) = parts.split_last() else {
        return "There are no figures to speak of.".to_owned();
    };
    if before.is_empty() {
        format!("On this machine {last}.")
    } else {
        format!("On this machine {}; and {last}.", before.join("; "))
    }
}

/// Persistent beside one-shot messages, the smallest ones, on one node if it was measured.
fn saving(records: &Records) -> Option<String> {
    let rows = records.of("latency", "half_rtt");
    let smallest = |mode: &str| {
        let of_mode = rows.iter().filter(|row| row.mode.as_deref() == Some(mode) && row.bytes.is_some());
        of_mode.min_by_key(|row| (row.nodes, row.bytes)).copied()
    };
    let (bound, loose) = (smallest("persistent")?, smallest("oneshot")?);
    if (bound.setting(), bound.bytes) != (loose.setting(), loose.bytes) {
        return None;
    }
    let saved = 1.0 - bound.median / loose.median;
    let what = format!("a message of {} bytes ({})", Size(bound.bytes?), bound.setting());
    let (from, to) = (digits(loose.median), digits(bound.median));
    Some(
        match () {
            () if is_same(bound, loose) => format!("binding {what} once makes no difference to its time of {to} µs"),
            () if saved > 0.0 => {
                format!("binding {what} once takes {} % off its time, from {from} to {to} µs", whole(saved))
            }
            () => format!("binding {what} once adds {} % to its time, from {from} to {to} µs", whole(-saved)),
        } + &in_doubt(&[bound, loose]),
    )
}

/// Whether the intervals overlap; without intervals, whether the figures are alike.
fn is_same(a: &Row, b: &Row) -> bool {
    match (a.ci95, b.ci95) {
        (Some(a), Some(b)) => a[0] <= b[1] && b[0] <= a[1],
        _ => (a.median / b.median - 1.0).abs() < ALIKE,
    }
}

/// The largest transfer, in both directions if that was measured, with the core left to the daemon.
fn hiding(records: &Records) -> Option<String> {
    let rows = records.of("overlap", "d_o").into_iter().filter(|row| {
        let is_ours = !matches!(row.progress.as_deref(), Some("client"));
        row.mode.as_deref() == Some("persistent") && row.compute.as_deref() == Some("sleep") && is_ours
    });
    let is_usual = |row: &Row| matches!(row.wait.as_str(), "" | "adaptive");
    let row =
        rows.max_by_key(|row| (row.op.is_none(), is_usual(row), row.bytes, row.side.as_deref() == Some("both")))?;
    let what = match &row.op {
        Some(op) => format!("of {op} of {} bytes ({})", Size(row.bytes?), row.setting()),
        None => format!("of a transfer of {} bytes ({})", Size(row.bytes?), row.setting()),
    };
    let share = match row.median {
        d_o if d_o >= 0.995 => "all".to_owned(),
        d_o if d_o < 0.005 => "nothing".to_owned(),
        d_o => format!("{} %", whole(d_o)),
    };
    Some(format!("{share} {what} hides behind computation that leaves a core free{}", in_doubt(&[row])))
}

/// The smallest message beside the library that is fastest with it.
fn standing(records: &Records) -> Option<String> {
    let rows = best_forms(records, |of| of == "latency");
    let Some(first) = rows.iter().min_by_key(|row| (row.nodes, row.ranks, row.bytes)) else {
        let is_alone = !records.rows.is_empty() && records.rows.iter().all(|row| row.peer.is_empty());
        return is_alone.then(|| "no other library was measured beside it".to_owned());
    };
    let alike: Vec<_> =
        rows.iter().filter(|row| (row.setting(), row.bytes) == (first.setting(), first.bytes)).collect();
    let best = alike.iter().min_by(|a, b| speed_up(a).0.total_cmp(&speed_up(b).0))?;
    let (times, [low, high]) = speed_up(best);
    // Records that name no verdict have to agree in all runs.
    let is_decided = best.verdict.map_or(low > 1.0 || high < 1.0, Verdict::is_decided);
    let verdict = match () {
        () if !is_decided => "not shown to be faster or slower than".to_owned(),
        () if times > 1.0 => format!("{} times as fast as", digits(times)),
        () => format!("only {} times as fast as", digits(times)),
    };
    let of = if alike.len() == 1 {
        "the only other library found".to_owned()
    } else {
        format!("the fastest of {} others found", alike.len())
    };
    let (size, setting) = (Size(best.bytes?), best.setting());
    Some(format!("with {size} bytes ({setting}) Ropeway is {verdict} {}, {of}{}", best.peer, in_doubt(&[best])))
}

fn in_doubt(rows: &[&Row]) -> String {
    let mut doubts: Vec<_> = rows.iter().flat_map(|row| row.doubts()).collect();
    doubts.sort_unstable();
    doubts.dedup();
    if doubts.is_empty() { String::new() } else { format!(" (in doubt: {})", doubts.join(", ")) }
}

/// Percent.
fn whole(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// Less is no difference.
const ALIKE: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(mode: &str, median: f64) -> String {
        format!(
            "{{\"bench\":\"latency\",\"metric\":\"half_rtt\",\"mode\":\"{mode}\",\"ranks\":2,\"nodes\":1,\"bytes\":8,\"median\":{median}}}\n"
        )
    }

    fn headline(text: &str) -> String {
        of(&Records::parse(text).unwrap())
    }

    #[test]
    fn what_was_not_saved_is_not_claimed() {
        let of = |persistent, oneshot| headline(&(latency("persistent", persistent) + &latency("oneshot", oneshot)));
        assert!(of(0.2, 0.4).starts_with("On this machine binding a message of 8 bytes (one node) once takes 50 % off its time, from 0.400 to 0.200 µs"));
        assert!(of(0.4, 0.2).contains("adds 100 % to its time"));
        assert!(of(0.2, 0.201).contains("makes no difference"));
        assert!(of(0.2, 0.4).ends_with("no other library was measured beside it."));
        let beside =
            "{\"bench\":\"transparency\",\"of\":\"cg\",\"metric\":\"time\",\"peer\":\"MPICH 5\",\"median\":1.0}";
        assert!(headline(&(latency("persistent", 0.2) + &latency("oneshot", 0.4) + beside)).ends_with("to 0.200 µs."));
        assert_eq!(headline(""), "There are no figures to speak of.");
    }

    #[test]
    fn what_hides_is_said_and_doubted() {
        let of = |d_o: f64| {
            headline(&format!(
                "{{\"bench\":\"overlap\",\"metric\":\"d_o\",\"mode\":\"persistent\",\"compute\":\"sleep\",\"side\":\"both\",\"ranks\":2,\
                 \"nodes\":2,\"rate\":\"1gbit\",\"bytes\":65536,\"median\":{d_o},\"doubts\":[\"drift\"]}}"
            ))
        };
        let place = "of a transfer of 64K bytes (two nodes, a line of 1gbit) hides behind computation that leaves a core free (in doubt: drift)";
        assert!(of(0.934).contains(&format!("93 % {place}")));
        assert!(of(-0.2).contains(&format!("nothing {place}")));
        assert!(of(1.01).contains(&format!("all {place}")));
    }

    #[test]
    fn others_are_beaten_only_if_a_test_or_every_run_says_so() {
        let of = |ratio_min: f64, ratio_max: f64, verdict: &str| {
            headline(&format!(
                "{{\"bench\":\"compare\",\"of\":\"latency\",\"metric\":\"half_rtt\",\"wait\":\"adaptive\",\"ranks\":2,\"nodes\":1,\"bytes\":8,\
                 \"peer\":\"MPICH 5\",\"peer_mode\":\"blocking\",\"peer_median\":1.0,\"ratio\":0.8,\"ratio_min\":{ratio_min},\
                 \"ratio_max\":{ratio_max}{verdict}}}"
            ))
        };
        let faster = "Ropeway is 1.250 times as fast as MPICH 5, the only other library found";
        let undecided = "Ropeway is not shown to be faster or slower than MPICH 5";
        assert!(of(0.7, 0.9, "").contains(faster) && of(0.7, 1.1, "").contains(undecided));
        let verdict = |verdict: &str| format!(",\"verdict\":\"{verdict}\"");
        assert!(of(0.7, 1.1, &verdict("faster")).contains(faster));
        assert!(of(0.7, 0.9, &verdict("no difference shown")).contains(undecided));
        assert!(of(0.7, 0.9, &verdict("too few runs")).contains(undecided));
    }
}
