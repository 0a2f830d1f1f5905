//! Computation to hide communication behind.

use std::fmt;
use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_timerslack;
use serde::{Deserialize, Serialize};

use crate::statistics::Summary;

/// What a rank does instead of waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compute {
    /// It uses its core: arithmetic on an array of its own.
    Busy,
    /// It sleeps, so that the core is free for whoever communicates.
    Sleep,
}

impl Compute {
    pub(crate) const ALL: [Self; 2] = [Self::Busy, Self::Sleep];
}

impl fmt::Display for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Busy => "busy",
            Self::Sleep => "sleep",
        })
    }
}

/// Does an amount of work, whatever time it takes: time that is stolen from it shows.
pub(crate) struct Worker {
    compute: Compute,
    array: Vec<f64>,
}

impl Worker {
    pub(crate) fn new(compute: Compute) -> Self {
        if compute == Compute::Sleep {
            // Sleep as long as asked, not up to 50 µs longer. It is only less exact if it does not work.
            let _ = set_timerslack(1);
        }
        Self { compute, array: vec![1.0; ARRAY] }
    }

    /// The amount that takes so long if nothing disturbs it.
    pub(crate) fn amount(&mut self, time: Duration) -> u64 {
        match self.compute {
            Compute::Sleep => time.as_nanos() as u64,
            Compute::Busy => {
                let mut trial = || {
                    let begin = Instant::now();
                    self.work(TRIAL);
                    begin.elapsed().as_secs_f64()
                };
                let times: Vec<f64> = (0..TRIALS).map(|_| trial()).collect();
                ((time.as_secs_f64() / Summary::of(&times).median * TRIAL as f64) as u64).max(1)
            }
        }
    }

    // Copies of it in several places take more or less time, by where they come to lie, and one is compared with another.
    #[inline(never)]
    pub(crate) fn work(&mut self, amount: u64) {
        match self.compute {
            _ if amount == 0 => {}
            Compute::Sleep => thread::sleep(Duration::from_nanos(amount)),
            Compute::Busy => (0..amount).for_each(|round| {
                let place = &mut self.array[round as usize % ARRAY];
                *place = hint::black_box(*place).mul_add(0.999, 1e-9);
            }),
        }
    }
}

/// Fits the smallest cache.
const ARRAY: usize = 1024;
const TRIAL: u64 = 20_000;
const TRIALS: usize = 9;
