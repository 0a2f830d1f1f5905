//! What can't be done is said, with what can.

use ropeway_schedule::{
    BuildError, Collective, CostTable, Counts, Order, PairCounts, Shape, ShapeError, Unsuitable, build, select,
};

fn refusal(size: u32, collective: Collective, algorithm: &str) -> BuildError {
    build(&Shape::new(size, collective), &algorithm.parse().unwrap(), 0).unwrap_err()
}

#[test]
fn shapes_without_sense_are_refused() {
    let message = |size, collective| refusal(size, collective, "linear").to_string();
    assert_eq!(message(0, Collective::Barrier), "a collective needs at least one participant");
    let root = Collective::Bcast { root: 4, count: 1 };
    assert_eq!(message(4, root), "root 4 does not exist among 4 participants: name one of 0 to 3");
    let counts = Counts::each(&[1, 2, 3]);
    assert_eq!(message(4, Collective::Allgather { counts }), "3 counts for 4 participants: give one for each");
    let huge = Collective::Allreduce { count: u64::MAX, order: Order::Any };
    assert!(message(4, huge).starts_with("too many elements"));
    let shape = Shape::new(4, Collective::Barrier);
    let error = build(&shape, &"linear".parse().unwrap(), 4).unwrap_err();
    assert_eq!(error, BuildError::Shape(ShapeError::Participant { me: 4, size: 4 }));
    let counts = PairCounts::Matrix(vec![0, 1, 2, 0].into());
    let in_place = Shape::new(2, Collective::Alltoall { counts }).in_place();
    assert_eq!(in_place.check(), Err(ShapeError::Asymmetric));
}

#[test]
fn algorithms_that_do_not_suit_say_why() {
    let reason = |size, collective, algorithm| match refusal(size, collective, algorithm) {
        BuildError::Unsuitable { reason, .. } => reason,
        error => panic!("{error}"),
    };
    let allreduce = |order| Collective::Allreduce { count: 4, order };
    assert_eq!(reason(4, allreduce(Order::Rank), "ring"), Unsuitable::NeedsCommutative);
    assert_eq!(reason(4, allreduce(Order::Fixed), "recursive-halving"), Unsuitable::NoFixedOrder);
    assert_eq!(reason(4, allreduce(Order::Any), "bruck"), Unsuitable::Operation);
    assert_eq!(reason(6, allreduce(Order::Any), "radix-k:2,2"), Unsuitable::NeedsProduct);
    let allgather = || Collective::Allgather { counts: Counts::same(1) };
    assert_eq!(reason(6, allgather(), "standard-exchange:2"), Unsuitable::NeedsPower { base: 3 });
    assert_eq!(reason(6, allgather(), "recursive-doubling"), Unsuitable::NeedsPower { base: 2 });
    let counts = PairCounts::Matrix(vec![1; 4].into());
    assert_eq!(reason(2, Collective::Alltoall { counts }, "bruck"), Unsuitable::NeedsSameCounts);
    let refused = refusal(4, allreduce(Order::Rank), "ring").to_string();
    assert!(
        refused.starts_with("ring can't be used for this allreduce: it needs an operator that commutes"),
        "{refused}"
    );
}

#[test]
fn short_vectors_get_few_rounds_and_long_ones_few_bytes() {
    let choose = |count, order| {
        let shape = Shape::new(64, Collective::Allreduce { count, order });
        select(&shape, 8, &CostTable::default()).algorithm.to_string()
    };
    let short = choose(1, Order::Any);
    assert!(short == "recursive-doubling" || short.starts_with("standard-exchange"), "{short}");
    let long = choose(1 << 24, Order::Any);
    assert!(["ring", "recursive-halving"].contains(&long.as_str()) || long.starts_with("radix-k:"), "{long}");
    assert_ne!(choose(1 << 24, Order::Rank), "ring");
    let fixed = choose(1 << 20, Order::Fixed);
    assert!(fixed == "pairwise" || fixed.starts_with("linear"), "{fixed}");
}

#[test]
fn every_shape_has_a_choice_whose_reasons_are_in_order() {
    for size in [1, 2, 7, 64] {
        for shape in crate::shapes::shapes(size, &[0], 100) {
            let choice = select(&shape, 4, &CostTable::default());
            let chosen = choice.candidates.iter().find(|one| one.algorithm == choice.algorithm).unwrap();
            let about_as_fast =
                choice.candidates.iter().filter(|one| one.time_ns <= choice.candidates[0].time_ns * 1.1);
            assert!(about_as_fast.clone().any(|one| one == chosen), "{choice:?}");
            assert!(about_as_fast.clone().all(|one| one.cost.handled() >= chosen.cost.handled()), "{choice:?}");
            assert!(choice.candidates.is_sorted_by(|a, b| a.time_ns <= b.time_ns));
            assert!(choice.candidates.iter().all(|candidate| candidate.time_ns >= 0.0), "{choice:?}");
            assert!(choice.refused.iter().all(|error| matches!(error, BuildError::Unsuitable { .. })));
        }
    }
}
