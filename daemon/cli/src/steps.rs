//! The tool's end of the console: follows a job of its own ranks, step by step.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::time::{Duration, Instant};

use ropeway::WaitMode;
use ropeway_bench::Line;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::launch::{Daemons, Ending, Events, Input, Launch, Next, Outcome, Output, Running};
use crate::rank::Task;

/// What was counted of daemons and ranks, by its name.
pub(crate) type Counters = BTreeMap<String, u64>;

/// How often ranks have allocated memory in the calls that were measured.
pub(crate) const ALLOCATIONS: &str = "allocations";

/// A job that does a task.
pub(crate) struct Steps<'a> {
    pub(crate) task: Task,
    pub(crate) ranks: u32,
    pub(crate) wait: Option<WaitMode>,
    pub(crate) daemons: &'a Daemons,
    pub(crate) events: &'a Events,
}

/// What the tool has seen itself while the ranks did the steps of a label.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// CPU time of the daemons.
    pub(crate) daemon_cpu: Duration,
    /// Duration of each step.
    pub(crate) elapsed: Duration,
    /// What the daemons have counted, and the ranks.
    pub(crate) counters: Option<Counters>,
}

/// What a job tells.
pub(crate) enum Told<T> {
    /// A step of this label begins.
    Step(String),
    /// What came of the steps of a label, and what was seen meanwhile.
    Outcome(T, Seen),
}

impl Steps<'_> {
    /// Runs the job, and hands on what it tells. Ranks do no step before it was heard of.
    pub(crate) fn follow<T: DeserializeOwned>(
        &self,
        mut hear: impl FnMut(Told<T>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let launch = Launch {
            program: self.task.program()?,
            ranks: self.ranks,
            wait: self.wait,
            timeout_at: None,
            input: Input::Tool,
            output: Output::Tool,
            ending: Ending::Together,
        };
        let mut running = Running::start(&launch, self.daemons, self.events)?;
        let mut before = None;
        let mut seen: HashMap<String, Seen> = HashMap::new();
        loop {
            let line = match running.next() {
                Next::Line(line) => line,
                Next::Ended(Outcome::Success) => return Ok(()),
                Next::Ended(outcome) => return Err(Failure::Job(outcome)),
            };
            match serde_json::from_str(&line).map_err(Failure::other)? {
                Line::Ready(label) => {
                    hear(Told::Step(label))?;
                    before = Some(self.look_before(&mut running)?);
                    answer(&mut running)?;
                }
                Line::Done { label, allocations } => {
                    let after = self.look_after(&mut running)?;
                    answer(&mut running)?;
                    if let Some(before) = before.take() {
                        seen.entry(label).or_default().add(&before, &after, allocations);
                    }
                }
                Line::Outcome { label, value } => hear(Told::Outcome(value, seen.remove(&label).unwrap_or_default()))?,
            }
        }
    }

    /// Asking daemons takes time: here, before the clocks are read.
    fn look_before(&self, running: &mut Running<'_>) -> Result<Look, Failure> {
        let counters = self.count(running)?;
        Ok(Look { at: Instant::now(), cpu: self.daemons.cpu_time()?, counters })
    }

    /// And here, afterwards.
    fn look_after(&self, running: &mut Running<'_>) -> Result<Look, Failure> {
        let (at, cpu) = (Instant::now(), self.daemons.cpu_time()?);
        Ok(Look { at, cpu, counters: self.count(running)? })
    }

    /// What was counted until now. What ranks have registered is over by then.
    fn count(&self, running: &mut Running<'_>) -> Result<Option<Counters>, Failure> {
        if self.daemons.has_counters() {
            running.settle()?;
        }
        Ok(self.daemons.counters())
    }
}

/// Lets rank 0 go on. If it is not there to read it, its end comes next.
fn answer(running: &mut Running<'_>) -> Result<(), Failure> {
    match running.answers().map_or(Ok(()), |rank| rank.write_all(b"\n")) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Other("can't talk to rank 0".to_owned()))
        }
        _ => Ok(()),
    }
}

/// Clocks and counters at a moment.
struct Look {
    at: Instant,
    cpu: Duration,
    counters: Option<Counters>,
}

impl Seen {
    /// What was counted in all of these; `None` if nobody could look.
    pub(crate) fn counted<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Counters> {
        let mut sums = None;
        for (label, count) in all.into_iter().flat_map(|seen| seen.counters.iter().flatten()) {
            *sums.get_or_insert_with(Counters::new).entry(label.clone()).or_default() += count;
        }
        sums
    }

    fn add(&mut self, before: &Look, after: &Look, allocations: Option<u64>) {
        self.daemon_cpu += after.cpu.saturating_sub(before.cpu);
        self.elapsed += after.at - before.at;
        let (Some(before), Some(after)) = (&before.counters, &after.counters) else { return };
        let sums = self.counters.get_or_insert_default();
        for (label, count) in after {
            let count = count.saturating_sub(before.get(label).copied().unwrap_or(0));
            *sums.entry(label.clone()).or_default() += count;
        }
        if let Some(count) = allocations {
            *sums.entry(ALLOCATIONS.to_owned()).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_a_label_add_up() {
        let at = Instant::now();
        let look = |ms, count| Look {
            at: at + Duration::from_millis(ms),
            cpu: Duration::from_millis(ms / 2),
            counters: Some(BTreeMap::from([("frames".to_owned(), count)])),
        };
        let mut seen = Seen::default();
        seen.add(&look(0, 5), &look(10, 7), Some(4));
        seen.add(&look(100, 50), &look(120, 51), Some(0));
        assert_eq!(seen.elapsed, Duration::from_millis(30));
        assert_eq!(seen.daemon_cpu, Duration::from_millis(15));
        let counters = [("frames", 3), (ALLOCATIONS, 4)].map(|(label, count)| (label.to_owned(), count));
        assert_eq!(seen.counters, Some(BTreeMap::from(counters)));
        assert_eq!(Seen::counted([&seen, &Seen::default(), &seen]).unwrap()["frames"], 6);
        assert_eq!(Seen::counted([&Seen::default()]), None);
    }
}
