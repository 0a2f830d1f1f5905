//! `ropeway bench boum` and `segments`: programs beside what the model says about them.

mod tool;

use std::process::Output;

use serde_json::Value;
use tool::{has_namespaces, records, ropeway, stderr, stdout};

/// A benchmark that does not take long.
fn bench(args: &[&str]) -> Output {
    ropeway(&["bench"]).args(args).args(["--quiet", "--runs", "1", "--iters", "3", "--warmup", "1"]).output().unwrap()
}

fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64)
}

fn with_metric<'a>(records: &'a [Value], metric: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["metric"] == metric).collect()
}

const SMALL: [&str; 10] =
    ["boum", "--unknowns", "64", "--points", "1K", "--sizes", "8,1K", "--wait", "blocking", "--json"];

#[test]
fn programs_are_predicted_where_there_are_enough_cores() {
    for nodes in ["1", "2"] {
        let output = bench(&[&SMALL[..], &["-n", "4", "--nodes", nodes]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        assert!(records.iter().all(|record| record["bench"] == "boum"));
        let counts = [1, 2, 4].into_iter().filter(|&ranks| ranks >= nodes.parse().unwrap() && ranks <= 4 * cores());
        let counts: Vec<u64> = counts.collect();
        let mut computed: Vec<_> = with_metric(&records, "t_c").iter().map(|record| record["ranks"].as_u64()).collect();
        computed.sort();
        assert_eq!(computed, counts.iter().flat_map(|&ranks| [Some(ranks); 3]).collect::<Vec<_>>());
        // Both solvers with both kinds of messages, and the transform. One rank has nobody to talk to.
        for (metric, each, least) in
            [("execution", 5, 1), ("communication", 5, 2), ("S_c", 2, 2), ("S_c_with_set_up", 2, 2)]
        {
            let found = with_metric(&records, metric);
            assert_eq!(found.len(), each * counts.iter().filter(|&&ranks| ranks >= least).count(), "{metric}");
            for record in found {
                let number = |key: &str| record[key].as_f64().unwrap();
                if number("ranks") as u64 > cores() {
                    assert_eq!((record.get("predicted"), &record["oversubscribed"]), (None, &true.into()), "{record}");
                    continue;
                }
                assert!(number("predicted") > 0.0);
                let ratio = number("predicted") / number("median");
                // Figures have five digits, also those of an error of nearly 100 %.
                assert!((ratio - 1.0 - number("error")).abs() < 1e-3 * ratio + 1e-5, "{record}");
            }
        }
    }
}

#[test]
fn who_is_alone_is_predicted_too() {
    let output = bench(&[&SMALL[..], &["-n", "1"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let programs: Vec<_> = records.iter().filter(|record| record.get("predicted").is_some()).collect();
    assert_eq!(programs.len(), 5);
    for program in programs {
        assert_eq!((&program["metric"], &program["ranks"]), (&"execution".into(), &1.into()));
    }
}

#[test]
fn programs_cross_a_line_with_a_rate() {
    if !has_namespaces() {
        return;
    }
    let line = ["--nodes", "2", "--netns", "--rate", "1gbit"];
    let output = bench(&[&SMALL[..], &line].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let programs: Vec<_> = records.iter().filter(|record| record["metric"] == "execution").collect();
    assert_eq!(programs.len(), if cores() < 2 { 0 } else { 5 });
    for program in programs {
        let setting = ["device", "rate", "ranks", "nodes"].map(|key| program[key].to_string());
        assert_eq!(setting, ["\"tcp\"", "\"1gbit\"", "2", "2"], "{program}");
    }
}

#[test]
fn parameters_are_those_of_the_sizes_asked_for_and_of_the_programs() {
    let output = bench(&SMALL);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let mut sizes = vec![8, 1024];
    if cores() >= 2 {
        // Parts of x in single and in double precision, two extremes, half the points.
        sizes.extend([32 * 4, 32 * 8, 16, 512 * 8]);
        sizes.sort();
    }
    for (metric, modes) in
        [("o_s", 1), ("o", 1), ("b", 1), ("d_p", 1), ("E_8", 1), ("d_o", 2), ("d_a", 2), ("availability", 2)]
    {
        let bytes: Vec<_> =
            with_metric(&records, metric).iter().map(|record| record["bytes"].as_u64().unwrap()).collect();
        let has_eighth = |size: &u64| sizes.iter().any(|eighth| eighth * 8 == *size);
        let sizes = sizes.iter().filter(|size| metric != "E_8" || has_eighth(size));
        assert_eq!(bytes, sizes.flat_map(|&size| vec![size; modes]).collect::<Vec<_>>(), "{metric}");
    }
}

#[test]
fn sizes_go_from_none_to_sixteen_mebibytes() {
    let program = ["--unknowns", "8", "--points", "1K", "-n", "1", "--wait", "blocking", "--json"];
    let output = bench(&[&["boum", "--sizes", "0,16M"][..], &program].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let sizes = |metric: &str| {
        let records = with_metric(&records, metric);
        records.iter().map(|record| record["bytes"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    for metric in ["o_s", "o", "d_p"] {
        assert_eq!(sizes(metric), [0, 16 << 20], "{metric}");
    }
    // Empty messages have no bytes to take time.
    assert_eq!(sizes("b"), [16 << 20]);
}

#[test]
fn tables_say_what_was_predicted_and_why_not() {
    let many = (cores() + 1).next_power_of_two();
    let (many, size) = (many.to_string(), (16 * many).to_string());
    let programs = ["-n", &many, "--unknowns", &size, "--points", &size, "--sizes", "8"];
    let output = bench(&[&["boum", "--wait", "adaptive"][..], &programs].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(
        text.contains("computing without messages") && text.contains("parameters, us; 2 ranks, 1 node, shm, adaptive"),
        "{text}"
    );
    let output = bench(&[&["boum", "--nodes", &many][..], &programs].concat());
    let few_cores = "~ in doubt (oversubscribed): there are more ranks than cores";
    assert!(stdout(&output).contains(few_cores), "{}", stdout(&output));
    let too_many = format!("no prediction for {many} ranks: oversubscribed, on {} cores", cores());
    assert!(text.contains(&too_many), "{text}");
}

#[test]
fn segments_are_measured_and_predicted() {
    for (ranks, nodes) in [("2", "1"), ("4", "1"), ("2", "2")] {
        let args = ["segments", "-n", ranks, "--nodes", nodes, "--points", "1K", "--segments", "1,3,8", "--json"];
        let output = bench(&args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let records = records(&output);
        let segments: Vec<_> = records.iter().map(|record| record["segments"].as_u64().unwrap()).collect();
        assert_eq!(segments, [1, 3, 8]);
        for record in &records {
            assert_eq!((&record["bench"], &record["metric"]), (&"segments".into(), &"global_phase".into()));
            assert!(record["median"].as_f64().unwrap() > 0.0);
            let has_cores = ranks.parse::<u64>().unwrap() <= cores();
            for key in ["predicted", "s_best", "E_s"] {
                assert_eq!(record[key].as_f64().is_some_and(|number| number > 0.0), has_cores, "{record}");
            }
        }
    }
}

#[test]
fn a_table_names_the_fastest_number_of_segments() {
    let output = bench(&["segments", "--points", "1K,2K", "--segments", "1,2"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).matches("fastest").count(), 2, "{}", stdout(&output));
    assert!(
        stdout(&output).starts_with("global phase of a transform of 1K points, ms; 2 ranks"),
        "{}",
        stdout(&output)
    );
}

/// Whether something was counted.
fn has_counts(record: &Value) -> bool {
    let counters = record.get("counters").and_then(Value::as_object);
    counters.is_some_and(|counters| counters.values().any(|count| count.as_u64() > Some(0)))
}

#[test]
fn what_the_daemons_count_comes_with_each_program() {
    let output = bench(&[&SMALL[..], &["--counters"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for record in records(&output).iter().filter(|record| record["metric"] == "execution") {
        // Small messages within a node most often don't need the daemon.
        assert!(record["counters"].is_object(), "{record}");
    }
    for (metric, mode) in [("T_c", "persistent"), ("T_c", "oneshot"), ("half_rtt", "oneshot"), ("b", "persistent")] {
        let of_messages =
            |record: &&Value| record["metric"] == metric && record["mode"] == mode && record["bytes"] != 0;
        let records = records(&output);
        let found: Vec<_> = records.iter().filter(of_messages).collect();
        assert!(!found.is_empty() && found.iter().all(|record| record["counters"].is_object()), "{metric}: {found:?}");
    }
    // Between nodes daemons move all but small messages.
    let segments = ["segments", "--nodes", "2", "--points", "8K", "--segments", "1,2", "--counters"];
    let output = bench(&[&segments[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(records(&output).iter().all(has_counts), "{}", stdout(&output));
    let output = bench(&segments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    let lines: Vec<_> = text.lines().filter_map(|line| line.split_once(": ")).map(|(what, _)| what).collect();
    for segments in [1, 2] {
        assert!(lines.contains(&&*format!("counted, fft, 8K, 2 ranks, adaptive, {segments} segments")), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    for (args, why) in [
        (&["segments", "-n", "3"][..], "binary exchange goes by powers of two, and 3 is none: use -n 2"),
        (&["segments", "-n", "1"], "segments needs at least 2 ranks: use -n 2"),
        (&["segments", "--points", "1000"], "use a power of two, at least 128"),
        (&["segments", "--points", "64"], "use a power of two, at least 128"),
        (&["boum", "-n", "8", "--unknowns", "7"], "8 ranks are too many for 7 unknowns: use -n 7 or less"),
        (&["boum", "-n", "1", "--sizes", "0"], "add a size above 0 to --sizes"),
        (&["boum", "--nodes", "3"], "3 nodes need at least as many ranks: use -n 3"),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
}
