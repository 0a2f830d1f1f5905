//! `ropeway bench`: measures.

mod boum;
mod collective;
mod compare;
mod comparison;
mod flags;
mod lab;
mod peer;
mod programs;
mod report;
mod rounds;
mod segments;
mod verdict;
mod wide;

use std::time::Duration;

use indicatif::ProgressBar;

use self::report::Report;
use crate::failure::{Failure, print};
use crate::launch::{Daemons, Events};
use crate::rank::Task;
use crate::steps::{Steps, Told};

pub(crate) use self::flags::Flags;
pub(crate) use self::lab::{Crew, Lab, costs, in_order};
pub(crate) use self::report::{counted_nodes, digits};

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    if let Some(procedure) = flags.procedure() {
        return procedure(flags);
    }
    let plan = flags.plan()?;
    let events = Events::from_signals()?;
    let daemons = flags.daemons()?;
    let setting = flags.setting();
    let progress = if flags.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    progress.enable_steady_tick(Duration::from_millis(100));
    let bench = plan.bench;
    let mut report = Report::new(bench, setting, flags.counters);
    let steps = Steps {
        task: Task::Bench(plan),
        ranks: flags.ranks,
        wait: Some(flags.wait()),
        daemons: &daemons,
        events: &events,
    };
    let followed = steps.follow(|told| match told {
        Told::Step(label) => progress.set_message(format!("{bench}: {label}")),
        Told::Outcome(measured, seen) => report.add(measured, seen),
    });
    progress.finish_and_clear();
    // What has been measured before a failure is still true.
    flags.show(&report)?;
    followed
}

impl Flags {
    fn daemons(&self) -> Result<Daemons, Failure> {
        Ok(match (self.attach, self.netns) {
            (true, _) => Daemons::system()?,
            (false, true) => Daemons::in_namespaces(self.nodes, self.rate)?,
            (false, false) => Daemons::embedded(self.nodes)?,
        })
    }

    /// Records or tables; both if records are asked for and the tables not unwanted.
    fn print_both(&self, records: &str, tables: &str) -> Result<(), Failure> {
        if !self.json {
            return print(tables);
        }
        print(records)?;
        if !self.quiet {
            eprint!("{tables}");
        }
        Ok(())
    }

    fn show(&self, report: &Report) -> Result<(), Failure> {
        let table = report.table();
        if table.is_empty() {
            return Ok(());
        }
        let counted = if self.json { String::new() } else { report.counted() };
        self.print_both(&report.json(), &format!("{}{table}{}{counted}", report.heading(), report.footnote()))
    }
}
