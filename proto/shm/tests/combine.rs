//! Reductions: every operator on every type against one number at a time, wherever the arrays lie.
#![cfg(not(loom))]

use std::cmp::Ordering;
use std::sync::LazyLock;

use proptest::prelude::*;
use ropeway_proto::{ElementType, Layout, Operator, Scalar};
use ropeway_shm::{JobGeometry, JobSegment, OutOfBounds, combine};

const ARENA_BYTES: u64 = 1 << 20;
/// What `fold` combines at once.
const CHUNK_BYTES: usize = 8 << 10;
/// More than the longest array of these tests.
const APART: u64 = 64 << 10;

static DEFINED: LazyLock<Vec<(Operator, ElementType)>> = LazyLock::new(|| {
    let all = ElementType::all().flat_map(|element| Operator::ALL.map(|operator| (operator, element)));
    all.filter(|(operator, element)| operator.is_defined_for(*element)).collect()
});

fn job() -> JobSegment {
    let job = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max: ARENA_BYTES }).unwrap();
    job.reserve_arena(0, 0..ARENA_BYTES).unwrap();
    job
}

fn read(job: &JobSegment, offset: u64, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    job.read(&Layout::contiguous(offset, bytes as u64), 0, &mut content).unwrap();
    content
}

fn write(job: &JobSegment, offset: u64, content: &[u8]) {
    job.write(&Layout::contiguous(offset, content.len() as u64), 0, content).unwrap();
}

macro_rules! oracle_of_integers {
    ($type:ty, $operator:expr, $left:expr, $right:expr) => {{
        let (l, r) =
            (<$type>::from_ne_bytes($left.try_into().unwrap()), <$type>::from_ne_bytes($right.try_into().unwrap()));
        let wide = |result: i128| result as $type;
        let result = match $operator {
            Operator::Sum => wide(l as i128 + r as i128),
            Operator::Prod => wide((l as i128).wrapping_mul(r as i128)),
            Operator::Min => {
                if l < r {
                    l
                } else {
                    r
                }
            }
            Operator::Max => {
                if l > r {
                    l
                } else {
                    r
                }
            }
            Operator::BitAnd => l & r,
            Operator::BitOr => l | r,
            Operator::BitXor => l ^ r,
            Operator::And => (l != 0 && r != 0) as $type,
            Operator::Or => (l != 0 || r != 0) as $type,
            Operator::Xor => ((l != 0) != (r != 0)) as $type,
            Operator::MinLoc | Operator::MaxLoc => unreachable!(),
        };
        result.to_ne_bytes().to_vec()
    }};
}

macro_rules! oracle_of_floats {
    ($type:ty, $operator:expr, $left:expr, $right:expr) => {{
        let (l, r) =
            (<$type>::from_ne_bytes($left.try_into().unwrap()), <$type>::from_ne_bytes($right.try_into().unwrap()));
        let is_less = l.total_cmp(&r) == Ordering::Less;
        let result = match $operator {
            Operator::Sum => l + r,
            Operator::Prod => l * r,
            _ if l.is_nan() || r.is_nan() => <$type>::NAN,
            Operator::Min => {
                if is_less {
                    l
                } else {
                    r
                }
            }
            Operator::Max => {
                if is_less {
                    r
                } else {
                    l
                }
            }
            _ => unreachable!(),
        };
        result.to_ne_bytes().to_vec()
    }};
}

fn plain_oracle(operator: Operator, scalar: Scalar, l: &[u8], r: &[u8]) -> Vec<u8> {
    match scalar {
        Scalar::I8 => oracle_of_integers!(i8, operator, l, r),
        Scalar::I16 => oracle_of_integers!(i16, operator, l, r),
        Scalar::I32 => oracle_of_integers!(i32, operator, l, r),
        Scalar::I64 => oracle_of_integers!(i64, operator, l, r),
        Scalar::U8 => oracle_of_integers!(u8, operator, l, r),
        Scalar::U16 => oracle_of_integers!(u16, operator, l, r),
        Scalar::U32 => oracle_of_integers!(u32, operator, l, r),
        Scalar::U64 => oracle_of_integers!(u64, operator, l, r),
        Scalar::F32 => oracle_of_floats!(f32, operator, l, r),
        Scalar::F64 => oracle_of_floats!(f64, operator, l, r),
    }
}

/// Which of two numbers precedes the other; integers and floats of any size are compared without loss here.
fn order(operator: Operator, scalar: Scalar, l: &[u8], r: &[u8]) -> Ordering {
    macro_rules! order {
        ($type:ty) => {{
            let value = |bytes: &[u8]| <$type>::from_ne_bytes(bytes[..size_of::<$type>()].try_into().unwrap());
            let (l, r) = (value(l), value(r));
            let is_nan = |value: $type| value.partial_cmp(&value).is_none();
            let found =
                l.partial_cmp(&r).map(|found| if operator == Operator::MaxLoc { found.reverse() } else { found });
            found.unwrap_or_else(|| is_nan(r).cmp(&is_nan(l)))
        }};
    }
    match scalar {
        Scalar::I8 => order!(i8),
        Scalar::I16 => order!(i16),
        Scalar::I32 => order!(i32),
        Scalar::I64 => order!(i64),
        Scalar::U8 => order!(u8),
        Scalar::U16 => order!(u16),
        Scalar::U32 => order!(u32),
        Scalar::U64 => order!(u64),
        Scalar::F32 => order!(f32),
        Scalar::F64 => order!(f64),
    }
}

fn oracle(operator: Operator, element: ElementType, l: &[u8], r: &[u8]) -> Vec<u8> {
    if !element.is_located {
        return plain_oracle(operator, element.scalar, l, r);
    }
    let index = |bytes: &[u8]| u64::from_ne_bytes(bytes[8..].try_into().unwrap());
    let is_right = order(operator, element.scalar, l, r).then(index(l).cmp(&index(r))) == Ordering::Greater;
    if is_right { r.to_vec() } else { l.to_vec() }
}

fn combined(operator: Operator, element: ElementType, left: &[u8], right: &[u8]) -> Vec<u8> {
    let pairs = left.chunks(element.bytes()).zip(right.chunks(element.bytes()));
    pairs.flat_map(|(l, r)| oracle(operator, element, l, r)).collect()
}

/// The bits of a NaN that a sum or product gives are nobody's promise.
fn is_same(operator: Operator, element: ElementType, left: &[u8], right: &[u8]) -> bool {
    let is_computed = matches!(operator, Operator::Sum | Operator::Prod);
    let is_nan = |bytes: &[u8]| match element.scalar {
        Scalar::F32 => f32::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        Scalar::F64 => f64::from_ne_bytes(bytes.try_into().unwrap()).is_nan(),
        _ => false,
    };
    let mut pairs = left.chunks(element.bytes()).zip(right.chunks(element.bytes()));
    left.len() == right.len() && pairs.all(|(l, r)| l == r || is_computed && is_nan(l) && is_nan(r))
}

/// Bytes of numbers among which the special ones are frequent.
fn element_bytes(element: ElementType) -> impl Strategy<Value = Vec<u8>> {
    let special = |scalar| match scalar {
        Scalar::F32 => [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, 1.0].map(|x| x.to_ne_bytes().to_vec()).to_vec(),
        Scalar::F64 => [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.0].map(|x| x.to_ne_bytes().to_vec()).to_vec(),
        _ => [0, 0x7f, 0x80, 0xff, 1].map(|byte: u8| vec![byte; scalar.bytes()]).to_vec(),
    };
    let bytes = element.scalar.bytes();
    let value =
        prop_oneof![proptest::collection::vec(any::<u8>(), bytes), proptest::sample::select(special(element.scalar))];
    (value, any::<[u8; 8]>(), 0..3u64).prop_map(move |(mut value, padding, index)| {
        if element.is_located {
            value.extend(&padding[bytes..]);
            value.extend(index.to_ne_bytes());
        }
        value
    })
}

#[derive(Clone, Debug)]
struct Case {
    operator: Operator,
    element: ElementType,
    arrays: Vec<Vec<u8>>,
    shifts: Vec<u64>,
    into: usize,
}

/// Up to four arrays of at most 40 elements, or of about one or two chunks; `into` is one of them or the next place.
fn case() -> impl Strategy<Value = Case> {
    let shape = (proptest::sample::select(DEFINED.clone()), 1..5usize, 0..3usize, 0..40usize);
    shape.prop_flat_map(|((operator, element), sources, chunks, few)| {
        let around = (chunks * CHUNK_BYTES / element.bytes() + few % 5).saturating_sub(2);
        let elements = if chunks == 0 { few } else { around };
        let pattern = proptest::collection::vec(element_bytes(element), 1..37);
        let array = pattern.prop_map(move |pattern| pattern.into_iter().cycle().take(elements).flatten().collect());
        let arrays = proptest::collection::vec(array, sources);
        let shifts = proptest::collection::vec(0..9u64, sources + 1);
        (arrays, shifts, 0..=sources).prop_map(move |(arrays, shifts, into)| Case {
            operator,
            element,
            arrays,
            shifts,
            into,
        })
    })
}

/// Used by one test only.
static JOB: LazyLock<JobSegment> = LazyLock::new(job);

fn check_fold(case: &Case) -> Result<(), TestCaseError> {
    let Case { operator, element, arrays, shifts, into } = case;
    let places: Vec<u64> = (0..).zip(shifts).map(|(i, shift)| JOB.arena(0).start + 64 + i * APART + shift).collect();
    let bytes = arrays[0].len();
    write(&JOB, places[*into] - 8, &vec![0xee; bytes + 16]);
    arrays.iter().zip(&places).for_each(|(array, place)| write(&JOB, *place, array));
    let (first, others) = arrays.split_first().unwrap();
    let expected = others.iter().fold(first.clone(), |l, r| combined(*operator, *element, &l, r));
    let elements = (bytes / element.bytes()) as u64;
    JOB.fold(*operator, *element, (&places[..arrays.len()], &[places[*into]]), 0, elements).unwrap();
    prop_assert!(is_same(*operator, *element, &read(&JOB, places[*into], bytes), &expected));
    prop_assert_eq!(read(&JOB, places[*into] - 8, 8), [0xee; 8], "nothing before is touched");
    prop_assert_eq!(read(&JOB, places[*into] + bytes as u64, 8), [0xee; 8], "nor behind");
    for (array, place) in arrays.iter().zip(&places).filter(|(_, place)| **place != places[*into]) {
        prop_assert_eq!(&read(&JOB, *place, bytes), array, "sources stay");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn folding_is_combining_one_number_at_a_time(case in case()) {
        check_fold(&case)?;
    }
}

#[test]
fn every_operator_combines_every_type_it_is_defined_for() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for &(operator, element) in DEFINED.iter() {
        let numbers = || proptest::collection::vec(element_bytes(element), 70).prop_map(|numbers| numbers.concat());
        runner
            .run(&(numbers(), numbers()), |(left, right)| {
                let mut result = left.clone();
                combine(operator, element, &mut result, &right);
                let expected = combined(operator, element, &left, &right);
                prop_assert!(is_same(operator, element, &result, &expected), "{operator} {element:?}");
                let mut shifted = [&[0], &left[..]].concat();
                combine(operator, element, &mut shifted[1..], &right);
                prop_assert!(is_same(operator, element, &shifted[1..], &expected), "alignment does not matter");
                let mut exchanged = right.clone();
                combine(operator, element, &mut exchanged, &left);
                // Located numbers with the same index are not.
                prop_assert!(
                    element.is_located || is_same(operator, element, &exchanged, &expected),
                    "it is commutative"
                );
                Ok(())
            })
            .unwrap();
    }
}

#[test]
fn nothing_is_written_if_a_source_is_out_of_bounds() {
    let job = job();
    let (element, start) = (ElementType::plain(Scalar::F64), job.arena(0).start);
    let end = job.channels().end;
    write(&job, start, &[7; 16 << 10]);
    let fold = |sources: &[u64], into, elements| job.fold(Operator::Sum, element, (sources, &[into]), 0, elements);
    for wrong in [end - 8, end, u64::MAX, u64::MAX - 8] {
        let refused = Err(OutOfBounds { offset: wrong, bytes: 16 << 10 });
        assert_eq!(fold(&[start, wrong], start, 2 << 10), refused);
        assert_eq!(fold(&[wrong, start], start, 2 << 10), refused);
        assert_eq!(fold(&[start, start], wrong, 2 << 10), refused);
    }
    assert!(fold(&[start], start, u64::MAX).is_err());
    assert!(fold(&[start], start, u64::MAX / 8).is_err());
    assert_eq!(read(&job, start, 16 << 10), [7; 16 << 10]);
}

/// More than a chunk; one of the places is a source.
#[test]
fn a_result_goes_to_several_places() {
    const BYTES: u64 = 20 << 10;
    const SHIFT: u64 = 3;
    let job = job();
    let (element, start) = (ElementType::plain(Scalar::U8), job.arena(0).start);
    let place = |number: u64| start + number * 2 * BYTES;
    for number in 0..2 {
        write(&job, place(number) + SHIFT, &[number as u8 + 1; BYTES as usize]);
    }
    let into = [place(2), place(1), place(3)];
    job.fold(Operator::Sum, element, (&[place(0), place(1)], &into), SHIFT, BYTES).unwrap();
    for place in into {
        assert_eq!(read(&job, place + SHIFT, BYTES as usize), [3; BYTES as usize]);
    }
    assert_eq!(read(&job, place(0) + SHIFT, BYTES as usize), [1; BYTES as usize]);
}

#[test]
fn without_sources_or_elements_nothing_happens() {
    let job = job();
    let (element, start) = (ElementType::plain(Scalar::U8), job.arena(0).start);
    write(&job, start, &[7; 8]);
    assert_eq!(job.fold(Operator::Sum, element, (&[], &[start]), 0, 8), Ok(()));
    assert_eq!(job.fold(Operator::Sum, element, (&[start, start], &[start]), 0, 0), Ok(()));
    assert_eq!(read(&job, start, 8), [7; 8]);
}

#[test]
#[should_panic(expected = "bit-or is not defined for")]
fn an_operator_that_is_not_defined_is_refused() {
    combine(Operator::BitOr, ElementType::plain(Scalar::F32), &mut [0; 4], &[0; 4]);
}

#[test]
fn operators_are_defined_for_what_can_be_combined() {
    for element in ElementType::all() {
        for operator in Operator::ALL {
            let run = || combine(operator, element, &mut [0; 16], &[0; 16]);
            let outcome = std::panic::catch_unwind(run);
            assert_eq!(outcome.is_ok(), operator.is_defined_for(element), "{operator} {element:?}");
        }
    }
}
