//! Benchmarks one after the other, as somebody would type them.

use std::time::{Duration, Instant};

use super::machine::Machine;
use super::records::{MACHINE, PART, Part, line};
use crate::bench::ticker::Ticker;
use crate::bench::{Command, Found, measure};
use crate::failure::Failure;
use crate::launch::{Events, LaunchError, Outcome};

/// What to measure, and how long all of it may take.
pub(super) struct Suite {
    parts: &'static [(&'static str, u64)],
    limit: Duration,
}

/// What came of a suite.
pub(super) struct Measured {
    /// One record a line.
    pub(super) records: String,
    /// What went wrong; what can't run on this machine did not.
    pub(super) failure: Option<Failure>,
}

impl Suite {
    /// In less than three minutes.
    pub(super) const QUICK: Self = Self { parts: &QUICK, limit: Duration::from_secs(168) };
    /// In about twenty minutes.
    pub(super) const FULL: Self = Self { parts: &FULL, limit: Duration::from_secs(1500) };

    /// Whether it has at least a shorter form of this.
    fn measures(&self, command: &str) -> bool {
        self.parts.iter().any(|(own, _)| subject(own).eq(subject(command)))
    }

    /// Does all of it within the limit; what it can't do is a record that says why.
    pub(super) fn measure(&self, quiet: bool) -> Result<Measured, Failure> {
        let mut events = Events::from_signals()?;
        Ok(self.measure_by(quiet, |command, deadline, progress| {
            events.set_deadline(deadline);
            run(command, &events, progress)
        }))
    }

    /// The same; `run` measures what a command line asks for, until a moment.
    fn measure_by(&self, quiet: bool, mut run: impl FnMut(&str, Instant, &Ticker) -> Found) -> Measured {
        let begin = Instant::now();
        let total = self.parts.iter().map(|&(_, seconds)| Duration::from_secs(seconds)).sum();
        let mut progress = Ticker::of_suite(quiet, total, self.limit);
        let mut measured = Measured { records: line(MACHINE, Machine::look()), failure: None };
        // What the parts that come before should take, all of them and those that were measured.
        let (mut before, mut measured_in) = (Duration::ZERO, Duration::ZERO);
        for &(command, seconds) in self.parts {
            let budget = Duration::from_secs(seconds);
            progress.begin(command, before, budget);
            before += budget;
            let command = format!("ropeway bench {command}");
            let part = Instant::now();
            let found = match time_for((part - begin, self.limit), measured_in, budget) {
                Some(time) => run(&command, part + time, &progress),
                None => Found { cut_short: Some(Failure::CannotRun(NO_TIME.to_owned())), ..Found::default() },
            };
            // What was cut off has taken at least what it should have.
            if found.cut_short.as_ref().is_none_or(is_out_of_time) {
                measured_in += budget;
            }
            let why = found.cut_short.as_ref().map(Failure::to_string);
            measured.records += &found.records;
            let seconds = (part.elapsed().as_secs_f64() * 10.0).round() / 10.0;
            measured.records += &line(PART, Part { command, seconds, why });
            let failure = found.cut_short.filter(|why| why.code() != CANNOT_RUN && !is_out_of_time(why));
            let is_interrupted = matches!(
                failure,
                Some(Failure::Job(Outcome::Interrupted(_)) | Failure::Launch(LaunchError::Interrupted(_)))
            );
            measured.failure = measured.failure.or(failure);
            if is_interrupted {
                break;
            }
        }
        for (command, _) in FULL.iter().filter(|(command, _)| !self.measures(command)) {
            let command = format!("ropeway bench {command}");
            measured.records += &line(PART, Part { command, seconds: 0.0, why: Some(SHORTENED.to_owned()) });
        }
        progress.finish();
        measured
    }
}

/// How long a part may take that should take so long; `None` if it would not end within the limit. A machine that took longer than
/// what was measured should take is slow, and stays so. A part that takes twice as long even so leaves its time to others.
fn time_for((elapsed, limit): (Duration, Duration), measured: Duration, budget: Duration) -> Option<Duration> {
    let slowness = elapsed.as_secs_f64() / measured.as_secs_f64().max(1.0);
    let (expected, left) = (budget.mul_f64(slowness.max(1.0)), limit.saturating_sub(elapsed));
    (expected <= left).then(|| left.min(2 * expected))
}

/// Whether its time was over, and nothing else wrong.
fn is_out_of_time(why: &Failure) -> bool {
    matches!(why, Failure::Job(Outcome::OutOfTime))
}

/// What a command measures, whatever its options.
fn subject(command: &str) -> impl Iterator<Item = &str> {
    command.split(' ').take_while(|word| !word.starts_with('-'))
}

/// Measures what a command line asks for.
fn run(command: &str, events: &Events, progress: &Ticker) -> Found {
    let asked = Command::typed(command.trim_start_matches("ropeway ")).map_err(Failure::other);
    let found = asked.and_then(|asked| match asked {
        Command::One(flags) => measure(&flags, events, progress),
        Command::Report(_) => unreachable!("a report is no part of a report"),
    });
    found.unwrap_or_else(|failure| Found { cut_short: Some(failure), ..Found::default() })
}

/// The status of what can't run on this machine.
const CANNOT_RUN: u8 = 3;
const NO_TIME: &str = "there was no time left: run it by itself";
const SHORTENED: &str = "not with --quick";

/// Seconds that each takes, with room to spare; the most telling first, in case there is no time for all.
const QUICK: [(&str, u64); 25] = [
    ("latency --sizes 8,1K,64K,1M", 4),
    ("latency --nodes 2 --sizes 8,1K,64K,1M", 4),
    ("overlap --nodes 2 --netns --rate 1gbit --mode persistent --sizes 64K,1M --runs 1", 15),
    ("compare --of latency --sizes 8,64K,1M --runs 3", 15),
    ("compare --nodes 2 --netns --rate 1gbit --of overlap --sizes 64K --runs 1", 21),
    ("compare --of asynchrony --sizes 64K,1M --runs 1", 6),
    ("compare --of persistence --sizes 8,64K --runs 1", 4),
    ("asynchrony --sizes 64K,1M", 6),
    ("persistence --sizes 8,64K", 1),
    ("asynchrony --nodes 2 --mode persistent --wait polling,blocking --progress both --sizes 1M", 1),
    ("transparency --of cg --wait polling --sizes 64K --runs 3", 5),
    ("overhead --wait polling,blocking --sizes 8,64K", 6),
    ("overhead --nodes 2 --wait polling,blocking --sizes 8,64K", 6),
    ("overhead --nodes 2 --netns --rate 1gbit --wait polling,blocking --mode persistent --sizes 64K --runs 1", 6),
    ("boum --wait adaptive --unknowns 1024 --points 64K --sizes 8,64K --runs 1", 14),
    ("segments --points 256K --iters 30 --runs 2", 5),
    ("persistence --nodes 2 --sizes 8,64K", 2),
    ("asynchrony --nodes 2 --sizes 64K,1M", 6),
    ("bandwidth --sizes 64K,1M", 5),
    ("bandwidth --nodes 2 --sizes 64K,1M", 7),
    ("wakeup", 1),
    ("idle -n 8 --seconds 2", 3),
    ("coll barrier -n 4", 2),
    ("coll allreduce -n 4 --sizes 8,64K,1M", 6),
    ("skew --seconds 0.2 --sizes 8,64K,1M", 2),
];

const FULL: [(&str, u64); 42] = [
    ("latency --sizes 8,64,512,1K,4K,8K,16K,64K,256K,1M,4M", 14),
    ("latency --nodes 2 --sizes 8,64,512,1K,4K,8K,16K,64K,256K,1M,4M", 14),
    ("latency --wait blocking --sizes 8,1K,64K,1M", 6),
    ("overlap --nodes 2 --netns --rate 1gbit --sizes 64K,256K,1M --runs 3", 40),
    ("overlap --nodes 2 --netns --rate 1gbit --of allreduce,alltoall --sizes 64K,1M --runs 3", 40),
    ("compare --of latency,bandwidth --runs 5", 90),
    ("compare --nodes 2 --of latency,bandwidth --runs 5", 90),
    ("compare -n 4 --of barrier,bcast,allreduce,allgather,alltoall --runs 4", 150),
    ("compare --nodes 2 --netns --rate 1gbit --of overlap --sizes 64K,1M --runs 4", 90),
    ("compare --nodes 2 --netns --rate 1gbit --of overlap:allreduce,overlap:alltoall --sizes 64K --runs 4", 60),
    ("compare --of asynchrony,persistence --runs 4", 60),
    ("compare --nodes 2 --of asynchrony,persistence --runs 4", 60),
    ("compare --nodes 2 --of overhead --sizes 8,64K,1M --runs 4", 40),
    ("transparency --runs 4", 60),
    ("boum --wait adaptive --runs 5", 150),
    ("segments --nodes 2 --netns --rate 1gbit --points 512K --iters 30", 45),
    ("persistence --sizes 8,64,512,1K,4K,8K,64K,256K,1M", 11),
    ("persistence --nodes 2 --sizes 8,64,512,1K,4K,8K,64K,256K,1M", 11),
    ("overhead --wait polling,blocking --sizes 8,1K,64K,1M", 9),
    ("overhead --nodes 2 --wait polling,blocking --sizes 8,1K,64K,1M", 9),
    ("overhead --nodes 2 --netns --rate 1gbit --wait polling,blocking --mode persistent --sizes 8,1K,64K --runs 2", 15),
    ("asynchrony", 12),
    ("asynchrony --nodes 2", 12),
    ("asynchrony --mode persistent --wait polling,blocking --progress both --sizes 1M", 4),
    ("asynchrony --nodes 2 --mode persistent --wait polling,blocking --progress both --sizes 1M", 4),
    (
        "overlap --nodes 2 --netns --rate 1gbit --mode persistent --wait polling,blocking --progress both --sizes 1M --runs 2",
        40,
    ),
    ("bandwidth --sizes 64,1K,8K,64K,256K,1M,4M", 18),
    ("bandwidth --nodes 2 --sizes 64,1K,8K,64K,256K,1M,4M", 18),
    ("stream", 6),
    ("stream --nodes 2", 6),
    ("message-rate -n 4", 10),
    ("cpu --sizes 64K,1M", 6),
    ("cpu --nodes 2 --sizes 64K,1M", 6),
    ("coll barrier -n 4", 3),
    ("coll bcast -n 4", 8),
    ("coll allreduce -n 4", 8),
    ("coll allgather -n 4", 8),
    ("coll alltoall -n 4", 8),
    ("coll allreduce -n 4 --nodes 2 --division two-level,flat", 20),
    ("wakeup", 2),
    ("skew", 25),
    ("idle -n 64", 12),
];

#[cfg(test)]
mod tests {
    use super::super::page::html;
    use super::super::records::Records;
    use super::*;
    use ropeway_daemon::Config;

    use crate::launch::{Daemons, Ending, Input, Launch, Output, Program, Running};

    #[test]
    fn every_part_can_be_typed_and_all_of_them_take_less_than_the_limit() {
        for suite in [Suite::QUICK, Suite::FULL] {
            for (command, _) in suite.parts {
                let is_understood = Command::typed(&format!("bench {command}")).is_ok_and(|asked| match asked {
                    Command::One(flags) => flags.is_understood(),
                    Command::Report(_) => false,
                });
                assert!(is_understood, "{command}");
            }
            let total: u64 = suite.parts.iter().map(|(_, seconds)| seconds).sum();
            assert!(Duration::from_secs(total) <= suite.limit);
        }
    }

    #[test]
    fn a_slow_machine_measures_less() {
        let s = Duration::from_secs;
        assert_eq!(time_for((s(0), s(160)), s(0), s(7)), Some(s(14)));
        assert_eq!(time_for((s(140), s(160)), s(140), s(20)), Some(s(20)));
        assert_eq!(time_for((s(161), s(160)), s(140), s(1)), None);
        // Twice as slow: 11 seconds take 22.
        assert_eq!(time_for((s(140), s(162)), s(70), s(11)), Some(s(22)));
        assert_eq!(time_for((s(140), s(161)), s(70), s(11)), None);
        assert_eq!(time_for((s(20), s(160)), s(10), s(11)), Some(s(44)));
    }

    /// A part that would take an hour, and has a record before it is cut off.
    fn an_hour(events: &Events) -> Found {
        let daemons = Daemons::embedded(1, &Config::default()).unwrap();
        let launch = Launch {
            program: Program::find("sleep".as_ref(), &["3600".into()]).unwrap(),
            ranks: 1,
            wait: None,
            timeout_at: None,
            input: Input::Tool,
            output: Output::Tool,
            ending: Ending::Together,
        };
        let outcome = Running::start(&launch, &daemons, events).unwrap().wait();
        let records = "{\"bench\":\"idle\",\"metric\":\"client_cpu\"}\n".to_owned();
        Found { records, cut_short: Some(Failure::Job(outcome)), ..Found::default() }
    }

    #[test]
    fn a_part_that_takes_too_long_is_cut_off_and_the_next_is_left_out() {
        let suite = Suite { parts: &[("idle", 1), ("skew", 1)], limit: Duration::from_secs(3) };
        let (mut events, mut begun) = (Events::from_signals().unwrap(), Vec::new());
        let measured = suite.measure_by(true, |command, deadline, _| {
            begun.push(command.to_owned());
            events.set_deadline(deadline);
            an_hour(&events)
        });
        assert_eq!(begun, ["ropeway bench idle"]);
        assert!(measured.failure.is_none(), "{:?}", measured.failure);
        let records = Records::parse(&measured.records).unwrap();
        assert_eq!(records.of("idle", "client_cpu").len(), 1);
        let why = |index: usize| records.parts[index].why.as_deref();
        assert_eq!(why(0), Some("there was no time left for all of it: run it by itself"));
        assert_eq!(why(1), Some(NO_TIME));
        assert!(html(&records).contains("there was no time left for all of it"));
    }

    #[test]
    fn what_has_a_shorter_form_is_not_left_out() {
        let left_out = FULL.iter().filter(|(command, _)| !Suite::QUICK.measures(command));
        let left_out: Vec<_> = left_out.map(|(command, _)| *command).collect();
        assert!(
            left_out.contains(&"coll bcast -n 4") && !left_out.contains(&"latency --wait blocking --sizes 8,1K,64K,1M")
        );
        assert!(FULL.iter().all(|(command, _)| Suite::FULL.measures(command)));
    }
}
