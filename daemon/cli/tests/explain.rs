//! `ropeway explain`: the choice, its reasons, the steps, the drawing, and what can't be explained.

mod tool;

use ropeway_bench::Operation;
use ropeway_schedule::Algorithm;
use roxmltree::Document;
use serde_json::Value;
use tool::{records, ropeway, stderr, stdout};

fn explain(args: &[&str]) -> std::process::Output {
    let mut command = ropeway(&["explain"]);
    command.args(args).output().unwrap()
}

#[test]
fn the_choice_comes_with_its_reasons_and_steps() {
    let output = explain(&["allreduce", "-n", "64", "--nodes", "8", "--bytes", "1M"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("allreduce of 1M (131072 elements of 8 bytes) by 64 ranks on 8 nodes;"), "{text}");
    for part in ["(chosen)", "recursive-doubling", "checked: every message matched", "Steps of participant 0:", "∘"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains("not standard-exchange:2: it needs a power of 3"), "{text}");
}

#[test]
fn parts_may_be_uneven() {
    let all = ["gather", "scatter", "allgather", "alltoall", "reduce-scatter"];
    for operation in all {
        let args = [operation, "-n", "6", "--nodes", "3", "--bytes", "1K", "--uneven"];
        let text = stdout(&explain(&args));
        assert!(text.starts_with(&format!("{operation} of 1K on average (128 elements")), "{text}");
        let record = &records(&explain(&[&args[..], &["--json"]].concat()))[0];
        assert_eq!(record["uneven"], true);
    }
    // From a node of the last ranks comes more than from the others.
    let record =
        &records(&explain(&["gather", "-n", "3", "--bytes", "1K", "--algorithm", "linear", "--uneven", "--json"]))[0];
    let lengths: Vec<_> = (1..3).map(|rank| record["schedules"][rank][0]["from"]["length"].as_u64().unwrap()).collect();
    assert_eq!(lengths, [128, 192]);
    for (operation, why) in [("bcast", "has no part for each rank"), ("neighbor-alltoall", "leave --uneven out of")] {
        let output = explain(&[operation, "-n", "4", "--uneven"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn an_algorithm_can_be_asked_for_and_its_record_adds_up() {
    let args = ["allreduce", "-n", "8", "--bytes", "1K", "--algorithm", "ring", "--json"];
    let output = explain(&args);
    let record = &records(&output)[0];
    assert_eq!((record["algorithm"].as_str(), record["participants"].as_u64()), (Some("ring"), Some(8)));
    assert_eq!((record["messages"].as_u64(), record["depth"].as_u64()), (Some(2 * 8 * 7), Some(14)));
    assert_eq!(record["bytes_sent"].as_u64(), Some(2 * 7 * 1024));
    let schedules = record["schedules"].as_array().unwrap();
    let steps: usize = schedules.iter().map(|steps| steps.as_array().unwrap().len()).sum();
    assert_eq!((schedules.len() as u64, steps as u64), (8, record["steps"].as_u64().unwrap()));
    assert!(schedules[0][0]["peer"].is_u64() && schedules[0][0]["from"]["buffer"] == "input");
    let times = record["candidates"].as_array().unwrap().iter().map(|one| one["predicted_ns"].as_f64().unwrap());
    assert!(times.is_sorted());
}

#[test]
fn small_ones_of_few_ranks_that_have_a_node_each_go_straight() {
    let goes_straight = |args: &str| {
        let args: Vec<&str> = args.split(' ').collect();
        let text = stdout(&explain(&args));
        let record = &records(&explain(&[&args[..], &["--json"]].concat()))[0];
        assert_eq!(text.contains("straight from rank to rank"), record["goes_straight"].as_bool().unwrap(), "{args:?}");
        record["goes_straight"] == true
    };
    assert!(goes_straight("allreduce -n 2 --bytes 32K"));
    assert!(goes_straight("alltoall -n 4 --bytes 10K"));
    assert!(goes_straight("barrier -n 4 --nodes 4"));
    for args in [
        "allreduce -n 2 --bytes 33K",
        "alltoall -n 4 --bytes 11K",
        "bcast -n 5 --bytes 8",
        "bcast -n 4 --nodes 2 --bytes 8",
        "allreduce -n 2 --bytes 8 --algorithm ring",
        "allreduce -n 2 --bytes 8 --operator user",
        "neighbor-allgather -n 4 --bytes 8",
    ] {
        assert!(!goes_straight(args), "{args}");
    }
}

/// Eight ranks, and a size if there is one.
fn size_of(operation: Operation) -> Vec<&'static str> {
    let bytes: &[&str] = if operation == Operation::Barrier { &[] } else { &["--bytes", "4K"] };
    [&[operation.name(), "-n", "8", "--json"], bytes].concat()
}

#[test]
fn every_algorithm_is_explained_for_every_operation_or_says_why_not() {
    for operation in Operation::ALL {
        let mut explained = Vec::new();
        for (name, _) in Algorithm::names() {
            let output = explain(&[&size_of(operation)[..], &["--algorithm", name]].concat());
            if output.status.code() == Some(2) {
                let why = stderr(&output);
                let between = if operation == Operation::Scan { "exscan" } else { operation.name() };
                assert!(why.contains(&format!("can't be used for this {between}: ")), "{why}");
                continue;
            }
            let record = &records(&output)[0];
            let steps: Vec<_> =
                record["schedules"].as_array().unwrap().iter().flat_map(|one| one.as_array().unwrap()).collect();
            let count = |action| steps.iter().filter(|step| step["action"] == action).count() as u64;
            let bytes = |step: &Value| 8 * step["from"]["length"].as_u64().unwrap();
            let sent = steps.iter().filter(|step| step["action"] == "send").map(|step| bytes(step)).sum::<u64>();
            assert_eq!(record["messages"].as_u64(), Some(count("send")), "{operation} by {name}");
            assert_eq!(record["signals"].as_u64(), Some(count("signal")), "{operation} by {name}");
            assert_eq!(record["bytes_sent"].as_u64(), Some(sent), "{operation} by {name}");
            let rounds = steps.iter().map(|step| step["round"].as_u64().unwrap()).max();
            assert_eq!(record["depth"].as_u64(), rounds, "{operation} by {name}");
            explained.push(name);
        }
        let chosen = &records(&explain(&size_of(operation)))[0];
        let candidates = chosen["candidates"].as_array().unwrap().iter();
        for candidate in candidates.map(|one| one["algorithm"].as_str().unwrap().split(':').next().unwrap()) {
            assert!(explained.contains(&candidate), "{operation} by {candidate}");
        }
    }
}

#[test]
fn costs_can_be_given_and_change_the_choice() {
    let chosen = |costs: &[&str]| {
        let args = [&["allreduce", "-n", "16", "--bytes", "64K", "--json"], costs].concat();
        records(&explain(&args))[0]["algorithm"].as_str().unwrap().to_owned()
    };
    let quick_start = chosen(&["--overhead-ns", "0", "--latency-ns", "1", "--byte-ns", "10"]);
    let slow_start = chosen(&["--latency-ns", "100000000"]);
    assert_ne!(quick_start, slow_start);
}

#[test]
fn costs_are_those_of_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ropewayd.toml");
    let explained = |costs: &str, options: &[&str]| {
        std::fs::write(&path, format!("[costs]\n{costs}\n")).unwrap();
        let args = ["allreduce", "-n", "16", "--bytes", "64K", "--json", "--config", path.to_str().unwrap()];
        records(&explain(&[&args, options].concat())).remove(0)
    };
    let quick_start = explained("overhead_ns = 1\nlatency_ns = 1\nbyte_ns = 10", &[]);
    let slow_start = explained("latency_ns = 1e8", &[]);
    assert_ne!(quick_start["algorithm"], slow_start["algorithm"]);
    assert_eq!(quick_start["costs"]["byte_ns"].as_f64(), Some(10.0));
    assert_eq!(slow_start["costs_from"].as_str(), path.to_str());
    let overruled = explained("latency_ns = 1e8", &["--latency-ns", "7"]);
    assert_eq!(overruled["costs"]["latency_ns"].as_f64(), Some(7.0));
    assert_eq!(overruled["costs_from"].as_str(), Some(format!("{}, and options", path.display()).as_str()));
    std::fs::write(&path, "[costs]\nbyte_ns = nan\n").unwrap();
    let output = explain(&["barrier", "-n", "2", "--config", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("byte_ns = NaN is out of range"), "{}", stderr(&output));
}

#[test]
fn ranks_of_a_node_bring_their_blocks_together() {
    let output = explain(&["allgather", "-n", "7", "--nodes", "3", "--bytes", "8", "--algorithm", "ring", "--json"]);
    let record = &records(&output)[0];
    // Nodes of 3, 2 and 2 ranks; each block passes two links.
    assert_eq!(record["bytes_sent"].as_u64(), Some(2 * 7 * 8));
}

/// What a daemon's counters say of the same: `what_nodes_combine_need_not_be_sent` in its tests.
#[test]
fn what_can_not_be_combined_on_its_way_comes_together() {
    let explained = |operation: &str, nodes: &str, operator: &str| {
        let args = [operation, "-n", "16", "--nodes", nodes, "--operator", operator, "--bytes", "1M", "--json"];
        let record = records(&explain(&args)).remove(0);
        (record["between_nodes"].as_str().unwrap().to_owned(), record["bytes_sent"].as_u64().unwrap() >> 20)
    };
    let expected = |name: &str, mib: u64| (name.to_owned(), mib);
    assert_eq!(explained("allreduce", "4", "predefined"), expected("allreduce", 2 * 3));
    // Each of the other three nodes gets one vector of each node, or those of its four ranks.
    assert_eq!(explained("allreduce", "4", "user"), expected("allgather", 3 * 4));
    assert_eq!(explained("allreduce", "4", "reproducible"), expected("allgather", 3 * 16));
    assert_eq!(explained("allreduce", "16", "reproducible"), expected("allreduce", 2 * 15));
    assert_eq!(explained("reduce", "4", "user"), expected("gather", 3));
    assert_eq!(explained("scan", "4", "user").0, "allgather");
    assert_eq!(explained("scan", "4", "predefined").0, "exscan");
    // Blocks of 1M: a node's four ranks have 4M of 16M.
    assert_eq!(explained("reduce-scatter", "4", "user"), expected("alltoall", 4 * 3 * 4));
    let text = stdout(&explain(&["allreduce", "-n", "4", "--nodes", "2", "--operator", "user"]));
    let between = "\nbetween nodes: allgather of a result of each, which are combined after that\n";
    assert!(text.contains(between), "{text}");
}

#[test]
fn neighbours_have_channels_and_it_is_said_what_leaves_a_node() {
    let args = ["neighbor_alltoall", "-n", "16", "--nodes", "4", "--bytes", "64K"];
    let text = stdout(&explain(&args));
    let heading =
        "neighbor-alltoall of 64K (8192 elements of 8 bytes) by 16 ranks on 4 nodes, a closed grid of 4 x 4\n";
    assert!(text.starts_with(heading), "{text}");
    // A node is a row of the grid: what goes along it stays.
    for part in ["no schedule that nodes", "between nodes: 32 of the messages, with 2097152 bytes\n", "depth 1;"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!text.contains("predicted") && text.contains("\nSteps of participant 0:\n"), "{text}");
    let record = &records(&explain(&[&args[..], &["--json"]].concat()))[0];
    let numbers = ["participants", "messages", "bytes_sent", "messages_between_nodes", "bytes_between_nodes"];
    assert_eq!(numbers.map(|key| record[key].as_u64().unwrap()), [16, 64, 64 << 16, 32, 32 << 16]);
    let ring = &records(&explain(&["allreduce", "-n", "8", "--nodes", "4", "--algorithm", "ring", "--json"]))[0];
    assert_eq!(ring["messages_between_nodes"], ring["messages"]);
}

/// Tables 4.1 and 2.2 of the thesis, which the schedules' own tests hold in full.
#[test]
fn forms_and_task_lists_are_shown() {
    let exchange = ["allgather", "-n", "8", "--algorithm", "standard-exchange:1"];
    let shown = |args: &[&str]| stdout(&explain(&[&exchange, args].concat()));
    let eager = shown(&["--form", "eager", "--tasks"]);
    let first =
        "\nTasks of participant 0:\nrecv from 1\nsend to 1\nwait (1 recv CQ) from 1\n\nrecv from 2\nrecv from 2\n";
    assert!(eager.contains(first) && eager.contains("wait (4 recv CQ) from 4\ncontrol: send_enable (1)"), "{eager}");
    assert_eq!((0..8).filter(|me| eager.contains(&format!("\nTasks of participant {me}:\n"))).count(), 8);
    assert!(shown(&["--form", "rendezvous", "--tasks"]).contains("wait (cts) from 4\nsend to 4\n"));
    let forms =
        ["eager", "rendezvous"].map(|form| records(&explain(&[&exchange[..], &["--form", form, "--json"]].concat())));
    let counts = forms.map(|form| (form[0]["messages"].as_u64(), form[0]["signals"].as_u64()));
    assert_eq!(counts, [(Some(8 * 7), Some(0)), (Some(8 * 3), Some(8 * 3))]);
    let barrier = stdout(&explain(&["barrier", "-n", "8", "--algorithm", "recursive-doubling", "--tasks"]));
    let queue = "control: send_enable (1), wait (1), send_enable (2), wait (2), send_enable (4), wait (4, signal)\n";
    assert!(barrier.contains(queue), "{barrier}");
}

#[test]
fn who_has_nothing_to_say_says_so() {
    let record = &records(&explain(&["allgather", "-n", "4", "--bytes", "0", "--json"]))[0];
    assert_eq!((record["messages"].as_u64(), record["bytes"].as_u64()), (Some(0), Some(0)));
}

/// As with `2>&1 | head`.
#[test]
fn a_reader_that_goes_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pattern.svg");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = ropeway(&["explain", "barrier", "-n", "4", "--svg", path.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .stderr(writer)
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn the_drawing_has_a_line_for_each_message() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pattern.svg");
    let args = ["barrier", "-n", "8", "--algorithm", "dissemination", "--svg", path.to_str().unwrap()];
    let output = explain(&args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert_eq!(svg.matches("marker-end").count(), 8 * 3);
}

#[test]
fn the_drawing_has_room_for_all_its_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pattern.svg");
    for (ranks, operation, algorithm) in
        [("1", "bcast", "linear"), ("2", "reduce-scatter", "recursive-halving"), ("40", "bcast", "binomial")]
    {
        let args = [operation, "-n", ranks, "--bytes", "64", "--algorithm", algorithm];
        let output = explain(&[&args[..], &["--svg", path.to_str().unwrap()]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let svg = std::fs::read_to_string(&path).unwrap();
        let drawing = Document::parse(&svg).unwrap();
        let bounds = drawing.root_element().attribute("viewBox").unwrap();
        let bounds: Vec<f64> = bounds.split(' ').map(|number| number.parse().unwrap()).collect();
        let texts = drawing.descendants().filter(|node| node.has_tag_name("text"));
        for text in texts {
            let place = |name| text.attribute(name).unwrap().parse::<f64>().unwrap();
            let (words, x) = (text.text().unwrap(), place("x"));
            let taken = words.chars().count() as f64 * CHARACTER;
            let begin = if text.attribute("text-anchor") == Some("middle") { x - taken / 2.0 } else { x };
            assert!(begin >= 0.0 && begin + taken <= bounds[2], "{words} does not fit into {bounds:?}");
            assert!((0.0..=bounds[3]).contains(&place("y")), "{words} does not fit into {bounds:?}");
        }
    }
}

/// About the width of one, in units of the drawing.
const CHARACTER: f64 = 7.0;

#[test]
fn what_can_not_be_explained_says_what_can() {
    let refused = |args: &[&str], code: i32, part: &str| {
        let output = explain(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(part), "{part} in {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    };
    refused(&["bcast", "-n", "4", "--root", "4"], 2, "root 4 does not exist among 4 ranks: name one of 0 to 3");
    refused(&["bcast", "-n", "4", "--nodes", "5"], 2, "each node needs one");
    refused(&["bcast", "-n", "4", "--bytes", "9"], 2, "9 bytes are not a whole number of elements of 8");
    refused(&["bcast", "-n", "4", "--algorithm", "ring"], 2, "ring can't be used for this bcast");
    refused(&["bcast", "-n", "4", "--algorithm", "rng"], 2, "no algorithm is called rng: take one of linear");
    let many = "600 participants are too many to show, at most 512: put several ranks on a node with --nodes";
    refused(&["bcast", "-n", "600"], 2, many);
    refused(&["bcast", "-n", "600", "--nodes", "600"], 2, many);
    let neighbours = ["neighbor-allgather", "-n", "600", "--nodes", "2"];
    refused(&neighbours, 2, "600 participants are too many to show, at most 512: take fewer with -n");
    refused(
        &["allreduce", "-n", "4", "--operator", "reproducible", "--algorithm", "binomial"],
        2,
        "take linear, pairwise",
    );
    refused(
        &["barrier", "-n", "4", "--bytes", "1M"],
        2,
        "a barrier has no size: leave --bytes and --element-bytes out",
    );
    refused(&["barrier", "-n", "4", "--root", "0"], 2, "barrier has no root: leave --root out");
    refused(&["bcast", "-n", "4", "--operator", "user"], 2, "bcast combines nothing: leave --operator out");
    refused(
        &["allgather", "-n", "16", "--nodes", "4", "--algorithm", "multileader:4,2"],
        2,
        "multileader:4,2 is for ranks, and nodes are the participants here: leave --nodes out",
    );
    refused(&["bcast", "-n", "4", "--svg", "/nonexistent/a.svg"], 1, "can't draw into /nonexistent/a.svg");
    refused(&["bcast", "-n", "4", "--participant", "4"], 2, "participant 4 does not exist: name one of 0 to 3");
}

#[test]
fn the_guide_shows_what_is_said() {
    let guide = include_str!("../../../client/src/guide/inside.md");
    let command = guide.lines().find_map(|line| line.strip_prefix("ropeway explain ")).unwrap();
    let said = stdout(&explain(&command.split(' ').collect::<Vec<_>>()));
    let shown = guide.split("```").find_map(|block| block.strip_prefix("text\nallreduce of")).unwrap();
    for line in shown.lines().filter(|line| !line.is_empty() && *line != "…") {
        assert!(said.contains(line), "{line} in {said}");
    }
}
