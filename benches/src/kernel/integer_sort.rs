//! Integer sort: ranks keys that are dealt to the ranks.
//!
//! ```text
//!   1 change two keys, so that each round is another
//!   2 count the keys of each bucket, and put them in the order of their buckets
//!   3 sum the counts of all ranks                an allreduce
//!   4 deal the buckets to the ranks, about as many keys to each
//!   5 tell everybody how many keys will come     an allgather; over MPI an alltoall, whose alltoallv needs to know less
//!   6 send the keys to whom their buckets were dealt     an alltoallv
//!   7 count the keys up to each value: their ranks
//! ```
//!
//! D. Bailey et al., *The NAS Parallel Benchmarks*, 1991, kernel IS; buckets and values as in class W.

use ropeway::{Communicator, Error, Operator};

use super::Kernel;
use crate::BenchError;

pub(super) struct IntegerSort {
    world: Communicator,
    round: usize,
    keys: Vec<u32>,
    /// The keys in the order of their buckets.
    ordered: Vec<u32>,
    /// The keys of all ranks in the buckets that were dealt to this one.
    received: Vec<u32>,
    /// The first value of these buckets, and the first behind them.
    values: [u32; 2],
    /// How many received keys are not above each value, from the first on.
    key_ranks: Box<[u32; VALUES]>,
}

impl IntegerSort {
    /// With `bytes` bytes of keys on each rank.
    pub(super) fn new(world: &Communicator, bytes: usize) -> Self {
        let count = bytes / size_of::<u32>();
        Self {
            round: 0,
            keys: keys(world.rank(), count),
            ordered: vec![0; count],
            received: Vec::new(),
            values: [0; 2],
            key_ranks: Box::new([0; VALUES]),
            world: world.clone(),
        }
    }

    fn change(&mut self) {
        self.round += 1;
        let (count, value) = (self.keys.len(), (self.round % VALUES) as u32);
        if count > 0 {
            self.keys[self.round % count] = value;
            self.keys[(self.round + count / 2) % count] = VALUES as u32 - 1 - value;
        }
    }

    /// Puts the keys in the order of their buckets, and says how many there are in each.
    fn order(&mut self) -> [u32; BUCKETS] {
        let mut counts = [0; BUCKETS];
        for &key in &self.keys {
            counts[bucket(key)] += 1;
        }
        let (mut below, mut places) = (0, [0; BUCKETS]);
        for (place, count) in places.iter_mut().zip(&counts) {
            *place = below;
            below += count;
        }
        for &key in &self.keys {
            let place = &mut places[bucket(key)];
            self.ordered[*place as usize] = key;
            *place += 1;
        }
        counts
    }

    /// The ranks of the received keys.
    fn rank(&mut self) {
        let [first, end] = self.values;
        let values = (end - first) as usize;
        self.key_ranks[..values].fill(0);
        for &key in &self.received {
            self.key_ranks[(key - first) as usize % VALUES] += 1;
        }
        let mut up_to = 0;
        for rank in &mut self.key_ranks[..values] {
            up_to += *rank;
            *rank = up_to;
        }
    }

    /// The received keys at their ranks.
    fn sorted(&self) -> Vec<u32> {
        let mut sorted = vec![0; self.received.len()];
        let mut key_ranks = self.key_ranks.clone();
        for &key in &self.received {
            let rank = &mut key_ranks[(key - self.values[0]) as usize];
            *rank -= 1;
            sorted[*rank as usize] = key;
        }
        sorted
    }
}

impl Kernel for IntegerSort {
    fn round(&mut self) -> Result<(), Error> {
        self.change();
        let counts = self.order();
        let (me, ranks) = (self.world.rank() as usize, self.world.size() as usize);
        let mut totals = vec![0; BUCKETS];
        self.world.allreduce(&counts, &mut totals, Operator::Sum)?;
        let dealt = deal(&totals, ranks);
        let sent: Vec<u64> =
            dealt.windows(2).map(|ends| counts[ends[0]..ends[1]].iter().map(|&count| u64::from(count)).sum()).collect();
        let mut all_sent = vec![0; ranks * ranks];
        self.world.allgather(&sent, &mut all_sent)?;
        let all_sent: Vec<usize> = all_sent.into_iter().map(|count| count as usize).collect();
        self.received.resize(all_sent.iter().skip(me).step_by(ranks).sum(), 0);
        self.world.alltoallv(&self.ordered, &mut self.received, &all_sent)?;
        self.values = [me, me + 1].map(|at| (dealt[at] * VALUES_OF_BUCKET) as u32);
        self.rank();
        Ok(())
    }

    /// Each rank's keys are sorted and of values that no other has, and no key is missing.
    fn check(&self) -> Result<(), BenchError> {
        let [first, end] = self.values;
        let is_in_order = self.received.iter().all(|key| (first..end).contains(key)) && self.sorted().is_sorted();
        let sum = |keys: &[u32]| keys.iter().map(|&key| i64::from(key)).sum::<i64>();
        let missing_keys = self.keys.len() as i64 - self.received.len() as i64;
        let missing_sum = sum(&self.keys) - sum(&self.received);
        let mut wrong = [0; 3];
        self.world.allreduce(&[missing_keys, missing_sum, i64::from(!is_in_order)], &mut wrong, Operator::Sum)?;
        let mut values = vec![0; 2 * self.world.size() as usize];
        self.world.allgather(&self.values, &mut values)?;
        if wrong == [0; 3] && values.is_sorted() { Ok(()) } else { Err(BenchError::Unsorted) }
    }
}

/// A rank's first keys, which are likelier in the middle: the mean of four random numbers each.
///
/// The generator is D. Knuth's MMIX, *The Art of Computer Programming* 2, 3.3.4, because it is short in both languages.
fn keys(rank: u32, count: usize) -> Vec<u32> {
    let mut state = u64::from(rank) + 1;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 48) as u32 % VALUES as u32
    };
    (0..count).map(|_| (0..4).map(|_| random()).sum::<u32>() / 4).collect()
}

/// The modulus changes nothing, but the compiler sees that there is such a bucket, and checks as little as in C.
fn bucket(key: u32) -> usize {
    key as usize / VALUES_OF_BUCKET % BUCKETS
}

/// The first bucket of each rank, and the first behind the last one's.
fn deal(totals: &[u32], ranks: usize) -> Vec<usize> {
    let all: u64 = totals.iter().map(|&total| u64::from(total)).sum();
    let ranks = ranks as u64;
    let (mut below, mut bucket, mut firsts) = (0, 0, vec![0]);
    for rank in 1..=ranks {
        while below * ranks < rank * all {
            below += u64::from(totals[bucket]);
            bucket += 1;
        }
        firsts.push(bucket);
    }
    firsts
}

const VALUES: usize = 1 << 16;
const BUCKETS: usize = 1 << 10;
const VALUES_OF_BUCKET: usize = VALUES / BUCKETS;

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::cluster::everybody;

    #[test]
    fn keys_are_sorted_as_a_serial_sort_does() {
        for (nodes, ranks) in [(1, 1), (1, 2), (1, 3), (2, 3), (2, 4)] {
            let parts = Mutex::new(vec![(Vec::new(), Vec::new()); ranks as usize]);
            everybody((nodes, ranks), |world| {
                let mut sort = IntegerSort::new(&world, BYTES);
                for _ in 0..ROUNDS {
                    sort.round().unwrap();
                    sort.check().unwrap();
                }
                parts.lock().unwrap()[world.rank() as usize] = (sort.keys.clone(), sort.sorted());
            });
            let (keys, sorted): (Vec<_>, Vec<_>) = parts.into_inner().unwrap().into_iter().unzip();
            let mut keys = keys.concat();
            keys.sort_unstable();
            assert_eq!(keys.len(), BYTES / 4 * ranks as usize);
            assert!(keys == sorted.concat(), "{ranks} ranks on {nodes} nodes");
        }
    }

    #[test]
    fn a_key_that_is_wrong_is_noticed_by_all() {
        everybody((1, 2), |world| {
            let mut sort = IntegerSort::new(&world, BYTES);
            sort.round().unwrap();
            if world.rank() == 1 {
                let other = sort.received.iter().position(|&key| key != sort.received[0]).unwrap();
                sort.received[0] = sort.received[other];
                sort.rank();
            }
            assert!(matches!(sort.check(), Err(BenchError::Unsorted)));
        });
    }

    #[test]
    fn ranks_get_about_as_many_keys_each() {
        assert_eq!(deal(&[1, 1, 1, 1], 2), [0, 2, 4]);
        assert_eq!(deal(&[9, 1, 1, 1, 0], 3), [0, 1, 1, 4]);
        assert_eq!(deal(&[0, 0], 2), [0, 0, 0]);
    }

    const BYTES: usize = 20_000;
    const ROUNDS: usize = 3;
}
