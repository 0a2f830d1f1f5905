//! Messages, volume and depth, as the literature has them.

use ropeway_schedule::check::{Proof, check};
use ropeway_schedule::patterns::{Cayley, InorderTree, digits_needed, power_of};
use ropeway_schedule::{Algorithm, Collective, Counts, Neighborhood, Order, PairCounts, Shape, build_all};

fn prove(size: u32, collective: Collective, algorithm: &str) -> Proof {
    let shape = Shape::new(size, collective);
    let algorithm: Algorithm = algorithm.parse().unwrap();
    check(&shape, &build_all(&shape, &algorithm).unwrap()).unwrap()
}

fn allreduce(size: u32, count: u64, algorithm: &str) -> Proof {
    prove(size, Collective::Allreduce { count, order: Order::Any }, algorithm)
}

fn reduce(size: u32, count: u64, algorithm: &str) -> Proof {
    prove(size, Collective::Reduce { root: 0, count, order: Order::Any }, algorithm)
}

fn reduce_scatter(size: u32, count: u64, algorithm: &str) -> Proof {
    prove(size, Collective::ReduceScatter { counts: Counts::same(count), order: Order::Any }, algorithm)
}

fn exscan(size: u32, count: u64, algorithm: &str) -> Proof {
    prove(size, Collective::Exscan { count, order: Order::Rank }, algorithm)
}

fn allgather(size: u32, algorithm: &str) -> Proof {
    prove(size, Collective::Allgather { counts: Counts::same(3) }, algorithm)
}

fn log2(size: u32) -> u32 {
    digits_needed(2, size)
}

const SIZES: [u32; 9] = [2, 3, 4, 7, 8, 16, 31, 33, 64];

#[test]
fn binomial_trees_have_an_edge_for_each_but_the_root_and_logarithmic_depth() {
    for size in SIZES {
        let bcast = prove(size, Collective::Bcast { root: 1, count: 5 }, "binomial");
        assert_eq!((bcast.messages, bcast.depth), (u64::from(size) - 1, (0..size).map(u32::count_ones).max().unwrap()));
        assert_eq!(reduce(size, 5, "binomial").messages, u64::from(size) - 1);
        if size.is_power_of_two() {
            assert_eq!(bcast.depth, log2(size));
            assert_eq!(reduce(size, 5, "binomial").depth, log2(size));
        }
        let barrier = prove(size, Collective::Barrier, "binomial");
        assert_eq!((barrier.signals, barrier.messages), (2 * (u64::from(size) - 1), 0));
    }
}

/// Digits of a number that are not zero: so deep a node lies in the tree of that radix.
fn digits(radix: u32, mut number: u32) -> u32 {
    let mut digits = 0;
    while number > 0 {
        digits += u32::from(!number.is_multiple_of(radix));
        number /= radix;
    }
    digits
}

#[test]
fn k_nomial_trees_have_an_edge_for_each_but_the_root_and_a_level_for_each_digit() {
    for (size, radix) in SIZES.into_iter().flat_map(|size| [3, 4, 5, 8].map(|radix| (size, radix))) {
        let (name, edges) = (format!("k-nomial:{radix}"), u64::from(size) - 1);
        let depth = (0..size).map(|node| digits(radix, node)).max().unwrap();
        // A block goes as many ways as its node lies deep.
        let ways: u64 = (0..size).map(|node| u64::from(digits(radix, node))).sum();
        let counts = || Counts::same(2);
        for (collective, elements) in [
            (Collective::Bcast { root: 1, count: 5 }, 5 * edges),
            (Collective::Reduce { root: 1, count: 5, order: Order::Any }, 5 * edges),
            (Collective::Gather { root: 1, counts: counts() }, 2 * ways),
            (Collective::Scatter { root: 1, counts: counts() }, 2 * ways),
        ] {
            let proof = prove(size, collective, &name);
            assert_eq!((proof.messages, proof.elements, proof.depth), (edges, elements, depth), "{size} by {name}");
        }
        let sum = allreduce(size, 5, &name);
        assert_eq!((sum.messages, sum.elements, sum.depth), (2 * edges, 10 * edges, 2 * depth), "{size} by {name}");
        let barrier = prove(size, Collective::Barrier, &name);
        assert_eq!((barrier.signals, barrier.depth), (2 * edges, 2 * depth), "{size} by {name}");
    }
}

#[test]
fn linear_algorithms_send_directly() {
    for size in SIZES {
        let p = u64::from(size);
        let bcast = prove(size, Collective::Bcast { root: 1, count: 5 }, "linear");
        assert_eq!((bcast.messages, bcast.depth), (p - 1, 1));
        let gather = prove(size, Collective::Gather { root: 1, counts: Counts::same(5) }, "linear");
        assert_eq!((gather.messages, gather.depth, gather.scratch_elements), (p - 1, 1, 0));
        let scatter = prove(size, Collective::Scatter { root: 1, counts: Counts::same(5) }, "linear");
        assert_eq!((scatter.messages, scatter.elements, scatter.depth), (p - 1, 5 * (p - 1), 1));
        let sums = reduce_scatter(size, 5, "linear");
        assert_eq!((sums.messages, sums.elements, sums.depth), (p * (p - 1), 5 * p * (p - 1), 1));
        let sum = allreduce(size, 5, "linear");
        assert_eq!((sum.messages, sum.depth), (2 * (p - 1), 2));
        let scan = prove(size, Collective::Scan { count: 5, order: Order::Fixed }, "linear");
        assert_eq!((scan.messages, scan.depth), (p - 1, size - 1));
        let before = exscan(size, 5, "linear");
        assert_eq!((before.messages, before.elements, before.depth), (p - 1, 5 * (p - 1), size - 1));
        let barrier = prove(size, Collective::Barrier, "linear");
        assert_eq!((barrier.signals, barrier.depth), (2 * (p - 1), 2));
    }
}

#[test]
fn recursive_doubling_sends_everything_in_logarithmically_many_rounds() {
    for size in SIZES {
        let core = u64::from(size.ilog2()) << size.ilog2();
        let folded = u64::from(size) - (1 << size.ilog2());
        let proof = allreduce(size, 11, "recursive-doubling");
        assert_eq!(proof.messages, core + 2 * folded);
        assert_eq!(proof.elements, 11 * proof.messages);
        assert!(proof.depth <= size.ilog2() + if folded > 0 { 2 } else { 0 });
        let scan = prove(size, Collective::Scan { count: 11, order: Order::Rank }, "recursive-doubling");
        let further = (0..log2(size)).map(|round| u64::from(size) - (1 << round)).sum::<u64>();
        assert_eq!(scan.messages, further);
        assert!(scan.depth <= log2(size));
        let before = exscan(size, 11, "recursive-doubling");
        assert_eq!((before.messages, before.elements), (further, 11 * further));
        assert!(before.depth <= log2(size));
        if size.is_power_of_two() {
            assert_eq!((proof.depth, scan.depth), (log2(size), log2(size)));
        }
    }
}

#[test]
fn rabenseifner_sends_twice_the_vector() {
    for size in [2, 4, 8, 16, 64] {
        let count = u64::from(size) * 3;
        let (p, log) = (u64::from(size), log2(size));
        let proof = allreduce(size, count, "recursive-halving");
        assert_eq!((proof.messages, proof.depth), (2 * p * u64::from(log), 2 * log));
        assert_eq!(proof.elements, 2 * (p - 1) * count);
        let proof = reduce_scatter(size, 3, "recursive-halving");
        assert_eq!((proof.messages, proof.depth, proof.elements), (p * u64::from(log), log, (p - 1) * count));
        let proof = reduce(size, count, "recursive-halving");
        assert_eq!((proof.messages, proof.depth), (p * u64::from(log) + p - 1, 2 * log));
    }
}

#[test]
fn rings_take_a_round_for_each_other_rank() {
    for size in SIZES {
        let (p, count) = (u64::from(size), u64::from(size) * 2);
        let proof = allreduce(size, count, "ring");
        assert_eq!((proof.messages, proof.depth), (2 * p * (p - 1), 2 * (size - 1)));
        assert_eq!(proof.elements, 2 * (p - 1) * count);
        let proof = allgather(size, "ring");
        assert_eq!((proof.messages, proof.depth, proof.elements), (p * (p - 1), size - 1, 3 * p * (p - 1)));
        let proof = reduce_scatter(size, 2, "ring");
        assert_eq!((proof.messages, proof.depth, proof.elements), (p * (p - 1), size - 1, (p - 1) * count));
        let proof = reduce(size, count, "ring");
        assert_eq!(proof.messages, p * (p - 1) + p - 1);
    }
}

#[test]
fn radix_k_sends_to_the_others_of_each_group() {
    let proof = reduce(128, 256, "radix-k:4,4,8");
    let down = 128 * (3 + 3 + 7);
    assert_eq!((proof.messages, proof.depth), (down + 127, 6));
    assert_eq!(reduce(16, 64, "radix-k:16").depth, 2);
    assert_eq!(allreduce(16, 64, "radix-k:2,2,2,2"), allreduce(16, 64, "recursive-halving"));
}

#[test]
fn bruck_takes_logarithmically_many_rounds_for_any_size_and_any_number_of_ports() {
    for size in SIZES {
        let p = u64::from(size);
        for ports in 1..5 {
            let proof = allgather(size, &format!("bruck:{ports}"));
            assert!(proof.depth <= digits_needed(ports + 1, size));
            assert!(power_of(ports + 1, size).is_none_or(|rounds| proof.depth == rounds));
            // Everybody gets each other block once, whatever the size.
            assert_eq!(proof.elements, 3 * p * (p - 1));
            // In each round as many as there are ports, and in the last one as many as are missing.
            let distances = (0..digits_needed(ports + 1, size)).map(|round| (ports + 1).pow(round));
            assert_eq!(proof.messages, p * distances.map(|one| u64::from(ports.min((size - 1) / one))).sum::<u64>());
        }
        let counts = PairCounts::Same(2);
        let proof = prove(size, Collective::Alltoall { counts }, "bruck");
        // Block i travels as often as it has bits.
        let travels: u64 = (0..size).map(|block| u64::from(block.count_ones())).sum();
        assert_eq!((proof.messages, proof.elements), (p * u64::from(log2(size)), 2 * p * travels));
        assert!(proof.depth <= log2(size));
    }
}

#[test]
fn standard_exchange_takes_k_messages_a_round() {
    for (size, ports, rounds) in [(8, 1, 3), (9, 2, 2), (16, 3, 2), (4, 3, 1), (64, 1, 6), (64, 3, 3)] {
        let proof = allgather(size, &format!("standard-exchange:{ports}"));
        assert_eq!((proof.messages, proof.depth), (u64::from(size * ports * rounds), rounds));
        let barrier = prove(size, Collective::Barrier, &format!("standard-exchange:{ports}"));
        assert_eq!((barrier.signals, barrier.depth), (u64::from(size * ports * rounds), rounds));
    }
}

#[test]
fn the_dissemination_barrier_takes_logarithmically_many_rounds() {
    for size in SIZES {
        let proof = prove(size, Collective::Barrier, "dissemination");
        assert_eq!((proof.signals, proof.depth), (u64::from(size * log2(size)), log2(size)));
        assert_eq!(prove(size, Collective::Barrier, "dissemination:3").depth, digits_needed(4, size));
    }
}

#[test]
fn pairwise_exchange_takes_a_round_for_each_other_rank() {
    for size in SIZES {
        let p = u64::from(size);
        let proof = prove(size, Collective::Alltoall { counts: PairCounts::Same(4) }, "pairwise");
        assert_eq!((proof.messages, proof.depth, proof.elements), (p * (p - 1), size - 1, 4 * p * (p - 1)));
        let proof = reduce_scatter(size, 4, "pairwise");
        assert_eq!((proof.messages, proof.depth, proof.elements), (p * (p - 1), size - 1, 4 * p * (p - 1)));
        let proof = prove(size, Collective::Alltoall { counts: PairCounts::Same(4) }, "linear");
        assert_eq!((proof.messages, proof.depth), (p * (p - 1), 1));
    }
}

#[test]
fn cayley_trees_send_each_block_over_each_edge_once() {
    for size in SIZES {
        for degree in 2..5 {
            let p = u64::from(size);
            let proof = allgather(size, &format!("cayley:{degree}"));
            assert_eq!((proof.messages, proof.elements), (p * (p - 1), 3 * p * (p - 1)));
            assert_eq!(proof.depth, Cayley::new(degree, size).diameter());
        }
    }
}

/// Nodes, ranks of each, and leaders of each.
const TEAMS: [(u32, u32, u32); 6] = [(4, 4, 2), (2, 2, 1), (3, 6, 3), (5, 4, 1), (2, 8, 4), (3, 2, 2)];

#[test]
fn leaders_exchange_in_one_ring_or_in_one_a_group() {
    for (nodes, ranks, leaders) in TEAMS {
        let (size, teams) = (nodes * ranks, u64::from(nodes * leaders));
        // Members tell their leader, unless all are leaders, and are told.
        let (members, telling) = (u64::from(nodes * (ranks - leaders)), u32::from(ranks > leaders));
        let all = allgather(size, &format!("multileader:{ranks},{leaders}"));
        assert_eq!(
            all.messages,
            members + teams * (teams - 1) + members,
            "{nodes} nodes of {ranks}, {leaders} leaders"
        );
        assert_eq!(all.depth, telling + (nodes * leaders - 1) + telling, "{nodes} nodes of {ranks}, {leaders} leaders");
        // A ring for each group; each leader hands the blocks of all nodes on to all others of its node.
        let groups = allgather(size, &format!("multigroup:{ranks},{leaders}"));
        let (around, on) = (teams * u64::from(nodes - 1), teams * u64::from(nodes * (ranks - 1)));
        assert_eq!(groups.messages, members + around + on, "{nodes} nodes of {ranks}, {leaders} groups");
        assert_eq!(groups.depth, telling + (nodes - 1) + 1, "{nodes} nodes of {ranks}, {leaders} groups");
    }
}

#[test]
fn neighbors_send_directly() {
    let line = |size: u32, is_closed| Neighborhood::grid(&[(size, is_closed)]);
    for size in SIZES {
        let p = u64::from(size);
        let square = Neighborhood::grid(&[(3, true), (size, false)]);
        for (ranks, neighborhood, edges) in [
            (size, line(size, true), 2 * p),
            (size, line(size, false), 2 * (p - 1)),
            (3 * size, square, 2 * 3 * p + 3 * 2 * (p - 1)),
        ] {
            let gather = Collective::NeighborAllgather { neighborhood: neighborhood.clone(), count: 3 };
            for collective in [gather, Collective::NeighborAlltoall { neighborhood, count: 3 }] {
                let proof = prove(ranks, collective, "linear");
                assert_eq!((proof.messages, proof.elements, proof.depth), (edges, 3 * edges, 1), "{ranks} ranks");
            }
        }
    }
}

#[test]
fn pipelines_are_as_deep_as_their_chains() {
    for size in SIZES {
        let chain = reduce(size, 100, "linear-pipeline:10");
        assert_eq!((chain.messages, chain.depth), (10 * u64::from(size - 1), size - 1));
        let tree = reduce(size, 100, "pipelined-tree:10");
        assert_eq!((tree.messages, tree.depth), (10 * u64::from(size - 1), InorderTree::depth(0, size)));
    }
}

#[test]
fn scatter_allgather_moves_the_vector_twice() {
    for size in [4, 8, 16] {
        let p = u64::from(size);
        let proof = prove(size, Collective::Bcast { root: 0, count: 2 * p }, "scatter-allgather");
        assert_eq!(proof.messages, p - 1 + p * (p - 1));
        assert!(proof.depth < log2(size) + size);
    }
}

#[test]
fn gathers_and_scatters_over_trees_send_each_block_once_a_level() {
    for size in SIZES {
        let ways: u64 = (0..size).map(|node| u64::from(node.count_ones())).sum();
        let depth = (0..size).map(u32::count_ones).max().unwrap();
        for root in [0, size - 1] {
            let counts = || Counts::same(2);
            for collective in
                [Collective::Gather { root, counts: counts() }, Collective::Scatter { root, counts: counts() }]
            {
                let proof = prove(size, collective, "binomial");
                assert_eq!((proof.messages, proof.elements, proof.depth), (u64::from(size) - 1, 2 * ways, depth));
            }
        }
    }
}
