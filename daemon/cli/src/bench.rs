//! `ropeway bench`: measures.

mod collective;
mod compare;
mod flags;
mod peer;
mod report;
mod rounds;
mod wide;

use std::time::Duration;

use indicatif::ProgressBar;

use self::report::Report;
use crate::failure::{Failure, print};
use crate::launch::{Daemons, Events};
use crate::rank::Task;
use crate::steps::{Steps, Told};

pub(crate) use self::flags::Flags;
pub(crate) use self::report::{counted_nodes, digits};

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    if flags.compares() {
        return compare::run(flags);
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

    fn show(&self, report: &Report) -> Result<(), Failure> {
        let table = report.table();
        if self.json {
            print(&report.json())?;
            if !self.quiet && !table.is_empty() {
                eprint!("{}{table}", report.heading());
            }
            return Ok(());
        }
        if table.is_empty() { Ok(()) } else { print(&format!("{}{table}{}", report.heading(), report.counted())) }
    }
}
