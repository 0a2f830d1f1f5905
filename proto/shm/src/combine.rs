//! Combines arrays with predefined operators: reductions between the ranks of a node.
//!
//! Other processes may write the arrays meanwhile, so they are never looked at where they lie: a chunk of each is copied into
//! private memory, combined there by plain loops that the compiler vectorises, and copied out.

use ropeway_proto::{ElementType, Operator, Scalar};

use crate::chunk::{CHUNK_BYTES, Chunk};
use crate::job::{JobSegment, OutOfBounds};

const _: () = assert!(CHUNK_BYTES.is_multiple_of(ElementType::LOCATED_BYTES));

/// `left[i] = left[i] ∘ right[i]`, for as many elements as both hold. Neither needs to be aligned.
///
/// # Panics
/// If the operator is not defined for the elements (`Operator::is_defined_for`).
pub fn combine(operator: Operator, element: ElementType, left: &mut [u8], right: &[u8]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function is compiled for.
        return unsafe { combine_wide(operator, element, (left, right)) };
    }
    choose(operator, element, (left, right));
}

impl JobSegment {
    /// `into[i] = sources[0][i] ∘ sources[1][i] ∘ …`, for each of `into`, and arrays of `elements` elements that begin at these offsets.
    ///
    /// All of them are shifted by so many bytes. The sources are in the order of ranks. What is written may be one of them; if it
    /// overlaps one otherwise, its content is undefined. Offsets need not be aligned. A single source is copied. Without sources or
    /// elements nothing happens.
    ///
    /// # Panics
    /// If the operator is not defined for the elements (`Operator::is_defined_for`).
    pub fn fold(
        &self,
        operator: Operator,
        element: ElementType,
        (sources, into): (&[u64], &[u64]),
        shift: u64,
        elements: u64,
    ) -> Result<(), OutOfBounds> {
        assert!(operator.is_defined_for(element), "{operator} is not defined for {element:?}");
        let (Some((first, others)), 1..) = (sources.split_first(), elements) else { return Ok(()) };
        let bytes = self.bytes_of_all((sources, into), shift, (elements, element))?;
        let (mut left, mut right) = (Chunk::new(), Chunk::new());
        for at in (0..bytes).step_by(CHUNK_BYTES) {
            let part_bytes = (bytes - at).min(CHUNK_BYTES as u64);
            let part = |offset: u64| {
                let start = offset.checked_add(shift).ok_or(OutOfBounds { offset, bytes })?;
                self.part(start, at, part_bytes, bytes)
            };
            let fetch = |target: Option<&u64>| match target.map(|&target| part(target)) {
                Some(Ok(part)) if part_bytes >= FETCHED_BYTES_MIN => part.fetch_to_write(),
                _ => {}
            };
            let result = left.load(part(*first)?);
            fetch(into.first());
            for &other in others {
                combine(operator, element, result, right.load(part(other)?));
            }
            for (&target, next) in into.iter().zip(1..) {
                fetch(into.get(next));
                part(target)?.store(result);
            }
        }
        Ok(())
    }

    /// `into[i] = sources[0][i] ∘ sources[1][i] ∘ …` of all sources before the one that belongs to it: there may be more of these than of
    /// `into`, in front. What would be nothing is left as it is. An array that is written may be the source that belongs to it; otherwise as
    /// [`fold`](Self::fold). Each source is read once.
    ///
    /// # Panics
    /// As `fold`, and if there are fewer sources than arrays to be written.
    pub(crate) fn fold_before(
        &self,
        operator: Operator,
        element: ElementType,
        (sources, into): (&[u64], &[u64]),
        shift: u64,
        elements: u64,
    ) -> Result<(), OutOfBounds> {
        let targets = BeforeEach::new(sources, into);
        let (Some(&first), 1..) = (sources.first(), elements) else { return Ok(()) };
        let bytes = self.bytes_of_all((sources, into), shift, (elements, element))?;
        let (mut left, mut right) = (Chunk::new(), Chunk::new());
        for at in (0..bytes).step_by(CHUNK_BYTES) {
            let part = |offset| self.part(offset + shift, at, (bytes - at).min(CHUNK_BYTES as u64), bytes);
            let result = left.load(part(first)?);
            for (source, target) in targets.iter() {
                let operand = source.map(part).transpose()?.map(|source| right.load(source));
                if let Some(target) = target {
                    part(target)?.store(result);
                }
                operand.into_iter().for_each(|operand| combine(operator, element, result, operand));
            }
        }
        Ok(())
    }

    /// How long each of these arrays is. All of them are looked at first, so that nothing is written if one is refused.
    fn bytes_of_all(
        &self,
        (sources, into): (&[u64], &[u64]),
        shift: u64,
        (elements, element): (u64, ElementType),
    ) -> Result<u64, OutOfBounds> {
        let offset = sources.first().copied().unwrap_or_default();
        let bytes = elements.checked_mul(element.bytes() as u64).ok_or(OutOfBounds { offset, bytes: u64::MAX })?;
        for &offset in sources.iter().chain(into) {
            self.part(offset, shift, bytes, bytes)?;
        }
        Ok(bytes)
    }
}

/// Sources behind the first one, each with the array that gets what is before it, if it has one. Of the last nobody needs its content.
pub(crate) struct BeforeEach<'a> {
    sources: &'a [u64],
    into: &'a [u64],
}

impl<'a> BeforeEach<'a> {
    pub(crate) fn new(sources: &'a [u64], into: &'a [u64]) -> Self {
        assert!(into.len() <= sources.len(), "each belongs to a source");
        Self { sources, into }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Option<u64>, Option<u64>)> {
        let (last, more) = (self.sources.len() - 1, self.sources.len() - self.into.len());
        let target = move |index: usize| index.checked_sub(more).map(|index| self.into[index]);
        (1..=last).map(move |index| ((index < last).then(|| self.sources[index]), target(index)))
    }
}

/// While so much or more is combined or stored, what is stored next is fetched. Most of its lines were last used by another core, and a string
/// copy of a chunk waits for them: an allreduce of 1 MiB on 4 ranks of two cores takes 0.82–0.93 of the time, and 0.8 where the ranks have computed before.
/// To fetch what is read gains nothing.
const FETCHED_BYTES_MIN: u64 = 1 << 10;

/// Two arrays, the first of which is changed.
type Arrays<'a> = (&'a mut [u8], &'a [u8]);

/// Twice as fast for comparisons, which the instructions that every processor has can't do on all types.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn combine_wide(operator: Operator, element: ElementType, arrays: Arrays<'_>) {
    choose(operator, element, arrays);
}

/// Inlined, as all loops are, so that they are compiled for what their caller is compiled for.
#[inline(always)]
fn choose(operator: Operator, element: ElementType, arrays: Arrays<'_>) {
    let is_done = if element.is_located {
        located(operator, element.scalar, arrays)
    } else {
        plain(operator, element.scalar, arrays)
    };
    assert!(is_done.is_some(), "{operator} is not defined for {element:?}");
}

/// The bytes of a number are a number whatever they are and wherever they lie; so nothing here needs alignment, or `unsafe`.
#[inline(always)]
fn each<const BYTES: usize>(
    (left, right): Arrays<'_>,
    combined: impl Fn([u8; BYTES], [u8; BYTES]) -> [u8; BYTES],
) -> Option<()> {
    for (to, from) in left.as_chunks_mut().0.iter_mut().zip(right.as_chunks().0) {
        *to = combined(*to, *from);
    }
    Some(())
}

macro_rules! numbers {
    ($type:ty, $arrays:expr, |$left:ident, $right:ident| $result:expr) => {
        each($arrays, |left, right| {
            let ($left, $right) = (<$type>::from_ne_bytes(left), <$type>::from_ne_bytes(right));
            <$type>::to_ne_bytes($result)
        })
    };
}

macro_rules! integer {
    ($type:ty, $operator:expr, $arrays:expr) => {
        match $operator {
            Operator::Sum => numbers!($type, $arrays, |l, r| l.wrapping_add(r)),
            Operator::Prod => numbers!($type, $arrays, |l, r| l.wrapping_mul(r)),
            Operator::Min => numbers!($type, $arrays, |l, r| l.min(r)),
            Operator::Max => numbers!($type, $arrays, |l, r| l.max(r)),
            Operator::BitAnd => numbers!($type, $arrays, |l, r| l & r),
            Operator::BitOr => numbers!($type, $arrays, |l, r| l | r),
            Operator::BitXor => numbers!($type, $arrays, |l, r| l ^ r),
            Operator::And => numbers!($type, $arrays, |l, r| ((l != 0) & (r != 0)).into()),
            Operator::Or => numbers!($type, $arrays, |l, r| ((l | r) != 0).into()),
            Operator::Xor => numbers!($type, $arrays, |l, r| ((l != 0) ^ (r != 0)).into()),
            Operator::MinLoc | Operator::MaxLoc => None,
        }
    };
}

/// Asked both ways round, a comparison gives the same bits twice, but for zeros and NaN. Of zeros, the minimum has the sign if
/// one of them has it, the maximum if both have.
macro_rules! extreme {
    ($type:ty, $arrays:expr, $compared:tt, $of_zeros:tt) => {
        numbers!($type, $arrays, |l, r| {
            let (one, other) = (if l $compared r { l } else { r }, if r $compared l { r } else { l });
            let number = <$type>::from_bits(one.to_bits() $of_zeros other.to_bits());
            if l.is_nan() | r.is_nan() { <$type>::NAN } else { number }
        })
    };
}

macro_rules! float {
    ($type:ty, $operator:expr, $arrays:expr) => {
        match $operator {
            Operator::Sum => numbers!($type, $arrays, |l, r| l + r),
            Operator::Prod => numbers!($type, $arrays, |l, r| l * r),
            Operator::Min => extreme!($type, $arrays, <, |),
            Operator::Max => extreme!($type, $arrays, >, &),
            _ => None,
        }
    };
}

#[inline(always)]
fn plain(operator: Operator, scalar: Scalar, arrays: Arrays<'_>) -> Option<()> {
    match scalar {
        Scalar::I8 => integer!(i8, operator, arrays),
        Scalar::I16 => integer!(i16, operator, arrays),
        Scalar::I32 => integer!(i32, operator, arrays),
        Scalar::I64 => integer!(i64, operator, arrays),
        Scalar::U8 => integer!(u8, operator, arrays),
        Scalar::U16 => integer!(u16, operator, arrays),
        Scalar::U32 => integer!(u32, operator, arrays),
        Scalar::U64 => integer!(u64, operator, arrays),
        Scalar::F32 => float!(f32, operator, arrays),
        Scalar::F64 => float!(f64, operator, arrays),
    }
}

type Located = [u8; ElementType::LOCATED_BYTES];

/// The number of a located number.
trait Value: PartialOrd + Copy {
    fn of(element: &Located) -> Self;

    /// Only a NaN is not equal to itself.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.partial_cmp(&self).is_none()
    }
}

macro_rules! value {
    ($($type:ty)*) => {$(
        impl Value for $type {
            #[inline(always)]
            fn of(element: &Located) -> Self {
                Self::from_ne_bytes(*element.first_chunk().expect("no number is longer than an element"))
            }
        }
    )*};
}

value!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

#[inline(always)]
fn index(element: &Located) -> u64 {
    u64::from_ne_bytes(*element[ElementType::INDEX_OFFSET..].first_chunk().expect("the index ends the element"))
}

#[inline(always)]
fn best<V: Value>(arrays: Arrays<'_>, is_better: impl Fn(V, V) -> bool) -> Option<()> {
    let precedes = |a: V, b: V| (a.is_nan() & !b.is_nan()) | is_better(a, b);
    each(arrays, |left, right| {
        let (l, r) = (V::of(&left), V::of(&right));
        let is_lower = index(&right) < index(&left);
        if precedes(r, l) | (!precedes(l, r) & is_lower) { right } else { left }
    })
}

#[inline(always)]
fn located_of<V: Value>(operator: Operator, arrays: Arrays<'_>) -> Option<()> {
    match operator {
        Operator::MinLoc => best::<V>(arrays, |a, b| a < b),
        Operator::MaxLoc => best::<V>(arrays, |a, b| a > b),
        _ => None,
    }
}

#[inline(always)]
fn located(operator: Operator, scalar: Scalar, arrays: Arrays<'_>) -> Option<()> {
    match scalar {
        Scalar::I8 => located_of::<i8>(operator, arrays),
        Scalar::I16 => located_of::<i16>(operator, arrays),
        Scalar::I32 => located_of::<i32>(operator, arrays),
        Scalar::I64 => located_of::<i64>(operator, arrays),
        Scalar::U8 => located_of::<u8>(operator, arrays),
        Scalar::U16 => located_of::<u16>(operator, arrays),
        Scalar::U32 => located_of::<u32>(operator, arrays),
        Scalar::U64 => located_of::<u64>(operator, arrays),
        Scalar::F32 => located_of::<f32>(operator, arrays),
        Scalar::F64 => located_of::<f64>(operator, arrays),
    }
}
