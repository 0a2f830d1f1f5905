//! What messages between the nodes of a job cost: by it daemons choose the algorithms of collectives.
//!
//! All nodes of a job must choose alike, so the first one's table travels with the job. In whole femtoseconds, so that it is the
//! same to the last bit wherever it has come.

use serde::{Deserialize, Serialize};

/// Costs after the LogGP model (Alexandrov et al., LogGP: incorporating long messages into the LogP model, SPAA 1995), in
/// femtoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Costs {
    /// What a message costs the processor at each of its ends (o).
    pub overhead: u64,
    /// How long it is under way beyond that (L).
    pub latency: u64,
    /// A further byte of it (G).
    pub byte: u64,
    /// Combining a byte with another.
    pub combine_byte: u64,
    /// Copying a byte.
    pub copy_byte: u64,
}

/// A cost that can't be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("{name} = {ns} is out of range: {least} to {most} nanoseconds are possible")]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct CostOutOfRange {
    pub name: &'static str,
    pub ns: f64,
    pub least: f64,
    pub most: f64,
}

impl Costs {
    /// Names of the costs, in their order, as they stand in configurations: in nanoseconds.
    pub const NAMES: [&'static str; 5] = ["overhead_ns", "latency_ns", "byte_ns", "combine_byte_ns", "copy_byte_ns"];

    /// The costs in nanoseconds, in the order of [`NAMES`](Self::NAMES).
    pub fn to_ns(self) -> [f64; 5] {
        self.in_order().map(|cost| cost as f64 / FS_PER_NS)
    }

    /// The costs nearest to these, in the order of [`NAMES`](Self::NAMES).
    ///
    /// # Errors
    /// If one is no number, or not [possible](Self::check).
    pub fn from_ns(ns: [f64; 5]) -> Result<Self, CostOutOfRange> {
        // Whatever is no number, or too small or large for one, becomes one that is out of range.
        let [overhead, latency, byte, combine_byte, copy_byte] = ns.map(|ns| (ns * FS_PER_NS).round() as u64);
        let costs = Self { overhead, latency, byte, combine_byte, copy_byte };
        costs.check().map_err(|error| {
            let named = Self::NAMES.iter().position(|&name| name == error.name).expect("errors name costs");
            CostOutOfRange { ns: ns[named], ..error }
        })?;
        Ok(costs)
    }

    /// Whether they are possible: none is free, a message takes at most a second, and a byte of it at most a millisecond.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), CostOutOfRange> {
        let mosts = [MESSAGE_MAX, MESSAGE_MAX, BYTE_MAX, BYTE_MAX, BYTE_MAX];
        for ((name, cost), most) in Self::NAMES.into_iter().zip(self.in_order()).zip(mosts) {
            if !(1..=most).contains(&cost) {
                let [ns, least, most] = [cost, 1, most].map(|cost| cost as f64 / FS_PER_NS);
                return Err(CostOutOfRange { name, ns, least, most });
            }
        }
        Ok(())
    }

    fn in_order(self) -> [u64; 5] {
        let Self { overhead, latency, byte, combine_byte, copy_byte } = self;
        [overhead, latency, byte, combine_byte, copy_byte]
    }
}

const FS_PER_NS: f64 = 1e6;
const MESSAGE_MAX: u64 = 1_000_000_000_000_000;
const BYTE_MAX: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    const NS: [f64; 5] = [2000.0, 2600.0, 0.4, 0.15, 0.06];

    #[test]
    fn nanoseconds_survive() {
        assert_eq!(Costs::from_ns(NS).unwrap().to_ns(), NS);
    }

    #[test]
    fn what_can_not_be_is_named() {
        for (index, name) in Costs::NAMES.into_iter().enumerate() {
            for bad in [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e-7, 1e10] {
                let mut ns = NS;
                ns[index] = bad;
                let error = Costs::from_ns(ns).unwrap_err();
                assert!(error.name == name && error.to_string().contains(&format!("{name} = {bad}")), "{error}");
            }
        }
        let huge = Costs { byte: u64::MAX, ..Costs::from_ns(NS).unwrap() };
        assert_eq!(huge.check().map_err(|error| error.name), Err("byte_ns"));
    }
}
