//! What a rank does with its own keys.

use crate::random::SplitMix;

/// Bits of a key.
const KEY_BITS: u32 = u32::BITS;

/// Some consecutive bits of a key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Digit {
    shift: u32,
    bits: u32,
}

impl Digit {
    /// All digits of so many bits that a key has, the least significant first. The last may have less.
    pub(super) fn all(bits: u32) -> impl Iterator<Item = Self> {
        (0..KEY_BITS).step_by(bits as usize).map(move |shift| Self { shift, bits })
    }

    /// How many values it can have.
    pub(super) fn radix(bits: u32) -> usize {
        1 << bits
    }

    fn of(self, key: u32) -> usize {
        (key >> self.shift) as usize & (Self::radix(self.bits) - 1)
    }

    /// Counts the keys that have each value.
    pub(super) fn count(self, keys: &[u32], counts: &mut [u32]) {
        counts.fill(0);
        keys.iter().for_each(|&key| counts[self.of(key)] += 1);
    }

    /// Puts the keys in order of their values, equal ones as they were. Their `counts` become where those with each
    /// value end.
    pub(super) fn order(self, keys: &[u32], counts: &mut [u32], ordered: &mut [u32]) {
        let mut begin = 0;
        for count in &mut *counts {
            begin += std::mem::replace(count, begin);
        }
        for &key in keys {
            let place = &mut counts[self.of(key)];
            ordered[*place as usize] = key;
            *place += 1;
        }
    }
}

/// A rank's keys, which depend on `seed` alone.
pub fn random_keys(seed: u64, rank: u32, count: usize) -> Vec<u32> {
    let mut random = SplitMix::stream(seed, rank.into());
    (0..count).map(|_| random.next_word() as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_have_all_bits() {
        for bits in [2, 5, 10, 16] {
            let digits: Vec<_> = Digit::all(bits).collect();
            assert_eq!(digits.len() as u32, KEY_BITS.div_ceil(bits));
            let key = 0x9e37_79b9;
            let parts = digits.iter().map(|digit| (digit.of(key) as u64) << digit.shift);
            assert_eq!(parts.sum::<u64>(), u64::from(key));
        }
    }

    #[test]
    fn keys_are_ordered_by_one_digit_and_stay_in_order_otherwise() {
        let keys = [0x31, 0x12, 0x21, 0x02, 0x20, 0x11];
        let (mut counts, mut ordered) = ([0; 16], [0; 6]);
        let digit = Digit::all(4).next().unwrap();
        digit.count(&keys, &mut counts);
        assert_eq!(counts[..4], [1, 3, 2, 0]);
        digit.order(&keys, &mut counts, &mut ordered);
        assert_eq!(ordered, [0x20, 0x31, 0x21, 0x11, 0x12, 0x02]);
    }
}
