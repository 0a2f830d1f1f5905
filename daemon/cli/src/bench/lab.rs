//! Where programs are run and the parameters of the model measured, job by job.

use ropeway::WaitMode;
use ropeway_bench::boum::{Application, Costs, Figure, Run};
use ropeway_bench::{Measured, Notification, Plan, Size};
use serde::de::DeserializeOwned;

use super::Ticker;
use crate::failure::Failure;
use crate::launch::{Daemons, Events};
use crate::rank::Task;
use crate::steps::{Seen, Steps, Told};

/// Nodes, and somebody who watches.
pub(crate) struct Lab<'a> {
    pub(crate) daemons: Daemons,
    pub(crate) events: &'a Events,
    pub(crate) progress: &'a Ticker,
    /// Whether what is counted is wanted.
    pub(crate) with_counters: bool,
}

/// A job's ranks, and how they wait.
#[derive(Clone, Copy)]
pub(crate) struct Crew {
    pub(crate) ranks: u32,
    pub(crate) wait: WaitMode,
}

impl Lab<'_> {
    /// The parameters of the model, for messages of the plan's sizes, and what was seen meanwhile; if they are not all, why.
    pub(crate) fn parameters(&self, plan: Plan, crew: Crew) -> (Vec<(Measured, Seen)>, Result<(), Failure>) {
        let plan = Plan { notification: vec![Notification(crew.wait)], pin: true, ..plan };
        self.job("parameters", Task::Bench(Box::new(plan)), crew)
    }

    /// So many runs of a program, and what was seen meanwhile.
    pub(super) fn runs(&self, application: Application, crew: Crew) -> Result<Vec<(Run, Seen)>, Failure> {
        let (found, end) = self.job(&format!("{} ranks", crew.ranks), Task::Application(application), crew);
        end.map(|()| found)
    }

    fn job<T: DeserializeOwned>(&self, what: &str, task: Task, crew: Crew) -> (Vec<(T, Seen)>, Result<(), Failure>) {
        let Self { daemons, events, progress, with_counters } = self;
        let steps = Steps { task, ranks: crew.ranks, wait: Some(crew.wait), daemons, events };
        let mut found = Vec::new();
        let end = steps.follow(|told| {
            match told {
                Told::Step(label) => progress.say(&format!("{what}, {}: {label}", crew.wait)),
                Told::Outcome(one, seen) => {
                    let counters = seen.counters.filter(|_| *with_counters);
                    found.push((one, Seen { counters, ..seen }));
                }
            }
            Ok(())
        });
        (found, end)
    }
}

/// What the model needs to know, from what was measured.
pub(crate) fn costs<'a>(measured: impl IntoIterator<Item = &'a Measured>) -> Result<Costs, Failure> {
    Costs::of(&measured.into_iter().map(Figure::from).collect::<Vec<_>>()).map_err(Failure::other)
}

/// These sizes once each, in order.
pub(crate) fn in_order(sizes: impl IntoIterator<Item = usize>) -> Vec<Size> {
    let sizes: std::collections::BTreeSet<_> = sizes.into_iter().collect();
    sizes.into_iter().map(Size).collect()
}
