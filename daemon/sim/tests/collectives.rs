//! Every algorithm on every number of nodes, with random delays: right, and with as many messages as the literature says.

use ropeway_schedule::{Algorithm, Collective, Counts, Neighborhood, Order, PairCounts, Shape};
use ropeway_sim::Summary;
use ropeway_sim::workload::Workload;
use ropeway_sim::workload::collective::CollectivePlan;

/// Every operation, with vectors, or blocks taken together, of about `count` elements.
fn operations(size: u32, roots: impl Iterator<Item = u32>, count: u64) -> Vec<Collective> {
    let (counts, block) = (|| Counts::even(count, size), count.div_ceil(u64::from(size)));
    let neighborhood = || Neighborhood::grid(&[(size, true)]);
    let mut all = vec![
        Collective::Barrier,
        Collective::Allgather { counts: counts() },
        Collective::Allgather { counts: Counts::same(block) },
        Collective::Alltoall { counts: PairCounts::Same(block) },
        Collective::NeighborAllgather { neighborhood: neighborhood(), count: block },
        Collective::NeighborAlltoall { neighborhood: neighborhood(), count: block },
    ];
    for order in [Order::Any, Order::Rank, Order::Fixed] {
        all.extend([
            Collective::Allreduce { count, order },
            Collective::ReduceScatter { counts: counts(), order },
            Collective::Scan { count, order },
            Collective::Exscan { count, order },
        ]);
    }
    for root in roots {
        all.extend([Order::Any, Order::Rank, Order::Fixed].map(|order| Collective::Reduce { root, count, order }));
        all.extend([
            Collective::Bcast { root, count },
            Collective::Gather { root, counts: counts() },
            Collective::Scatter { root, counts: counts() },
        ]);
    }
    all
}

/// The operations that suit an algorithm.
fn suits(algorithm: &Algorithm, size: u32, operations: &[Collective]) -> Vec<Shape> {
    let shapes = operations.iter().map(|collective| Shape::new(size, collective.clone()));
    shapes.filter(|shape| algorithm.check(shape).is_ok()).collect()
}

/// Runs all of these at once, twice each.
fn run(seed: u64, size: u32, collectives: Vec<(Shape, Algorithm)>) -> Summary {
    let expected = 2 * size as usize * collectives.len();
    let workload = Workload::of_collectives(seed, size, |spec| {
        let plan = |(shape, algorithm)| CollectivePlan::of_all(spec, shape, algorithm, 2);
        collectives.into_iter().map(plan).collect()
    });
    let summary = ropeway_sim::simulate(workload, false).unwrap_or_else(|what| panic!("{size} nodes: {what}"));
    assert_eq!(summary.rounds, expected);
    summary
}

#[test]
fn every_algorithm_does_every_operation_with_every_root() {
    for size in 1..=6 {
        for count in [0, 1, 7, 19] {
            let operations = operations(size, 0..size, count);
            let all = |algorithm: Algorithm| {
                suits(&algorithm, size, &operations).into_iter().map(move |shape| (shape, algorithm.clone()))
            };
            run(u64::from(size) ^ count << 8, size, Algorithm::all().into_iter().flat_map(all).collect());
        }
    }
}

#[test]
fn every_algorithm_runs_on_every_number_of_nodes() {
    for size in (7..=33).chain([64, 100, 128]) {
        let operations = operations(size, std::iter::once(size / 3), 7);
        let mut all: Vec<_> = Vec::new();
        for algorithm in Algorithm::all() {
            // Another operation for each size.
            let shapes = suits(&algorithm, size, &operations);
            all.extend(shapes.get(size as usize % shapes.len().max(1)).map(|shape| (shape.clone(), algorithm)));
        }
        assert!(all.len() > 10, "{size} nodes: {all:?}");
        run(u64::from(size), size, all);
    }
}

/// Messages and signals of one round.
fn messages(size: u32, collective: Collective, algorithm: &str) -> u64 {
    let (shape, algorithm) = (Shape::new(size, collective), algorithm.parse().unwrap());
    run(u64::from(size), size, vec![(shape, algorithm)]).sent / 2
}

#[test]
fn a_round_sends_as_many_messages_as_the_literature_says() {
    let order = Order::Any;
    for size in [2_u32, 3, 8, 13, 16] {
        let (p, count) = (u64::from(size), 2 * u64::from(size));
        let log = u64::from(size.next_power_of_two().ilog2());
        let allreduce = |algorithm| messages(size, Collective::Allreduce { count, order }, algorithm);
        let core = u64::from(size.ilog2()) << size.ilog2();
        assert_eq!(messages(size, Collective::Bcast { root: 1, count }, "binomial"), p - 1);
        assert_eq!(messages(size, Collective::Reduce { root: 1, count, order }, "binomial"), p - 1);
        assert_eq!(messages(size, Collective::Reduce { root: 0, count, order }, "linear-pipeline:4"), 4 * (p - 1));
        assert_eq!(messages(size, Collective::Barrier, "dissemination"), p * log);
        assert_eq!(messages(size, Collective::Allgather { counts: Counts::same(3) }, "ring"), p * (p - 1));
        assert_eq!(messages(size, Collective::Alltoall { counts: PairCounts::Same(3) }, "pairwise"), p * (p - 1));
        assert_eq!(messages(size, Collective::Alltoall { counts: PairCounts::Same(3) }, "bruck"), p * log);
        assert_eq!(allreduce("linear"), 2 * (p - 1));
        assert_eq!(allreduce("ring"), 2 * p * (p - 1));
        assert_eq!(allreduce("recursive-doubling"), core + 2 * (p - (1 << size.ilog2())));
        if size.is_power_of_two() {
            assert_eq!(allreduce("recursive-halving"), 2 * p * log);
        }
    }
}
