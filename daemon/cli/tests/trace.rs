//! `ropeway run --trace` and `--record`, and `ropeway predict`. The ranks are this program, playing a role.

mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, raise};
use nix::sys::stat::Mode;
use ropeway::{Communicator, Error, Operator, Request};
use serde_json::{Value, json};
use tempfile::TempDir;
use tool::{Running, ropeway, stderr};

// ---- what ranks do

/// Started by the tool as a rank, plays the role it is told. Started as a test, there is none.
#[test]
fn rank_role() {
    let Ok(role) = std::env::var("TEST_ROLE") else { return };
    let world = ropeway::init().unwrap().world();
    match role.as_str() {
        "exchange" => exchange(&world),
        "late" => late(&world),
        "lonely" => lonely(&world),
        "killed" => exchange(&world).map(|()| {
            if world.rank() == 1 {
                raise(Signal::SIGKILL).unwrap()
            }
        }),
        _ => panic!("no role {role}"),
    }
    .unwrap();
}

/// Rank 0 sends to rank 1, and all add up.
fn exchange(world: &Communicator) -> Result<(), Error> {
    let buffer = world.alloc::<u8>(LARGE)?;
    let mut request: Box<dyn Request> = match world.rank() {
        0 => Box::new(world.send_init(buffer, 1, 3)?),
        _ => Box::new(world.recv_init(buffer, 0, 3)?),
    };
    for _ in 0..REGISTERED {
        request.start()?.wait()?;
    }
    let mut message = [0u64; 4];
    for _ in 0..ONE_SHOT {
        match world.rank() {
            0 => world.send(&message, 1, 4)?,
            _ => drop(world.recv(&mut message, ropeway::ANY_SOURCE, ropeway::ANY_TAG)?),
        }
    }
    let mut sum = world.allreduce_init::<f64>(100, Operator::Sum)?;
    for _ in 0..COLLECTIVE {
        sum.start()?.wait()?;
    }
    Ok(())
}

/// Rank 0 waits for rank 1, which is late again and again.
fn late(world: &Communicator) -> Result<(), Error> {
    let mut ready = world.barrier_init()?;
    let buffer = world.alloc::<u8>(8)?;
    let mut request: Box<dyn Request> = match world.rank() {
        0 => Box::new(world.recv_init(buffer, 1, 0)?),
        _ => Box::new(world.send_init(buffer, 0, 0)?),
    };
    for _ in 0..LATE {
        ready.start()?.wait()?;
        if world.rank() == 1 {
            sleep(LATENESS);
        }
        request.start()?.wait()?;
    }
    Ok(())
}

/// Rank 0 waits for what nobody sends, and rank 1 for rank 0.
fn lonely(world: &Communicator) -> Result<(), Error> {
    let mut recv = world.recv_init(world.alloc::<u8>(8)?, 1 - world.rank(), 0)?;
    let receiving = recv.start()?;
    println!("\nwaiting");
    receiving.wait().map(drop)
}

const LARGE: usize = 128 << 10;
const REGISTERED: usize = 10;
const ONE_SHOT: usize = 5;
const COLLECTIVE: usize = 3;
const LATE: u32 = 5;
const LATENESS: Duration = Duration::from_millis(100);

// ---- how they are started, and what is left of them

/// A folder with the timeline and the recording of a job.
struct Kept {
    folder: TempDir,
}

impl Kept {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Two ranks that play a role.
    fn command(&self, role: &str, nodes: u32) -> Command {
        let mut command = ropeway(&["run", "-n", "2", "--nodes", &nodes.to_string()]);
        command.arg("--trace").arg(self.path("trace")).arg("--record").arg(self.path("recording")).arg("--");
        command.arg(std::env::current_exe().unwrap()).args(["--exact", "rank_role", "--nocapture"]);
        command.env("TEST_ROLE", role);
        command
    }

    fn run(role: &str, nodes: u32) -> Self {
        let kept = Self::new();
        let output = kept.command(role, nodes).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        kept
    }

    fn trace(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("trace")).unwrap();
        let trace: Value = serde_json::from_str(&text).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    fn recording(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path("recording")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How often each operation was started, by rank and name.
    fn counts(&self) -> BTreeMap<(u64, String), usize> {
        let mut counts = BTreeMap::new();
        for row in self.recording().iter().filter(|row| row["row"] == "request") {
            let name = row["operation"].as_str().unwrap().to_owned();
            *counts.entry((row["rank"].as_u64().unwrap(), name)).or_default() +=
                row["starts_ns"].as_array().unwrap().len();
        }
        counts
    }

    fn predict(&self, options: &[&str]) -> Output {
        ropeway(&["predict"]).arg(self.path("recording")).args(options).output().unwrap()
    }
}

fn of_kind<'a>(trace: &'a [Value], ph: &str, cat: &str) -> Vec<&'a Value> {
    trace.iter().filter(|event| event["ph"] == ph && event["cat"] == cat).collect()
}

/// Of a rank in a timeline. Daemons come behind them.
fn pid(rank: u64) -> u64 {
    rank + 1
}

fn ts(event: &Value) -> f64 {
    event["ts"].as_f64().unwrap()
}

fn ids(events: &[&Value]) -> BTreeSet<String> {
    events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}

/// What each rank of `exchange` does.
fn exchanged() -> BTreeMap<(u64, String), usize> {
    let count = |rank, name: &str, count| ((rank, name.to_owned()), count);
    BTreeMap::from([
        count(0, "send", REGISTERED),
        count(1, "recv", REGISTERED),
        count(0, "send_once", ONE_SHOT),
        count(1, "recv_once", ONE_SHOT),
        count(0, "allreduce", COLLECTIVE),
        count(1, "allreduce", COLLECTIVE),
    ])
}

// ---- tests

#[test]
fn a_recording_counts_what_the_program_did() {
    for nodes in [1, 2] {
        let kept = Kept::run("exchange", nodes);
        assert_eq!(kept.counts(), exchanged(), "on {nodes} nodes");
        let rows = kept.recording();
        assert_eq!((&rows[0]["row"], &rows[0]["ranks"]), (&Value::from("recording"), &Value::from(2)));
        let is_wrong = |row: &&Value| row["row"] == "rank" && row["lost"] != 0 || !row["failed"].is_null();
        assert_eq!(rows.iter().find(is_wrong), None);
        let bytes = |name| rows.iter().find(|row| row["operation"] == name).unwrap()["bytes"].as_u64().unwrap();
        assert_eq!((bytes("send"), bytes("recv_once"), bytes("allreduce")), (LARGE as u64, 32, 800));
    }
}

#[test]
fn a_timeline_has_each_operation_from_its_start_to_its_end() {
    for nodes in [1, 2] {
        let trace = Kept::run("exchange", nodes).trace();
        for (cat, count) in [("message", 2 * (REGISTERED + ONE_SHOT)), ("collective", 2 * COLLECTIVE)] {
            let (begins, ends) = (of_kind(&trace, "b", cat), of_kind(&trace, "e", cat));
            assert_eq!((begins.len(), ends.len()), (count, count), "{cat} on {nodes} nodes");
            assert_eq!((ids(&begins), ids(&begins).len()), (ids(&ends), count));
            for begin in begins {
                let steps: Vec<&Value> = trace.iter().filter(|event| event["id"] == begin["id"]).collect();
                let steps: Vec<&Value> = steps.into_iter().filter(|event| event["cat"] == cat).collect();
                assert!(steps.is_sorted_by_key(|step| ts(step)), "{steps:?}");
                assert!(steps.iter().all(|step| step["args"]["outcome"].is_null()), "{steps:?}");
            }
        }
        let calls = of_kind(&trace, "X", "call");
        for (what, count) in [("init send to 1, tag 3, 128K", 1), ("start send to 1, tag 3, 128K", REGISTERED)] {
            let named: Vec<_> = calls.iter().filter(|call| call["name"] == what).collect();
            assert_eq!(named.len(), count, "{what}");
            assert!(named.iter().all(|call| call["pid"] == pid(0) && call["dur"].as_f64().unwrap() >= 0.0));
        }
    }
}

#[test]
fn ranks_compute_and_wait_and_daemons_are_awake() {
    for nodes in [1, 2] {
        let trace = Kept::run("late", nodes).trace();
        let names: Vec<_> = of_kind(&trace, "M", "__metadata").iter().map(|event| event["pid"].clone()).collect();
        assert_eq!(names, (1..3 + nodes).map(Value::from).collect::<Vec<_>>());
        for rank in 0..2 {
            let of_rank = |cat| of_kind(&trace, "X", cat).into_iter().filter(|span| span["pid"] == pid(rank)).count();
            assert!(of_rank("wait") > 0 && of_rank("compute") > 0, "rank {rank}");
        }
        let awake: BTreeSet<u64> =
            of_kind(&trace, "X", "duty").iter().filter_map(|span| span["pid"].as_u64()).collect();
        assert_eq!(awake, (3..3 + u64::from(nodes)).collect());
    }
}

#[test]
fn messages_between_nodes_have_a_first_and_a_last_byte() {
    let trace = Kept::run("exchange", 2).trace();
    let large = |event: &&Value| event["name"].as_str().unwrap().ends_with("128K");
    let messages: Vec<&Value> = of_kind(&trace, "b", "message").into_iter().filter(large).collect();
    assert_eq!(messages.len(), 2 * REGISTERED);
    for message in messages {
        let moved = of_kind(&trace, "n", "message").into_iter().filter(|event| event["id"] == message["id"]);
        let names: Vec<_> = moved.map(|event| event["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, ["first byte", "last byte"]);
    }
    let pieces = of_kind(&trace, "b", "piece");
    assert!(pieces.iter().any(|piece| piece["name"] == "128K to node 1, of rank 0"), "{pieces:?}");
    assert!(pieces.iter().any(|piece| piece["name"] == "128K from node 0, of rank 1"), "{pieces:?}");
}

#[test]
fn messages_within_a_node_say_when_both_ends_had_started() {
    let trace = Kept::run("late", 1).trace();
    let of_rank = |ph, rank| of_kind(&trace, ph, "message").into_iter().filter(move |event| event["pid"] == pid(rank));
    let sent: Vec<f64> = of_rank("b", 1).map(ts).collect();
    assert_eq!(sent.len(), LATE as usize);
    // The receiver has waited for each message; so it could move when the sender came.
    for rank in 0..2 {
        let both = of_rank("n", rank).inspect(|event| assert_eq!(event["name"], "both started"));
        assert_eq!(both.map(ts).collect::<Vec<_>>(), sent, "rank {rank}");
    }
}

#[test]
fn arrows_lead_from_sends_to_the_waits_they_end() {
    let trace = Kept::run("late", 1).trace();
    let (begins, ends) = (of_kind(&trace, "s", "arrow"), of_kind(&trace, "f", "arrow"));
    // Rank 0 has waited for each message of a rank that was late.
    assert_eq!((begins.len(), ids(&begins)), (LATE as usize, ids(&ends)));
    for end in ends {
        let begin = begins.iter().find(|begin| begin["id"] == end["id"]).unwrap();
        assert!(ts(begin) <= ts(end) && begin["pid"] == pid(1) && end["pid"] == pid(0));
    }
}

#[test]
fn waiting_for_a_late_partner_is_told() {
    for nodes in [1, 2] {
        let output = Kept::run("late", nodes).predict(&["--json"]);
        let accounts = tool::records(&output);
        let of = |rank: usize, key: &str| accounts[rank][key].as_u64().unwrap();
        // A little less than it was late: rank 0 may have come to wait a little later.
        let least_ns = (LATE * LATENESS).as_nanos() as u64 / 2;
        assert!(of(0, "late_ns") >= least_ns, "{accounts:?}");
        assert!(of(1, "late_ns") < of(0, "late_ns"), "{accounts:?}");
        for rank in 0..3 {
            let parts = ["computing_ns", "overhead_ns", "late_ns", "transfer_ns"].map(|key| of(rank, key));
            assert_eq!(parts.iter().sum::<u64>(), of(rank, "total_ns"));
        }
        assert_eq!(accounts[2]["rank"], "all");
    }
}

#[test]
fn registering_repeated_messages_saves_their_set_up() {
    let kept = Kept::run("exchange", 1);
    let saved = |options: &[&str]| -> Vec<u64> {
        let accounts = tool::records(&kept.predict(options));
        accounts.iter().map(|account| account["persistence_saves_ns"].as_u64().unwrap()).collect()
    };
    let once = (ONE_SHOT - 1) as u64 * 600;
    assert_eq!(saved(&["--json", "--overhead", "o_s=0.6us"]), [once, once, 2 * once]);
    assert!(saved(&["--json"])[2] > 0);
    let (here, parameter) = (kept.path("here.jsonl"), |metric: &str| {
        let parameter = json!({
            "bench": "boum", "metric": metric, "mode": "persistent", "nodes": 1, "wait": "polling", "bytes": 8, "median": 500.0,
        });
        format!("{parameter}\n")
    });
    fs::write(&here, ["o_s", "o_i", "b"].map(parameter).concat()).unwrap();
    let measured = (ONE_SHOT - 1) as u64 * 500;
    let options = ["--json", "--parameters", here.to_str().unwrap()];
    assert_eq!(saved(&options), [measured, measured, 2 * measured]);
    let said = tool::stdout(&kept.predict(&["--overhead", "o_s=600ns"]));
    assert!(said.contains("o_s = 600 ns, as given") && said.contains("late"), "{said}");
    let refused = kept.predict(&["--overhead", "600"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("o_s=0.6us"));
}

#[test]
fn an_interrupted_job_is_written_down() {
    let kept = Kept::new();
    let mut tool = Running::start(kept.command("lonely", 1).stdout(Stdio::piped()));
    let lines = BufReader::new(tool.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut waiting = lines.filter(|line| line == "waiting");
    assert!(waiting.next().is_some() && waiting.next().is_some());
    tool.signal(Signal::SIGINT);
    assert_eq!(tool.wait().unwrap().code(), Some(130));
    let trace = kept.trace();
    let ends = of_kind(&trace, "e", "message");
    assert_eq!(ends.len(), 2);
    assert!(ends.iter().all(|end| end["args"]["outcome"] == "has not ended"), "{ends:?}");
    assert!(kept.predict(&[]).status.success());
}

#[test]
fn what_a_killed_rank_did_is_kept() {
    let kept = Kept::new();
    let output = kept.command("killed", 2).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9), "{}", stderr(&output));
    assert_eq!(kept.counts(), exchanged());
}

#[test]
fn bad_paths_are_refused_before_the_job_starts() {
    let run = |trace: &Path, record: &Path| {
        let mut command = ropeway(&["run", "-n", "1"]);
        command.arg("--trace").arg(trace).arg("--record").arg(record).args(["--", "echo", "ran"]).output().unwrap()
    };
    let (folder, missing) = (TempDir::new().unwrap(), Path::new("/nonexistent/folder/file"));
    let file = folder.path().join("file");
    let missing_folder = "can't write /nonexistent/folder/file: there is no folder /nonexistent/folder: make it";
    for (output, why) in [
        (run(missing, &file), missing_folder),
        (run(&file, missing), missing_folder),
        (run(&file, folder.path()), "can't write /"),
    ] {
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(tool::stdout(&output), "");
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    let output = run(&file, &file);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("different files"), "{}", stderr(&output));
}

#[test]
fn programs_without_ropeway_have_an_empty_timeline() {
    let kept = Kept::new();
    let output = ropeway(&["run", "-n", "2", "--trace"]).arg(kept.path("trace")).args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(of_kind(&kept.trace(), "M", "__metadata").len(), 3);
    assert!(stderr(&output).contains("ui.perfetto.dev"), "{}", stderr(&output));
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let kept = Kept::run("exchange", 1);
    let output = ropeway(&["predict"]).arg(kept.path("trace")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("is no recording, which `ropeway run --record FILE …` makes"),
        "{}",
        stderr(&output)
    );
    let output = ropeway(&["predict", "/nonexistent/file"]).output().unwrap();
    assert!(stderr(&output).contains("can't read /nonexistent/file"), "{}", stderr(&output));
}

#[test]
fn files_are_kept_until_the_job_starts_and_are_two() {
    let folder = tempfile::tempdir().unwrap();
    let (old, link) = (folder.path().join("old.json"), folder.path().join("link.json"));
    fs::write(&old, "old").unwrap();
    std::os::unix::fs::symlink(&old, &link).unwrap();
    let (old, link) = (old.to_str().unwrap(), link.to_str().unwrap());
    for flags in [["--nodes", "3", "--trace", old], ["--trace", old, "--record", link]] {
        let output = ropeway(&["run", "-n", "2"]).args(flags).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(old).unwrap(), "old");
    }
    // Here the job is what can't start: its daemon does not answer.
    let (new, dangling) = (folder.path().join("new"), folder.path().join("dangling"));
    std::os::unix::fs::symlink("new", &dangling).unwrap();
    let socket = folder.path().join("socket");
    let _silent = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for new_file in [&new, &dangling] {
        let mut tool = ropeway(&["run", "-n", "1", "--timeout", "0.2", "--trace", old, "--record"]);
        tool.arg(new_file).args(["--", "true"]).env("ROPEWAY_SOCKET", &socket);
        let output = tool.output().unwrap();
        assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
        assert_eq!((fs::read_to_string(old).unwrap().as_str(), new.exists()), ("old", false));
    }
}

#[test]
fn signals_end_the_tool_while_it_opens_and_writes_files() {
    let kept = Kept::new();
    let pipe = kept.path("trace");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).unwrap();
    let start = |files: &[&str]| {
        let mut command = ropeway(&["run", "-n", "2"]);
        command.args(files).arg("--").arg(std::env::current_exe().unwrap());
        command.args(["--exact", "rank_role"]).env("TEST_ROLE", "exchange");
        Running::start(command.stdout(Stdio::null()))
    };
    // Nobody reads, so that opening waits.
    let file = kept.path("file");
    let mut tool = start(&["--trace", file.to_str().unwrap(), "--record", pipe.to_str().unwrap()]);
    while !fs::read_to_string(format!("/proc/{}/status", tool.id())).unwrap().contains("State:\tS") {
        assert!(tool.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    tool.signal(Signal::SIGTERM);
    assert_eq!(tool.wait().unwrap().signal(), Some(15));
    assert!(!file.exists());
    // Now the reader takes only the beginning, and the rest does not fit into the pipe.
    let mut tool = start(&["--trace", pipe.to_str().unwrap()]);
    let mut reader = fs::File::open(&pipe).unwrap();
    fcntl(&reader, FcntlArg::F_SETPIPE_SZ(4096)).unwrap();
    reader.read_exact(&mut [0]).unwrap();
    tool.signal(Signal::SIGINT);
    assert_eq!(tool.wait().unwrap().code(), Some(130));
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert!(!rest.trim_end().ends_with("]}"));
}

#[test]
fn a_file_that_can_not_be_written_and_a_reader_who_has_gone_change_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("run.jsonl");
    let run = |script: &str| {
        let mut tool = ropeway(&["run", "-n", "1", "--trace", "/dev/full", "--record"]);
        tool.arg(&record).args(["--", "sh", "-c", script]).stderr(Stdio::piped());
        let mut tool = tool.spawn().unwrap();
        drop(tool.stderr.take());
        (tool.wait().unwrap().code(), fs::read_to_string(&record).unwrap().lines().count() > 0)
    };
    assert_eq!(run("exit 7"), (Some(7), true));
    assert_eq!(run("exit 0"), (Some(1), true));
}
