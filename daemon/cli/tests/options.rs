//! Options of `ropeway bench` that mean nothing to a benchmark are refused, and what is to be done is said.

mod tool;

use tool::{ropeway, stderr, stdout};

/// What is said of a benchmark with an option that means nothing to it.
const REFUSED: [(&str, &str); 38] = [
    ("compare --mode persistent", "--mode means nothing to compare: our messages are persistent"),
    (
        "compare --iters 3",
        "--iters means nothing to compare: a batch takes 20 ms on either side; --runs makes more of them",
    ),
    ("compare --warmup 3", "--warmup means nothing to compare"),
    ("compare --seconds 1", "--seconds means nothing to compare: see --runs and --iters"),
    ("compare --pin", "--pin means nothing to compare: both sides are pinned where there are cores"),
    ("compare --attach", "--attach means nothing to compare: it starts its own daemons"),
    ("compare --netns", "--netns joins nodes, so it needs at least two: use --nodes 2"),
    ("compare --nodes 2 --rate 1gbit", "--rate is that of lines between namespaces, so add --nodes 2 --netns"),
    ("compare --of overlap:bcast --touch", "overlap:bcast writes what it sends: leave --touch out"),
    ("compare --progress both", "--progress means nothing to compare: see overlap and asynchrony"),
    ("compare --root 1", "--root, --op, --uneven, --algorithm or --division means nothing to compare: see coll"),
    ("compare bcast", "OPERATION means nothing to compare: see coll, and --of of overlap and compare"),
    ("compare --points 1K", "--points means nothing to compare: see boum and segments"),
    ("compare --of barrier --sizes 8", "a barrier has no size and no data: leave --sizes and --touch out"),
    ("compare --of barrier --touch", "a barrier has no size and no data: leave --sizes and --touch out"),
    ("transparency --mode oneshot", "its programs use blocking calls; for persistent messages see compare"),
    ("transparency --touch", "--touch means nothing to transparency: see compare"),
    ("latency --sizes 8,0", "--sizes 0 means nothing to latency: use 1 or more, or see overhead and boum"),
    ("latency --of cg", "--of means nothing to latency: see overlap, compare and transparency"),
    ("latency --peer /opt/mpi", "--peer means nothing to latency: see compare and transparency"),
    ("latency --touch", "--touch means nothing to latency: see compare"),
    ("latency --seconds 1", "--seconds means nothing to latency: see --runs and --iters"),
    ("latency --progress both", "--progress means nothing to latency: see overlap and asynchrony"),
    ("bandwidth --wait polling,blocking", "more than one --wait means nothing to bandwidth: ask for one at a time"),
    ("wakeup --wait blocking,polling", "ranks that poll never sleep: use --wait blocking"),
    ("stream --beside-links 4", "--beside-links means nothing to stream: see latency"),
    ("latency --points 1K", "--points means nothing to latency: see boum and segments"),
    ("coll bcast --progress both", "--progress means nothing to coll: ranks drive collectives with --division flat"),
    ("coll bcast --of bcast", "--of means nothing to coll"),
    ("coll barrier --sizes 8", "a barrier has no size: leave --sizes out"),
    ("overlap --of barrier --sizes 8", "a barrier has no size: leave --sizes out"),
    (
        "persistence --mode persistent",
        "--mode means nothing to persistence: its messages are persistent, so leave it out",
    ),
    ("idle --sizes 8", "--sizes means nothing to idle: idle ranks send nothing"),
    ("idle --iters 8", "--iters means nothing to idle: see --seconds"),
    ("boum --segments 4", "--segments means nothing to boum: see segments"),
    ("boum --pin", "--pin means nothing to boum: its programs are not pinned"),
    ("segments --sizes 8", "--sizes means nothing to segments: sizes follow from --points and --segments"),
    ("segments --unknowns 64", "--unknowns means nothing to segments: see boum"),
];

#[test]
fn what_means_nothing_is_refused_with_the_way_out() {
    for (line, why) in REFUSED {
        let output = ropeway(&["bench"]).args(line.split(' ')).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{line}");
        assert!(stderr(&output).contains(why), "{line}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1, "{line}");
    }
}

#[test]
fn the_help_of_a_benchmark_shows_what_it_heeds() {
    let shows = |name: &str, option: &str| {
        let output = ropeway(&["bench", name, "--help"]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let help = stdout(&output);
        assert!(help.contains(&format!("Usage: ropeway bench {name}")), "{help}");
        help.lines().any(|line| line.trim_start().split(' ').next() == Some(option))
    };
    for (line, why) in REFUSED {
        let Some((refused, _)) = why.split_once(" means nothing to ") else { continue };
        let Some(option) =
            refused.split([',', ' ']).next().filter(|_| refused != "--sizes 0" && refused.starts_with("--"))
        else {
            continue;
        };
        assert!(!shows(line.split(' ').next().unwrap(), option), "{line}");
    }
    for (name, option) in [
        ("overlap", "--of"),
        ("coll", "<OPERATION>"),
        ("boum", "--unknowns"),
        ("idle", "--seconds"),
        ("transparency", "--counters"),
    ] {
        assert!(shows(name, option), "{name}: {option}");
    }
}

#[test]
fn the_overview_names_all_benchmarks_and_what_they_share() {
    let overview = stdout(&ropeway(&["bench", "--help"]).output().unwrap());
    for shown in ["\n  latency ", "\n  segments ", "\n  report ", "--sizes", "--json"] {
        assert!(overview.contains(shown), "{shown}: {overview}");
    }
    for special in ["--unknowns", "--touch", "--division"] {
        assert!(!overview.contains(special), "{special}: {overview}");
    }
}
