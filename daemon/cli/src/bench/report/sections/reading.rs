//! How to read the figures, and what the words and symbols mean.

use ropeway_bench::Doubt;

use super::super::section::{Cells, Section};

/// What marks and bars are, and when not to trust them.
pub(super) fn marks() -> Section {
    let rows =
        Doubt::ALL.map(|doubt| vec![doubt.to_string(), doubt.explanation().to_owned(), advice(doubt).to_owned()]);
    Section {
        id: "reading",
        title: "How to read this page",
        meaning: "A mark is a median. The line through it is where the median lies with 95 % confidence; beside other libraries, it is from the \
                  lowest to the highest run. Below each figure are its numbers. Figures with hollow marks, a ~ before or a doubt beside them \
                  are not to be trusted:",
        tables: vec![cells(["doubt", "what it means", "what to do"], rows.into())],
        ..Section::default()
    }
}

fn advice(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::Spread => "stop what else is running, and measure that part again with more --runs",
        Doubt::Oversubscribed => "compare with figures of as many ranks on as many cores only",
        Doubt::Drift => "measure again when the machine is quiet and its clock steady",
        Doubt::Correlated => "measure longer, with more --iters or --runs",
    }
}

/// Words and symbols of the page, in the order in which they are met.
pub(super) fn words() -> Section {
    let rows = WORDS.map(|(word, meaning)| vec![word.to_owned(), meaning.to_owned()]);
    Section {
        id: "words",
        title: "Words and symbols",
        meaning: "Symbols are those of R. P. Dimitrov, Overlapping of Communication and Computation and Early Binding (Mississippi State \
                  University, 2001); docs/boum.md has the equations.",
        tables: vec![cells(["word", "meaning"], rows.into())],
        ..Section::default()
    }
}

fn cells<const N: usize>(heading: [&str; N], rows: Vec<Vec<String>>) -> Cells {
    Cells { heading: heading.map(str::to_owned).into(), rows, ..Cells::default() }
}

const WORDS: [(&str, &str); 22] = [
    ("rank, node", "a process of a parallel program; a daemon with its ranks, of which this machine may hold several"),
    ("one node", "messages go through shared memory"),
    ("two nodes", "messages go over TCP: loopback, or a line with the rate that is named"),
    ("persistent", "bound once by init, then started again and again"),
    ("one-shot", "a call for each message, as most programs do now"),
    ("polling, blocking, adaptive", "a rank that waits looks all the time; sleeps; looks for a while and then sleeps"),
    ("floor", "what the machine takes for the same without any library"),
    ("o_s, o_i, o", "overhead of a message: its set-up and release; its start and completion; both"),
    ("b, R", "time for a byte; overhead beside the time of all bytes, o / (b·m)"),
    ("d_p", "degree of persistence, o_s / (o_s + o_i): the share of the overhead that binding saves"),
    ("saved", "the share of a message's time that binding saves: of half a round trip, beside that of blocking calls"),
    ("d_o", "degree of overlapping: the share of a transfer that computing hides; below 0 it does harm"),
    ("t_x, t_y, t_o", "time of a computation, of a transfer, and of both at once, from which d_o is"),
    ("d_a", "degree of asynchrony: the share of a receive that goes on while the program computes"),
    (
        "t_comm, t_async",
        "time of a receive alone; of its calls when a long computation stands between them, from which d_a is",
    ),
    ("t_start", "time of the start in it"),
    ("half_rtt", "half the time of a message and its answer"),
    ("T_c", "half the time of two ranks that swap arrays: each sends a message and receives one"),
    ("availability", "the share of the processor that is left to the program while messages move"),
    ("t_c", "time of a basic step of the computation, while all ranks compute at once"),
    ("S_c", "how many times as fast binding makes messages"),
    ("E_8, s_best", "how little eight segments cost a message (1: nothing); the best number of segments by the model"),
];
