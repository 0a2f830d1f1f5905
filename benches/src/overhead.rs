//! What a message costs its program besides its bytes: set-up, start, wait, and the parameters of the model of time
//! `T_p = F(W)·t_c + Σ (o + b·m)`.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::calls::{self, Call};
use crate::pair::Pair;
use crate::persistence::degree;
use crate::ping_pong::{self, PingPong};
use crate::race::{Contestant, Entrant, Series, take_turns, waited_for};
use crate::set_up::{self, SetUp};
use crate::statistics::Summary;
use crate::trip::{OneShot, Persistent};
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        if plan.modes.contains(&Mode::Persistent) {
            parameters((session, pair.as_ref()), console, plan, size.0)?;
        }
        single_calls((session, pair.as_ref()), console, plan, size.0)?;
    }
    Ok(())
}

/// `o_s`, `o_i`, `b`, `R` and `d_p`, from set-up and ping-pongs that take turns, waited for in each way.
pub(crate) fn parameters(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
) -> Result<(), BenchError> {
    let mut entrants = Vec::new();
    for &notification in &plan.notification {
        let label = |metric| waited_for(plan, metric, notification);
        let ways = [
            set_up(&label(SET_UP), pair, plan, bytes)?,
            half_rtt(&label(INITIATE), pair, plan, 0)?,
            half_rtt(&label(HALF_RTT), pair, plan, bytes)?,
        ];
        entrants.extend(ways.map(|entrant| entrant.waiting(session, notification)));
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    for (&notification, series) in plan.notification.iter().zip(series.chunks(CONTESTANTS)) {
        for (step, metric, unit, summary, bytes) in results(series, bytes) {
            let Some(summary) = summary else { continue };
            let measured = Measured {
                mode: Some(Mode::Persistent),
                notification: Some(notification),
                bytes: Some(bytes),
                ..Measured::new(metric, unit, summary, plan.runs)
            };
            console.outcome(&waited_for(plan, step, notification), measured)?;
        }
    }
    Ok(())
}

/// What follows from set-up, an empty message and one with bytes: label of the steps that it ends with, metric, unit, figures and bytes.
fn results(series: &[Series], bytes: usize) -> [(&'static str, &'static str, &'static str, Option<Summary>, usize); 5] {
    let [o_s, o_i, half_rtt] = series else { unreachable!("a series for each entrant") };
    let o_i = o_i.scaled(NS_PER_US);
    let runs = Run::all(o_s, &o_i, &half_rtt.scaled(NS_PER_US));
    // An empty message has no bytes to cost anything.
    let with_bytes = if bytes > 0 { &runs[..] } else { &[] };
    let of_runs = |figures: Vec<f64>| (!figures.is_empty()).then(|| Summary::of(&figures));
    let b = of_runs(with_bytes.iter().map(|run| run.ns_per_byte(bytes)).collect());
    let overhead_to_bytes = b.and_then(|b| overhead_to_bytes(with_bytes, bytes, &b));
    let degrees: Vec<f64> = runs.iter().map(|run| degree(run.set_up, run.initiate)).collect();
    let degrees = (!degrees.is_empty()).then(|| Summary::in_unit("ratio", &degrees));
    [
        (SET_UP, SET_UP, "ns", o_s.summary(), bytes),
        (INITIATE, INITIATE, "ns", o_i.summary(), 0),
        (HALF_RTT, "b", "ns/byte", b, bytes),
        (HALF_RTT, "R", "ratio", overhead_to_bytes, bytes),
        (HALF_RTT, "d_p", "ratio", degrees, bytes),
    ]
}

/// What a one-shot message takes: more than its parts where somebody else has to find its match, and less where it needs no request.
pub(crate) fn one_shot(
    pair: Option<&Pair>,
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
) -> Result<(), BenchError> {
    let effort = plan.effort(CONTESTANTS, ping_pong::WARMUP);
    let make = |pair: &Pair| -> Result<Box<dyn Contestant>, BenchError> {
        Ok(Box::new(PingPong::new(pair, OneShot::new(pair, bytes)?, effort)))
    };
    let series = take_turns(console, plan.runs, &mut [Entrant::new(HALF_RTT_ONE_SHOT, pair, make)?])?;
    let Some(summary) = series[0].summary() else { return Ok(()) };
    let found = Measured::new(HALF_RTT, "us", summary, plan.runs);
    let found = Measured { mode: Some(Mode::OneShot), bytes: Some(bytes), ..found };
    Ok(console.outcome(HALF_RTT_ONE_SHOT, found)?)
}

/// `start_send`, `start_recv`, `wait_done`, `start_first` and `start_bare`.
fn single_calls(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    bytes: usize,
) -> Result<(), BenchError> {
    let forms = || plan.modes.iter().flat_map(|&mode| plan.notification.iter().map(move |&waiting| (mode, waiting)));
    let ways: Vec<_> = Call::ALL.into_iter().flat_map(|call| forms().map(move |form| (call, form))).collect();
    let effort = plan.effort(ways.len(), WARMUP);
    let label = |call: Call, (mode, notification)| waited_for(plan, &format!("{call}, {mode}"), notification);
    let mut entrants = Vec::new();
    for &(call, form) in &ways {
        let make = |pair: &Pair| calls::contestant(pair, form.0, (call, bytes), effort);
        entrants.push(Entrant::new(label(call, form), pair, make)?.waiting(session, form.1));
    }
    let series = take_turns(console, plan.runs, &mut entrants)?;
    for (&(call, form), series) in ways.iter().zip(&series) {
        let Some(summary) = series.summary() else { continue };
        let measured = Measured {
            mode: Some(form.0),
            notification: Some(form.1),
            bytes: Some(bytes),
            ..Measured::new(&call.to_string(), "ns", summary, plan.runs)
        };
        console.outcome(&label(call, form), measured)?;
    }
    Ok(())
}

/// Whose samples are `o_s`, in nanoseconds.
pub(crate) fn set_up(label: &str, pair: Option<&Pair>, plan: &Plan, bytes: usize) -> Result<Entrant, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), set_up::WARMUP);
    Entrant::new(label, pair, |pair| Ok(Box::new(SetUp::new(pair, bytes, effort)?) as Box<dyn Contestant>))
}

/// Whose samples are half the time of a persistent round trip, in microseconds: `o_i` if there are no bytes.
pub(crate) fn half_rtt(label: &str, pair: Option<&Pair>, plan: &Plan, bytes: usize) -> Result<Entrant, BenchError> {
    let effort = plan.effort(CONTESTANTS * plan.notification.len(), ping_pong::WARMUP);
    let make = |pair: &Pair| -> Result<Box<dyn Contestant>, BenchError> {
        Ok(Box::new(PingPong::new(pair, Persistent::new(pair, bytes)?, effort)))
    };
    Entrant::new(label, pair, make)
}

/// Medians of contestants that took turns in a run, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Run {
    set_up: f64,
    initiate: f64,
    half_rtt: f64,
}

impl Run {
    /// None in ranks that don't keep the time.
    fn all(set_up: &Series, initiate: &Series, half_rtt: &Series) -> Vec<Self> {
        let rest = initiate.medians().iter().zip(half_rtt.medians());
        let all = set_up.medians().iter().zip(rest);
        all.map(|(&set_up, (&initiate, &half_rtt))| Self { set_up, initiate, half_rtt }).collect()
    }

    /// `b`
    fn ns_per_byte(&self, bytes: usize) -> f64 {
        (self.half_rtt - self.initiate) / bytes as f64
    }
}

/// `R = o(m) / (b·m)`, in doubt if `b` is. The time of the bytes is that of all runs: in a single one it may be next to nothing, or
/// less. None where a byte costs nothing that can be measured.
fn overhead_to_bytes(runs: &[Run], bytes: usize, b: &Summary) -> Option<Summary> {
    let for_bytes = b.median * bytes as f64;
    let ratios: Vec<f64> = runs.iter().map(|run| (run.set_up + run.initiate) / for_bytes).collect();
    let summary = (for_bytes > 0.0).then(|| Summary::of(&ratios))?;
    Some(Summary { doubts: summary.doubts.union(b.doubts), ..summary })
}

/// Label and metric.
pub(crate) const SET_UP: &str = "o_s";
/// Label and metric.
pub(crate) const INITIATE: &str = "o_i";
/// Label and metric.
const HALF_RTT: &str = "half_rtt";
/// Label, so that what was counted of one is not taken for the other's.
const HALF_RTT_ONE_SHOT: &str = "half_rtt, one-shot";
pub(crate) const NS_PER_US: f64 = 1e3;
/// Rounds of calls before a run.
pub(crate) const WARMUP: u64 = 2;
/// Set-up, an empty message and one with bytes.
const CONTESTANTS: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Doubt;

    #[test]
    fn bytes_cost_what_an_empty_message_does_not() {
        let run = Run { set_up: 1000.0, initiate: 2000.0, half_rtt: 8000.0 };
        assert_eq!(run.ns_per_byte(3000), 2.0);
        let noise = Run { half_rtt: 1990.0, ..run };
        assert_eq!(noise.ns_per_byte(10), -1.0);
    }

    #[test]
    fn bytes_that_cost_nothing_have_no_ratio() {
        let run = Run { set_up: 1000.0, initiate: 2000.0, half_rtt: 8000.0 };
        let noise = Run { half_rtt: 1990.0, ..run };
        let ratio = |runs: &[Run]| {
            let b: Vec<f64> = runs.iter().map(|run| run.ns_per_byte(10)).collect();
            overhead_to_bytes(runs, 10, &Summary::of(&b))
        };
        assert_eq!(ratio(&[run; 5]).unwrap().median, 0.5);
        // A few runs that were disturbed neither hide the ratio nor make it larger, but it is in doubt.
        let disturbed = ratio(&[run, run, run, noise, noise]).unwrap();
        assert_eq!(disturbed.median, 0.5);
        assert!(disturbed.doubts.iter().any(|doubt| doubt == Doubt::Spread));
        assert_eq!(ratio(&[run, run, noise, noise, noise]), None);
    }
}
