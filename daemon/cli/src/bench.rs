//! `ropeway bench`: measures.

mod boum;
mod collective;
mod command;
mod compare;
mod comparison;
mod flags;
mod help;
mod lab;
mod name;
mod options;
mod peer;
mod programs;
mod report;
mod rounds;
mod segments;
mod table;
mod ticker;
mod verdict;
mod vicinity;
mod wide;

use self::table::Results;
use self::vicinity::Vicinity;
use crate::failure::{Failure, print, tell};
use crate::launch::{Daemons, Events};
use crate::rank::Task;
use crate::steps::{Steps, Told};

pub(crate) use self::command::Command;
use self::flags::Flags;
pub(crate) use self::lab::{Crew, Lab, costs, in_order};
pub(crate) use self::table::{counted_nodes, digits, footnote};
pub(crate) use self::ticker::Ticker;

pub(crate) fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::One(flags) => run_one(flags),
        Command::Report(flags) => report::run(flags),
    }
}

fn run_one(flags: &Flags) -> Result<(), Failure> {
    let events = Events::from_signals()?;
    if !flags.quiet && !flags.attach {
        flags.config.tell()?;
    }
    let progress = Ticker::of_one(flags.quiet);
    let found = measure(flags, &events, &progress)?;
    progress.finish();
    // What has been measured before a failure is still true.
    found.show(flags)?;
    found.cut_short.map_or(Ok(()), Err)
}

/// What a benchmark has found.
#[derive(Default)]
struct Found {
    /// One JSON object a line.
    records: String,
    /// The same for people.
    table: String,
    /// What daemons and ranks have counted, if it was asked for.
    counted: String,
    /// Why there is not more.
    cut_short: Option<Failure>,
}

impl Found {
    fn show(&self, flags: &Flags) -> Result<(), Failure> {
        if !flags.json {
            return print(&format!("{}{}", self.table, self.counted));
        }
        print(&self.records)?;
        if !flags.quiet {
            tell(self.table.trim_end());
        }
        Ok(())
    }
}

/// Measures what was asked for.
fn measure(flags: &Flags, events: &Events, progress: &Ticker) -> Result<Found, Failure> {
    flags.check_options()?;
    if let Some(procedure) = flags.procedure() {
        return procedure(flags, events, progress);
    }
    let plan = flags.plan()?;
    let mut vicinity = flags.beside_links.map(Vicinity::new).transpose()?;
    let daemons = vicinity.as_ref().map_or_else(|| flags.daemons(), Vicinity::daemons)?;
    let bench = plan.bench;
    let mut results = Results::new(bench, flags.setting(), flags.counters);
    let steps = Steps {
        task: Task::Bench(Box::new(plan)),
        ranks: flags.ranks,
        wait: Some(flags.wait()),
        daemons: &daemons,
        events,
    };
    let followed = steps.follow(|told| {
        match told {
            Told::Step(label) => {
                progress.say(&format!("{bench}: {label}"));
                vicinity.as_mut().map_or(Ok(()), |vicinity| vicinity.suit(&label, &daemons))?;
            }
            Told::Outcome(measured, seen) => results.add(measured, seen),
        }
        Ok(())
    });
    let followed = followed.and(vicinity.map_or(Ok(()), |mut vicinity| vicinity.clear()));
    let table = results.table();
    let table =
        if table.is_empty() { String::new() } else { format!("{}{table}{}", results.heading(), results.footnote()) };
    Ok(Found { records: results.json(), table, counted: results.counted(), cut_short: followed.err() })
}

impl Flags {
    fn daemons(&self) -> Result<Daemons, Failure> {
        Ok(match (self.attach, self.netns) {
            (true, _) => Daemons::system()?,
            (false, true) => Daemons::in_namespaces(self.nodes, self.rate, &self.config.read()?)?,
            (false, false) => Daemons::embedded(self.nodes, &self.config.read()?)?,
        })
    }
}
