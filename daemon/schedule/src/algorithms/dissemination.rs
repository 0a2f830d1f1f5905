//! The dissemination barrier: signals to ranks 1, b, b², … further, b = k+1, for any size.
//!
//! After the round of distance d everybody has heard, directly or not, from the d·b−1 ranks before it.
//! Source: Hensgen, Finkel, Manber, Two algorithms for barrier synchronization, IJPP 17(1), 1988; with k ports: Hoefler et
//! al., Fast barrier synchronization for InfiniBand, IPDPS 2006.

use super::{Generator, Kind};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::error::Unsuitable;
use crate::patterns::digits_needed;
use crate::shape::{Collective, Shape};

pub(super) static KIND: Kind = Kind {
    name: "dissemination",
    takes: "1 to 4096 ports",
    usual: &[1],
    make: |parameters| match *parameters {
        [ports] if ports > 0 => Some(Box::new(Dissemination { ports })),
        _ => None,
    },
    tries: |_| [1, 2, 3].map(|ports| vec![ports]).into(),
};

struct Dissemination {
    ports: u32,
}

impl Generator for Dissemination {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        if matches!(shape.collective, Collective::Barrier) { Ok(()) } else { Err(Unsuitable::Operation) }
    }

    fn build(&self, b: &mut Builder) {
        let (base, size) = (u64::from(self.ports) + 1, u64::from(b.size));
        let mut distance = 1;
        let mut heard = Vec::new();
        while distance < size {
            // Further would be around the ring, and known already.
            let steps: Vec<_> = (1..base).map(|port| port * distance).filter(|&step| step < size).collect();
            let rank = |step: u64| ((u64::from(b.me) + step) % size) as u32;
            let (to, from): (Vec<_>, Vec<_>) = steps.iter().map(|&step| (rank(step), rank(size - step))).unzip();
            to.into_iter().for_each(|peer| b.signal(peer));
            heard.extend(from.into_iter().map(|peer| b.wait(peer)));
            b.hold_until(heard.iter().copied());
            distance *= base;
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let rounds = f64::from(digits_needed(self.ports + 1, shape.size));
        Cost::rounds(rounds).further_exchanges(rounds * (f64::from(self.ports.min(shape.size - 1)) - 1.0))
    }
}
