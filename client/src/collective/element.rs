//! What reductions combine: numbers, and numbers that say where they are.

use std::fmt;
use std::marker::PhantomData;

use ropeway_proto::operator::{ElementType, Scalar};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::Plain;

/// Numbers that reductions combine: `i8` to `i64`, `u8` to `u64`, `f32` and `f64`.
pub trait Numeric: Plain {
    /// How the daemon calls it.
    #[doc(hidden)]
    const SCALAR: Scalar;
}

/// Elements that operators combine: numbers, and [`Located`] numbers for [`MinLoc`](crate::Operator::MinLoc) and
/// [`MaxLoc`](crate::Operator::MaxLoc).
pub trait Reducible: Plain {
    /// How the daemon calls it.
    #[doc(hidden)]
    const ELEMENT: ElementType;
}

macro_rules! numeric {
    ($($type:ty => $scalar:ident),*) => { $(impl Numeric for $type { const SCALAR: Scalar = Scalar::$scalar; })* };
}

numeric!(
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32, u64 => U64, f32 => F32, f64 => F64
);

impl<T: Numeric> Reducible for T {
    const ELEMENT: ElementType = ElementType { scalar: T::SCALAR, is_located: false };
}

impl<T: Numeric> Reducible for Located<T> {
    const ELEMENT: ElementType = ElementType { scalar: T::SCALAR, is_located: true };
}

/// A number and where it is: what [`MinLoc`](crate::Operator::MinLoc) and [`MaxLoc`](crate::Operator::MaxLoc) look for.
///
/// Of equal numbers the one with the lower index is found; a NaN precedes every number. What an index counts (ranks, rows of
/// the whole matrix) is the program's business. An element takes 16 bytes, whatever the number.
///
/// ```no_run
/// use ropeway::{Located, Operator};
///
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let residual = 1.0 / f64::from(world.rank() + 1);
/// let mut worst = [Located::new(residual, u64::from(world.rank()))];
/// world.allreduce_in_place(&mut worst, Operator::MaxLoc)?;
/// println!("rank {} is worst, by {}", worst[0].index(), worst[0].value());
/// # Ok(())
/// # }
/// ```
// The layout is that of `ElementType`. The number's bytes come first in the first word, then zeros, so there is no padding.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(transparent)]
pub struct Located<T> {
    words: [u64; 2],
    number: PhantomData<T>,
}

const _: () = assert!(size_of::<Located<f64>>() == ElementType::LOCATED_BYTES);
const _: () = assert!(size_of::<u64>() == ElementType::INDEX_OFFSET);

impl<T: Numeric> Located<T> {
    /// The number `value`, which is at `index`.
    pub fn new(value: T, index: u64) -> Self {
        let mut word = [0; size_of::<u64>()];
        word[..size_of::<T>()].copy_from_slice(value.as_bytes());
        Self { words: [u64::from_ne_bytes(word), index], number: PhantomData }
    }

    /// The number.
    pub fn value(self) -> T {
        let word = self.words[0].to_ne_bytes();
        T::read_from_bytes(&word[..size_of::<T>()]).expect("no number is longer than a word")
    }

    /// Where it is.
    pub fn index(self) -> u64 {
        self.words[1]
    }
}

/// Number zero at index zero.
impl<T: Numeric> Default for Located<T> {
    fn default() -> Self {
        Self { words: [0; 2], number: PhantomData }
    }
}

impl<T: Numeric + PartialEq> PartialEq for Located<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.value(), self.index()) == (other.value(), other.index())
    }
}

impl<T: Numeric + fmt::Debug> fmt::Debug for Located<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.value(), self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_located_number_has_the_layout_that_is_combined() {
        let located = Located::new(-3i16, 7);
        assert_eq!((located.value(), located.index()), (-3, 7));
        let (number, rest) = located.as_bytes().split_at(2);
        assert_eq!(number, (-3i16).as_bytes());
        assert_eq!(rest[ElementType::INDEX_OFFSET - 2..], 7u64.to_ne_bytes());
        assert_eq!(Located::new(0.5f64, 1).value(), 0.5);
        assert_eq!(Located::<u8>::default(), Located::new(0, 0));
        assert_eq!(format!("{:?}", Located::new(u64::MAX, 2)), "18446744073709551615 at 2");
    }

    #[test]
    fn located_numbers_are_equal_whatever_lies_between() {
        let mut bytes = [0xee; 16];
        bytes[0] = 5;
        bytes[8..].copy_from_slice(&9u64.to_ne_bytes());
        assert_eq!(Located::<u8>::read_from_bytes(&bytes).unwrap(), Located::new(5, 9));
        assert_ne!(Located::new(5u8, 9), Located::new(5, 8));
    }
}
