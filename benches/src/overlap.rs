//! How much of the communication hides behind computation (see [`hiding`](crate::hiding)): of messages, seen from each side,
//! or of collectives.

use ropeway::{Communicator, Session};
use ropeway_examples::Mode;

use crate::clock::{Span, now_ns};
use crate::computation::Compute;
use crate::exchange::Exchange;
use crate::hiding::{Communication, Hiding};
use crate::joint::Joint;
use crate::method::Method;
use crate::notification::Notification;
use crate::operation::CollectiveCall;
use crate::pair::Pair;
use crate::plan::Class;
use crate::progress::Progress;
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let world = session.world();
    for &call in &plan.collectives {
        for size in call.sizes(&plan.sizes) {
            run_collective((session, &world), console, plan, call, size.0)?;
        }
    }
    if plan.collectives.is_empty() {
        let pair = Pair::of(&world);
        for size in &plan.sizes {
            for side in [Side::Send, Side::Recv, Side::Both] {
                run_messages((session, pair.as_ref()), console, plan, (size.0, side), &Compute::ALL)?;
            }
        }
    }
    Ok(())
}

/// All kinds of messages, classes and these kinds of computation take turns.
pub(crate) fn run_messages(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    (bytes, side): (usize, Side),
    computations: &[Compute],
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    let contestants = CONTESTANTS * plan.classes().count();
    for (mode, compute, Class { notification, progress }) in plan.kinds(computations) {
        let what = What::Message { side, progress };
        let transfer = pair.map(|pair| Transfer::new(pair, mode, progress, bytes, side)).transpose()?;
        let case = Case { mode, notification, compute, bytes: Some(bytes), what };
        entrants.push(Entrant { case, hiding: Hiding::new(compute, plan, contestants), communication: transfer });
    }
    take_turns(session, console, plan, &mut entrants)
}

/// All methods, forms of the call, ways to wait and kinds of computation take turns.
fn run_collective(
    (session, world): (&Session, &Communicator),
    console: &mut Console,
    plan: &Plan,
    call: CollectiveCall,
    bytes: usize,
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    let contestants = CONTESTANTS * plan.methods.len() * plan.notification.len();
    for (method, mode) in plan.forms() {
        let method = method.decided(call, world.size(), bytes);
        for compute in Compute::ALL {
            for &notification in &plan.notification {
                let joint = Some(Joint::new(world, &method, mode, call, bytes)?);
                let what = What::Collective { call, method: method.clone() };
                let case = Case { mode, notification, compute, bytes: (bytes > 0).then_some(bytes), what };
                entrants.push(Entrant { case, hiding: Hiding::new(compute, plan, contestants), communication: joint });
            }
        }
    }
    take_turns(session, console, plan, &mut entrants)
}

struct Case {
    mode: Mode,
    notification: Notification,
    compute: Compute,
    bytes: Option<usize>,
    what: What,
}

enum What {
    Message { side: Side, progress: Progress },
    Collective { call: CollectiveCall, method: Method },
}

impl Case {
    fn label(&self) -> String {
        let Self { mode, notification, compute, what, .. } = self;
        let what = match what {
            What::Message { side, progress } => format!("{progress}, {side}"),
            What::Collective { call, method } => format!("{}, {call}", method.division),
        };
        format!("{mode}, {notification}, {what}, {compute}")
    }

    /// What there is to say about a metric's samples.
    fn measured(&self, plan: &Plan, (metric, unit): (&str, &str), samples: &[f64]) -> Measured {
        let common = Measured {
            mode: Some(self.mode),
            notification: Some(self.notification),
            bytes: self.bytes,
            compute: Some(self.compute),
            ..Measured::new(metric, unit, Summary::of(samples), plan.runs)
        };
        match &self.what {
            What::Message { side, progress } => Measured {
                side: Some(*side),
                progress: Some(*progress),
                // What of a collective crosses a line depends on its algorithm.
                floor: self.bytes.filter(|_| metric == "t_y").and_then(|bytes| Floor::of_line(plan, bytes, samples)),
                ..common
            },
            What::Collective { call, method } => Measured {
                collective: Some(*call),
                division: Some(method.division),
                algorithm: method.algorithm.clone(),
                progress: Some(method.division.progress()),
                ..common
            },
        }
    }
}

/// A case, and this rank's part in it if it has one.
struct Entrant<C> {
    case: Case,
    hiding: Hiding,
    communication: Option<C>,
}

fn take_turns<C: Communication>(
    session: &Session,
    console: &mut Console,
    plan: &Plan,
    entrants: &mut [Entrant<C>],
) -> Result<(), BenchError> {
    for _ in 0..plan.runs {
        for Entrant { case, hiding, communication } in entrants.iter_mut() {
            session.set_wait_mode(case.notification.0);
            let run = || communication.as_mut().map_or(Ok(()), |communication| hiding.measure(communication));
            console.step(&case.label(), run)?;
        }
    }
    for Entrant { case, hiding, .. } in entrants {
        for (metric, unit, samples) in hiding.batches.metrics() {
            if !samples.is_empty() {
                console.outcome(&case.label(), case.measured(plan, (metric, unit), samples))?;
            }
        }
    }
    Ok(())
}

/// A message between two ranks, or one each way. The one that leads keeps the time.
struct Transfer {
    pair: Pair,
    side: Side,
    exchange: Exchange,
}

impl Transfer {
    fn new(pair: &Pair, mode: Mode, progress: Progress, bytes: usize, side: Side) -> Result<Self, BenchError> {
        Ok(Self { pair: pair.clone(), side, exchange: Exchange::new(pair, mode, progress, bytes, side)? })
    }
}

impl Communication for Transfer {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        self.pair.agree(decide)
    }

    fn meet(&self) -> Result<(), BenchError> {
        self.pair.meet()
    }

    fn computes(&self) -> bool {
        self.pair.leads || self.side == Side::Both
    }

    fn transfer(&mut self, mut compute: impl FnMut()) -> Result<Span, BenchError> {
        let Self { pair, side, exchange } = self;
        exchange.prepare();
        let span = match (*side, pair.leads) {
            (Side::Both, _) => {
                pair.meet()?;
                let begin_ns = now_ns()?;
                exchange.start_recv()?;
                exchange.start_send()?;
                compute();
                exchange.wait()?;
                Span::since(begin_ns)?
            }
            (Side::Send, true) => {
                // The receiver is ready.
                pair.await_go()?;
                let begin_ns = now_ns()?;
                exchange.start_send()?;
                compute();
                exchange.wait()?;
                Span::since(begin_ns)?
            }
            (Side::Recv, true) => {
                let begin_ns = now_ns()?;
                exchange.start_recv()?;
                pair.go()?;
                compute();
                exchange.wait()?;
                Span::since(begin_ns)?
            }
            (Side::Send, false) => {
                exchange.start_recv()?;
                pair.go()?;
                exchange.wait()?;
                Span::default()
            }
            (Side::Recv, false) => {
                pair.await_go()?;
                exchange.start_send()?;
                exchange.wait()?;
                Span::default()
            }
        };
        exchange.verify()?;
        Ok(span)
    }

    fn that_count<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError> {
        Ok(self.pair.leads.then(|| spans.map(Span::us)))
    }
}

/// Persistent and one-shot, busy and asleep. Data is written and checked too.
const CONTESTANTS: usize = 6;
