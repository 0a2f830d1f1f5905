//! `ropeway demo`, `ropeway bench` and `ropeway daemon`: jobs whose ranks are the tool itself.

mod tool;

use std::collections::HashSet;
use std::io::Read;
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;
use tool::{Running, lines, records, ropeway, stderr, stdout};

/// Solves the system in a file with these lines.
fn demo_of(matrix: &str, ranks: &str) -> Output {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), matrix).unwrap();
    let path = file.path().to_str().unwrap();
    ropeway(&["demo", "jacobi", "--json", "--quiet", "--runs", "2", "-n", ranks, "--matrix", path]).output().unwrap()
}

#[test]
fn the_demo_is_correct_with_both_kinds_of_messages_on_one_and_two_nodes() {
    let output = ropeway(&["demo", "--size", "101", "-n", "3", "--runs", "2", "--json", "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kinds: Vec<_> = records(&output)
        .iter()
        .map(|record| {
            assert_eq!(record["correct"], true);
            assert!(record["iterations"].as_u64().unwrap() > 5);
            (record["mode"].as_str().unwrap().to_owned(), record["nodes"].as_u64().unwrap())
        })
        .collect();
    let expected = [("oneshot", 1), ("persistent", 1), ("oneshot", 2), ("persistent", 2)];
    assert_eq!(kinds, expected.map(|(mode, nodes)| (mode.to_owned(), nodes)));
}

#[test]
fn the_demo_prints_a_table() {
    let output = ropeway(&["demo", "--size", "64", "--runs", "1", "--nodes", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("64 unknowns, 4 ranks"), "{}", stdout(&output));
    assert_eq!(stdout(&output).matches("yes").count(), 2);
}

#[test]
fn a_matrix_of_the_users_is_solved() {
    let matrix = "%%MatrixMarket matrix coordinate real symmetric\n% a comment\n5 5 9\n1 1 4\n2 2 4\n3 3 4\n4 4 4\n5 5 4\n\
                  2 1 -1\n3 2 -1\n4 3 -1.5\n5 4 1e-1\n";
    let output = demo_of(matrix, "2");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(records(&output).iter().all(|record| record["correct"] == true && record["size"] == 5));
    assert_eq!(records(&output).len(), 4);
}

#[test]
fn a_matrix_that_can_not_be_solved_is_refused() {
    let refused = |matrix: &str, ranks, why: &str| {
        let output = demo_of(matrix, ranks);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    let banner = "%%MatrixMarket matrix array real general\n";
    refused(&format!("{banner}2 2\n2\n3\n1\n3\n"), "2", "not diagonally dominant: in row 2 the diagonal element is 3");
    refused(&format!("{banner}2 2\n2\nx\n1\n3\n"), "2", "line 4: expected a number");
    refused(&format!("{banner}2 2\n2\n1\n1\n3\n"), "3", "3 ranks are too many for 2 unknowns: use -n 2 or less");
    let output = ropeway(&["demo", "--matrix", "/nonexistent.mtx"]).output().unwrap();
    assert!(stderr(&output).contains("can't open /nonexistent.mtx"));
}

/// A benchmark that does not take long.
fn bench(args: &[&str]) -> Output {
    ropeway(&["bench"]).args(args).args(["--json", "--quiet", "--runs", "2"]).output().unwrap()
}

#[test]
fn latency_is_measured_for_all_sizes_and_both_kinds() {
    for nodes in ["1", "2"] {
        let output = bench(&["latency", "--nodes", nodes, "--sizes", "1,8,9,64K", "--iters", "20", "-n", "3"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(records(&output).len(), 8);
        for record in records(&output) {
            assert_eq!((&record["bench"], &record["metric"]), (&"latency".into(), &"half_rtt".into()));
            assert!(record["min"].as_f64().unwrap() <= record["median"].as_f64().unwrap());
            assert!(record["ratio"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn ways_to_wait_take_turns() {
    for name in ["latency", "stream"] {
        let output = bench(&[name, "--sizes", "8", "--iters", "5", "--wait", "polling,adaptive"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let kinds: Vec<_> = records(&output)
            .iter()
            .map(|record| ["wait", "mode"].map(|key| record[key].as_str().unwrap().to_owned()))
            .collect();
        let expected =
            [("polling", "persistent"), ("polling", "oneshot"), ("adaptive", "persistent"), ("adaptive", "oneshot")];
        assert_eq!(kinds, expected.map(|(wait, mode)| [wait.to_owned(), mode.to_owned()]));
    }
}

#[test]
fn latency_beside_links_stands_beside_the_same_without() {
    let args = ["latency", "--sizes", "8", "--mode", "persistent", "--iters", "500", "--counters"];
    let output = bench(&[&args[..], &["--beside-links", "3"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let kinds: Vec<_> =
        records.iter().map(|record| (record["metric"].as_str().unwrap(), record["idle_links"].as_u64())).collect();
    assert_eq!(kinds, [("half_rtt", None), ("half_rtt", Some(3)), ("slowdown", Some(3))]);
    assert!(records.iter().all(|record| record["median"].as_f64().unwrap() > 0.0 && record["ratio"].is_number()));
    // All that the measured daemon sends goes over the busy link.
    let sent = |record: &Value| record["counters"]["bytes_sent"].as_u64().unwrap();
    assert!(sent(&records[0]) < 64 << 10 && sent(&records[1]) >= 64 << 10, "{records:?}");
}

#[test]
fn messages_between_nodes_are_sent_again_if_they_are_more_than_a_wire_serves() {
    let args = ["message-rate", "--nodes", "2", "-n", "4", "--sizes", "8,9", "--iters", "2", "--counters"];
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    assert_eq!(records.len(), 8);
    // By the daemons' link each start would be a command.
    let persistent = records.iter().filter(|record| record["mode"] == "persistent");
    for record in persistent {
        let (commands, samples) =
            (record["counters"]["commands"].as_u64().unwrap(), record["samples"].as_u64().unwrap());
        assert!(commands < 1024 * samples, "{record}");
    }
}

#[test]
fn bandwidth_between_nodes_comes_with_its_floor_and_counters() {
    let args = ["bandwidth", "--nodes", "2", "--sizes", "1000,128K", "--iters", "3", "--counters"];
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(records(&output).len(), 8);
    for record in records(&output) {
        assert_eq!(record["ratio"].is_number(), record["side"] == "send");
        assert!(record["counters"]["bytes_sent"].as_u64().unwrap() > 64 * 3 * 1000);
    }
}

/// How often ranks have allocated memory, in each record that says so.
fn allocations(output: &Output) -> Vec<u64> {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    records(output).iter().filter_map(|record| record["counters"]["allocations"].as_u64()).collect()
}

#[test]
fn what_is_registered_allocates_nothing() {
    for nodes in ["1", "2"] {
        let counted = ["--nodes", nodes, "--iters", "10", "--mode", "persistent", "--counters"];
        let latency = bench(&[&["latency", "--sizes", "8,64K"], &counted[..]].concat());
        assert_eq!(allocations(&latency), [0; 2]);
        let allreduce = bench(&[&["coll", "allreduce", "-n", "4", "--sizes", "8,64K"], &counted[..]].concat());
        // The latency, two kinds of computation, and starts of the first and the last to come.
        assert_eq!(allocations(&allreduce), [0; 5 * 2]);
    }
}

#[test]
fn allocations_are_counted_if_they_are_asked_for() {
    // Never before were so many messages under way, so there is no room yet to keep what they leave free.
    let window = ["bandwidth", "--sizes", "64K", "--iters", "2", "--mode", "oneshot"];
    let counted = allocations(&bench(&[&window[..], &["--counters"]].concat()));
    assert_eq!(counted.len(), 2);
    assert!(counted[0] > 0, "{counted:?}");
    assert!(allocations(&bench(&window)).is_empty());
    let table = stdout(&ropeway(&["bench", "latency", "--sizes", "8", "--iters", "2", "--counters"]).output().unwrap());
    assert!(table.contains("\ncounted, persistent, 8: allocations 0"), "{table}");
}

#[test]
fn what_ranks_do_by_themselves_is_counted_and_what_they_register_is_not() {
    for nodes in ["1", "2"] {
        let options = ["--nodes", nodes, "--mode", "persistent", "--counters"];
        let counted = |args: &[&str], name: &str| {
            let output = bench(&[args, &options].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            records(&output)[0]["counters"][name].as_u64().unwrap()
        };
        // On a busy machine many of the 70 receivers come so late that they need not sleep.
        let wakeup = ["wakeup", "--iters", "30"];
        assert!(counted(&wakeup, "wake_ups") > 0, "{nodes} nodes");
        assert!(counted(&wakeup, "rank_sleeps") > 0, "{nodes} nodes");
        if nodes == "1" {
            let rate = ["message-rate", "--sizes", "8", "--iters", "2"];
            assert_eq!(counted(&rate, "matches"), 0);
            // One pair, before ranks register what two need.
            assert_eq!(counted(&[&rate[..], &["-n", "4"]].concat(), "matches"), 0);
        }
    }
    // Each message is sent by one system call at least, and received by another.
    let latency = ["latency", "--sizes", "8", "--iters", "100", "--nodes", "2", "--mode", "persistent", "--counters"];
    let record = &records(&bench(&latency))[0];
    assert!(record["counters"]["system_calls"].as_u64().unwrap() >= 2 * 2 * 2 * 100, "{record}");
}

/// Metric and unit of each record, in the order of the records.
fn metrics(output: &Output) -> Vec<(String, String)> {
    let word = |value: &Value| value.as_str().unwrap().to_owned();
    records(output).iter().map(|record| (word(&record["metric"]), word(&record["unit"]))).collect()
}

/// Runs a benchmark on one and on two nodes, and checks that this is what it measures, in this order.
fn measures(args: &[&str], expected: &[(&str, &str)], check: impl Fn(&Value)) {
    for nodes in ["1", "2"] {
        let output = bench(&[args, &["--nodes", nodes]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let expected: Vec<_> = expected.iter().map(|&(metric, unit)| (metric.to_owned(), unit.to_owned())).collect();
        assert_eq!(metrics(&output), expected);
        for record in records(&output) {
            assert_eq!(record["bench"], args[0]);
            check(&record);
        }
    }
}

#[test]
fn a_stream_has_its_floor() {
    measures(&["stream", "--sizes", "1,9K", "--iters", "2"], &[("one_way", "us"); 4], |record| {
        assert!(record["min"].as_f64().unwrap() > 0.0);
        assert!(record["ratio"].as_f64().unwrap() > 0.0);
    });
}

#[test]
fn the_rate_is_that_of_all_pairs() {
    let output = bench(&["message-rate", "-n", "5", "--sizes", "8", "--iters", "2", "--mode", "persistent"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let pairs: Vec<_> = records(&output).iter().map(|record| record["pairs"].as_u64().unwrap()).collect();
    assert_eq!(pairs, [1, 2]);
    measures(&["message-rate", "--sizes", "8", "--iters", "2"], &[("rate", "msg/s"); 2], |record| {
        assert!(record["min"].as_f64().unwrap() > 0.0);
    });
}

#[test]
fn overhead_is_measured_call_by_call() {
    let parameters = [("o_s", "ns"), ("o_i", "ns"), ("b", "ns/byte"), ("R", "ratio"), ("d_p", "ratio")];
    let calls = ["start_send", "start_recv", "wait_done", "start_first", "start_bare"].map(|call| (call, "ns"));
    for nodes in ["1", "2"] {
        let args = ["overhead", "--sizes", "256K", "--iters", "3", "--mode", "persistent", "--counters"];
        let output = bench(&[&args[..], &["--nodes", nodes]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        let is_above_0 = |record: &Value| record["median"].as_f64().unwrap() > 0.0;
        // If something comes between in most runs, even so many bytes take less than none, and there is no ratio to their time.
        let has_ratio = records.iter().any(|record| record["metric"] == "b" && is_above_0(record));
        let expected = parameters.into_iter().filter(|&(metric, _)| metric != "R" || has_ratio).chain(calls);
        let expected: Vec<_> = expected.map(|(metric, unit)| (metric.to_owned(), unit.to_owned())).collect();
        assert_eq!(metrics(&output), expected);
        for record in records {
            assert!(is_above_0(&record) || record["metric"] == "b", "{record}");
            assert_eq!(record["bench"], "overhead");
            assert_eq!(record["bytes"], if record["metric"] == "o_i" { 0 } else { 256 << 10 });
        }
    }
    let output = bench(&["overhead", "--sizes", "8", "--iters", "3", "--mode", "oneshot"]);
    assert_eq!(metrics(&output), calls.map(|(metric, unit)| (metric.to_owned(), unit.to_owned())));
}

#[test]
fn overhead_is_measured_in_several_ways_to_wait() {
    let output = bench(&["overhead", "--sizes", "8", "--iters", "3", "--wait", "polling,blocking", "--counters"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let of = |wait: &str| records.iter().filter(|record| record["wait"] == wait).collect::<Vec<_>>();
    let names = |records: Vec<&Value>| records.iter().map(|record| record["metric"].clone()).collect::<Vec<_>>();
    let [polling, blocking] = ["polling", "blocking"].map(|wait| names(of(wait)));
    assert_eq!(polling.len() + blocking.len(), records.len());
    for metric in ["o_s", "o_i", "b", "d_p", "start_send", "start_recv", "wait_done", "start_first", "start_bare"] {
        assert!(
            polling.contains(&metric.into()) && blocking.contains(&metric.into()),
            "{metric}: {polling:?} {blocking:?}"
        );
    }
    // Each has counters of its own, and what bytes cost those of the message that has some.
    let counted = records.iter().filter(|record| record["metric"] == "o_s" || record["metric"] == "b");
    assert!(counted.clone().count() == 4 && counted.into_iter().all(|record| record["counters"]["commands"].is_u64()));
}

#[test]
fn persistence_is_a_share() {
    measures(&["persistence", "--sizes", "8", "--iters", "3"], &[("d_p", "ratio")], |record| {
        assert!((0.0..=1.0).contains(&record["median"].as_f64().unwrap()));
    });
}

#[test]
fn cpu_time_is_that_of_ranks_and_of_daemons() {
    let expected = ["client_s_per_gib", "daemon_s_per_gib", "client_s_per_gib", "daemon_s_per_gib"];
    let expected = expected.map(|metric| (metric, "s/GiB"));
    measures(&["cpu", "--sizes", "256K", "--iters", "3"], &expected, |record| {
        // Within a node ranks may have copied all of it themselves.
        let may_be_none = record["metric"] == "daemon_s_per_gib" && record["nodes"] == 1;
        assert!(record["min"].as_f64().unwrap() > 0.0 || may_be_none, "{record}");
    });
}

#[test]
fn only_ranks_that_sleep_are_woken() {
    measures(&["wakeup", "--iters", "30"], &[("wakeup", "us"); 2], |record| {
        assert_eq!(record["wait"], "blocking");
        assert!(record["min"].as_f64().unwrap() > 0.0);
        assert!(record["ratio"].as_f64().unwrap() > 0.0);
    });
    let output = bench(&["wakeup", "--wait", "polling"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "ropeway: ranks that poll never sleep: use --wait blocking\n");
    let output = bench(&["wakeup", "--sizes", "8,4"]);
    assert_eq!(stderr(&output), "ropeway: the time does not fit in 4 bytes: use --sizes 8\n");
}

#[test]
fn a_sender_hardly_notices_a_late_receiver() {
    let args = ["skew", "--sizes", "1,64K", "--seconds", "0.05"];
    let begin = Instant::now();
    measures(&args, &[("propagated", "percent"); 4], |record| {
        // One for each run: the receiver is late once.
        assert_eq!((&record["delay_us"], &record["samples"]), (&50_000.0.into(), &2.into()), "{record}");
        let (least, most) = (record["min"].as_f64().unwrap(), record["max"].as_f64().unwrap());
        // A rank that waits for the receiver notices all of it; and nobody is faster than at once.
        assert!(least < 90.0 && least > -100.0 && most >= least, "{record}");
    });
    // Of each size and kind, in each run, on one node and on two.
    assert!(begin.elapsed() >= Duration::from_millis(50) * (2 * 2 * 2 * 2), "the receiver is not late");
}

#[test]
fn a_table_says_which_figure_is_what() {
    let table = |args: &[&str]| {
        let args = [args, &["--iters", "2", "--runs", "1", "--quiet"]].concat();
        let output = ropeway(&["bench"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let one = table(&["stream", "--sizes", "8"]);
    assert!(one.starts_with("one_way, us; 2 ranks, 1 node, shm, adaptive"), "{one}");
    let mixed = table(&["cpu", "--sizes", "8", "--counters"]);
    assert!(mixed.starts_with("cpu; 2 ranks, 1 node"), "{mixed}");
    assert!(mixed.contains("\ndaemon_s_per_gib  s/GiB  persistent"), "{mixed}");
    assert!(mixed.contains("\ncounted, client_s_per_gib, oneshot, 8: "), "{mixed}");
    // Two ways to wait, three sides, both kinds of messages and of computation.
    let overlap = table(&["overlap", "--sizes", "8", "--counters", "--wait", "polling,blocking"]);
    let counted = overlap.lines().filter_map(|line| line.strip_prefix("counted, ")?.split(": ").next());
    assert_eq!(counted.collect::<HashSet<_>>().len(), 2 * 3 * 2 * 2, "{overlap}");
    assert!(overlap.contains("\ncounted, d_o, persistent, blocking, recv, sleep, 8: allocations 0"), "{overlap}");
}

#[test]
fn idle_reports_clients_and_daemons() {
    let output = bench(&["idle", "-n", "4", "--seconds", "0.2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let metrics: Vec<_> = records(&output).iter().map(|record| record["metric"].clone()).collect();
    assert_eq!(metrics, ["client_cpu", "daemon_cpu"]);
}

#[test]
fn ranks_that_sleep_ask_for_nothing() {
    let output = bench(&["idle", "-n", "2", "--seconds", "0.1", "--wait", "blocking", "--counters"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let counters = records.iter().find_map(|record| record.get("counters")).expect("they were asked for");
    assert_eq!((&counters["commands"], &counters["frames_sent"]), (&0.into(), &0.into()), "{counters}");
    // In each of two runs the other may ring late that it has started, and tell rank 0 what it has seen before that has ended the step.
    assert!(counters["wake_ups"].as_u64().unwrap() <= 2 * 2, "{counters}");
}

#[test]
fn a_benchmark_that_can_not_run_says_so() {
    let output = bench(&["latency", "-n", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output), "ropeway: latency needs at least 2 ranks: use -n 2\n");
    let attach =
        ropeway(&["bench", "latency", "--attach"]).env("ROPEWAY_SOCKET", "/nonexistent/ropewayd.sock").output();
    let output = attach.unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("no daemon is running at /nonexistent/ropewayd.sock"), "{}", stderr(&output));
    let output = bench(&["latency", "--sizes", "8,1Q"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("1Q"));
}

#[test]
fn no_rank_outlives_a_tool_that_was_killed() {
    let mut tool = Running::start(ropeway(&["bench", "idle", "--seconds", "3600"]).stderr(Stdio::piped()));
    let mut stderr = tool.stderr.take().unwrap();
    // Both ranks have to be there before their parent goes.
    tool.until_children(|ranks| ranks.len() == 2);
    tool.kill().unwrap();
    tool.wait().unwrap();
    // The ranks have inherited it, so it ends with the last of them.
    stderr.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_daemon_of_the_machine_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("ropewayd.sock");
    let ready = UnixDatagram::bind(folder.path().join("notify")).unwrap();
    let mut command = ropeway(&["daemon", "--socket"]);
    let mut daemon = Running::start(command.arg(&socket).env("NOTIFY_SOCKET", folder.path().join("notify")));
    let mut message = [0; 64];
    let bytes = ready.recv(&mut message).unwrap();
    assert!(message[..bytes].starts_with(b"READY=1"));

    let with_socket = |args: &[&str]| -> Command {
        let mut command = ropeway(args);
        command.env("ROPEWAY_SOCKET", &socket);
        command
    };
    let output = with_socket(&["run", "-n", "2", "--", "sh", "-c", "echo $ROPEWAY_RANK"]).output().unwrap();
    assert_eq!(lines(&output), ["0", "1"]);
    let bench = ["bench", "latency", "--attach", "--sizes", "8", "--iters", "10", "--runs", "1", "--json", "--quiet"];
    let output = with_socket(&bench).output().unwrap();
    assert_eq!((output.status.code(), records(&output).len()), (Some(0), 2), "{}", stderr(&output));

    daemon.signal(Signal::SIGTERM);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert!(!socket.exists());
}
