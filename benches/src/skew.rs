//! How much of a receiver's delay its sender notices: the receiver pauses between its start and its wait.

use std::thread;
use std::time::{Duration, Instant};

use ropeway::Session;
use ropeway_examples::Mode;

use crate::allocations::measured;
use crate::link::{End, Link, OneShot, Persistent};
use crate::pair::Pair;
use crate::pattern;
use crate::plan::Effort;
use crate::race::{Contestant, Entrant, take_turns};
use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let pair = Pair::of(&session.world());
    for &size in &plan.sizes {
        let mut entrants = Vec::new();
        for &mode in &plan.modes {
            let make = |pair: &Pair| contestant(pair, mode, size.0, plan);
            entrants.push(Entrant::new(mode.to_string(), pair.as_ref(), make)?);
        }
        let series = take_turns(console, plan.runs, &mut entrants)?;
        for (&mode, series) in plan.modes.iter().zip(&series) {
            let Some(summary) = series.summary() else { continue };
            let measured = Measured {
                mode: Some(mode),
                bytes: Some(size.0),
                delay_us: Some(plan.seconds * 1e6),
                ..Measured::new("propagated", "percent", summary, plan.runs)
            };
            console.outcome(&mode.to_string(), measured)?;
        }
    }
    Ok(())
}

fn contestant(pair: &Pair, mode: Mode, bytes: usize, plan: &Plan) -> Result<Box<dyn Contestant>, BenchError> {
    let (effort, pause) = (plan.effort(1, WARMUP), Duration::from_secs_f64(plan.seconds));
    let end = if pair.leads { End::Sender } else { End::Receiver };
    Ok(match mode {
        Mode::Persistent => Box::new(Delays::new(pair, Persistent::new(pair, end, bytes)?, effort, pause)),
        Mode::OneShot => Box::new(Delays::new(pair, OneShot::new(pair, end, bytes)?, effort, pause)),
    })
}

/// Messages to a receiver in time, and messages to one that is late. A sample is the share of the delay that the sender
/// notices, in percent.
struct Delays<L> {
    pair: Pair,
    link: L,
    effort: Effort,
    pause: Duration,
    messages: u64,
}

impl<L: Link> Delays<L> {
    fn new(pair: &Pair, link: L, effort: Effort, pause: Duration) -> Self {
        Self { pair: pair.clone(), link, effort, pause, messages: 0 }
    }

    /// A message, which is checked; how long start and wait took.
    fn message(&mut self, pause: Duration) -> Result<Duration, BenchError> {
        self.messages += 1;
        let number = self.messages;
        if self.pair.leads {
            let message = self.link.message();
            pattern::stamp(message, number);
            pattern::fill(message, number);
        }
        self.pair.meet()?;
        let elapsed = measured(|| self.start_and_wait(pause))?;
        let is_right = pattern::has_stamp(self.link.message(), number);
        self.link.check(number, is_right)?;
        Ok(elapsed)
    }

    /// The receiver pauses in between.
    fn start_and_wait(&mut self, pause: Duration) -> Result<Duration, BenchError> {
        let begin = Instant::now();
        self.link.start()?;
        if !self.pair.leads {
            thread::sleep(pause);
        }
        self.link.wait()?;
        Ok(begin.elapsed())
    }

    /// The usual time of a message whose receiver is not late, in seconds.
    fn undelayed_s(&mut self) -> Result<f64, BenchError> {
        let mut samples = [0.0; UNDELAYED];
        for sample in &mut samples {
            *sample = self.message(Duration::ZERO)?.as_secs_f64();
        }
        Ok(Summary::of(&samples).median)
    }
}

impl<L: Link> Contestant for Delays<L> {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        for _ in 0..self.effort.warmup {
            self.message(Duration::ZERO)?;
        }
        let [rounds] = self.pair.agree(|| [self.effort.rounds(self.pause.as_secs_f64(), 1, 1)])?;
        let mut samples = Vec::new();
        for _ in 0..rounds {
            let undelayed_s = self.undelayed_s()?;
            let delayed_s = self.message(self.pause)?.as_secs_f64();
            if self.pair.leads {
                samples.push(propagated(undelayed_s, delayed_s, self.pause.as_secs_f64()));
            }
        }
        Ok(samples)
    }
}

/// Percent of the pause.
fn propagated(undelayed_s: f64, delayed_s: f64, pause_s: f64) -> f64 {
    (delayed_s - undelayed_s) / pause_s * 100.0
}

const WARMUP: u64 = 3;
/// Messages to a receiver in time before each to a late one.
const UNDELAYED: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_sender_notices_is_a_share_of_the_pause() {
        assert_eq!(propagated(0.25, 0.25, 2.0), 0.0);
        assert_eq!(propagated(0.25, 2.25, 2.0), 100.0);
        assert_eq!(propagated(0.25, 0.75, 2.0), 25.0);
    }
}
