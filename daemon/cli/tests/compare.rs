//! `ropeway bench compare` and `transparency`, against libraries that are none: scripts that answer as MPI's programs do.

mod tool;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tool::{Running, has_namespaces, records, ropeway, stderr, stdout};

/// A library in `prefix`. Its compiler makes a program that does what `program` says, and its launcher runs that.
fn install(prefix: &Path, program: &str) {
    install_with(prefix, program, "exec \"$@\"");
}

/// The same with a launcher that does what `launch` says with the command `$@`.
fn install_with(prefix: &Path, program: &str, launch: &str) {
    let bin = prefix.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let write = |name: &str, text: String| {
        let path = bin.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    };
    // mpicc -O2 -o PROGRAM SOURCE
    write("mpicc", format!("#!/bin/sh\nprintf '#!/bin/sh\\n{program}\\n' > \"$3\" && chmod +x \"$3\"\n"));
    let run = format!("while [ ! -x \"$1\" ]; do shift; done; {launch}");
    write("mpiexec", format!("#!/bin/sh\n[ \"$1\" = --version ] && echo 'HYDRA\nVersion: 9.8.7' && exit\n{run}\n"));
}

/// Compares with the library in `prefix`, and with none that happens to be on this machine.
fn compare(prefix: &Path) -> Output {
    bench(&["compare", "--of", "latency"], prefix)
}

fn bench(what: &[&str], prefix: &Path) -> Output {
    bench_as_table(&[what, &["--json"]].concat(), prefix)
}

fn bench_as_table(what: &[&str], prefix: &Path) -> Output {
    let tools = tools();
    command(what, prefix, tools.path()).output().unwrap()
}

/// Programs that scripts need, and no MPI library.
fn tools() -> TempDir {
    let tools = tempfile::tempdir().unwrap();
    for tool in ["sh", "env", "chmod", "rm", "sleep"] {
        symlink(Path::new("/bin").join(tool), tools.path().join(tool)).unwrap();
    }
    tools
}

fn command(what: &[&str], prefix: &Path, tools: &Path) -> Command {
    let mut command = ropeway(&[&["bench"], what, &["--runs", "2", "--sizes", "8,64"]].concat());
    command.env("PATH", tools).env_remove("ROPEWAY_PEERS").arg("--peer").arg(prefix);
    command
}

#[test]
fn a_peer_is_measured_in_turns_and_the_ratio_reported() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo version none; echo 8 1000000; echo 64 2000000");
    let output = compare(prefix.path());
    assert!(output.status.success(), "{output:?}");
    let records = records(&output);
    // Two sizes, persistent, nonblocking and blocking.
    assert_eq!(records.len(), 2 * 3);
    for record in records {
        assert_eq!(record["peer"], "MPICH 9.8.7");
        assert_eq!(
            (&record["bench"], &record["metric"], &record["unit"]),
            (&"compare".into(), &"half_rtt".into(), &"us".into())
        );
        let (median, peer) = (record["median"].as_f64().unwrap(), record["peer_median"].as_f64().unwrap());
        assert!(median > 0.0 && peer == 1e6 * record["bytes"].as_f64().unwrap().log(8.0));
        let ratio = |key: &str| record[key].as_f64().unwrap();
        assert_eq!(record["verdict"], "too few runs");
        assert!(ratio("p") > 0.3);
        assert!(
            ratio("ratio_min") <= ratio("ratio") && ratio("ratio") <= ratio("ratio_max") && ratio("ratio_max") < 1.0
        );
    }
}

#[test]
fn our_daemons_counts_come_with_the_records_of_their_size() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1000000; echo 64 2000000");
    for (what, lines) in [(["compare", "--of", "latency"], 2), (["transparency", "--of", "cg"], 4)] {
        let output = bench(&[&what[..], &["--counters"]].concat(), prefix.path());
        assert!(output.status.success(), "{output:?}");
        for record in records(&output) {
            let commands = record["counters"]["commands"].as_u64().unwrap();
            // Small one-shot messages don't need the daemon.
            assert!(commands > 0 || record["mode"] == "oneshot", "{record}");
            // Programs allocate memory themselves.
            let allocations = record["counters"]["allocations"].as_u64();
            assert_eq!(allocations, (record["mode"] == "persistent").then_some(0), "{record}");
        }
        // Once for each size and way to wait, whatever the peers did.
        let table = stdout(&bench_as_table(&[&what[..], &["--counters"]].concat(), prefix.path()));
        assert_eq!(table.lines().filter(|line| line.starts_with("counted, ")).count(), lines, "{table}");
    }
}

#[test]
fn programs_of_blocking_calls_are_compared_polling_and_blocking() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1000000; echo 64 2000000");
    let output = bench(&["transparency", "-n", "3"], prefix.path());
    assert!(output.status.success(), "{output:?}");
    let records = records(&output);
    let rows: Vec<_> = records.iter().map(|record| (&record["of"], &record["wait"], &record["bytes"])).collect();
    let rows: Vec<_> =
        rows.into_iter().map(|(of, wait, bytes)| format!("{of} {wait} {bytes}").replace('"', "")).collect();
    let expected = ["is polling 8", "is polling 64", "is blocking 8", "is blocking 64"];
    let expected = expected.into_iter().flat_map(|row| [row.to_owned(), row.replace("is", "cg")]);
    assert_eq!(BTreeSet::from_iter(rows), expected.collect());
    for record in records {
        assert_eq!(
            [&record["bench"], &record["metric"], &record["unit"], &record["mode"], &record["peer_mode"]],
            ["transparency", "time", "us", "oneshot", "blocking"]
        );
        let ratio = record["ratio"].as_f64().unwrap();
        assert!(0.0 < ratio && ratio < 1.0, "{record}");
    }
}

#[test]
fn transparency_is_about_programs() {
    let output = bench(&["transparency", "--of", "cg,latency"], Path::new("/nonexistent/mpi"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("transparency --of takes is and cg: for latency see compare"), "{output:?}");
    let output = bench(&["compare", "--of", "cg", "--touch"], Path::new("/nonexistent/mpi"));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cg writes what it sends: leave --touch out"), "{output:?}");
}

#[test]
fn a_peer_that_fails_is_left_out_and_named() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo oops >&2; exit 7");
    let output = compare(prefix.path());
    assert_eq!((output.status.code(), records(&output).len()), (Some(3), 0), "{output:?}");
    assert!(stderr(&output).contains("MPICH 9.8.7 (persistent) is left out"), "{output:?}");
    assert!(stderr(&output).contains("none of the MPI libraries could be compared with"), "{output:?}");
    // There is nothing for a table.
    let output = bench_as_table(&["compare", "--of", "latency"], prefix.path());
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""), "{output:?}");
}

#[test]
fn every_collective_can_be_compared() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1000000; echo 64 2000000");
    let output = bench(
        &[
            "compare",
            "--of",
            "bcast,reduce,allreduce,reduce-scatter,scan,exscan,gather,scatter,allgather,alltoall,neighbor-allgather,neighbor-alltoall",
        ],
        prefix.path(),
    );
    assert!(output.status.success(), "{output:?}");
    // Two sizes, in all forms.
    assert_eq!(records(&output).len(), 12 * 2 * 3);
    for record in records(&output) {
        assert_eq!(record["op"], record["of"]);
    }
    assert!(stderr(&output).contains("\nalltoall, "), "{output:?}");
}

#[test]
fn others_forms_are_those_that_a_contest_has() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1000000; echo 64 2000000");
    let all = ["blocking", "nonblocking", "persistent"].as_slice();
    // A window is many messages at once.
    for (of, expected) in [("latency", all), ("exchange", all), ("allgather", all), ("bandwidth", &all[1..])] {
        let records = records(&bench(&["compare", "--of", of], prefix.path()));
        let forms: BTreeSet<_> = records.iter().map(|record| record["peer_mode"].as_str().unwrap()).collect();
        assert!(forms.iter().eq(expected), "{of}: {forms:?}");
    }
}

#[test]
fn records_say_whether_there_are_more_ranks_than_cores() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1000000; echo 64 2000000");
    for what in [["compare", "--of", "latency"], ["transparency", "--of", "cg"]] {
        let records = records(&bench(&what, prefix.path()));
        assert!(!records.is_empty());
        for record in records {
            let is_more = record["ranks"].as_u64() > record["cores"].as_u64();
            assert_eq!(record["oversubscribed"], is_more, "{record}");
        }
    }
}

#[test]
fn shares_are_compared_by_their_difference() {
    let prefix = tempfile::tempdir().unwrap();
    // For each side and computation: what hides, of how long a transfer, and what is left of the processor.
    let figures = |share: &str| format!("{share} 1000000 0.5 ").repeat(6);
    install(prefix.path(), &format!("echo 8 {}; echo 64 {}", figures("-0.25"), figures("0.75")));
    let output = bench(&["compare", "--of", "overlap"], prefix.path());
    assert!(output.status.success(), "{output:?}");
    let records = records(&output);
    // Two sizes, six cases, three figures, persistent and nonblocking.
    assert_eq!(records.len(), 2 * 6 * 3 * 2);
    let cases: BTreeSet<_> =
        records.iter().map(|record| format!("{} {}", record["side"], record["compute"]).replace('"', "")).collect();
    let expected = ["both busy", "both sleep", "recv busy", "recv sleep", "send busy", "send sleep"];
    assert!(cases.iter().eq(&expected), "{cases:?}");
    for record in &records {
        let figure = |key: &str| record[key].as_f64();
        match record["metric"].as_str().unwrap() {
            "d_o" => {
                let theirs = if record["bytes"] == 8 { -0.25 } else { 0.75 };
                assert_eq!((&record["unit"], figure("peer_median")), (&"ratio".into(), Some(theirs)));
                let [least, middle, most] =
                    ["difference_min", "difference", "difference_max"].map(|key| figure(key).unwrap());
                assert!(least <= middle && middle <= most, "{record}");
                // Summaries round to five digits.
                assert!((least..=most).contains(&middle) && (figure("min").unwrap() - theirs - least).abs() < 1e-3);
                assert_eq!(figure("ratio"), None);
            }
            "t_y" => assert!(figure("ratio").unwrap() < 1.0 && figure("difference").is_none(), "{record}"),
            other => assert_eq!(other, "availability"),
        }
    }
    let table = stderr(&output);
    // The share and what it is a share of, of the better form alone, or of both if they are equally good.
    assert_eq!(
        table.lines().filter(|line| line.starts_with("d_o ") && line.contains(" t_y ")).count(),
        2 * 6 * 2,
        "{table}"
    );
}

#[test]
fn what_hides_of_collectives_goes_on_and_is_bound_can_be_compared() {
    let prefix = tempfile::tempdir().unwrap();
    for (of, figures, expected) in [
        ("overlap:allreduce", 2 * 3, ["d_o", "t_y", "availability"].as_slice()),
        ("asynchrony", 2 * 3, &["d_a", "t_comm", "t_async"]),
        ("persistence", 5, &["d_p", "o", "o_s", "o_i", "saved"]),
        ("overhead", 3, &["start_send", "start_recv", "wait_done"]),
    ] {
        let of_size = "0.5 ".repeat(figures);
        install(prefix.path(), &format!("echo 8 {of_size}; echo 64 {of_size}"));
        let output = bench(&["compare", "--nodes", "2", "--of", of, "--counters"], prefix.path());
        assert!(output.status.success(), "{output:?}");
        let records = records(&output);
        let metrics: BTreeSet<_> = records.iter().map(|record| record["metric"].as_str().unwrap()).collect();
        assert_eq!(metrics, expected.iter().copied().collect());
        for record in &records {
            assert_eq!(Some(record["of"].as_str().unwrap()), of.split(':').next());
            assert_eq!(record.get("op").map(|op| op.as_str().unwrap()), of.split(':').nth(1));
            // What is started again and again was registered before. What was counted comes with the first figure of a case.
            let allocations = record["counters"]["allocations"].as_u64();
            let is_counted = of == "overhead" || expected[0] == record["metric"];
            match of {
                "persistence" => assert_eq!(allocations.is_some(), is_counted, "{record}"),
                _ => assert_eq!(allocations, is_counted.then_some(0), "{record}"),
            }
        }
    }
}

#[test]
fn without_what_places_ranks_in_namespaces_there_is_no_comparing_there() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "echo 8 1; echo 64 1");
    let output = bench(&["compare", "--of", "latency", "--nodes", "2", "--netns"], prefix.path());
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("there is no nsenter: install util-linux and mount, or leave --netns out"),
        "{output:?}"
    );
}

#[test]
fn ranks_of_others_are_in_the_namespaces_of_the_nodes() {
    if !has_namespaces() {
        return;
    }
    let prefix = tempfile::tempdir().unwrap();
    let seen = prefix.path().join("seen");
    // Each rank says in which network it is, and which interfaces it finds.
    let rank = format!("echo $(readlink /proc/self/ns/net) /sys/class/net/* >> {}", seen.display());
    // The first command of the launcher's line has the second one's words for arguments, and ignores them.
    let next = "while [ \"$1\" != nsenter ]; do shift; done; \"$@\"";
    install_with(prefix.path(), &rank, "");
    let line = format!("[ \"$1\" = --version ] && echo 'HYDRA\nVersion: 9.8.7' && exit\n{next}; shift; {next}");
    let launcher = format!("#!/bin/sh\n{line}; echo 8 1000000; echo 64 1000000\n");
    fs::write(prefix.path().join("bin/mpiexec"), launcher).unwrap();
    let tools = tools();
    for tool in ["ip", "tc", "nsenter", "unshare", "mount", "readlink"] {
        let places = ["/bin", "/sbin", "/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(tool));
        symlink(places.iter().find(|place| place.exists()).unwrap(), tools.path().join(tool)).unwrap();
    }
    let what = ["compare", "--of", "latency", "--nodes", "2", "--netns", "--rate", "1gbit", "--json"];
    let output = command(&what, prefix.path(), tools.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let records = records(&output);
    assert_eq!(records.len(), 2 * 3, "{output:?}");
    assert!(records.iter().all(|record| record["rate"] == "1gbit" && record["netns"] == true));
    let seen = fs::read_to_string(seen).unwrap();
    let ranks: Vec<_> = seen.lines().collect();
    // Two runs of three forms on two nodes, the first before the second.
    assert_eq!(ranks.len(), 2 * 3 * 2, "{seen}");
    let own = fs::read_link("/proc/self/ns/net").unwrap();
    for pair in ranks.chunks(2) {
        assert!(pair[0] != pair[1] && !pair.iter().any(|rank| rank.starts_with(own.to_str().unwrap())), "{seen}");
        assert!(pair.iter().all(|rank| rank.contains("/ropeway0")), "{seen}");
    }
}

#[test]
fn an_interrupt_lets_launchers_clear_up_behind_their_ranks() {
    for (signal, status) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
        let prefix = tempfile::tempdir().unwrap();
        let [segment, started] = ["segment", "started"].map(|name| prefix.path().join(name));
        // A rank that is asked to end by its launcher removes its segment, and by SIGTERM does not.
        let rank = format!("trap \"rm {0}; exit\" USR1; : > {0}; sleep 3600 & wait", segment.display());
        let launcher = format!(
            "trap \"kill -USR1 \\$rank; wait \\$rank; exit 1\" TERM; \"$@\" & rank=$!; : > {}; wait $rank",
            started.display()
        );
        install_with(prefix.path(), &rank, &launcher);
        let tools = tools();
        let mut command = command(&["compare", "--of", "latency", "--quiet"], prefix.path(), tools.path());
        let mut tool = Running::start(command.stdout(Stdio::piped()));
        while !(segment.exists() && started.exists()) {
            assert_eq!(tool.try_wait().unwrap(), None, "it ended before it was interrupted");
            std::thread::yield_now();
        }
        tool.signal(signal);
        let output = tool.output();
        // No table of nothing.
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(status), ""));
        assert!(!segment.exists(), "a segment was left behind by {signal}");
    }
}

#[test]
fn what_does_not_build_is_named_and_an_interrupt_is_no_compiler_that_fails() {
    let prefix = tempfile::tempdir().unwrap();
    install(prefix.path(), "");
    let compiler = prefix.path().join("bin/mpicc");
    fs::write(&compiler, "#!/bin/sh\necho 'no mpi.h' >&2; echo more >&2; exit 1\n").unwrap();
    let output = compare(prefix.path());
    assert_eq!(output.status.code(), Some(3));
    assert!(
        stderr(&output).contains("MPICH 9.8.7 is left out, it does not build programs here: no mpi.h\n"),
        "{output:?}"
    );
    let [started, ended] = ["started", "ended"].map(|name| prefix.path().join(name));
    let (begin, wait) =
        (format!(": > {}", started.display()), format!("while [ ! -e {} ]; do :; done", ended.display()));
    fs::write(&compiler, format!("#!/bin/sh\n{begin}; {wait}; exit 1\n")).unwrap();
    let tools = tools();
    let mut command = command(&["compare", "--of", "latency", "--quiet"], prefix.path(), tools.path());
    let mut tool = Running::start(command.stdout(Stdio::piped()));
    while !started.exists() {
        assert_eq!(tool.try_wait().unwrap(), None, "it ended before it was interrupted");
        std::thread::yield_now();
    }
    tool.signal(Signal::SIGINT);
    fs::write(&ended, "").unwrap();
    let output = tool.output();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(130), ""));
}

#[test]
fn runs_that_were_complete_before_an_interrupt_are_reported() {
    let prefix = tempfile::tempdir().unwrap();
    let [persistent, nonblocking, second] = ["1", "2", "3"].map(|name| prefix.path().join(name));
    // Answers once to either kind of requests, and then hangs.
    let figures = "echo 8 1000000; echo 64 2000000";
    let program = format!(
        "if [ ! -e {0} ]; then : > {0}; {figures}; elif [ ! -e {1} ]; then : > {1}; {figures}; else : > {2}; exec sleep 3600; fi",
        persistent.display(),
        nonblocking.display(),
        second.display()
    );
    install(prefix.path(), &program);
    let tools = tools();
    let mut command = command(&["compare", "--of", "bandwidth", "--json", "--quiet"], prefix.path(), tools.path());
    let mut tool = Running::start(command.stdout(Stdio::piped()));
    while !second.exists() {
        assert_eq!(tool.try_wait().unwrap(), None, "it ended before it was interrupted");
        std::thread::yield_now();
    }
    tool.signal(Signal::SIGINT);
    let output = tool.output();
    assert_eq!(output.status.code(), Some(130));
    let runs: Vec<_> = records(&output).iter().map(|record| record["runs"].as_u64().unwrap()).collect();
    assert_eq!(runs, [1; 4]);
}

#[test]
fn a_place_without_a_library_is_an_error() {
    let output = compare(Path::new("/nonexistent/mpi"));
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("there is no MPI library at /nonexistent/mpi: name its mpicc"));
}

#[test]
fn without_any_library_it_says_how_to_get_one() {
    let prefix = tempfile::tempdir().unwrap();
    let mut command = ropeway(&["bench", "compare"]);
    command.env("PATH", prefix.path()).env_remove("ROPEWAY_PEERS");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("install one"), "{output:?}");
}

#[test]
fn ranks_that_are_not_pairs_are_an_error() {
    for ranks in ["1", "3"] {
        let output = ropeway(&["bench", "compare", "-n", ranks]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("are not pairs"), "{output:?}");
    }
    let output = ropeway(&["bench", "transparency", "-n", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("transparency needs at least 2 ranks: use -n 2"), "{output:?}");
}

#[test]
fn a_place_without_a_library_is_refused_also_beside_one_that_has_it() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path(), "exit 1");
    let output = ropeway(&["bench", "compare", "--of", "latency", "--peer", "/bin/ls", "--peer"])
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("/bin/ls is no MPI library"), "{}", stderr(&output));
}
