//! How many messages every algorithm takes for every operation that it suits: as many as the closed forms of the sources say.

use std::collections::BTreeSet;

use ropeway_schedule::{
    Action, Algorithm, BuildError, Collective, Counts, Neighborhood, Order, PairCounts, Shape, build,
};

use crate::every::algorithms;
use crate::shapes::ORDERS;

/// Every operation, root and order of a size. Nothing is so short that pieces or segments of it are empty: those are not sent.
fn shapes(size: u32) -> Vec<Shape> {
    let count = 8 * u64::from(size);
    let counts = || Counts::same(2);
    let line = |is_closed| Neighborhood::grid(&[(size, is_closed)]);
    let mut collectives = vec![
        Collective::Barrier,
        Collective::Allgather { counts: counts() },
        Collective::Alltoall { counts: PairCounts::Same(2) },
    ];
    for neighborhood in [line(true), line(false)] {
        collectives.push(Collective::NeighborAllgather { neighborhood: neighborhood.clone(), count });
        collectives.push(Collective::NeighborAlltoall { neighborhood, count });
    }
    let roots = || BTreeSet::from([0, size / 2, size - 1]).into_iter();
    for root in roots() {
        collectives.push(Collective::Bcast { root, count });
        collectives.push(Collective::Gather { root, counts: counts() });
        collectives.push(Collective::Scatter { root, counts: counts() });
    }
    for order in ORDERS {
        collectives.extend(roots().map(|root| Collective::Reduce { root, count, order }));
        collectives.push(Collective::Allreduce { count, order });
        collectives.push(Collective::ReduceScatter { counts: counts(), order });
        collectives.push(Collective::Scan { count, order });
        collectives.push(Collective::Exscan { count, order });
    }
    collectives.into_iter().map(|collective| Shape::new(size, collective)).collect()
}

/// Messages of all participants, those of barriers included, which are empty. `None` if nobody has written the form down.
///
/// The forms follow from what the sources say an algorithm does, not from what is built. Of p participants, with k ports b is k + 1, and 2^B
/// the largest power of two in p. The sources are named at the head of each algorithm.
fn closed_form(shape: &Shape, algorithm: &Algorithm) -> Option<u64> {
    let p = u64::from(shape.size);
    let name = algorithm.to_string();
    let parameters: Vec<u64> = name.split(':').nth(1).into_iter().flat_map(|all| all.split(',')).map(number).collect();
    match (algorithm.name(), parameters.as_slice()) {
        ("linear", []) => linear(shape),
        ("binomial", []) | ("k-nomial", [_]) => k_nomial(shape),
        ("ring", []) => ring(shape),
        ("recursive-doubling", []) => recursive_doubling(shape),
        ("standard-exchange", &[k]) => standard_exchange(shape, k),
        ("recursive-halving", []) => recursive_halving(shape),
        ("radix-k", []) => radix_k(shape, &usual_radices(p)),
        ("radix-k", radices) => radix_k(shape, radices),
        ("bruck", &[k]) => further_and_further(shape, k, &["allgather", "alltoall"]),
        ("dissemination", &[k]) => further_and_further(shape, k, &["barrier"]),
        ("linear-pipeline", &[segments]) => linear_pipeline(shape, segments),
        ("pipelined-tree", &[segments]) => pipelined_tree(shape, segments),
        ("pairwise", []) => pairwise(shape),
        // Inozemtsev 2014, §5.3: each block goes over each edge of one tree, once.
        ("cayley", [_]) => is(shape, "allgather").then_some(p * (p - 1)),
        // Van de Geijn 1994: a binomial scatter, then a ring.
        ("scatter-allgather", []) => is(shape, "bcast").then_some(p - 1 + p * (p - 1)),
        ("multileader", &[ranks, leaders]) => is(shape, "allgather").then(|| multileader(p, ranks, leaders)),
        ("multigroup", &[ranks, groups]) => is(shape, "allgather").then(|| multigroup(p, ranks, groups)),
        _ => None,
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap()
}

fn is(shape: &Shape, operation: &str) -> bool {
    shape.collective.name() == operation
}

/// A message for each who has to hear from somebody: directly from the root or to it, or from everybody. Scans go along the ranks.
fn linear(shape: &Shape) -> Option<u64> {
    let p = u64::from(shape.size);
    match &shape.collective {
        Collective::Barrier | Collective::Allreduce { .. } => Some(2 * (p - 1)),
        Collective::Bcast { .. } | Collective::Reduce { .. } => Some(p - 1),
        Collective::Gather { .. } | Collective::Scatter { .. } => Some(p - 1),
        Collective::Scan { .. } | Collective::Exscan { .. } => Some(p - 1),
        Collective::ReduceScatter { .. } | Collective::Allgather { .. } | Collective::Alltoall { .. } => {
            Some(p * (p - 1))
        }
        // One an edge, but for those that lead back to where they come from.
        Collective::NeighborAllgather { neighborhood, .. } | Collective::NeighborAlltoall { neighborhood, .. } => {
            let elsewhere = |rank: u32| neighborhood.destinations(rank).iter().filter(|&&to| to != rank).count() as u64;
            Some((0..shape.size).map(elsewhere).sum())
        }
    }
}

/// Thakur et al. 2005, §4: a tree has an edge for each participant but the root, whatever its radix; what goes both ways takes it twice.
fn k_nomial(shape: &Shape) -> Option<u64> {
    let edges = u64::from(shape.size) - 1;
    match shape.collective {
        Collective::Bcast { .. } | Collective::Gather { .. } | Collective::Scatter { .. } => Some(edges),
        // Only a tree that begins at rank 0 keeps the order of ranks: the result goes on from there.
        Collective::Reduce { root, order, .. } => Some(edges + u64::from(order == Order::Rank && root != 0)),
        Collective::Barrier | Collective::Allreduce { .. } => Some(2 * edges),
        _ => None,
    }
}

/// Patarasuk, Yuan 2009: each sends to its neighbor p−1 times; for an allreduce twice, for a reduce a binomial gather follows.
fn ring(shape: &Shape) -> Option<u64> {
    let p = u64::from(shape.size);
    match shape.collective {
        Collective::Allgather { .. } | Collective::ReduceScatter { .. } => Some(p * (p - 1)),
        Collective::Allreduce { .. } => Some(2 * p * (p - 1)),
        Collective::Reduce { .. } => Some(p * (p - 1) + p - 1),
        _ => None,
    }
}

/// 2^B, B, and how many are beyond.
fn core(shape: &Shape) -> (u64, u64, u64) {
    let log = shape.size.ilog2();
    (1 << log, u64::from(log), u64::from(shape.size) - (1 << log))
}

/// Thakur et al. 2005, §4.4: in each of B rounds each of 2^B sends once; the others give theirs away before, and get the result after.
/// Scans (Hillis, Steele 1986): in round i whoever has somebody 2^i further sends.
fn recursive_doubling(shape: &Shape) -> Option<u64> {
    let p = u64::from(shape.size);
    let (core, rounds, beyond) = core(shape);
    match shape.collective {
        Collective::Barrier | Collective::Allgather { .. } => Some(core * rounds),
        Collective::Allreduce { .. } => Some(core * rounds + 2 * beyond),
        Collective::Scan { .. } | Collective::Exscan { .. } => {
            Some((0..).map(|round| 1 << round).take_while(|&distance| distance < p).map(|distance| p - distance).sum())
        }
        _ => None,
    }
}

/// Inozemtsev 2014, §4.2.1: in each of r rounds, p = b^r, each sends to the k others of its group.
fn standard_exchange(shape: &Shape, k: u64) -> Option<u64> {
    let p = u64::from(shape.size);
    let rounds = (0..).find(|&rounds| (k + 1).pow(rounds) == p)?;
    let operations = ["barrier", "allgather", "allreduce"];
    operations.iter().any(|operation| is(shape, operation)).then_some(p * k * u64::from(rounds))
}

/// Rabenseifner 2004: those beyond 2^B give their operands away; the others halve the vector in B rounds, and put it together again in
/// B rounds, or over a tree at the root. Who has given gets the result, but for a reduce.
fn recursive_halving(shape: &Shape) -> Option<u64> {
    let (core, rounds, beyond) = core(shape);
    match shape.collective {
        Collective::ReduceScatter { .. } => Some(beyond + core * rounds + beyond),
        Collective::Allreduce { .. } => Some(beyond + 2 * core * rounds + beyond),
        Collective::Reduce { .. } => Some(beyond + core * rounds + (core - 1)),
        _ => None,
    }
}

/// Fours, a two if there is one left, and odd primes.
fn usual_radices(p: u64) -> Vec<u64> {
    let twos = p.trailing_zeros() as usize;
    let (mut radices, mut rest) = ([vec![4; twos / 2], vec![2; twos % 2]].concat(), p >> twos);
    for factor in (3..=rest).step_by(2) {
        while rest.is_multiple_of(factor) {
            radices.push(factor);
            rest /= factor;
        }
    }
    radices
}

/// Peterka et al. 2009: in the round of radix r each sends to the r−1 others of its group. An allreduce goes back the same way, and a
/// reduce over a tree: all but the root hand on what they hold, once.
fn radix_k(shape: &Shape, radices: &[u64]) -> Option<u64> {
    let p = u64::from(shape.size);
    let down = p * radices.iter().map(|radix| radix - 1).sum::<u64>();
    match shape.collective {
        Collective::ReduceScatter { .. } => Some(down),
        Collective::Allreduce { .. } => Some(2 * down),
        Collective::Reduce { .. } => Some(down + p - 1),
        _ => None,
    }
}

/// Bruck et al. 1997, §3 and §4; Hensgen et al. 1988, with ports Hoefler et al. 2006: in the round of distance b^i each sends to those
/// 1, 2, … k times as far, of whom there are fewer than k if that would be around the ring.
fn further_and_further(shape: &Shape, k: u64, operations: &[&str]) -> Option<u64> {
    let p = u64::from(shape.size);
    let distances = (0..).map(|round| (k + 1).pow(round)).take_while(|&distance| distance < p);
    let each = distances.map(|distance| k.min((p - 1) / distance)).sum::<u64>();
    operations.iter().any(|operation| is(shape, operation)).then_some(p * each)
}

/// Each segment passes each of the p−1 hops, up and down again in an allreduce. Folded from the left it ends at the last rank, and goes
/// on from there to a root elsewhere.
fn linear_pipeline(shape: &Shape, segments: u64) -> Option<u64> {
    let hops = u64::from(shape.size) - 1;
    match shape.collective {
        Collective::Bcast { .. } | Collective::Scan { .. } => Some(segments * hops),
        Collective::Reduce { root, order, .. } => {
            Some(segments * (hops + u64::from(order == Order::Fixed && root + 1 != shape.size)))
        }
        Collective::Allreduce { .. } => Some(2 * segments * hops),
        _ => None,
    }
}

/// Sanders et al. 2009, §2: each segment passes each edge of a tree, up and down again in an allreduce.
fn pipelined_tree(shape: &Shape, segments: u64) -> Option<u64> {
    let edges = u64::from(shape.size) - 1;
    match shape.collective {
        Collective::Bcast { .. } | Collective::Reduce { .. } => Some(segments * edges),
        Collective::Allreduce { .. } => Some(2 * segments * edges),
        _ => None,
    }
}

/// Thakur et al. 2005, §4.2 and §4.3: everybody sends to each other; for an allreduce pieces of operands first, then results.
fn pairwise(shape: &Shape) -> Option<u64> {
    let p = u64::from(shape.size);
    match shape.collective {
        Collective::Alltoall { .. } | Collective::Allgather { .. } | Collective::ReduceScatter { .. } => {
            Some(p * (p - 1))
        }
        Collective::Allreduce { .. } => Some(2 * p * (p - 1)),
        _ => None,
    }
}

/// Inozemtsev 2014, §4.4.1: members tell their leaders, all leaders go around one ring, and members are told everything at once.
fn multileader(p: u64, ranks_per_node: u64, leaders: u64) -> u64 {
    let all_leaders = p / ranks_per_node * leaders;
    let members = p - all_leaders;
    members + all_leaders * (all_leaders - 1) + members
}

/// The same: members tell their leaders, who go around a ring a group, one a node; each block of a group's ring goes on from each leader to
/// all others of its node.
fn multigroup(p: u64, ranks_per_node: u64, groups: u64) -> u64 {
    let nodes = p / ranks_per_node;
    let leaders = nodes * groups;
    (p - leaders) + leaders * (nodes - 1) + leaders * nodes * (ranks_per_node - 1)
}

/// Those with payload, and those without.
fn sent(shape: &Shape, algorithm: &Algorithm) -> (u64, u64) {
    let (mut messages, mut signals) = (0, 0);
    for me in 0..shape.size {
        for step in build(shape, algorithm, me).unwrap().steps() {
            match step.action {
                Action::Send { .. } => messages += 1,
                Action::Signal { .. } => signals += 1,
                _ => {}
            }
        }
    }
    (messages, signals)
}

#[test]
fn every_algorithm_takes_as_many_messages_for_every_operation_as_its_closed_form_says() {
    let mut tried = BTreeSet::new();
    for size in (1..=33).chain([64, 100]) {
        for (shape, algorithm) in
            shapes(size).iter().flat_map(|shape| algorithms(size).into_iter().map(move |algorithm| (shape, algorithm)))
        {
            match algorithm.check(shape) {
                Err(BuildError::Unsuitable { .. }) => continue,
                other => other.unwrap(),
            }
            let form = closed_form(shape, &algorithm)
                .unwrap_or_else(|| panic!("{} by {algorithm} has no closed form here", shape.collective.name()));
            let expected = if is(shape, "barrier") { (0, form) } else { (form, 0) };
            assert_eq!(sent(shape, &algorithm), expected, "{algorithm} for {shape:?}");
            tried.insert((algorithm.name(), shape.collective.name()));
        }
    }
    let names: BTreeSet<_> = tried.iter().map(|&(name, _)| name).collect();
    assert_eq!(names, Algorithm::names().map(|(name, _)| name).collect());
    let operations: BTreeSet<_> = tried.iter().map(|&(_, operation)| operation).collect();
    assert_eq!(operations.len(), 13, "{operations:?}");
}
