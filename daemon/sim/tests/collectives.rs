//! Collectives between nodes send as many messages as the literature says.

use ropeway_schedule::{Collective, Counts, Order, PairCounts, Shape};
use ropeway_sim::workload::Workload;
use ropeway_sim::workload::collective::CollectivePlan;

/// Messages and signals of one round, of two.
fn messages(size: u32, collective: Collective, algorithm: &str) -> u64 {
    let (shape, algorithm) = (Shape::new(size, collective), algorithm.parse().unwrap());
    let ranks_per_node = std::iter::repeat_n(1, size as usize);
    let workload = Workload::of_collectives(u64::from(size), ranks_per_node, |spec| {
        vec![CollectivePlan::of_all(spec, shape, algorithm, 2)]
    });
    let summary = ropeway_sim::simulate(workload, false).unwrap_or_else(|what| panic!("{size} nodes: {what}"));
    assert_eq!(summary.rounds, 2 * size as usize);
    summary.sent / 2
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
