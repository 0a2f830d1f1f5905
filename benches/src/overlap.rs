//! How much of the communication hides behind computation (see [`hiding`](crate::hiding)): of messages, seen from each side,
//! or of collectives.

use std::fmt::Display;

use ropeway::{Communicator, Session};
use ropeway_examples::Mode;

use crate::bare::least;
use crate::clock::{Span, now_ns, spin_until};
use crate::computation::Compute;
use crate::copying::{Copying, OWN_COPIES, share_bytes};
use crate::exchange::{BARE, Exchange};
use crate::hiding::{Batches, Communication, Hiding};
use crate::joint::Joint;
use crate::method::Method;
use crate::notification::Notification;
use crate::operation::CollectiveCall;
use crate::pair::Pair;
use crate::plan::{Bench, Class};
use crate::progress::Progress;
use crate::record::{Floor, Side};
use crate::statistics::Summary;
use crate::together::Means;
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
            for side in Side::ALL {
                run_messages((session, pair.as_ref()), console, plan, (size.0, side), &Compute::ALL)?;
            }
        }
    }
    Ok(())
}

/// All kinds of messages, classes and these kinds of computation take turns; between nodes with what hides without Ropeway.
pub(crate) fn run_messages(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    (bytes, side): (usize, Side),
    computations: &[Compute],
) -> Result<(), BenchError> {
    let (mut entrants, mut floors) = (Vec::new(), Vec::new());
    // The parameters of a model do without.
    let with_floors = plan.crosses_nodes() && plan.bench == Bench::Overlap;
    let contestants = CONTESTANTS * plan.classes().count() + if with_floors { FLOORS } else { 0 };
    for (mode, compute, Class { notification, progress }) in plan.kinds(computations) {
        let what = What::Message { side, progress };
        let transfer = Transfer::of(pair, side, |pair| Exchange::new(pair, mode, progress, bytes, side))?;
        let case = Case { mode, notification, compute, bytes: Some(bytes), what };
        let hiding = Hiding::new(compute, plan.effort(contestants, Hiding::WARMUP));
        entrants.push((case.turns(hiding, transfer), case));
    }
    for &compute in computations.iter().filter(|_| with_floors) {
        let transfer =
            Transfer::of(pair, side, |pair| Exchange::bare(pair, &pair.connect(&plan.addresses)?, bytes, side))?;
        floors.push((compute, Turns::of_floor(plan, (side, compute), contestants, transfer)));
    }
    take_turns((session, console), plan, &mut entrants, (BARE, &mut floors))
}

/// All methods, forms of the call, ways to wait and kinds of computation take turns; with what hides without Ropeway if each rank
/// has a node to itself, or if there is only one node. On several with several ranks each, Ropeway's share memory and send less, so that
/// would be no floor.
fn run_collective(
    (session, world): (&Session, &Communicator),
    console: &mut Console,
    plan: &Plan,
    call: CollectiveCall,
    bytes: usize,
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    let is_alone = plan.addresses.len() == world.size() as usize;
    let has_bare = plan.crosses_nodes() && is_alone && least(call.operation).is_some();
    let copied = if plan.crosses_nodes() { None } else { share_bytes(call, world.size(), bytes) };
    let with_floors = has_bare || copied.is_some();
    let contestants = CONTESTANTS * plan.methods.len() * plan.notification.len() + if with_floors { FLOORS } else { 0 };
    for (method, mode) in plan.forms() {
        let method = method.decided(call, world.size(), bytes);
        for compute in Compute::ALL {
            for &notification in &plan.notification {
                let joint = Some(Joint::new(world, Means::Ropeway(&method, mode), call, bytes)?);
                let what = What::Collective { call, method: method.clone() };
                let case = Case { mode, notification, compute, bytes: (bytes > 0).then_some(bytes), what };
                let hiding = Hiding::new(compute, plan.effort(contestants, Hiding::WARMUP));
                entrants.push((case.turns(hiding, joint), case));
            }
        }
    }
    let turns = (session, console);
    if let Some(bytes) = copied {
        let copying = |compute| {
            let copying = Some(Copying::new(world, bytes));
            (compute, Turns::of_floor(plan, (call, compute), contestants, copying))
        };
        return take_turns(turns, plan, &mut entrants, (OWN_COPIES, &mut Compute::ALL.map(copying)));
    }
    let mut floors = Vec::new();
    for compute in Compute::ALL.into_iter().filter(|_| has_bare) {
        let joint = Joint::new(world, Means::Bare(&plan.addresses), call, bytes)?;
        floors.push((compute, Turns::of_floor(plan, (call, compute), contestants, Some(joint))));
    }
    take_turns(turns, plan, &mut entrants, (BARE, &mut floors))
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

    fn turns<C>(&self, hiding: Hiding, communication: Option<C>) -> Turns<C> {
        Turns { label: self.label(), notification: self.notification, hiding, communication }
    }

    /// What there is to say about a metric's samples, given what hides without Ropeway.
    fn measured(
        &self,
        plan: &Plan,
        (metric, unit, samples): (&str, &str, &[f64]),
        bare: Option<(&str, &Batches)>,
    ) -> Measured {
        // The computation depends on the transfer, and both together on it: they have no floor of their own.
        let floor = |(name, bare): (&str, &Batches)| {
            let bare = bare.samples_of(metric)?;
            match metric {
                "d_o" | "availability" => Some(Floor::of_share(name, bare)),
                "t_y" => Some(Floor::of_times(name, Summary::of(bare).median, samples)),
                _ => None,
            }
        };
        let common = Measured {
            mode: Some(self.mode),
            notification: Some(self.notification),
            bytes: self.bytes,
            compute: Some(self.compute),
            floor: bare.and_then(floor),
            ..Measured::new(metric, unit, Summary::in_unit(unit, samples), plan.runs)
        };
        match &self.what {
            What::Message { side, progress } => Measured {
                side: Some(*side),
                progress: Some(*progress),
                // What of a collective crosses a line depends on its algorithm; and what is sent is over before it has crossed it.
                floor: match (metric, self.bytes) {
                    ("t_y", Some(bytes)) if *side != Side::Send => {
                        Floor::of_line(plan, bytes, samples).or(common.floor)
                    }
                    _ => common.floor,
                },
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

/// What is found out in turns with others, and this rank's part in it if it has one.
struct Turns<C> {
    label: String,
    notification: Notification,
    hiding: Hiding,
    communication: Option<C>,
}

impl<C: Communication> Turns<C> {
    /// What hides without Ropeway. Its threads sleep, however the ranks wait for each other.
    fn of_floor(
        plan: &Plan,
        (what, compute): (impl Display, Compute),
        contestants: usize,
        communication: Option<C>,
    ) -> Self {
        let hiding = Hiding::new(compute, plan.effort(contestants, Hiding::WARMUP));
        let notification = plan.notification[0];
        Self { label: format!("floor, {what}, {compute}"), notification, hiding, communication }
    }

    /// Does a run.
    fn take(&mut self, session: &Session, console: &mut Console) -> Result<(), BenchError> {
        let Self { label, notification, hiding, communication } = self;
        session.set_wait_mode(notification.0);
        let run = || communication.as_mut().map_or(Ok(()), |communication| hiding.measure(communication));
        console.step(label, run)
    }
}

/// `floors` are those of `d_o` with each kind of computation, if there are any, and what they are.
fn take_turns<C: Communication, F: Communication>(
    (session, console): (&Session, &mut Console),
    plan: &Plan,
    entrants: &mut [(Turns<C>, Case)],
    (floor, floors): (&str, &mut [(Compute, Turns<F>)]),
) -> Result<(), BenchError> {
    for _ in 0..plan.runs {
        for (turns, _) in &mut *entrants {
            turns.take(session, console)?;
        }
        for (_, turns) in &mut *floors {
            turns.take(session, console)?;
        }
    }
    for (turns, case) in entrants {
        let bare = floors.iter().find(|(compute, _)| *compute == case.compute);
        let bare = bare.map(|(_, turns)| (floor, &turns.hiding.batches));
        for (metric, unit, samples) in turns.hiding.batches.metrics() {
            if !samples.is_empty() {
                let measured = case.measured(plan, (metric, unit, samples), bare);
                console.outcome(&turns.label, measured)?;
            }
        }
    }
    Ok(())
}

/// A message between two ranks, or one each way. What counts is the time of the rank that leads, or if both compute the mean of both
/// their times: what moves the data takes more of one core than of the other, and it is chance of which.
pub(crate) struct Transfer {
    pair: Pair,
    side: Side,
    exchange: Exchange,
}

impl Transfer {
    /// `None` in ranks that only look on.
    pub(crate) fn of(
        pair: Option<&Pair>,
        side: Side,
        exchange: impl FnOnce(&Pair) -> Result<Exchange, BenchError>,
    ) -> Result<Option<Self>, BenchError> {
        let transfer = |pair: &Pair| Ok(Self { pair: pair.clone(), side, exchange: exchange(pair)? });
        pair.map(transfer).transpose()
    }
}

impl Communication for Transfer {
    fn agree<const N: usize>(&self, decide: impl FnOnce() -> [u64; N]) -> Result<[u64; N], BenchError> {
        self.pair.agree(decide)
    }

    fn meet(&self) -> Result<(), BenchError> {
        meet(&self.pair, self.side).map(drop)
    }

    fn computes(&self) -> bool {
        self.pair.leads || self.side == Side::Both
    }

    fn transfer(&mut self, mut compute: impl FnMut()) -> Result<Span, BenchError> {
        let Self { pair, side, exchange } = self;
        exchange.prepare();
        // All parts begin alike: else the other one is awake when communication alone begins, and has slept through the
        // computation alone when both begin.
        let met_ns = meet(pair, *side)?;
        let span = match (*side, pair.leads) {
            (Side::Both, _) => {
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
                // When the receiver is ready, who must not be made to say so: that would be work beside the message.
                spin_until(met_ns + READY_AFTER_NS)?;
                exchange.start_send()?;
                exchange.wait()?;
                Span::default()
            }
        };
        exchange.verify()?;
        Ok(span)
    }

    fn that_count<const N: usize>(&self, spans: [Span; N]) -> Result<Option<[f64; N]>, BenchError> {
        let own = spans.map(Span::us);
        if self.side != Side::Both {
            return Ok(self.pair.leads.then_some(own));
        }
        let mean = |others: [f64; N]| std::array::from_fn(|at| f64::midpoint(own[at], others[at]));
        Ok(self.pair.tell(own)?.map(mean))
    }
}

/// Persistent and one-shot, busy and asleep. Data is written and checked too.
const CONTESTANTS: usize = 6;
/// Busy and asleep, with their data.
const FLOORS: usize = 3;

/// Returns when both have come: to a receive at the same moment, which it says.
fn meet(pair: &Pair, side: Side) -> Result<u64, BenchError> {
    match side {
        Side::Recv => pair.begin_together(),
        Side::Send | Side::Both => pair.meet().map(|()| 0),
    }
}

/// Longer than a start takes, and next to nothing beside a message that is worth hiding.
const READY_AFTER_NS: u64 = 2_000;
