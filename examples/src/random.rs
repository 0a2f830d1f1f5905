//! Random numbers that are the same everywhere.

/// Sebastiano Vigna's SplitMix64.
pub(crate) struct SplitMix(u64);

impl SplitMix {
    /// The numbers of a row, a rank, or whatever `index` counts: who has it does not matter.
    pub(crate) fn stream(seed: u64, index: u64) -> Self {
        Self(seed ^ index.wrapping_mul(0xd134_2543_de82_ef95))
    }

    /// The next word.
    pub(crate) fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// The next number in [0, 1).
    pub(crate) fn next_unit(&mut self) -> f32 {
        (self.next_word() >> 40) as f32 / (1u32 << 24) as f32
    }
}
