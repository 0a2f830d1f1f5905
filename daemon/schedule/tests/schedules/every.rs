//! Every algorithm with every shape that suits it.

use ropeway_schedule::check::{Delivery, check, execute};
use ropeway_schedule::select::predict;
use ropeway_schedule::{Algorithm, BuildError, Collective, CostTable, Counts, Shape, build, build_all};

use crate::shapes::shapes;

/// Each kind, and parameters at their edges.
pub(crate) fn algorithms(size: u32) -> Vec<Algorithm> {
    let mut names: Vec<String> = [
        "k-nomial:3",
        "k-nomial:100",
        "standard-exchange:2",
        "standard-exchange:3",
        "bruck:2",
        "bruck:5",
        "linear-pipeline:1",
        "linear-pipeline:3",
        "pipelined-tree:2",
        "dissemination:3",
        "cayley:2",
        "cayley:3",
    ]
    .map(str::to_owned)
    .into();
    for teams in ["1,1", "2,1", "3,3", "6,2", "8,4"] {
        names.extend(["multileader", "multigroup"].map(|name| format!("{name}:{teams}")));
    }
    if size > 1 {
        names.push(format!("radix-k:{size}"));
    }
    if size > 4 && size.is_multiple_of(4) {
        names.push(format!("radix-k:{},2,2", size / 4));
    }
    Algorithm::all().into_iter().chain(names.iter().map(|name| name.parse().unwrap())).collect()
}

fn try_all(size: u32, roots: &[u32], count: u64) -> usize {
    let mut tried = 0;
    for shape in shapes(size, roots, count) {
        for algorithm in algorithms(size) {
            match build_all(&shape, &algorithm) {
                Ok(schedules) => {
                    tried += 1;
                    let proof = check(&shape, &schedules).unwrap_or_else(|error| {
                        panic!("{algorithm} for {shape:?}: {error}");
                    });
                    let cost = predict(&shape, algorithm.clone(), 8, &CostTable::default()).cost;
                    assert!(f64::from(proof.depth) <= cost.rounds, "{algorithm} for {shape:?}: {proof:?}, {cost:?}");
                }
                Err(BuildError::Unsuitable { .. }) => {}
                Err(error) => panic!("{algorithm} for {shape:?}: {error}"),
            }
        }
    }
    tried
}

#[test]
fn all_are_right_for_small_sizes_and_every_root() {
    for size in 1..=9 {
        let roots: Vec<_> = (0..size).collect();
        let tried: usize = [0, 1, 7, 64, 1000].into_iter().map(|count| try_all(size, &roots, count)).sum();
        assert!(tried > 500, "{tried} of size {size}");
    }
}

#[test]
fn all_are_right_for_middle_sizes() {
    for size in 10..=33 {
        try_all(size, &[0, size / 3, size - 1], 101);
        for count in [0, 1, 7, 1000] {
            try_all(size, &[size / 2], count);
        }
    }
}

#[test]
fn all_are_right_for_64() {
    assert!([0, 1, 7, 1000].into_iter().all(|count| try_all(64, &[33], count) > 300));
}

#[test]
fn all_are_right_for_100() {
    assert!([0, 1, 7, 1000].into_iter().all(|count| try_all(100, &[51], count) > 300));
}

#[test]
fn all_are_right_for_128() {
    assert!([0, 1, 7, 1000].into_iter().all(|count| try_all(128, &[65], count) > 300));
}

#[test]
fn one_of_a_hundred_thousand_builds_its_own_schedule() {
    let (size, count) = (100_000, 1 << 20);
    let order = ropeway_schedule::Order::Rank;
    let collectives = [
        Collective::Barrier,
        Collective::Bcast { root: 99_999, count },
        Collective::Reduce { root: 99_999, count, order },
        Collective::Allreduce { count, order },
        Collective::Scan { count, order },
        Collective::Gather { root: 5, counts: Counts::same(3) },
        Collective::Allgather { counts: Counts::same(3) },
    ];
    for collective in collectives {
        let shape = Shape::new(size, collective);
        for me in [0, 1, 77_777, size - 1] {
            for name in ["binomial", "recursive-doubling", "recursive-halving", "radix-k", "bruck:3", "dissemination"] {
                if let Ok(schedule) = build(&shape, &name.parse().unwrap(), me) {
                    assert!(schedule.steps().len() < 1000, "{name} for {shape:?}");
                }
            }
        }
    }
}

#[test]
fn dependencies_suffice_in_any_order_of_execution() {
    let mut random = fastrand::Rng::with_seed(2026);
    for size in [2, 3, 5, 8, 12] {
        let run = |shape: &Shape, algorithm: &Algorithm, random: &mut fastrand::Rng| {
            let Ok(schedules) = build_all(shape, algorithm) else { return };
            let expected = execute(shape, &schedules, Delivery::Rendezvous, |_| 0).unwrap();
            for delivery in [Delivery::Eager, Delivery::Rendezvous] {
                let execution = execute(shape, &schedules, delivery, |ready| random.usize(..ready)).unwrap();
                assert!(execution.agrees_with(&expected), "{algorithm} for {shape:?}, {delivery:?}");
            }
        };
        for shape in shapes(size, &[size / 2], 23) {
            algorithms(size).iter().for_each(|algorithm| run(&shape, algorithm, &mut random));
        }
    }
}
