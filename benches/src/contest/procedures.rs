//! Contests about what part of communication needs no waiting, or no repeating, and about what calls cost: the procedures of the
//! benchmarks of these names, of persistent messages and collectives, and call for call those of `benches/mpi/shares.h` and `calls.h`.

use std::time::Duration;

use ropeway::Communicator;
use ropeway_examples::Mode;

use super::kind::Kind;
use crate::calls::{self, Call};
use crate::computation::Compute;
use crate::exchange::Exchange;
use crate::hiding::{Communication, Hiding};
use crate::joint::Joint;
use crate::method::Method;
use crate::operation::{CollectiveCall, Operation};
use crate::overhead::{self, NS_PER_US};
use crate::overlap::Transfer;
use crate::pair::Pair;
use crate::persistence::degree;
use crate::ping_pong::{self, PingPong};
use crate::plan::Effort;
use crate::progress::Progress;
use crate::race::Contestant;
use crate::receiving::{Receiver, Timing};
use crate::record::Side;
use crate::set_up::{self, SetUp};
use crate::statistics::Summary;
use crate::together::Means;
use crate::trip::{OneShot, Persistent};
use crate::{BenchError, Console};

/// One run of a size, each case for this long.
pub(super) fn run(
    world: &Communicator,
    console: &mut Console,
    (kind, time): (Kind, Duration),
    bytes: usize,
) -> Result<(), BenchError> {
    for (case, figures) in kind.cases().into_iter().zip(kind.figures().chunks(kind.figures_of_case().len())) {
        let label = label(case);
        let part = Part { world, bytes, time };
        let samples = match (kind, case) {
            (Kind::Overlap(Some(operation)), (_, Some(compute))) => {
                part.hidden_collective(console, &label, (operation, compute))?
            }
            (Kind::Overlap(None), (Some(side), Some(compute))) => {
                part.hidden_message(console, &label, (side, compute))?
            }
            (_, (_, Some(compute))) => part.asynchrony(console, &label, compute)?,
            (Kind::Overhead, _) => part.overhead(console, &label)?,
            _ => part.persistence(console, &label)?,
        };
        for figure in figures {
            let of_figure = samples.iter().find(|(metric, _)| *metric == figure.metric);
            // Each call has a step of its own.
            let label = if kind == Kind::Overhead { label_of(&label, figure.metric) } else { label.clone() };
            figure.tell(console, &label, (kind, bytes), of_figure.map_or(&[], |(_, samples)| samples), None)?;
        }
    }
    Ok(())
}

fn label((side, compute): (Option<Side>, Option<Compute>)) -> String {
    let words =
        [Some(super::LABEL.to_owned()), side.map(|side| side.to_string()), compute.map(|compute| compute.to_string())];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn label_of(label: &str, call: &str) -> String {
    format!("{label}, {call}")
}

/// Samples by metric; the ranks that don't keep the time have none.
type Samples = Vec<(&'static str, Vec<f64>)>;

/// What a rank takes part in.
#[derive(Clone, Copy)]
struct Part<'a> {
    world: &'a Communicator,
    bytes: usize,
    time: Duration,
}

impl Part<'_> {
    fn hidden_message(
        self,
        console: &mut Console,
        label: &str,
        (side, compute): (Side, Compute),
    ) -> Result<Samples, BenchError> {
        let exchange = |pair: &Pair| Exchange::new(pair, Mode::Persistent, Progress::Independent, self.bytes, side);
        let transfer = Transfer::of(Pair::of(self.world).as_ref(), side, exchange)?;
        self.hidden(console, label, compute, transfer)
    }

    fn hidden_collective(
        self,
        console: &mut Console,
        label: &str,
        (operation, compute): (Operation, Compute),
    ) -> Result<Samples, BenchError> {
        let method = Method::usual();
        let means = Means::Ropeway(&method, Mode::Persistent);
        let joint = Joint::new(self.world, means, CollectiveCall::of(operation), self.bytes)?;
        self.hidden(console, label, compute, Some(joint))
    }

    fn hidden(
        self,
        console: &mut Console,
        label: &str,
        compute: Compute,
        mut communication: Option<impl Communication>,
    ) -> Result<Samples, BenchError> {
        let mut hiding = Hiding::new(compute, Effort::lasting(self.time, Hiding::WARMUP));
        console.step(label, || communication.as_mut().map_or(Ok(()), |communication| hiding.measure(communication)))?;
        Ok(samples(hiding.batches.metrics()))
    }

    fn asynchrony(self, console: &mut Console, label: &str, compute: Compute) -> Result<Samples, BenchError> {
        let timing = Timing::new(compute, Effort::lasting(self.time, Timing::WARMUP));
        let exchange =
            |pair: &Pair| Exchange::new(pair, Mode::Persistent, Progress::Independent, self.bytes, Side::Recv);
        let receiver = |pair: &Pair| Ok::<_, BenchError>(Receiver::new(pair, exchange(pair)?, timing));
        let mut receiver = Pair::of(self.world).as_ref().map(receiver).transpose()?;
        console.step(label, || receiver.as_mut().map_or(Ok(()), Receiver::measure))?;
        Ok(receiver.map(|receiver| samples(receiver.timing.batches.metrics())).unwrap_or_default())
    }

    /// `o_s`, and half a round trip of an empty message, which is `o_i`, and of this one, bound and not.
    fn persistence(self, console: &mut Console, label: &str) -> Result<Samples, BenchError> {
        let effort = |warmup| Effort::lasting(self.time, warmup);
        let contestants = |pair: &Pair| -> Result<[Box<dyn Contestant>; 4], BenchError> {
            let of_trips = effort(ping_pong::WARMUP);
            let bound = |bytes| Ok::<_, BenchError>(PingPong::new(pair, Persistent::new(pair, bytes)?, of_trips));
            Ok([
                Box::new(SetUp::new(pair, self.bytes, effort(set_up::WARMUP))?),
                Box::new(bound(0)?),
                Box::new(bound(self.bytes)?),
                Box::new(PingPong::new(pair, OneShot::new(pair, self.bytes)?, of_trips)),
            ])
        };
        let mut contestants = Pair::of(self.world).as_ref().map(contestants).transpose()?;
        let all = contestants.iter_mut().flatten();
        let found = console
            .step(label, || all.map(|contestant| contestant.measure()).collect::<Result<Vec<_>, BenchError>>())?;
        let is_kept = |samples: &&Vec<f64>| !samples.is_empty();
        let medians: Vec<_> = found.iter().filter(is_kept).map(|samples| Summary::of(samples).median).collect();
        let [o_s, empty_us, bound_us, loose_us] = medians[..] else { return Ok(Vec::new()) };
        let o_i = empty_us * NS_PER_US;
        let figures = [
            ("d_p", degree(o_s, o_i)),
            ("o", o_s + o_i),
            ("o_s", o_s),
            ("o_i", o_i),
            ("saved", 1.0 - bound_us / loose_us),
        ];
        Ok(figures.map(|(metric, figure)| (metric, vec![figure])).into())
    }

    /// Each call by itself, as all others before it.
    fn overhead(self, console: &mut Console, label: &str) -> Result<Samples, BenchError> {
        let effort = Effort::lasting(self.time, overhead::WARMUP);
        let mut found = Vec::new();
        for (call, (metric, _)) in Call::ALL.into_iter().zip(Kind::Overhead.figures_of_case()) {
            let contestant = |pair: &Pair| calls::contestant(pair, Mode::Persistent, (call, self.bytes), effort);
            let mut contestant = Pair::of(self.world).as_ref().map(contestant).transpose()?;
            let of_call = console.step(&label_of(label, metric), || {
                contestant.as_mut().map_or(Ok(Vec::new()), |contestant| contestant.measure())
            })?;
            found.push((*metric, of_call));
        }
        Ok(found)
    }
}

fn samples<const N: usize>(metrics: [(&'static str, &'static str, &[f64]); N]) -> Samples {
    metrics.map(|(metric, _, samples)| (metric, samples.to_vec())).into()
}
