//! Ranks as numbers with digits: groups of those that differ in one digit.

/// One digit of a rank: the group of ranks that differ in nothing else.
///
/// With strides 1, r0, r0·r1, … the digits of all places name each rank below r0·r1·… once. Two ranks that differ in a
/// digit to base 2 are each other's partners in recursive doubling and halving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct Digit {
    pub stride: u32,
    pub radix: u32,
}

impl Digit {
    /// The places of a number with these radices, lowest first.
    pub fn places(radices: &[u32]) -> Vec<Self> {
        let strides = radices.iter().scan(1, |next, &radix| {
            let stride = *next;
            *next *= radix;
            Some(Self { stride, radix })
        });
        strides.collect()
    }

    /// The digit of a rank.
    pub const fn of(&self, rank: u32) -> u32 {
        rank / self.stride % self.radix
    }

    /// The rank with another digit in this place.
    pub const fn with(&self, rank: u32, digit: u32) -> u32 {
        rank - self.of(rank) * self.stride + digit * self.stride
    }
}

/// How many digits to base `base` numbers below `size` have: ⌈log_base size⌉.
pub const fn digits_needed(base: u32, size: u32) -> u32 {
    let (mut digits, mut reach) = (0, 1_u64);
    while reach < size as u64 {
        reach *= base as u64;
        digits += 1;
    }
    digits
}

/// The exponent, if `size` is a power of `base`.
pub const fn power_of(base: u32, size: u32) -> Option<u32> {
    let digits = digits_needed(base, size);
    if (base as u64).pow(digits) == size as u64 { Some(digits) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_name_ranks() {
        let places = Digit::places(&[4, 2, 3]);
        assert_eq!(places.iter().map(|place| place.of(17)).collect::<Vec<_>>(), [1, 0, 2]);
        assert_eq!(places[2].with(17, 0), 1);
        assert_eq!((power_of(3, 27), power_of(3, 28), power_of(2, 1)), (Some(3), None, Some(0)));
        assert_eq!((digits_needed(2, 9), digits_needed(4, 64)), (4, 3));
    }
}
