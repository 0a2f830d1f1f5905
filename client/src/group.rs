//! Groups: ordered sets of ranks.

use std::fmt;
use std::sync::Arc;

use ropeway_proto::Rank;

use crate::Error;

/// An ordered set of ranks of a job. Members are numbered from 0 in their order.
///
/// Groups say who is to be in a communicator: take that of an existing one ([`Communicator::group`](crate::Communicator::group)),
/// choose from it, and [`create`](crate::Communicator::create) a communicator of the choice. Making groups needs no other rank.
/// Cheap to clone.
///
/// ```no_run
/// # fn example() -> Result<(), ropeway::Error> {
/// let world = ropeway::init()?.world();
/// let even: Vec<u32> = (0..world.size()).step_by(2).collect();
/// let even = world.group().include(&even)?;
/// if let Some(half) = world.create(&even)? {
///     half.barrier()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Group {
    members: Members,
}

#[derive(Clone)]
enum Members {
    /// All ranks of the job, under their own numbers: needs no table.
    Job {
        size: u32,
    },
    Listed(Arc<Listed>),
}

struct Listed {
    /// Ranks of the job, by number.
    ranks: Vec<Rank>,
    /// Numbers, in the order of their ranks.
    by_rank: Vec<u32>,
}

impl Group {
    /// All ranks of a job.
    pub(crate) fn of_job(size: u32) -> Self {
        Self { members: Members::Job { size } }
    }

    /// These ranks of the job, none of them twice.
    pub(crate) fn of_ranks(ranks: Vec<Rank>) -> Self {
        let mut by_rank: Vec<u32> = (0..ranks.len() as u32).collect();
        by_rank.sort_unstable_by_key(|&number| ranks[number as usize]);
        Self { members: Members::Listed(Arc::new(Listed { ranks, by_rank })) }
    }

    /// How many members.
    pub fn size(&self) -> u32 {
        match &self.members {
            Members::Job { size } => *size,
            Members::Listed(listed) => listed.ranks.len() as u32,
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// The number in `other` of our member `number`, if it is in there.
    pub fn translate(&self, number: u32, other: &Self) -> Option<u32> {
        if number < self.size() { other.number_of(self.rank_of(number)) } else { None }
    }

    /// The members with these numbers, in this order.
    pub fn include(&self, numbers: &[u32]) -> Result<Self, Error> {
        self.check(numbers)?;
        Ok(Self::of_ranks(numbers.iter().map(|&number| self.rank_of(number)).collect()))
    }

    /// All members but those with these numbers, in their order.
    pub fn exclude(&self, numbers: &[u32]) -> Result<Self, Error> {
        let excluded = self.include(numbers)?;
        Ok(self.difference(&excluded))
    }

    /// Our members, and behind them those of `other` that are not ours.
    pub fn union(&self, other: &Self) -> Self {
        let others = other.ranks().filter(|&rank| self.number_of(rank).is_none());
        Self::of_ranks(self.ranks().chain(others).collect())
    }

    /// Our members that are in `other` too, in our order.
    pub fn intersection(&self, other: &Self) -> Self {
        Self::of_ranks(self.ranks().filter(|&rank| other.number_of(rank).is_some()).collect())
    }

    /// Our members that are not in `other`, in our order.
    pub fn difference(&self, other: &Self) -> Self {
        Self::of_ranks(self.ranks().filter(|&rank| other.number_of(rank).is_none()).collect())
    }

    /// Ranks of the job, by number.
    pub(crate) fn ranks(&self) -> impl Iterator<Item = Rank> {
        (0..self.size()).map(|number| self.rank_of(number))
    }

    /// The rank in the job of a member.
    #[inline]
    pub(crate) fn rank_of(&self, number: u32) -> Rank {
        match &self.members {
            Members::Job { .. } => number,
            Members::Listed(listed) => listed.ranks[number as usize],
        }
    }

    /// The number of a rank of the job, if it is a member.
    #[inline]
    pub(crate) fn number_of(&self, rank: Rank) -> Option<u32> {
        match &self.members {
            Members::Job { size } => (rank < *size).then_some(rank),
            Members::Listed(listed) => listed.number_of(rank),
        }
    }

    /// Numbers of members, none of them twice.
    fn check(&self, numbers: &[u32]) -> Result<(), Error> {
        let size = self.size();
        if let Some(&rank) = numbers.iter().find(|&&number| number >= size) {
            return Err(Error::RankOutOfRange { rank, size });
        }
        let mut sorted = numbers.to_vec();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => Err(Error::BadGroup { why: format!("rank {} is named twice", twice[0]) }),
            None => Ok(()),
        }
    }
}

impl Listed {
    fn number_of(&self, rank: Rank) -> Option<u32> {
        let found = self.by_rank.binary_search_by_key(&rank, |&number| self.ranks[number as usize]);
        found.ok().map(|place| self.by_rank[place])
    }
}

/// Whether they have the same members in the same order.
impl PartialEq for Group {
    fn eq(&self, other: &Self) -> bool {
        self.ranks().eq(other.ranks())
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranks()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group<const N: usize>(ranks: [Rank; N]) -> Group {
        Group::of_ranks(ranks.into())
    }

    #[test]
    fn members_are_chosen_in_the_order_given() {
        let job = Group::of_job(6);
        assert_eq!(job.include(&[4, 0, 5]).unwrap(), group([4, 0, 5]));
        assert_eq!(group([4, 0, 5]).include(&[2, 0]).unwrap(), group([5, 4]));
        assert_eq!(group([4, 0, 5]).exclude(&[0]).unwrap(), group([0, 5]));
        assert_eq!(job.exclude(&[]).unwrap(), job);
        assert!(job.exclude(&[3, 1, 0, 2, 4, 5]).unwrap().is_empty());
    }

    #[test]
    fn strangers_and_twins_are_refused() {
        let three = group([4, 0, 5]);
        assert!(matches!(three.include(&[3]), Err(Error::RankOutOfRange { rank: 3, size: 3 })));
        assert!(matches!(three.exclude(&[4]), Err(Error::RankOutOfRange { rank: 4, size: 3 })));
        let error = three.include(&[1, 2, 1]).unwrap_err();
        assert_eq!(error.to_string(), "no such group: rank 1 is named twice");
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let (first, second) = (group([7, 2, 5]), group([1, 5, 7, 8]));
        assert_eq!(first.union(&second), group([7, 2, 5, 1, 8]));
        assert_eq!(first.intersection(&second), group([7, 5]));
        assert_eq!(first.difference(&second), group([2]));
        assert_eq!(second.difference(&first), group([1, 8]));
        assert_eq!(first.intersection(&group([])), group([]));
        assert_ne!(first, group([2, 5, 7]));
    }

    #[test]
    fn numbers_are_translated_between_groups() {
        let (first, job) = (group([7, 2, 5]), Group::of_job(6));
        assert_eq!(
            (0..4).map(|number| first.translate(number, &job)).collect::<Vec<_>>(),
            [None, Some(2), Some(5), None]
        );
        assert_eq!(
            (0..6).map(|number| job.translate(number, &first)).collect::<Vec<_>>()[2..],
            [Some(1), None, None, Some(2)]
        );
        assert!(first.ranks().enumerate().all(|(number, rank)| first.number_of(rank) == Some(number as u32)));
    }
}
