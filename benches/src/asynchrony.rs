//! How much of a receive goes on by itself while the program computes (see [`receiving`](crate::receiving)), beside what does without Ropeway.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::computation::Compute;
use crate::exchange::{BARE, Exchange};
use crate::mailbox::Mailbox;
use crate::pair::Pair;
use crate::plan::{Bench, Class};
use crate::receiving::{Receiver, Timing};
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        run_one((session, pair.as_ref()), console, plan, size.0, &Compute::ALL)?;
    }
    Ok(())
}

/// All kinds of messages, classes and these kinds of computation take turns; with what goes on by itself without Ropeway.
pub(crate) fn run_one(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
    computations: &[Compute],
) -> Result<(), BenchError> {
    // The parameters of a model do without.
    let floored = if plan.bench == Bench::Asynchrony { computations } else { &[] };
    let effort = plan.effort(CONTESTANTS * plan.classes().count() + floored.len(), Timing::WARMUP);
    let mut entrants = Vec::new();
    for (mode, compute, class) in plan.kinds(computations) {
        let case = Case { mode, compute, class };
        let receiver = |pair: &Pair| {
            let exchange = Exchange::new(pair, mode, class.progress, bytes, Side::Recv)?;
            Ok::<_, BenchError>(Receiver::new(pair, exchange, Timing::new(compute, effort)))
        };
        entrants.push((case, pair.map(receiver).transpose()?));
    }
    let mut floors = Vec::new();
    for &compute in floored {
        let bare = |pair: &Pair| Bare::new((session, pair), plan, bytes, Timing::new(compute, effort));
        floors.push((compute, pair.map(bare).transpose()?));
    }
    for _ in 0..plan.runs {
        for (case, receiver) in &mut entrants {
            session.set_wait_mode(case.class.notification.0);
            console.step(&case.label(), || receiver.as_mut().map_or(Ok(()), Receiver::measure))?;
        }
        for (compute, bare) in &mut floors {
            console.step(&format!("floor, {compute}"), || bare.as_mut().map_or(Ok(()), Bare::measure))?;
        }
    }
    for (case, receiver) in &entrants {
        let bare = floors.iter().find(|(compute, _)| *compute == case.compute).and_then(|(_, bare)| bare.as_ref());
        let metrics = receiver.iter().flat_map(|receiver| receiver.timing.batches.metrics());
        for (metric, unit, samples) in metrics.filter(|(_, _, samples)| !samples.is_empty()) {
            let measured = Measured {
                floor: match metric {
                    "t_comm" => Floor::of_line(plan, bytes, samples),
                    "d_a" => bare.map(Bare::floor),
                    _ => None,
                },
                ..case.measured(bytes, Measured::new(metric, unit, Summary::in_unit(unit, samples), plan.runs))
            };
            console.outcome(&case.label(), measured)?;
        }
    }
    Ok(())
}

/// What is received, and what is computed meanwhile.
#[derive(Clone, Copy)]
struct Case {
    mode: Mode,
    compute: Compute,
    class: Class,
}

impl Case {
    fn label(self) -> String {
        format!("{}, {}, {}", self.mode, self.class, self.compute)
    }

    fn measured(self, bytes: usize, common: Measured) -> Measured {
        let Self { mode, compute, class: Class { notification, progress } } = self;
        Measured {
            mode: Some(mode),
            notification: Some(notification),
            bytes: Some(bytes),
            side: Some(Side::Recv),
            compute: Some(compute),
            progress: Some(progress),
            ..common
        }
    }
}

/// The same without Ropeway: within a node the least there can be, between nodes a connection and a thread that receives.
enum Bare {
    Mailbox(Box<Mailbox>),
    Sockets(Box<Receiver>),
}

impl Bare {
    fn new((session, pair): (&Session, &Pair), plan: &Plan, bytes: usize, timing: Timing) -> Result<Self, BenchError> {
        if !plan.crosses_nodes() {
            return Ok(Self::Mailbox(Box::new(Mailbox::new(session, pair, bytes, timing))));
        }
        let exchange = Exchange::bare(pair, &pair.connect(&plan.addresses)?, bytes, Side::Recv)?;
        Ok(Self::Sockets(Box::new(Receiver::new(pair, exchange, timing))))
    }

    fn measure(&mut self) -> Result<(), BenchError> {
        match self {
            Self::Mailbox(mailbox) => mailbox.measure(),
            Self::Sockets(receiver) => receiver.measure(),
        }
    }

    /// In the rank that keeps the time.
    fn floor(&self) -> Floor {
        let (name, timing) = match self {
            Self::Mailbox(mailbox) => (mailbox.name(), &mailbox.timing),
            Self::Sockets(receiver) => (BARE, &receiver.timing),
        };
        Floor::of_share(name, &timing.batches.d_a)
    }
}

/// Persistent and one-shot, busy and asleep.
const CONTESTANTS: usize = 4;
