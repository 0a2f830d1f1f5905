//! `ropeway bench coll`, and `overlap --of`: collectives of all ranks.

mod tool;

use std::collections::BTreeSet;
use std::process::Output;

use ropeway_bench::Operation;
use serde_json::Value;
use tool::shares::{assert_overlap_adds_up, product, rows};
use tool::{records, ropeway, stderr, stdout, table_rows};

/// All of them, by name.
fn operations() -> impl Iterator<Item = &'static str> {
    Operation::ALL.into_iter().map(Operation::name)
}

const OPERATORS: [&str; 12] =
    ["sum", "prod", "min", "max", "bit-and", "bit-or", "bit-xor", "and", "or", "xor", "min-loc", "max-loc"];

/// A benchmark that does not take long.
fn bench(args: &[&str]) -> Output {
    ropeway(&["bench"]).args(args).args(["--runs", "1", "--iters", "3", "--warmup", "1", "--quiet"]).output().unwrap()
}

/// What a benchmark of this collective that succeeds has to say.
fn coll(operation: &str, args: &[&str]) -> Vec<Value> {
    let output = bench(&[&["coll", operation, "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{operation}: {}", stderr(&output));
    records(&output)
}

/// A barrier has none.
fn sizes<'a>(operation: &str, sizes: &'a [&'a str]) -> &'a [&'a str] {
    if operation == "barrier" { &[] } else { sizes }
}

fn words(records: &[Value], key: &str) -> Vec<String> {
    records.iter().map(|record| record[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn every_collective_is_measured_and_right_on_one_and_two_nodes() {
    for (operation, nodes) in operations().flat_map(|operation| [(operation, "1"), (operation, "2")]) {
        let records = coll(operation, &[&["-n", "3", "--nodes", nodes], sizes(operation, &["--sizes", "24"])].concat());
        // Persistent, then one-shot.
        let both = [("latency", ""), ("d_o", "busy"), ("d_o", "sleep")];
        let expected = [&both[..], &[("start", ""), ("start_waking", "")].repeat(2), &both].concat();
        let (metrics, computes): (Vec<_>, Vec<_>) = expected.into_iter().unzip();
        assert_eq!((words(&records, "metric"), words(&records, "compute")), (owned(&metrics), owned(&computes)));
        assert_eq!(words(&records, "mode"), owned(&[&["persistent"; 7][..], &["oneshot"; 3]].concat()));
        assert_eq!(words(&records, "arrival"), owned(&["", "", "", "first", "first", "last", "last", "", "", ""]));
        for record in &records {
            assert_eq!((&record["bench"], &record["op"]), (&"coll".into(), &operation.into()));
            assert_eq!(record.get("bytes").is_none(), operation == "barrier");
            let unit = match record["metric"].as_str() {
                Some("latency") => "us",
                Some("start" | "start_waking") => "ns",
                _ => "ratio",
            };
            assert_eq!(record["unit"], unit);
            assert!(record["min"].as_f64().unwrap() <= record["median"].as_f64().unwrap(), "{record}");
        }
        for start in records.iter().filter(|record| !record["arrival"].is_null()) {
            assert!(start["min"].as_f64().unwrap() > 0.0 && start["unit"] == "ns", "{start}");
            let has_floor = start["floor"].as_f64().is_some_and(|floor| floor > 0.0);
            assert_eq!(has_floor, start["metric"] == "start", "{start}");
        }
        for latency in records.iter().filter(|record| record["metric"] == "latency") {
            assert!(latency["min"].as_f64().unwrap() > 0.0, "{latency}");
            // Windows that were missed don't count, and are made up for.
            assert!(latency["samples"].as_u64().unwrap() >= 3 && latency["missed"].is_u64(), "{latency}");
        }
    }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn uneven_parts_are_measured_and_right_on_one_and_two_nodes() {
    let of_parts = Operation::ALL.into_iter().filter(|operation| operation.has_parts()).map(Operation::name);
    for (operation, nodes) in of_parts.flat_map(|operation| [(operation, "1"), (operation, "2")]) {
        let records = coll(operation, &["-n", "3", "--nodes", nodes, "--sizes", "24", "--uneven"]);
        assert_eq!(words(&records, "mode"), owned(&[&["persistent"; 7][..], &["oneshot"; 3]].concat()));
        for record in &records {
            assert_eq!((&record["op"], &record["uneven"]), (&operation.into(), &true.into()), "{record}");
        }
    }
    assert!(coll("gather", &["--sizes", "8"]).iter().all(|record| record.get("uneven").is_none()));
    // Of several collectives those that have parts.
    let output = bench(&["overlap", "--of", "alltoall,bcast", "-n", "3", "--sizes", "1K", "--uneven", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    for record in records(&output) {
        assert_eq!(record.get("uneven").is_some(), record["op"] == "alltoall", "{record}");
    }
    let flat = coll("allgather", &["-n", "4", "--sizes", "1K", "--uneven", "--division", "two-level,flat,multileader"]);
    assert_eq!(words(&flat, "division").into_iter().collect::<BTreeSet<_>>().len(), 3);
    let table = stdout(&bench(&["coll", "scatter", "--root", "1", "--sizes", "8", "--uneven"]));
    assert!(table.starts_with("scatter root 1 uneven: latency, us, and d_o;"), "{table}");
}

#[test]
fn every_operator_is_measured_and_right() {
    for operator in OPERATORS {
        for record in coll("allreduce", &["-n", "3", "--sizes", "64", "--op", operator, "--mode", "persistent"]) {
            assert_eq!(record["operator"], operator);
        }
    }
    assert_eq!(words(&coll("scan", &["--sizes", "8"]), "operator"), ["sum"; 10]);
    assert!(coll("gather", &["--sizes", "7"]).iter().all(|record| record.get("operator").is_none()));
}

#[test]
fn every_rank_can_be_the_root() {
    for operation in ["bcast", "reduce", "gather", "scatter"] {
        for record in coll(operation, &["-n", "3", "--sizes", "16", "--root", "2"]) {
            assert_eq!(record["root"], 2);
        }
    }
    assert!(coll("allgather", &["--sizes", "8"]).iter().all(|record| record.get("root").is_none()));
}

#[test]
fn more_ranks_than_cores_are_measured_too() {
    let ranks = 2 * std::thread::available_parallelism().unwrap().get() + 1;
    for record in coll("alltoall", &["-n", &ranks.to_string(), "--sizes", "1K"]) {
        assert_eq!((&record["ranks"], &record["oversubscribed"]), (&ranks.into(), &true.into()));
    }
}

#[test]
fn an_algorithm_is_refused_in_the_words_of_who_asked() {
    for (operation, is_another) in [("scan", true), ("exscan", false)] {
        let output = bench(&["coll", operation, "--algorithm", "recursive-halving", "--nodes", "2"]);
        assert_eq!(output.status.code(), Some(2));
        let told = stderr(&output);
        assert_eq!(told.contains("between nodes this scan goes by exscan"), is_another, "{told}");
    }
}

#[test]
fn a_collective_has_a_table() {
    let output = bench(&["coll", "reduce", "--op", "max", "--sizes", "8,1K", "--counters"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.starts_with("reduce max: latency, us, and d_o; 2 ranks, 1 node, shm"), "{table}");
    let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    let starts =
        ["first start, ns", "first waking, ns", "last start, ns", "last waking, ns", "floor of start, ns"].join(" ");
    let beside: Vec<_> = ["d_o", "busy", "d_o", "sleep"].into_iter().chain(starts.split(' ')).collect();
    assert_eq!((&rows[0][5..8], &rows[0][8..]), (&["max", "samples", "missed"][..], &beside[..]));
    assert_eq!((rows[1][..2].to_vec(), rows[1].len()), (vec!["persistent", "8"], 15));
    assert_eq!((rows[4][..2].to_vec(), rows[4].len()), (vec!["oneshot", "1K"], 10));
    assert!(table.contains("\ncounted, latency, persistent, 8: "), "{table}");
    for arrival in ["first", "last"] {
        assert!(table.contains(&format!("\ncounted, start, persistent, {arrival}, 8: allocations 0")), "{table}");
    }
}

#[test]
fn overlap_of_collectives_is_measured_with_both_kinds_of_computation() {
    let output = bench(&["overlap", "--of", "bcast,allreduce,barrier", "-n", "3", "--sizes", "8,64K", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let metrics = ["d_o", "t_x", "t_y", "t_o", "availability"];
    let each: [&[&str]; 3] = [&metrics, &["persistent", "oneshot"], &["busy", "sleep"]];
    let mut expected = product(&[&each[..], &[&["bcast", "allreduce"], &["8", "65536"]]].concat());
    expected.extend(product(&[&each[..], &[&["barrier"], &["null"]]].concat()));
    assert_eq!(rows(&records, &["metric", "mode", "compute", "op", "bytes"]), expected);
    assert_overlap_adds_up(&records);
    assert!(records.iter().all(|record| record.get("side").is_none()), "{records:?}");
    let output = bench(&["overlap", "--of", "scan,bcast", "--root", "1", "--sizes", "8", "--mode", "oneshot"]);
    let table = stdout(&output);
    assert_eq!(table_rows(&table), 4, "{table}");
    assert!(table.contains("scan sum") && table.contains("bcast root 1"), "{table}");
}

#[test]
fn an_algorithm_can_be_asked_for() {
    let output =
        bench(&["coll", "allreduce", "--nodes", "2", "--sizes", "64", "--algorithm", "ring", "--mode", "persistent"]);
    let table = stdout(&output);
    assert!(table.starts_with("allreduce sum: latency, us, and d_o by ring; 2 ranks, 2 nodes"), "{table}");
}

/// Division, algorithm and progress of each latency.
fn ways(records: &[Value]) -> Vec<[String; 3]> {
    let latencies = records.iter().filter(|record| record["metric"] == "latency");
    let way =
        |record: &Value| ["division", "algorithm", "progress"].map(|key| record[key].as_str().unwrap_or("").to_owned());
    latencies.map(way).collect()
}

#[test]
fn divisions_are_compared_in_one_run() {
    let divisions = "two-level,flat,multileader:1,multigroup";
    let args = ["-n", "4", "--nodes", "2", "--sizes", "7", "--division", divisions];
    let explain = ["explain", "allgather", "-n", "4", "--bytes", "7", "--element-bytes", "1", "--json"];
    let explained = records(&ropeway(&explain).output().unwrap());
    let expected = [
        // Persistent and one-shot; schedules of messages are always registered.
        ["two-level", "", "independent"],
        ["two-level", "", "independent"],
        ["flat", explained[0]["algorithm"].as_str().unwrap(), "client"],
        ["multileader:1", "multileader:2,1", "client"],
        ["multigroup:2", "multigroup:2,2", "client"],
    ];
    assert_eq!(ways(&coll("allgather", &args)), expected.map(|way| way.map(str::to_owned)));
    let output = bench(&[&["coll", "allgather", "--counters"][..], &args].concat());
    let table = stdout(&output);
    let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["calls", "progress", "division", "algorithm", "bytes"], "{table}");
    assert_eq!(rows[5][..5], ["persistent", "client", "multigroup:2", "multigroup:2,2", "7"], "{table}");
    assert!(table.contains("\ncounted, latency, persistent, multileader:1, 7: "), "{table}");
}

#[test]
fn every_collective_is_measured_flat_and_right() {
    for operation in operations() {
        let flat = ["-n", "3", "--division", "flat"];
        let records = coll(operation, &[&flat, sizes(operation, &["--sizes", "24"])].concat());
        assert_eq!(words(&records, "metric"), owned(&["latency", "d_o", "d_o"]));
        assert_eq!(words(&records, "progress"), owned(&["client"; 3]));
    }
    for operator in OPERATORS {
        let args =
            ["-n", "3", "--sizes", "4K", "--op", operator, "--division", "flat", "--algorithm", "recursive-halving"];
        assert_eq!(words(&coll("allreduce", &args), "algorithm"), owned(&["recursive-halving"; 3]));
    }
}

#[test]
fn an_algorithm_is_for_whoever_has_a_choice() {
    let ring = |args: &[&str]| {
        let args = [&["-n", "4", "--sizes", "8", "--algorithm", "ring", "--mode", "persistent"], args].concat();
        let ways = ways(&coll("allgather", &args));
        ways.into_iter().map(|[division, algorithm, _]| format!("{division} {algorithm}")).collect::<Vec<_>>()
    };
    let divisions = ["--division", "two-level,flat,multileader"];
    assert_eq!(ring(&divisions), ["two-level ", "flat ring", "multileader:2 multileader:4,2"]);
    assert_eq!(
        ring(&[&divisions[..], &["--nodes", "2"]].concat()),
        ["two-level ring", "flat ring", "multileader:2 multileader:2,2"]
    );
}

#[test]
fn neighbours_are_written_as_in_programs_too() {
    let args = ["overlap", "--of", "neighbor_allgather,neighbor_alltoall", "-n", "2", "--nodes", "2", "--sizes", "16K"];
    let output = bench(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let hidden: Vec<_> = records(&output).into_iter().filter(|record| record["metric"] == "d_o").collect();
    let expected = [["neighbor-allgather"; 4], ["neighbor-alltoall"; 4]].concat();
    assert_eq!(words(&hidden, "op"), owned(&expected));
    assert_eq!(words(&coll("neighbor_alltoall", &["--sizes", "8"]), "op"), ["neighbor-alltoall"; 10]);
}

#[test]
fn overlap_of_collectives_has_its_baseline() {
    let args =
        ["overlap", "--of", "allreduce", "--sizes", "64K", "--division", "two-level,flat", "--mode", "persistent"];
    let output = bench(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    let rows: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["messages", "progress", "division", "algorithm", "collective"], "{table}");
    assert_eq!(
        (table_rows(&table), &rows[1][1..3], &rows[3][1..3]),
        (4, &["independent", "two-level"][..], &["client", "flat"][..])
    );
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    let refused = |args: &[&str], code, why: &str| {
        let output = bench(args);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(code), ""), "{args:?}");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&["coll"], 2, "<OPERATION>");
    refused(&["coll", "allredcue"], 2, "'allreduce'");
    refused(&["coll", "allreduce", "--op", "add"], 2, "possible values: sum, prod, min, max,");
    refused(&["coll", "bcast", "--op", "sum"], 2, "bcast combines nothing: leave --op out");
    refused(&["coll", "scan", "--root", "0"], 2, "scan has no root: leave --root out");
    refused(&["coll", "bcast", "--uneven"], 2, "bcast has no part for each rank: leave --uneven out");
    refused(
        &["coll", "neighbor-allgather", "--uneven", "--division", "flat"],
        2,
        "there is no schedule of neighbor-allgather uneven: leave --uneven or --division out",
    );
    let uneven = ["coll", "alltoall", "--uneven", "--nodes", "2", "--algorithm", "bruck"];
    refused(&uneven, 2, "bruck:1 can't be used for this alltoall");
    refused(&["coll", "bcast", "--root", "2"], 2, "there is no rank 2 of 2: use --root 0 to 1");
    refused(
        &["coll", "allreduce", "--sizes", "8,9"],
        2,
        "combines elements of 8 bytes, and 9 is not a multiple of that: use 16",
    );
    refused(&["coll", "allreduce", "-n", "1"], 2, "coll needs at least 2 ranks: use -n 2");
    refused(&["coll", "allreduce", "--nodes", "2", "--algorithm", "rng"], 2, "no algorithm is called rng");
    refused(&["coll", "allreduce", "--algorithm", "ring"], 2, "algorithms are for what happens between nodes");
    let can_not = "ring can't be used for this barrier";
    refused(&["coll", "barrier", "--nodes", "2", "--algorithm", "ring"], 2, can_not);
    let nodes = ["coll", "allreduce", "-n", "4", "--nodes", "2", "--algorithm", "bruck"];
    refused(&nodes, 2, "bruck:1 can't be used for this allreduce");
    refused(
        &["coll", "barrier", "--division", "flat", "--algorithm", "ring"],
        2,
        "ring can't be used for this barrier",
    );
    let channels = ["coll", "neighbor-alltoall", "-n", "4", "--nodes", "2", "--algorithm", "linear"];
    refused(&channels, 2, "messages between neighbours, which have no algorithm: leave --algorithm out");
    refused(&["coll", "bcast", "--division", "level"], 2, "is not one of two-level, flat, multileader[:LEADERS]");
    refused(&["coll", "bcast", "--division", "multileader"], 2, "multileader:2,2 can't be used for this bcast");
    refused(&["coll", "bcast", "--division", "flat", "--mode", "oneshot"], 2, "leave --mode oneshot out");
    refused(
        &["coll", "allgather", "--nodes", "2", "-n", "3", "--division", "multigroup"],
        2,
        "multigroup:2 needs as many ranks on each node: use -n 4",
    );
    refused(
        &["coll", "allgather", "--division", "multigroup", "--algorithm", "ring"],
        2,
        "algorithms are for what happens between nodes",
    );
    refused(&["coll", "scan", "--op", "min-loc", "--sizes", "8"], 2, "elements of 16 bytes, and 8 is not a multiple");
    refused(&["coll", "bcast", "--progress", "client"], 2, "ranks drive collectives with --division flat");
    refused(
        &["overlap", "--root", "1"],
        2,
        "overlap measures messages without --of: name a collective, or leave --root, --op, --uneven, --algorithm and --division out",
    );
    refused(&["overlap", "--of", "bandwidth"], 2, "overlap --of takes collectives, and bandwidth is none");
    refused(
        &["compare", "--of", "latenzy"],
        2,
        "is neither latency, bandwidth, exchange, overlap, overlap:OPERATION, asynchrony, persistence, overhead, is nor cg, and is not one of barrier,",
    );
}
