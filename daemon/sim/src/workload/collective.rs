//! What is random about collectives between nodes.

use fastrand::Rng;
use ropeway_proto::agreement::ShapeDigest;
use ropeway_proto::collective::{CollectiveKind, CollectiveShape};
use ropeway_proto::control::JobSpec;
use ropeway_proto::{NodeId, Rank};
use ropeway_schedule::{Algorithm, Collective, Counts, Neighborhood, Order, PairCounts, Shape};

use super::{Delays, Limits, pick};

/// A collective, opened on all its nodes, run several times and closed.
#[derive(Clone, Debug)]
pub struct CollectivePlan {
    /// Nodes that take part, in the order in which the shape counts them.
    pub nodes: Vec<u16>,
    /// Ranks without which no round begins: at least one of each node.
    pub members: Vec<Rank>,
    /// What is done.
    pub shape: Shape,
    /// How.
    pub algorithm: Algorithm,
    /// Size of an element, such as [`can_be`] allows.
    pub element_bytes: u64,
    /// How often.
    pub rounds: u32,
    /// Who does not stay to the end.
    pub give_up: Option<GiveUp>,
    /// Who takes it for something else.
    pub dissent: Option<Dissent>,
}

/// A participant whose ranks have registered something else.
#[derive(Clone, Debug)]
pub struct Dissent {
    /// Who.
    pub me: u32,
    /// What it does instead.
    pub shape: Shape,
    /// How.
    pub algorithm: Algorithm,
}

/// A participant whose ranks free the collective before its last round.
#[derive(Clone, Copy, Debug)]
pub struct GiveUp {
    /// Who.
    pub me: u32,
    /// How many rounds it ends before.
    pub rounds: u32,
    /// Whether it does so while the next round runs, not instead of it.
    pub is_midway: bool,
}

impl CollectivePlan {
    /// One of all nodes and ranks.
    pub fn of_all(spec: &JobSpec, shape: Shape, algorithm: Algorithm, rounds: u32) -> Self {
        let (nodes, members) = ((0..spec.nodes.len() as u16).collect(), (0..spec.size()).collect());
        Self { nodes, members, shape, algorithm, element_bytes: VALUE_BYTES, rounds, give_up: None, dissent: None }
    }

    /// Several that run at once.
    pub(super) fn several(rng: &mut Rng, spec: &JobSpec, limits: &Limits, delays: &Delays) -> Vec<Self> {
        let most = if spec.nodes.len() <= SMALL { 4 } else { 2 };
        (0..rng.u32(1..=most)).map(|_| Self::random(rng, spec, limits, delays)).collect()
    }

    fn random(rng: &mut Rng, spec: &JobSpec, limits: &Limits, delays: &Delays) -> Self {
        let mut nodes: Vec<u16> = (0..spec.nodes.len() as u16).collect();
        rng.shuffle(&mut nodes);
        if rng.bool() {
            nodes.truncate(rng.usize(1..=nodes.len()));
        }
        let members = nodes.iter().flat_map(|&node| random_members(rng, spec, node)).collect();
        let element_bytes = pick(rng, &[VALUE_BYTES, VALUE_BYTES, 1, 3, 24]);
        // Not too many chunks and pieces, lest runs take for ever.
        let most = 40 * limits.chunk_bytes.min(delays.piece_bytes) / element_bytes;
        let most = if nodes.len() <= SMALL { most.min(1000) } else { most.min(50) };
        let shape = random_shape(rng, nodes.len() as u32, most);
        let element_bytes = if can_be(element_bytes, &shape) { element_bytes } else { VALUE_BYTES };
        let algorithm = random_algorithm(rng, &shape);
        let rounds = rng.u32(1..=if nodes.len() <= SMALL { 6 } else { 2 });
        let give_up = (rng.u8(..8) == 0).then(|| GiveUp {
            me: rng.u32(..shape.size),
            rounds: rng.u32(..rounds),
            is_midway: rng.bool(),
        });
        Self { nodes, members, shape, algorithm, element_bytes, rounds, give_up, dissent: None }
    }

    /// Lets a participant take it for something else.
    pub(super) fn add_dissent(&mut self, rng: &mut Rng) {
        let (me, shape) = (rng.u32(..self.shape.size), random_shape(rng, self.shape.size, 50));
        if self.shape.size > 1 && can_be(self.element_bytes, &shape) {
            self.dissent = Some(Dissent { me, algorithm: random_algorithm(rng, &shape), shape });
        }
    }

    /// Bytes of the largest buffer that a participant lends: no message is longer.
    pub fn bytes_max(&self) -> u64 {
        let elements = |me| self.shape.input_elements(me).max(self.shape.output_elements(me));
        (0..self.shape.size).map(elements).max().unwrap_or_default() * self.element_bytes
    }

    /// What a participant does, and how.
    pub fn part(&self, me: u32) -> (&Shape, &Algorithm) {
        match &self.dissent {
            Some(dissent) if dissent.me == me => (&dissent.shape, &dissent.algorithm),
            _ => (&self.shape, &self.algorithm),
        }
    }

    /// What its ranks say of it: engines know no more of what it is.
    pub fn digest(&self, me: u32) -> ShapeDigest {
        let dissents = self.dissent.as_ref().is_some_and(|dissent| dissent.me == me);
        ShapeDigest::of(&CollectiveShape {
            kind: CollectiveKind::Barrier,
            members: self.members.clone(),
            root: u32::from(dissents),
            combination: None,
            element_bytes: 1,
            counts: Vec::new(),
            is_reproducible: false,
            algorithm: None,
        })
    }
}

/// Whether an operation's elements can have so many bytes: what is cut off a value no operator but addition can do without.
pub fn can_be(element_bytes: u64, shape: &Shape) -> bool {
    element_bytes.is_multiple_of(VALUE_BYTES) || matches!(shape.collective.order(), None | Some(Order::Any))
}

fn random_algorithm(rng: &mut Rng, shape: &Shape) -> Algorithm {
    let suits: Vec<_> = Algorithm::all().into_iter().filter(|algorithm| algorithm.check(shape).is_ok()).collect();
    suits[rng.usize(..suits.len())].clone()
}

/// Some of a node's ranks, mostly all.
fn random_members(rng: &mut Rng, spec: &JobSpec, node: u16) -> Vec<Rank> {
    let mut ranks: Vec<Rank> = spec.ranks_of(NodeId(node)).collect();
    if rng.u8(..4) == 0 {
        rng.shuffle(&mut ranks);
        ranks.truncate(rng.usize(1..=ranks.len()));
    }
    ranks
}

/// Any operation, with vectors or, taken together, blocks of up to `most` elements.
fn random_shape(rng: &mut Rng, size: u32, most: u64) -> Shape {
    let any = rng.u64(..100);
    let count = pick(rng, &[0, 1, 7, any, 1000]).min(most);
    let (root, order) = (rng.u32(..size), pick(rng, &[Order::Any, Order::Rank, Order::Fixed]));
    let block = count.div_ceil(u64::from(size));
    let counts = if rng.bool() { Counts::even(count, size) } else { uneven(rng, size, 2 * block) };
    let collective = match rng.u8(..13) {
        0 => Collective::Barrier,
        1 => Collective::Bcast { root, count },
        2 => Collective::Reduce { root, count, order },
        3 => Collective::Allreduce { count, order },
        4 => Collective::ReduceScatter { counts, order },
        5 => Collective::Scan { count, order },
        6 => Collective::Exscan { count, order },
        7 => Collective::Gather { root, counts },
        8 => Collective::Scatter { root, counts },
        9 => Collective::Allgather { counts },
        10 => Collective::Alltoall { counts: random_pairs(rng, size, block) },
        11 => Collective::NeighborAllgather { neighborhood: random_neighborhood(rng, size), count: block },
        _ => Collective::NeighborAlltoall { neighborhood: random_neighborhood(rng, size), count: block },
    };
    let shape = Shape::new(size, collective);
    let in_place = shape.clone().in_place();
    if rng.bool() && in_place.check().is_ok() { in_place } else { shape }
}

fn uneven(rng: &mut Rng, size: u32, most: u64) -> Counts {
    Counts::each(&(0..size).map(|_| rng.u64(..=most)).collect::<Vec<_>>())
}

fn random_pairs(rng: &mut Rng, size: u32, block: u64) -> PairCounts {
    if rng.bool() {
        return PairCounts::Same(block);
    }
    PairCounts::Matrix((0..size * size).map(|_| rng.u64(..=2 * block)).collect())
}

fn random_neighborhood(rng: &mut Rng, size: u32) -> Neighborhood {
    let is_periodic = rng.bool();
    if rng.bool() {
        return if size.is_multiple_of(2) && rng.bool() {
            Neighborhood::grid(&[(2, is_periodic), (size / 2, !is_periodic)])
        } else {
            Neighborhood::grid(&[(size, is_periodic)])
        };
    }
    // Loops and repeated edges, too.
    let (mut sources, mut destinations) = (vec![Vec::new(); size as usize], vec![Vec::new(); size as usize]);
    for _ in 0..rng.u32(..=2 * size) {
        let (source, dest) = (rng.u32(..size), rng.u32(..size));
        sources[dest as usize].push(source);
        destinations[source as usize].push(dest);
    }
    Neighborhood::graph(sources, destinations)
}

/// Bytes of a value that operators combine.
pub const VALUE_BYTES: u64 = 8;
/// Up to so many nodes run many rounds of long vectors.
const SMALL: usize = 8;
