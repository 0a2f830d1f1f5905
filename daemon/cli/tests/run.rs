//! `ropeway run` with shell scripts as ranks.

mod tool;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use ropeway_proto::control::{Refusal, Reply, encode};
use tool::{Running, lines, ropeway, stderr, stdout};

/// Runs `script` as each of `ranks` ranks and waits for the end.
fn run_script(ranks: u32, options: &[&str], script: &str) -> std::process::Output {
    let ranks = ranks.to_string();
    ropeway(&["run", "-n", &ranks]).args(options).args(["--", "sh", "-c", script]).output().unwrap()
}

#[test]
fn each_rank_knows_who_it_is() {
    let output =
        run_script(3, &["--tag-output", "--wait", "blocking"], "echo $ROPEWAY_RANK/$ROPEWAY_SIZE $ROPEWAY_WAIT");
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(lines(&output), ["[0] 0/3 blocking", "[1] 1/3 blocking", "[2] 2/3 blocking"]);
}

#[test]
fn the_status_is_that_of_the_first_rank_that_fails() {
    let output = run_script(3, &[], "test $ROPEWAY_RANK = 1 && exit 7; exec sleep 3600");
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(stderr(&output), "ropeway: rank 1 ended with status 7, and the job with it\n");
}

#[test]
fn a_rank_that_is_killed_ends_the_job() {
    let output = run_script(3, &[], "test $ROPEWAY_RANK = 2 && kill -9 $$; exec sleep 3600");
    assert_eq!(output.status.code(), Some(128 + 9));
    assert!(stderr(&output).contains("rank 2 was killed by SIGKILL"), "{}", stderr(&output));
}

#[test]
fn a_real_time_signal_ends_the_job() {
    let output = run_script(2, &[], "test $ROPEWAY_RANK = 1 && kill -40 $$; exec sleep 3600");
    assert_eq!(output.status.code(), Some(128 + 40));
    assert!(stderr(&output).contains("rank 1 was killed by signal 40"), "{}", stderr(&output));
    // Of an orphan it is nobody's business.
    let orphan = "orphan=$(sh -c 'setsid sh -c \"echo \\$\\$; exec >&-; kill -40 \\$\\$\" &')";
    let output = run_script(1, &[], &format!("{orphan}; while kill -0 $orphan 2>/dev/null; do :; done; echo end"));
    assert_eq!((output.status.code(), lines(&output)), (Some(0), vec!["end".to_owned()]));
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let output = run_script(2, &["--timeout", "0.2"], "exec sleep 3600");
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("took too long"));
}

#[test]
fn rank_0_reads_the_input() {
    let mut command = ropeway(&["run", "-n", "3", "--tag-output", "--", "sh", "-c", "cat; echo end"]);
    let mut tool = Running::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()));
    tool.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = tool.output();
    assert_eq!(lines(&output), ["[0] end", "[0] hello", "[1] end", "[2] end"]);
}

#[test]
fn both_outputs_are_tagged() {
    let output = run_script(2, &["--tag-output"], "echo out; printf 'no line end' >&2");
    assert_eq!(lines(&output), ["[0] out", "[1] out"]);
    let mut errors: Vec<_> = stderr(&output).lines().map(str::to_owned).collect();
    errors.sort();
    assert_eq!(errors, ["[0] no line end", "[1] no line end"]);
}

#[test]
fn tagged_ranks_learn_that_nobody_reads() {
    let mut tool = Running::start(ropeway(&["run", "-n", "1", "--tag-output", "--", "yes"]).stdout(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(tool.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), tool.wait().unwrap().code()), ("[0] y\n", Some(128 + 13)));
}

#[test]
fn a_slow_reader_gets_all_and_what_is_left_behind_is_not_waited_for() {
    let mut command = ropeway(&["run", "-n", "1", "--tag-output", "--", "seq", "17000"]);
    let mut tool = Running::start(command.stdout(Stdio::piped()));
    // Longer than the patience with outputs that nothing comes from.
    std::thread::sleep(Duration::from_millis(1200));
    assert_eq!(BufReader::new(tool.stdout.take().unwrap()).lines().count(), 17000);
    assert!(tool.wait().unwrap().success());
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun");
    let leaves = "mkfifo BEGUN; setsid sh -c 'echo $$; : > BEGUN; exec sleep 100' & cat BEGUN";
    let begin = Instant::now();
    let output = run_script(1, &["--tag-output"], &leaves.replace("BEGUN", begun.to_str().unwrap()));
    let elapsed = begin.elapsed();
    let left = lines(&output).concat().strip_prefix("[0] ").map(|number| Pid::from_raw(number.parse().unwrap()));
    kill(left.expect("a number"), Signal::SIGKILL).unwrap();
    assert!(output.status.success() && elapsed < Duration::from_secs(100), "{elapsed:?}");
}

#[test]
fn ranks_inherit_one_socket() {
    let output = run_script(3, &[], "ls -l /proc/$$/fd | grep -c socket:");
    assert_eq!(lines(&output), ["1"; 3]);
}

#[test]
fn ranks_can_be_asked_to_end() {
    // Not through a shell: some unblock signals themselves.
    let output = ropeway(&["run", "-n", "2", "--", "grep", "SigBlk", "/proc/self/status"]).output().unwrap();
    assert_eq!(lines(&output), ["SigBlk:\t0000000000000000"; 2]);
}

/// Starts a job whose ranks print the numbers of their processes and then wait for ever.
fn long_job(script: &str) -> (Running, Vec<Pid>) {
    let mut tool = Running::start(ropeway(&["run", "-n", "2", "--", "sh", "-c", script]).stdout(Stdio::piped()));
    let mut reader = BufReader::new(tool.stdout.take().unwrap());
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        numbers.extend(line.split_whitespace().map(|number| Pid::from_raw(number.parse().unwrap())));
    }
    // Somebody has to read on, or the pipe is broken.
    std::thread::spawn(move || reader.read_to_end(&mut Vec::new()));
    (tool, numbers)
}

fn signalled(mut tool: Running, signal: Signal) -> Option<i32> {
    tool.signal(signal);
    tool.wait().unwrap().code()
}

fn assert_gone(processes: &[Pid]) {
    let give_up = Instant::now() + Duration::from_secs(60);
    for &process in processes {
        // A grandchild has got its signal when the tool ends, but dies and is reaped in its own time.
        loop {
            let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            if status.is_empty() || status.contains("State:\tZ") {
                break;
            }
            assert!(Instant::now() < give_up, "{process} is still there:\n{status}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_interrupt_leaves_nothing() {
    let (tool, processes) = long_job("sleep 3600 & echo $$ $!; wait");
    assert_eq!(processes.len(), 4);
    assert_eq!(signalled(tool, Signal::SIGINT), Some(130));
    assert_gone(&processes);
}

#[test]
fn a_quit_ends_the_job_and_what_was_ignored_before_still_is() {
    let (tool, processes) = long_job("sleep 3600 & echo $$ $!; wait");
    assert_eq!(signalled(tool, Signal::SIGQUIT), Some(131));
    assert_gone(&processes);

    let under_nohup = "trap '' HUP INT; exec \"$0\" run -n 1 -- sh -c 'echo begun; exec sleep 3600'";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", under_nohup, env!("CARGO_BIN_EXE_ropeway")]).env("ROPEWAY_SOCKET", "");
    let mut tool = Running::start(command.stdout(Stdio::piped()));
    BufReader::new(tool.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    [Signal::SIGHUP, Signal::SIGINT].into_iter().for_each(|signal| tool.signal(signal));
    assert_eq!(signalled(tool, Signal::SIGTERM), Some(143));
}

#[test]
fn a_daemon_that_does_not_answer_is_waited_for_no_longer_than_the_job_may_take() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let _silent = UnixListener::bind(&socket).unwrap();
    let mut tool = ropeway(&["run", "-n", "1", "--timeout", "0.2", "--", "true"]);
    let output = tool.env("ROPEWAY_SOCKET", &socket).output().unwrap();
    assert_eq!(output.status.code(), Some(124));
    assert!(stderr(&output).contains("does not answer"), "{}", stderr(&output));
}

#[test]
fn who_waits_for_a_daemon_that_does_not_answer_ends_at_once_when_asked_to() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let silent = UnixListener::bind(&socket).unwrap();
    let tool =
        Running::start(ropeway(&["run", "-n", "1", "--", "true"]).env("ROPEWAY_SOCKET", &socket).stderr(Stdio::null()));
    // One connection may only find out whether there is a daemon.
    let asked = loop {
        let (mut connection, _) = silent.accept().unwrap();
        if connection.read(&mut [0]).unwrap() > 0 {
            break connection;
        }
    };
    let begin = Instant::now();
    assert_eq!(signalled(tool, Signal::SIGINT), Some(130));
    assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
    drop(asked);
}

#[test]
fn the_time_that_a_daemon_takes_to_answer_is_time_of_the_job() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let slow = std::thread::spawn(move || {
        let mut asking = asked(&listener);
        std::thread::sleep(Duration::from_millis(400));
        // It may be too late by now.
        let _ = asking.write_all(&encode(&Reply::Refused(Refusal::OtherBuild)));
    });
    let mut tool = ropeway(&["run", "-n", "1", "--timeout", "0.6", "--", "sleep", "0.4"]);
    assert_eq!(tool.env("ROPEWAY_SOCKET", &socket).output().unwrap().status.code(), Some(124));
    slow.join().unwrap();
}

/// Hears what the tool asks a daemon first. It has connected before to see whether anybody listens.
fn asked(listener: &UnixListener) -> UnixStream {
    drop(listener.accept().unwrap());
    let (mut asking, _) = listener.accept().unwrap();
    let mut length = [0; 4];
    asking.read_exact(&mut length).unwrap();
    asking.read_exact(&mut vec![0; u32::from_le_bytes(length) as usize]).unwrap();
    asking
}

#[test]
fn a_daemon_of_another_build_is_left_alone_and_said_to_be_one() {
    let evicted = Reply::Evicted { reason: "its control socket: unknown variant".into() };
    for answer in [Reply::Refused(Refusal::OtherBuild), evicted] {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).unwrap();
        let other = std::thread::spawn(move || asked(&listener).write_all(&encode(&answer)).unwrap());
        let mut tool = ropeway(&["run", "-n", "1", "--", "echo", "done"]);
        let output = tool.env("ROPEWAY_SOCKET", &socket).output().unwrap();
        assert_eq!((output.status.code(), lines(&output)), (Some(0), vec!["done".to_owned()]));
        let said = stderr(&output);
        assert!(said.contains("is of another build than this tool; the job brings its own"), "{said}");
        other.join().unwrap();
    }
}

#[test]
fn a_job_without_room_for_its_segment_is_told_what_to_do() {
    let cramped = "ulimit -v 8000000; exec \"$0\" run -n 1 -- true";
    let output = std::process::Command::new("sh")
        .args(["-c", cramped, env!("CARGO_BIN_EXE_ropeway")])
        .env("ROPEWAY_SOCKET", "")
        .output()
        .unwrap();
    let said = stderr(&output);
    assert!(said.contains("bytes of address space") && said.contains("ulimit -v"), "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn ranks_that_do_not_listen_are_killed() {
    let (tool, processes) = long_job("trap '' TERM; sleep 3600 & echo $$ $!; wait");
    assert_eq!(signalled(tool, Signal::SIGTERM), Some(143));
    assert_gone(&processes);
}

#[test]
fn stopped_ranks_are_killed() {
    let (tool, processes) = long_job("echo $$; exec sleep 3600");
    processes.iter().for_each(|&process| kill(process, Signal::SIGSTOP).unwrap());
    assert_eq!(signalled(tool, Signal::SIGINT), Some(130));
    assert_gone(&processes);
}

#[test]
fn what_a_rank_leaves_behind_is_killed() {
    let output = run_script(1, &[], "sleep 3600 >&- 2>&- & echo $!");
    assert_eq!(output.status.code(), Some(0));
    assert_gone(&[Pid::from_raw(stdout(&output).trim().parse().unwrap())]);
}

#[test]
fn what_has_a_group_of_its_own_ends_with_a_job_that_ends_badly() {
    let (tool, processes) =
        long_job("timeout -k 1 3600 sleep 3601 & setsid sh -c 'sleep 3602 & echo $$ $!; wait'; wait");
    assert_eq!(signalled(tool, Signal::SIGINT), Some(130));
    assert_gone(&processes);
}

#[test]
fn an_unknown_program_is_named() {
    let output = ropeway(&["run", "-n", "4", "--", "no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let expected =
        "ropeway: can't find the program no-such-program; give a path such as ./no-such-program, or put it on PATH\n";
    assert_eq!(stderr(&output), expected);
    let output = ropeway(&["run", "-n", "4", "--", "/etc/passwd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    assert!(stderr(&output).contains("/etc/passwd is not a program"));
}

#[test]
fn a_script_that_nothing_runs_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    for (text, why) in [("echo never\n", "begin it with"), ("#!/nonexistent/shell\necho never\n", "is not there")] {
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let output = ropeway(&["run", "-n", "2", "--"]).arg(&script).output().unwrap();
        let said = stderr(&output);
        assert!(said.contains(why) && said.contains(script.to_str().unwrap()), "{said}");
        assert_eq!((output.status.code(), stdout(&output)), (Some(126), String::new()));
    }
}

#[test]
fn a_configuration_file_is_used_and_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let said = |text: &str, options: &[&str]| {
        std::fs::write(path, text).unwrap();
        let output = run_script(2, &[&["--nodes", "2", "--config", path], options].concat(), "true");
        (output.status.code(), stderr(&output))
    };
    let named = format!("ropeway: sizes and costs from {path}\n");
    assert_eq!(said("node_piece_bytes = 4096\n", &[]), (Some(0), named));
    assert_eq!(said("node_piece_bytes = 4096\n", &["--quiet"]), (Some(0), String::new()));
    // Where the system's daemon listens is nothing to us.
    assert_eq!(said("socket = \"/nonexistent/folder/socket\"\n", &[]), (Some(0), String::new()));
    let (status, why) = said("node_piece_bytes = 1\n", &[]);
    assert!(status == Some(1) && why.contains(path) && why.contains("node_piece_bytes = 1"), "{why}");
}

#[test]
fn a_daemon_that_is_not_there_is_named_if_the_user_did() {
    let said = |socket: &str, options: &[&str]| {
        let args = [&["run", "-n", "2"], options, &["--", "true"]].concat();
        let output = ropeway(&args).env("ROPEWAY_SOCKET", socket).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let missing =
        "ropeway: no daemon is running at /nonexistent/socket, which ROPEWAY_SOCKET names; the job brings its own\n";
    assert_eq!(said("/nonexistent/socket", &[]), (Some(0), missing.to_owned()));
    // Nothing is lost that the user has asked for.
    for (socket, options) in
        [("/nonexistent/socket", ["--quiet"]), ("/nonexistent/socket", ["--nodes=2"]), ("", ["--nodes=1"])]
    {
        assert_eq!(said(socket, &options), (Some(0), String::new()));
    }
}

#[test]
fn several_nodes_have_a_daemon_each() {
    let output = run_script(3, &["--nodes", "2"], "echo $ROPEWAY_RANK");
    assert_eq!((output.status.code(), lines(&output)), (Some(0), vec!["0".to_owned(), "1".into(), "2".into()]));
    let output = run_script(2, &["--nodes", "3"], "echo never");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("use -n 3 or more"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "");
    let output = ropeway(&["demo", "--nodes", "1,3", "-n", "2", "--size", "64"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
}

#[test]
fn the_limit_of_open_files_is_the_systems_for_us_and_the_users_for_ranks() {
    let run = |limit: &str, options: &str| {
        let script = format!("ulimit {limit}; exec \"$0\" run {options} -- sh -c 'ulimit -Sn'");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script, env!("CARGO_BIN_EXE_ropeway")]).env("ROPEWAY_SOCKET", "").output().unwrap()
    };
    assert_eq!(lines(&run("-Sn 256", "-n 2")), ["256"; 2]);
    assert!(run("-Sn 64", "-n 8 --nodes 4").status.success());
    let output = run("-n 64", "-n 8 --nodes 4");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("raise the limit with `ulimit -n`"), "{}", stderr(&output));
}
