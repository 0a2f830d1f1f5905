//! Every operation by every algorithm on every number of nodes: what is done is not drawn, but enumerated.
//!
//! A [`Case`] is an operation with a root, on a number of nodes, with a number of elements. All algorithms that can do it run at the same
//! time, under limits and delays that are drawn from the case's number. Combined in full are:
//!
//! | dimension | values |
//! |---|---|
//! | nodes | 1 to 33, 64, 100, 128 |
//! | operation | all 13; those that combine by addition, by an operator that does not commute (it composes linear functions: like concatenation it tells who came in which order), and by one without any law |
//! | algorithm | all, with their usual parameters and with others |
//! | elements | 0, 1, 7, 1000, and three for each node and one more |
//! | root | every one of up to 8 nodes; of more the first, one in the middle and the last |
//!
//! The rest takes turns, from case to case of an operation, so that all its combinations occur with each operation: whether it is in
//! place, how large an element is, whether blocks are alike, whether there is a second round, and how many ranks a node has. On more than
//! 33 nodes, where some algorithms send tens of thousands of messages, algorithms take turns, too: each has every other case, and there is
//! one round. Where an algorithm can't do what the turn asks for, it does what comes closest.

use ropeway_schedule::{Algorithm, Collective, Counts, Neighborhood, Order, PairCounts, Shape};

use crate::workload::Workload;
use crate::workload::collective::{CollectivePlan, VALUE_BYTES, can_be};

/// One operation, to be done by all algorithms at the same time.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its place among all; also the seed of what is drawn.
    pub number: u64,
    /// How many nodes take part.
    pub nodes: u32,
    /// Which of [`operations`].
    operation: usize,
    root: u32,
    count: u64,
    /// How many cases of the operation come before it.
    turn: u64,
}

/// What takes turns.
#[derive(Clone, Copy, Debug)]
struct Turn {
    is_in_place: bool,
    element_bytes: u64,
    blocks: Blocks,
    rounds: u32,
    /// Each node has between one and so many ranks.
    ranks: u32,
    /// Whether the first node takes part as the last.
    is_rotated: bool,
}

/// How long everybody's blocks are.
#[derive(Clone, Copy, Debug)]
enum Blocks {
    /// All the same.
    Same,
    /// As even as the count allows. Of an alltoall, two nodes have as much for each other.
    Even,
    /// Some twice as long as others, some empty.
    Uneven,
}

/// All cases, those of few nodes first.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut turns = [0; OPERATIONS];
    for nodes in (1..=NARROW).chain([64, 100, 128]) {
        for (operation, turn) in turns.iter_mut().enumerate() {
            let has_root = operations(nodes, 0, 0, Blocks::Same)[operation].root().is_some();
            for root in if has_root { roots(nodes) } else { vec![0] } {
                for count in [0, 1, 7, 1000, 3 * u64::from(nodes) + 1] {
                    cases.push(Case { number: cases.len() as u64, nodes, operation, root, count, turn: *turn });
                    *turn += 1;
                }
            }
        }
    }
    cases
}

fn roots(nodes: u32) -> Vec<u32> {
    if nodes <= 8 { (0..nodes).collect() } else { vec![0, nodes / 2, nodes - 1] }
}

/// How many [`operations`] there are.
const OPERATIONS: usize = 23;

/// Every operation, with vectors, or blocks taken together, of about `count` elements.
fn operations(nodes: u32, root: u32, count: u64, blocks: Blocks) -> [Collective; OPERATIONS] {
    let counts = || blocks.counts(nodes, count);
    let (block, neighborhood) = (count.div_ceil(u64::from(nodes)), || blocks.neighborhood(nodes));
    let [any, rank, fixed] = [Order::Any, Order::Rank, Order::Fixed];
    let reduce = |order| Collective::Reduce { root, count, order };
    let allreduce = |order| Collective::Allreduce { count, order };
    let reduce_scatter = |order| Collective::ReduceScatter { counts: counts(), order };
    let scan = |order| Collective::Scan { count, order };
    let exscan = |order| Collective::Exscan { count, order };
    [
        Collective::Barrier,
        Collective::Bcast { root, count },
        reduce(any),
        reduce(rank),
        reduce(fixed),
        allreduce(any),
        allreduce(rank),
        allreduce(fixed),
        reduce_scatter(any),
        reduce_scatter(rank),
        reduce_scatter(fixed),
        scan(any),
        scan(rank),
        scan(fixed),
        exscan(any),
        exscan(rank),
        exscan(fixed),
        Collective::Gather { root, counts: counts() },
        Collective::Scatter { root, counts: counts() },
        Collective::Allgather { counts: counts() },
        Collective::Alltoall { counts: blocks.pair_counts(nodes, block) },
        Collective::NeighborAllgather { neighborhood: neighborhood(), count: block },
        Collective::NeighborAlltoall { neighborhood: neighborhood(), count: block },
    ]
}

impl Blocks {
    fn counts(self, nodes: u32, count: u64) -> Counts {
        let block = count.div_ceil(u64::from(nodes));
        match self {
            Self::Same => Counts::same(block),
            Self::Even => Counts::even(count, nodes),
            Self::Uneven => Counts::each(&(0..u64::from(nodes)).map(|node| (node + 1) % 3 * block).collect::<Vec<_>>()),
        }
    }

    fn pair_counts(self, nodes: u32, block: u64) -> PairCounts {
        let nodes = u64::from(nodes);
        let matrix = |weight: u64| {
            let pairs = (0..nodes).flat_map(|from| (0..nodes).map(move |to| (from, to)));
            PairCounts::Matrix(pairs.map(|(from, to)| (from + weight * to + 1) % 3 * block).collect())
        };
        match self {
            Self::Same => PairCounts::Same(block),
            Self::Even => matrix(1),
            Self::Uneven => matrix(2),
        }
    }

    fn neighborhood(self, nodes: u32) -> Neighborhood {
        match self {
            Self::Same => Neighborhood::grid(&[(nodes, true)]),
            Self::Even if nodes.is_multiple_of(2) => Neighborhood::grid(&[(2, true), (nodes / 2, false)]),
            Self::Even => Neighborhood::grid(&[(nodes, false)]),
            Self::Uneven => star(nodes),
        }
    }
}

/// Everybody hears the first node twice, and that itself once.
fn star(nodes: u32) -> Neighborhood {
    let sources = |node: u32| if node == 0 { vec![0] } else { vec![0, 0] };
    let mut destinations = vec![Vec::new(); nodes as usize];
    destinations[0] = (0..nodes).flat_map(|node| vec![node; sources(node).len()]).collect();
    Neighborhood::graph((0..nodes).map(sources).collect(), destinations)
}

impl Turn {
    /// The digits of a number, each dimension to its own base.
    fn of(mut number: u64) -> Self {
        let mut digit = |base: u64| {
            let digit = number % base;
            number /= base;
            digit as usize
        };
        let is_in_place = digit(2) == 1;
        let rounds = [1, 2][digit(2)];
        let element_bytes = [VALUE_BYTES, 1, 3, 24][digit(4)];
        let blocks = [Blocks::Even, Blocks::Same, Blocks::Uneven][digit(3)];
        let (ranks, is_rotated) = [(1, false), (2, true), (3, false)][digit(3)];
        Self { is_in_place, element_bytes, blocks, rounds, ranks, is_rotated }
    }
}

impl Case {
    /// The run that it is.
    pub fn workload(&self) -> Workload {
        let turn = Turn::of(self.turn);
        let ranks_per_node = (0..self.nodes).map(|node| 1 + node % turn.ranks);
        Workload::of_collectives(self.number, ranks_per_node, |spec| {
            let rounds = if self.nodes <= NARROW { turn.rounds } else { 1 };
            let plan = |(shape, algorithm)| {
                let mut plan = CollectivePlan::of_all(spec, shape, algorithm, rounds);
                if can_be(turn.element_bytes, &plan.shape) {
                    plan.element_bytes = turn.element_bytes;
                }
                plan.nodes.rotate_left(usize::from(turn.is_rotated));
                plan
            };
            self.ways().into_iter().map(plan).collect()
        })
    }

    /// The algorithms that can do it, and what each does: as close to what the turn asks for as it can.
    fn ways(&self) -> Vec<(Shape, Algorithm)> {
        let Turn { is_in_place, blocks, .. } = Turn::of(self.turn);
        let shape = |(blocks, is_in_place)| {
            let collective = operations(self.nodes, self.root, self.count, blocks)[self.operation].clone();
            Shape { is_in_place, ..Shape::new(self.nodes, collective) }
        };
        let shapes =
            [(blocks, is_in_place), (blocks, false), (Blocks::Same, is_in_place), (Blocks::Same, false)].map(shape);
        let way = |algorithm: Algorithm| {
            let shape = shapes.iter().find(|shape| algorithm.check(shape).is_ok())?;
            Some((shape.clone(), algorithm))
        };
        self.algorithms().into_iter().filter_map(way).collect()
    }

    /// One of each with its usual parameters, and some with others; of many nodes every other one.
    fn algorithms(&self) -> Vec<Algorithm> {
        let mut all = Algorithm::all();
        let whole = format!("radix-k:{}", self.nodes.max(2));
        let others = FURTHER.into_iter().chain([whole.as_str()]);
        all.extend(others.map(|name| name.parse::<Algorithm>().expect("these are names")));
        let all = (self.turn..).zip(all);
        all.filter(|(turn, _)| self.nodes <= NARROW || turn.is_multiple_of(2)).map(|(_, algorithm)| algorithm).collect()
    }
}

/// Up to so many nodes, every number of them.
const NARROW: u32 = 33;

/// Beside those that stand for a name alone.
const FURTHER: [&str; 10] = [
    "k-nomial:3",
    "standard-exchange:2",
    "standard-exchange:3",
    "bruck:2",
    "linear-pipeline:3",
    "pipelined-tree:2",
    "dissemination:3",
    "cayley:2",
    "multileader:3,3",
    "multigroup:2,1",
];
