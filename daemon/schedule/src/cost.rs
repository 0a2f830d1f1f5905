//! What a schedule will cost, by a model of the LogGP kind.

/// What moving and combining costs between participants.
///
/// After Alexandrov et al., LogGP: incorporating long messages into the LogP model, SPAA 1995, with computation beside it.
/// The defaults are two daemons on one machine, joined by loopback TCP: 6.6 µs half a round trip with 8 B.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostTable {
    /// What a message costs the processor at each of its ends (o).
    pub overhead_ns: f64,
    /// How long a message is under way beyond that (L).
    pub latency_ns: f64,
    /// A further byte of a message (G).
    pub byte_ns: f64,
    /// Combining a byte with another.
    pub combine_byte_ns: f64,
    /// Copying a byte.
    pub copy_byte_ns: f64,
}

impl Default for CostTable {
    fn default() -> Self {
        Self { overhead_ns: 2000.0, latency_ns: 2600.0, byte_ns: 0.4, combine_byte_ns: 0.15, copy_byte_ns: 0.06 }
    }
}

impl CostTable {
    /// The predicted duration.
    pub fn time_ns(&self, cost: &Cost, element_bytes: u64) -> f64 {
        let per_element =
            cost.moved * self.byte_ns + cost.combined * self.combine_byte_ns + cost.copied * self.copy_byte_ns;
        cost.rounds * self.start_up_ns() + cost.further * self.overhead_ns + per_element * element_bytes as f64
    }

    /// A message without payload, from one end to the other (α).
    pub fn start_up_ns(&self) -> f64 {
        2.0 * self.overhead_ns + self.latency_ns
    }

    /// Into how many segments a message of `elements` is best cut if it travels `hops` steps one after the other:
    /// √((hops−1)·m·(β+γ)/α), from the derivative of (hops−1+s)·(α + m(β+γ)/s).
    pub fn segments(&self, hops: u32, elements: u64, element_bytes: u64, combines: bool) -> u32 {
        let byte_ns = self.byte_ns + if combines { self.combine_byte_ns } else { 0.0 };
        let bytes = elements as f64 * element_bytes as f64;
        let best = (f64::from(hops.saturating_sub(1)) * bytes * byte_ns / self.start_up_ns()).sqrt();
        (best.round() as u64).clamp(1, elements.clamp(1, SEGMENTS_MAX)) as u32
    }
}

/// More would make schedules long, and gain little.
const SEGMENTS_MAX: u64 = 64;

/// What happens along a schedule's critical path. Amounts are in elements.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Messages that wait for each other.
    pub rounds: f64,
    /// Messages that one end has to handle besides, be it that it sends or receives them.
    pub further: f64,
    /// More that it handles while it would wait for others: they take its processor, but no time.
    pub hidden: f64,
    /// Elements that pass one after the other.
    pub moved: f64,
    /// Elements that are combined.
    pub combined: f64,
    /// Elements that are copied from memory to memory.
    pub copied: f64,
}

impl Cost {
    pub(crate) fn rounds(rounds: impl Into<f64>) -> Self {
        Self { rounds: rounds.into(), ..Self::default() }
    }

    pub(crate) fn further(self, further: impl Into<f64>) -> Self {
        Self { further: further.into().max(0.0), ..self }
    }

    /// Where everybody sends as many as it receives: so many messages besides, each way. In each round one is sent while the first is under way.
    pub(crate) fn further_exchanges(self, further: f64) -> Self {
        let hidden = self.rounds.min(further).max(0.0);
        Self { hidden, ..self.further(2.0 * further - hidden) }
    }

    /// Messages that a participant handles, be it that it sends or receives them.
    pub fn handled(&self) -> f64 {
        2.0 * self.rounds + self.further + self.hidden
    }

    pub(crate) fn moved(self, moved: f64) -> Self {
        Self { moved, ..self }
    }

    pub(crate) fn combined(self, combined: f64) -> Self {
        Self { combined, ..self }
    }

    pub(crate) fn copied(self, copied: f64) -> Self {
        Self { copied, ..self }
    }
}

impl std::ops::Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rounds: self.rounds + other.rounds,
            further: self.further + other.further,
            hidden: self.hidden + other.hidden,
            moved: self.moved + other.moved,
            combined: self.combined + other.combined,
            copied: self.copied + other.copied,
        }
    }
}
