//! `ropeway bench overlap` and `asynchrony`, and nodes in network namespaces of their own.

mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::Value;
use tool::shares::{assert_asynchrony_adds_up, assert_overlap_adds_up, product, rows};
use tool::{Running, has_namespaces, records, ropeway, stderr, stdout, table_rows};

/// A benchmark that does not take long, of one batch.
fn bench(args: &[&str]) -> Output {
    let short = ["--json", "--quiet", "--runs", "1", "--iters", "3", "--warmup", "1"];
    ropeway(&["bench"]).args(args).args(short).output().unwrap()
}

#[test]
fn overlap_is_measured_on_all_sides_with_both_kinds_of_computation() {
    let output = bench(&["overlap", "--nodes", "2", "--sizes", "1,64K", "-n", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let expected: [&[&str]; 5] = [&OVERLAP, &MODES, &["send", "recv", "both"], &COMPUTE, &["1", "65536"]];
    assert_eq!(rows(&records, &["metric", "mode", "side", "compute", "bytes"]), product(&expected));
    assert_overlap_adds_up(&records);
}

const OVERLAP: [&str; 5] = ["d_o", "t_x", "t_y", "t_o", "availability"];
const ASYNCHRONY: [&str; 4] = ["d_a", "t_comm", "t_async", "t_start"];
const MODES: [&str; 2] = ["persistent", "oneshot"];
const COMPUTE: [&str; 2] = ["busy", "sleep"];

/// Whether a record is of a metric that sockets and threads have too.
fn is_share(record: &Value) -> bool {
    record["metric"] == "d_o" || record["metric"] == "availability"
}

/// Of shares, and of the time of a transfer alone, what the same has without Ropeway is measured, too.
fn has_floor(record: &Value) -> bool {
    is_share(record) || record["metric"] == "t_y"
}

#[test]
fn what_hides_between_nodes_stands_beside_what_hides_without_ropeway() {
    let args = ["overlap", "--sizes", "1,8K", "-n", "3", "--progress", "both"];
    let output = bench(&[&args[..], &["--nodes", "2"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut floors = BTreeMap::new();
    for record in records(&output) {
        if !has_floor(&record) {
            assert_eq!(record.get("floor"), None, "{record}");
            continue;
        }
        assert_eq!(record["floor_name"], "sockets and threads");
        let floor = record["floor"].as_f64().unwrap();
        // Of times only how many times it ours take.
        assert_eq!(record.get("ratio").is_some_and(Value::is_f64), !is_share(&record), "{record}");
        // Measured once, whatever kind of messages it is beside.
        let case = ["metric", "bytes", "side", "compute"].map(|key| record[key].to_string());
        assert_eq!(*floors.entry(case).or_insert(floor), floor, "{record}");
    }
    assert_eq!(floors.len(), 3 * 2 * 3 * 2);
    let output = bench(&args);
    assert!(records(&output).iter().all(|record| record.get("floor").is_none()), "{}", stdout(&output));
}

#[test]
fn what_hides_of_collectives_stands_beside_what_hides_without_ropeway() {
    for nodes in ["2", "4"] {
        let of = ["--of", "allreduce,allgather,alltoall,bcast", "--sizes", "8K", "--mode", "persistent"];
        let output = bench(&[&["overlap", "-n", nodes, "--nodes", nodes][..], &of].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let (with, without): (Vec<_>, Vec<_>) =
            records(&output).into_iter().partition(|record| record.get("floor").is_some());
        let rows: BTreeSet<_> =
            with.iter().map(|record| ["metric", "op", "compute"].map(|key| record[key].to_string())).collect();
        assert_eq!((with.len(), rows.len(), without.len()), (3 * 2 * 3, 3 * 2 * 3, 3 * 2 * 2 + 2 * 5));
        for record in with {
            assert!(has_floor(&record) && record["floor_name"] == "sockets and threads", "{record}");
            assert!(record.get("ratio").is_none() == is_share(&record), "{record}");
        }
    }
    // Ranks that share memory are no match for ranks that do not.
    for nodes in ["1", "2"] {
        let output = bench(&["overlap", "-n", "3", "--nodes", nodes, "--of", "allgather", "--sizes", "8"]);
        assert!(records(&output).iter().all(|record| record.get("floor").is_none()), "{}", stdout(&output));
    }
}

#[test]
fn asynchrony_is_measured_on_one_and_two_nodes() {
    let (small, large) = ("who is second copies", "a flag each way and a copy");
    for (nodes, floors) in [("1", [small, large]), ("2", ["sockets and threads"; 2])] {
        let output = bench(&["asynchrony", "--nodes", nodes, "--sizes", "8,64K"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        let expected: [&[&str]; 4] = [&ASYNCHRONY, &MODES, &COMPUTE, &["8", "65536"]];
        assert_eq!(rows(&records, &["metric", "mode", "compute", "bytes"]), product(&expected));
        assert_asynchrony_adds_up(&records);
        for record in records {
            assert_eq!(record["unit"], if record["metric"] == "d_a" { "ratio" } else { "us" });
            let floor = floors[usize::from(record["bytes"] != 8)];
            let is_floored = record["floor"].as_f64().is_some_and(|d_a| d_a < 1.0) && record["floor_name"] == floor;
            assert_eq!(is_floored, record["metric"] == "d_a", "{record}");
        }
    }
}

#[test]
fn progress_of_the_client_is_measured_beside_that_of_daemons() {
    let both: [(&str, &[&str], &[&str]); 2] =
        [("asynchrony", &ASYNCHRONY, &["recv"]), ("overlap", &OVERLAP, &["send", "recv", "both"])];
    for (bench_name, metrics, sides) in both {
        let args = [bench_name, "--nodes", "2", "--sizes", "8,128K", "--mode", "persistent", "--wait", "blocking"];
        let output = bench(&[&args[..], &["--progress", "both"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        let expected = [metrics, sides, &["independent", "client"], &COMPUTE, &["8", "131072"]];
        assert_eq!(rows(&records, &["metric", "side", "progress", "compute", "bytes"]), product(&expected));
        match bench_name {
            "overlap" => assert_overlap_adds_up(&records),
            _ => assert_asynchrony_adds_up(&records),
        }
    }
    let args =
        ["bench", "asynchrony", "--sizes", "8", "--runs", "1", "--iters", "1", "--quiet", "--progress", "client"];
    let table = stdout(&ropeway(&args).output().unwrap());
    assert_eq!(table.lines().skip(2).filter(|line| line.contains("  client  ")).count(), 4, "{table}");
}

#[test]
fn notification_and_progress_make_four_rows_of_one_run() {
    let classes = ["polling independent", "polling client", "blocking independent", "blocking client"];
    for (name, metric) in [("asynchrony", "d_a"), ("overlap", "d_o")] {
        let four = ["--nodes", "2", "--sizes", "8K", "--wait", "polling,blocking", "--progress", "both"];
        let output = bench(&[&[name, "--mode", "persistent"][..], &four].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        let rows = records.iter().filter(|record| record["metric"] == metric);
        let rows: Vec<_> = rows.map(|row| format!("{} {}", row["wait"], row["progress"]).replace('"', "")).collect();
        assert!(rows.chunks(4).all(|four| four == classes), "{rows:?}");
    }
    let four = ["--of", "barrier", "--division", "two-level,flat", "--wait", "polling,blocking"];
    let short = ["--mode", "persistent", "--runs", "1", "--iters", "1", "--warmup", "1", "--quiet"];
    let output = ropeway(&[&["bench", "overlap"], &four[..], &short].concat()).output().unwrap();
    let table = stdout(&output);
    assert!(table.starts_with("overlap; 2 ranks, 1 node, shm, polling and blocking, "), "{table}{}", stderr(&output));
    let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..4], ["messages", "wait", "progress", "division"], "{table}");
    assert_eq!(rows[1][1..4], ["polling", "independent", "two-level"], "{table}");
    assert_eq!(rows[8][1..4], ["blocking", "client", "flat"], "{table}");
}

#[test]
fn overlap_has_a_table() {
    let args = ["bench", "overlap", "--sizes", "8", "--runs", "1", "--iters", "1", "--warmup", "1", "--quiet"];
    let output = ropeway(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(table_rows(&stdout(&output)), 12, "{}", stdout(&output));
    assert!(stdout(&output).contains("d_o"));
}

#[test]
fn namespaces_need_root_and_iproute2() {
    let why = if geteuid().is_root() {
        "ropeway: --netns needs the programs ip and tc"
    } else {
        "ropeway: --netns needs root"
    };
    let output =
        ropeway(&["bench", "latency", "--nodes", "2", "--netns"]).env("PATH", "/nonexistent").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).starts_with(why), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 1);
    let output = bench(&["latency", "--netns"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("use --nodes 2"), "{}", stderr(&output));
    let output = bench(&["latency", "--nodes", "2", "--rate", "1gbit"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("so add --nodes 2 --netns"), "{}", stderr(&output));
}

#[test]
fn nodes_in_namespaces_can_not_beat_their_line() {
    if !has_namespaces() {
        return;
    }
    for nodes in ["2", "3"] {
        let line = ["--netns", "--rate", "200mbit", "--sizes", "16K", "--mode", "persistent"];
        let output = bench(&[&["bandwidth", "--nodes", nodes, "-n", nodes][..], &line].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        for record in records(&output).iter().filter(|record| record["side"] == "send") {
            assert_eq!(
                (&record["device"], &record["netns"], &record["rate"]),
                (&"tcp".into(), &true.into(), &"200mbit".into())
            );
            // 25 MB/s and a burst. The floor has to cross the same line.
            assert!(record["median"].as_f64().unwrap() < 27.0, "{record}");
            assert!(record["floor"].as_f64().unwrap() < 27.0, "{record}");
        }
    }
}

#[test]
fn pairs_of_all_nodes_have_their_floor_in_namespaces() {
    if !has_namespaces() {
        return;
    }
    // Rank 2 of the second node is called by rank 5 of the third.
    let output = bench(&["message-rate", "-n", "6", "--nodes", "3", "--netns", "--sizes", "8", "--mode", "persistent"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(records(&output).iter().all(|record| record["floor"].as_f64().unwrap() > 0.0), "{}", stdout(&output));
}

#[test]
fn overlap_in_namespaces_comes_with_its_line_rate() {
    if !has_namespaces() {
        return;
    }
    let output = bench(&["overlap", "--nodes", "2", "--netns", "--rate", "1gbit", "--sizes", "125000"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for record in records(&output) {
        match record["metric"].as_str().unwrap() {
            // A send is over when the kernel has the bytes.
            "t_y" if record["side"] != "send" => {
                assert_eq!((&record["floor_name"], &record["floor"]), (&"line rate".into(), &1000.0.into()))
            }
            // It has to cross the same line.
            _ if has_floor(&record) => assert_eq!(record["floor_name"], "sockets and threads"),
            _ => assert_eq!(record.get("floor"), None, "{record}"),
        }
    }
    let of = ["--of", "allreduce,scatter", "-n", "4", "--nodes", "4", "--netns", "--rate", "1gbit", "--sizes", "64K"];
    let output = bench(&[&["overlap"][..], &of].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for record in records(&output) {
        assert_eq!(record.get("floor_name").is_some(), has_floor(&record), "{record}");
    }
    let line = ["--nodes", "2", "--netns", "--rate", "1gbit", "--sizes", "8K", "--mode", "persistent"];
    let short = ["--runs", "1", "--iters", "1", "--warmup", "1", "--quiet"];
    let table = stdout(&ropeway(&[&["bench", "overlap"], &line[..], &short].concat()).output().unwrap());
    for column in ["floor of d_o", "floor of availability", "floor of t_y", "sockets and threads", "line rate: t_y is "]
    {
        assert!(table.contains(column), "{table}");
    }
}

#[test]
fn an_interrupt_leaves_no_namespace() {
    if has_namespaces() {
        assert_eq!(end_by(Signal::SIGINT), Some(130));
        assert_eq!(end_by(Signal::SIGTERM), Some(143));
    }
}

#[test]
fn no_namespace_outlives_a_tool_that_was_killed() {
    if has_namespaces() {
        assert_eq!(end_by(Signal::SIGKILL), None);
    }
}

/// Sends a signal to a benchmark between three nodes, and looks for what it leaves. Returns its status.
fn end_by(signal: Signal) -> Option<i32> {
    let (names, interfaces) = (named_namespaces(), interfaces());
    let endless = ["--netns", "--rate", "1gbit", "--iters", "1000000000", "--quiet"];
    let mut tool = Running::start(ropeway(&["bench", "overlap", "--nodes", "3", "-n", "3"]).args(endless));
    // While the network is made it has one child at a time.
    let ranks = tool.until_children(|ranks| ranks.len() == 3 && ranks.iter().all(|rank| is_bound(rank)));
    let namespaces: BTreeSet<_> = ranks.iter().filter_map(|rank| namespace_of(rank)).collect();
    assert_eq!(namespaces.len(), 3);
    assert!(!namespaces.contains(&namespace_of("self").unwrap()));
    tool.signal(signal);
    let status = tool.wait().unwrap().code();
    // Whoever adopts the ranks of a tool that was killed reaps them in its own time.
    let give_up = Instant::now() + Duration::from_secs(60);
    while processes().iter().filter_map(|process| namespace_of(process)).any(|found| namespaces.contains(&found)) {
        assert!(Instant::now() < give_up, "somebody is still in a namespace of the tool");
        std::thread::yield_now();
    }
    // A namespace without a name and without a process is gone, with its interfaces.
    assert_eq!((named_namespaces(), self::interfaces()), (names, interfaces));
    status
}

/// Whether a rank talks to its daemon: from then on it dies with the tool.
fn is_bound(rank: &str) -> bool {
    fs::read_to_string(format!("/proc/{rank}/maps")).is_ok_and(|maps| maps.contains("memfd"))
}

fn namespace_of(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

fn processes() -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.bytes().all(|digit| digit.is_ascii_digit())).collect()
}

fn named_namespaces() -> BTreeSet<PathBuf> {
    fs::read_dir("/run/netns").map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default()
}

fn interfaces() -> BTreeSet<PathBuf> {
    fs::read_dir("/sys/class/net").unwrap().flatten().map(|entry| entry.path()).collect()
}
