//! Predefined operators on all types, within and between nodes, against what a single process would compute.

use ropeway::{Combine, Communicator, Located, Operator, Plain};

use crate::common::everybody;

/// Nodes and ranks.
const PLACES: [(usize, u32); 4] = [(1, 3), (2, 3), (2, 5), (4, 4)];
/// Little, and more than one rank should do alone.
const COUNTS: [usize; 2] = [5, 9001];

/// What all ranks make of their elements, as everybody's result and as prefixes.
fn reduced<T: Plain + PartialEq + std::fmt::Debug>(
    world: &Communicator,
    operator: Operator,
    element: impl Fn(u32, usize) -> T,
    combine: impl Fn(T, T) -> T,
) where
    Operator: Combine<T>,
{
    let (rank, size) = (world.rank(), world.size());
    for count in COUNTS {
        let folded = |last: u32| -> Vec<T> {
            let fold = |index| (1..=last).fold(element(0, index), |left, rank| combine(left, element(rank, index)));
            (0..count).map(fold).collect()
        };
        let own: Vec<T> = (0..count).map(|index| element(rank, index)).collect();
        let mut output = own.clone();
        world.allreduce_in_place(&mut output, operator).unwrap();
        assert_eq!(output, folded(size - 1), "{operator} on {}", std::any::type_name::<T>());
        world.scan(&own, &mut output, operator).unwrap();
        assert_eq!(output, folded(rank), "scan {operator} on {}", std::any::type_name::<T>());
    }
}

macro_rules! integers {
    ($world:ident: $($type:ty)*) => {$(
        let with = |operator, combine: fn($type, $type) -> $type| {
            // Zeros and ones among them; sums and products overflow.
            let element = |rank: u32, index: usize| ((index + rank as usize * 37) % 101) as $type;
            reduced(&$world, operator, element, combine);
        };
        with(Operator::Sum, <$type>::wrapping_add);
        with(Operator::Prod, <$type>::wrapping_mul);
        with(Operator::Min, <$type>::min);
        with(Operator::Max, <$type>::max);
        with(Operator::BitAnd, |left, right| left & right);
        with(Operator::BitOr, |left, right| left | right);
        with(Operator::BitXor, |left, right| left ^ right);
        with(Operator::And, |left, right| <$type>::from(left != 0 && right != 0));
        with(Operator::Or, |left, right| <$type>::from(left != 0 || right != 0));
        with(Operator::Xor, |left, right| <$type>::from((left != 0) != (right != 0)));
    )*};
}

macro_rules! floats {
    ($world:ident: $($type:ty)*) => {$(
        let with = |operator, combine: fn($type, $type) -> $type| {
            // Small whole numbers, so that nothing is rounded.
            reduced(&$world, operator, |rank, index| (index % 7) as $type - rank as $type, combine);
        };
        with(Operator::Sum, |left, right| left + right);
        with(Operator::Prod, |left, right| left * right);
        with(Operator::Min, <$type>::min);
        with(Operator::Max, <$type>::max);
    )*};
}

#[test]
fn every_operator_combines_every_type_it_is_defined_for() {
    for place in PLACES {
        everybody(place, |world| {
            integers!(world: i8 i16 i32 i64 u8 u16 u32 u64);
            floats!(world: f32 f64);
        });
    }
}

#[test]
fn the_least_and_the_greatest_number_are_located() {
    macro_rules! check {
        ($world:ident: $($type:ty)*) => {$(
            let rank = $world.rank() as u8;
            // Rank 2 has the least first, ranks 1 and 3 the greatest second.
            let own = [(rank + 2) % 4, rank % 2].map(|value| Located::new(value as $type, 10 + u64::from(rank)));
            let (mut least, mut greatest) = ([Located::default(); 2], own);
            $world.allreduce(&own, &mut least, Operator::MinLoc).unwrap();
            $world.iallreduce_in_place(&mut greatest, Operator::MaxLoc).unwrap().wait().unwrap();
            assert_eq!(least, [Located::new(0 as $type, 12), Located::new(0 as $type, 10)]);
            assert_eq!(greatest, [Located::new(3 as $type, 11), Located::new(1 as $type, 11)]);
        )*};
    }
    for nodes in [1, 2, 4] {
        everybody((nodes, 4), |world| {
            check!(world: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
            let mut found = [Located::new(if world.rank() == 2 { f64::NAN } else { -1.0 }, u64::from(world.rank()))];
            world.allreduce_in_place(&mut found, Operator::MinLoc).unwrap();
            assert!(found[0].value().is_nan() && found[0].index() == 2);
            let mut scan = world.scan_in_place_init::<Located<i32>>(1, Operator::MaxLoc).unwrap();
            scan.input_mut()[0] = Located::new([4, 9, 9, 1][world.rank() as usize], u64::from(world.rank()));
            scan.start().unwrap().wait().unwrap();
            assert_eq!(scan.output()[0], Located::new([4, 9, 9, 9][world.rank() as usize], world.rank().min(1).into()));
        });
    }
}

#[test]
fn what_an_operator_is_not_defined_for_is_said_at_once() {
    everybody((1, 1), |world| {
        let located = world.allreduce_in_place(&mut [Located::new(1.0, 0)], Operator::Sum).unwrap_err();
        assert_eq!(located.to_string(), "no such collective: sum is not defined for these elements");
        let plain = world.allreduce_in_place(&mut [1.0], Operator::MaxLoc).unwrap_err();
        assert_eq!(plain.to_string(), "no such collective: max-loc is not defined for these elements");
        let bits = world.allreduce_init::<f64>(1, Operator::BitAnd).unwrap_err();
        assert_eq!(bits.to_string(), "no such collective: bit-and is not defined for these elements");
    });
}
