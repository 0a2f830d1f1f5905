//! What `ropeway bench compare` and `transparency` have found.

use super::chart::{Curve, Look};
use super::curves::points_of_others;
use super::records::{Records, Row, groups};
use super::section::{Drawing, Figure};
use crate::bench::verdict::is_time;

/// Every peer with the form of its calls that does best; buffers as they are, adaptive waiting.
pub(super) fn best_forms<'a>(records: &'a Records, of: impl Fn(&str) -> bool) -> Vec<&'a Row> {
    let usual = |row: &&&Row| of(&row.of) && !row.touched && row.wait == "adaptive";
    let compared: Vec<_> = records.rows.iter().filter(|row| row.bench == "compare").collect();
    let compared: Vec<_> = compared.iter().filter(usual).copied().collect();
    let case = |row: &Row| (row.metric.clone(), row.op.clone(), row.side.clone(), row.compute.clone());
    let contests = groups(&compared, |row| (row.of.clone(), case(row), row.setting(), row.bytes, row.peer.clone()));
    let best = |(_, forms): (_, Vec<&'a Row>)| forms.into_iter().max_by(|a, b| peer_speed(a).total_cmp(&peer_speed(b)));
    contests.into_iter().filter_map(best).collect()
}

/// Adds curves of what others reach to those of a figure, by these names.
pub(super) fn add_curves(figure: &mut Figure, best: &[&Row], name: impl Fn(&Row) -> String) {
    let Drawing::Chart(chart) = &mut figure.drawing else { return };
    if best.is_empty() {
        return;
    }
    let begin = chart.curves.iter().filter(|curve| !matches!(curve.look, Look::Floor(_))).count();
    for (number, (name, rows)) in groups(best, name).into_iter().enumerate() {
        let points = points_of_others(&rows, |row| row.peer_median);
        chart.curves.push(Curve { name, look: Look::Marked(begin + number), points });
    }
    figure.note = "Other libraries were measured in turns with Ropeway at another time.".into();
}

/// More is better.
fn peer_speed(row: &Row) -> f64 {
    if is_time(&row.metric) { 1.0 / row.peer_median } else { row.peer_median }
}

/// How many times as fast as the peer we are: the median over the runs, and the lowest and highest.
pub(super) fn speed_up(row: &Row) -> (f64, [f64; 2]) {
    match is_time(&row.metric) {
        true => (1.0 / row.ratio, [1.0 / row.ratio_max, 1.0 / row.ratio_min]),
        false => (row.ratio, [row.ratio_min, row.ratio_max]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_judged_by_its_best_form() {
        let line = |form: &str, median: f64, ratio: f64| {
            format!(
                "{{\"bench\":\"compare\",\"of\":\"latency\",\"metric\":\"half_rtt\",\"wait\":\"adaptive\",\"bytes\":8,\"peer\":\"A\",\
                 \"peer_mode\":\"{form}\",\"peer_median\":{median},\"ratio\":{ratio},\"ratio_min\":0.4,\"ratio_max\":0.8}}\n"
            )
        };
        let text = line("persistent", 2.0, 0.25) + &line("blocking", 1.0, 0.5);
        let records = Records::parse(&text).unwrap();
        let best = best_forms(&records, |of| of == "latency");
        assert_eq!((best.len(), best[0].peer_mode.as_str()), (1, "blocking"));
        assert_eq!(speed_up(best[0]), (2.0, [1.25, 2.5]));
        assert!(best_forms(&records, |of| of == "bandwidth").is_empty());
    }
}
