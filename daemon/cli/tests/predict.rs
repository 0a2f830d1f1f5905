//! `ropeway predict`: what a program would gain.

mod tool;

use std::fs;

use serde_json::{Value, json};
use tool::{records, ropeway, stderr, stdout};

/// Parameters as `bench boum` prints them: 1 µs to set a message up, 1 µs to start it, 1 ns for each byte; all but a fifth hides.
fn parameters(wait: &str, d_o: f64) -> String {
    let record = |metric: &str, bytes: usize, median: f64| {
        let record = json!({
            "bench": "boum", "metric": metric, "unit": "ns", "mode": "persistent", "ranks": 2, "nodes": 1, "wait": wait,
            "bytes": bytes, "median": median,
        });
        format!("{record}\n")
    };
    let of_size = |bytes| [record("o_s", bytes, 1000.0), record("b", bytes, 1.0), record("d_o", bytes, d_o)].concat();
    // Programs have records too.
    let program = json!({"bench": "boum", "metric": "execution", "nodes": 1, "wait": "none", "median": 0.1});
    format!("{program}\n{}{}{}", record("o_i", 0, 1000.0), of_size(1000), of_size(100_000))
}

fn predicted(args: &[&str], parameters: &str) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parameters");
    fs::write(&file, parameters).unwrap();
    let output = ropeway(&["predict", "--json"]).args(args).arg("--parameters").arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    records(&output).remove(0)
}

fn assert_near(found: &Value, expected: f64) {
    assert!((found.as_f64().unwrap() - expected).abs() <= 1e-4 * expected, "{found} instead of {expected}");
}

#[test]
fn a_program_is_predicted_from_recorded_parameters() {
    let program = ["--compute", "100us", "--message", "16000", "--count", "2", "--iterations", "1000"];
    let found = predicted(&program, &parameters("polling", 0.8));
    assert_near(&found["computation"], 0.1);
    assert_near(&found["communication_oneshot"], 0.036);
    assert_near(&found["communication_persistent"], 0.034_002);
    assert_near(&found["total_overlapped"], 0.1 + 0.034 * 0.2 + 2e-6);
    assert_near(&found["S"], 0.136 / 0.134_002);
    assert_near(&found["messages"][0]["S_c"], 18.0 / 17.001);
    // √(0.8·16 / 0.2·1)
    assert_near(&found["messages"][0]["s_best"], 8.0);
    assert_eq!(found["messages"][0]["segments"], 8);
}

#[test]
fn the_way_of_waiting_can_be_chosen() {
    let both = parameters("polling", 0.8) + &parameters("blocking", 0.0);
    let program = ["--compute", "1ms", "--message", "8K"];
    assert_eq!(predicted(&program, &both)["d_o"], 0.8);
    assert_eq!(predicted(&[&program[..], &["--wait", "blocking"]].concat(), &both)["d_o"], 0.0);
}

#[test]
fn what_to_do_and_whether_to_believe_it_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("parameters");
    let said = |parameters: &str| {
        fs::write(&file, parameters).unwrap();
        let program = ["predict", "--compute", "1ms", "--message", "8K", "--parameters"];
        stdout(&ropeway(&program).arg(&file).output().unwrap())
    };
    let (some, none) = (said(&parameters("polling", 0.804)), said(&parameters("polling", -0.3)));
    assert!(some.contains("80 % hides behind computation: start them early") && !some.contains("in doubt"), "{some}");
    assert!(none.contains("nothing hides behind computation here: wait for them before you compute"), "{none}");
    let doubtful = parameters("polling", 0.8).replace("\"metric\":\"b\"", "\"metric\":\"b\",\"doubts\":[\"spread\"]");
    assert!(
        said(&doubtful)
            .ends_with("~ in doubt (spread): the median is uncertain by more than 10 %, or 0.1 of a share\n")
    );
    assert_eq!(predicted(&["--compute", "1ms", "--message", "8K"], &doubtful)["doubts"], json!(["spread"]));
}

#[test]
fn a_description_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("program.toml");
    let description = "compute = \"1ms\"\niterations = 10\n[[message]]\nbytes = \"64K\"\ncount = 4\n[[message]]\nbytes = \"16\"\ncount = 2\n";
    fs::write(&file, description).unwrap();
    let found = predicted(&["--description", file.to_str().unwrap()], &parameters("adaptive", 0.5));
    assert_near(&found["computation"], 0.01);
    assert_eq!(found["messages"].as_array().unwrap().len(), 2);
}

#[test]
fn parameters_are_measured_where_there_are_none() {
    let output = ropeway(&["predict", "--compute", "50us", "--message", "1", "--quiet"]).output().unwrap();
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() < 2) {
        assert_eq!(output.status.code(), Some(3));
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("bound once") && text.contains("best segments"), "{text}");
}

#[test]
fn what_can_not_be_predicted_is_named() {
    let refused = |args: &[&str], code, why: &str| {
        let output = ropeway(&["predict"]).args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    };
    refused(&[], 2, "<FILE|--compute <TIME>|--description <FILE>>");
    refused(&["--compute", "5 parsecs", "--message", "8"], 2, "5 parsecs");
    let program = ["--compute", "5ms", "--message", "8", "--parameters"];
    refused(&[&program[..], &["/nonexistent"]].concat(), 1, "can't read /nonexistent");
    refused(&["--description", "/nonexistent.toml"], 1, "can't read /nonexistent.toml");
    let folder = tempfile::tempdir().unwrap();
    let description = folder.path().join("program.toml");
    fs::write(&description, "compute = \"5ms\"\niterations = 1\n[[message]]\nbytes = \"8\"\ncount = 0\n").unwrap();
    refused(&["--description", description.to_str().unwrap()], 1, "count of \"8\" has to be at least 1");
    let file = folder.path().join("parameters");
    fs::write(&file, parameters("polling", 0.5)).unwrap();
    let path = file.to_str().unwrap();
    refused(
        &[&program[..], &[path, "--nodes", "2"]].concat(),
        1,
        "there are no figures of o_i; measure them with: ropeway bench boum --nodes 2 --json\n",
    );
    let blocking = [&program[..], &[path, "--wait", "blocking"]].concat();
    refused(
        &blocking,
        1,
        "1 node, blocking: there are no figures of o_i; measure them with: ropeway bench boum --wait blocking --json\n",
    );
    let between = parameters("polling", 0.5).replace("\"nodes\":1", "\"nodes\":2");
    let shaped = between.replace("\"nodes\":2", "\"nodes\":2,\"netns\":true,\"rate\":\"1gbit\"");
    fs::write(&file, between + &shaped).unwrap();
    refused(
        &[&program[..], &[path, "--nodes", "2"]].concat(),
        1,
        "has parameters of loopback and of a line of 1gbit: keep those of one",
    );
    fs::write(&file, parameters("polling", 0.5).replace("\"boum\"", "\"overhead\"")).unwrap();
    refused(&[&program[..], &[path]].concat(), 1, "1 node: there are no figures of o_i");
    refused(&["--compute", "5ms", "--message", "8", "--overhead", "o_s=1us"], 2, "cannot be used with");
    fs::write(&file, "# not JSON\n").unwrap();
    refused(&[&program[..], &[path]].concat(), 1, "name a file that `ropeway bench boum --json` has printed");
}

#[test]
fn a_recording_comes_with_what_it_can_not_tell() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let header = json!({
        "row": "recording", "format": 1, "version": "0.1.0", "first_ranks": [0], "ranks": 1, "cores": 8, "duration_ns": 100,
    });
    // The second thread computes from 20 to 40 and from 50 to 55 while the first waits.
    let rank = json!({
        "row": "rank", "rank": 0, "joined_ns": 0, "left_ns": 100, "lost": 0, "publishes_ns": [[20, 21], [54, 55]],
        "publishes_threads": [1, 1], "waits_ns": [[10, 60], [40, 50]], "waits_threads": [0, 1],
    });
    let request = json!({
        "row": "request", "rank": 0, "operation": "send_once", "comm": 0, "peer": 0, "tag": 1, "bytes": 8,
        "starts_ns": [1, 3], "took_ns": [1, 1], "waits_ns": [null, null], "ends_ns": [2, 4],
    });
    fs::write(&file, format!("{header}\n{rank}\n{request}\n")).unwrap();
    let predicted = |args: &[&str]| ropeway(&["predict"]).arg(&file).args(args).output().unwrap();
    let text = stdout(&predicted(&[]));
    assert!(
        text.contains("Rank 0: several threads") && text.contains("Rank 0: nothing registered is started again"),
        "{text}"
    );
    assert!(!text.contains("More could be saved"), "{text}");
    let all = &records(&predicted(&["--json"]))[0];
    assert_eq!(all["late_ns"].as_u64().unwrap() + all["transfer_ns"].as_u64().unwrap(), 10 + 10 + 5);
    // A set-up that takes longer than the program, and one that is longer than any number here.
    for overhead in ["o_s=1us", "o_s=18446744073709551ns"] {
        let text = stdout(&predicted(&["--overhead", overhead]));
        assert!(text.contains("More could be saved than all of the time"), "{text}");
        assert!(records(&predicted(&["--json", "--overhead", overhead]))[0]["speed_up_max"].is_null());
    }
}

#[test]
fn a_recording_of_which_nobody_was_part_tells_of_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("recording");
    let recorded = ropeway(&["run", "-n", "2", "--record"]).arg(&file).args(["--", "true"]).output().unwrap();
    assert_eq!(recorded.status.code(), Some(0), "{}", stderr(&recorded));
    let output = ropeway(&["predict"]).arg(&file).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), String::new()));
    assert!(stderr(&output).contains("no rank of its program called `ropeway::init`"), "{}", stderr(&output));
}
