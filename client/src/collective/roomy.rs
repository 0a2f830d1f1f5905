//! Exchanges whose counts change a little from call to call.
//!
//! A program that deals its data, such as a sort, calls [`alltoallv`](crate::Communicator::alltoallv) with other counts each time, and
//! each would have to be registered for a single use. So parts that are short or about equally long are sent in rooms a little longer
//! than the longest, and the next calls fit into the same. Large ones on one node need no rooms (`fetch`). What a rank gives itself it
//! copies by itself. All ranks know all counts, so they make the rooms alike.

use std::borrow::Cow;
use std::ops::Range;

use ropeway_proto::collective::CollectiveKind;
use ropeway_proto::limits::ONE_SHOT_BYTES_MAX;
use zerocopy::IntoBytes;

use super::call::{Call, Counts};
use super::form::{Extent, Form};
use super::registration::check;
use crate::plain::element_bytes;
use crate::{Communicator, Error, Plain};

/// A room for each pair of different ranks.
struct Rooms {
    ranks: usize,
    /// Of each, in elements.
    length: usize,
}

impl Rooms {
    /// Those for a call's parts, unless much of them would be empty.
    fn of(counts: &[usize], element_bytes: usize, ranks: usize) -> Option<Self> {
        let parts = || (0..counts.len()).filter(|pair| pair / ranks != pair % ranks).map(|pair| counts[pair]);
        let longest = parts().max().filter(|&longest| longest > 0)?;
        let power = longest.checked_next_power_of_two()?;
        let bytes_of_rank = |length: usize| length.saturating_mul((ranks - 1) * element_bytes);
        if bytes_of_rank(power) <= SHORT_BYTES {
            return Some(Self { ranks, length: power });
        }
        let length = longest.checked_next_multiple_of((power / STEPS).max(1))?;
        let filled = parts().try_fold(0, usize::checked_add)?;
        let all = length.checked_mul(ranks * (ranks - 1))?;
        (all - filled <= filled / FILLED_TO_EMPTY).then_some(Self { ranks, length })
    }

    /// The call that all ranks make instead.
    fn call<'a>(&self, call: &Call<'a>) -> Call<'a> {
        let count = |pair| if pair / self.ranks == pair % self.ranks { 0 } else { self.length };
        let counts = (0..self.ranks * self.ranks).map(count).collect();
        Call { counts: Counts::Each(Cow::Owned(counts)), ..call.clone() }
    }
}

impl Communicator {
    /// Makes a call whose counts are likely to be others the next time, unless there is nothing to be gained.
    pub(super) fn call_once<T: Plain>(&self, form: &mut Form<'_, '_, T>) -> Option<Result<(), Error>> {
        let (CollectiveKind::Alltoall, Counts::Each(counts), Some(input)) =
            (form.call.kind, &form.call.counts, form.input)
        else {
            return None;
        };
        let (ranks, element_bytes) = (self.size() as usize, element_bytes::<T>());
        let sum = |counts: &[usize]| counts.iter().try_fold(0, |sum: usize, &count| sum.checked_add(count));
        let longest = counts.chunks(ranks).map(sum).max()??.checked_mul(element_bytes)? as u64;
        if (FETCHED_BYTES_MIN..=ONE_SHOT_BYTES_MAX).contains(&longest) && self.is_on_one_node() {
            return Some(self.parts(form).and_then(|parts| self.fetch(input, form.output, &parts, longest)));
        }
        // Who names an algorithm has the call made as it is: one that needs blocks of one length has none in rooms, where a rank gives itself
        // nothing.
        let rooms = Rooms::of(counts, element_bytes, ranks).filter(|_| form.call.algorithm.is_none())?;
        Some(self.parts(form).and_then(|parts| self.exchange_in_rooms(form, input, &parts, &rooms)))
    }

    /// The parts of a call whose arrays fit.
    fn parts<T: Plain>(&self, form: &Form<'_, '_, T>) -> Result<Parts, Error> {
        let shape = form.call.shape(self.members());
        check(&shape)?;
        let (rank, ranks) = (self.rank(), self.size());
        Extent::of(&shape, rank).check(form)?;
        Ok(Parts {
            sent: ranges((0..ranks).map(|to| shape.pair(rank, to))),
            received: ranges((0..ranks).map(|from| shape.pair(from, rank))),
            begins: (0..ranks).map(|from| (0..rank).map(|to| shape.pair(from, to)).sum()).collect(),
        })
    }

    fn exchange_in_rooms<T: Plain>(
        &self,
        form: &mut Form<'_, '_, T>,
        input: &[T],
        parts: &Parts,
        rooms: &Rooms,
    ) -> Result<(), Error> {
        let Parts { sent, received, .. } = parts;
        let (me, room_bytes) = (self.rank() as usize, rooms.length * element_bytes::<T>());
        let (lane, _) = self.collectives().cache().turn(self, &rooms.call(&form.call), true, |_| Ok(()))?;
        let output = &mut *form.output;
        let turn = lane.start(|memory| {
            for (room, part) in memory.chunks_exact_mut(room_bytes).zip(of_others(sent, me)) {
                let part = input[part].as_bytes();
                room[..part.len()].copy_from_slice(part);
            }
        })?;
        output[received[me].clone()].copy_from_slice(&input[sent[me].clone()]);
        lane.wait(turn, None, |memory| {
            for (room, part) in memory.chunks_exact(room_bytes).zip(of_others(received, me)) {
                let part = output[part].as_mut_bytes();
                part.copy_from_slice(&room[..part.len()]);
            }
        })
    }
}

/// What this rank has to do with the parts of an exchange, in elements.
pub(super) struct Parts {
    /// Where that for each rank lies in the input.
    pub(super) sent: Vec<Range<usize>>,
    /// Where that of each rank lies in the output.
    pub(super) received: Vec<Range<usize>>,
    /// Where this rank's begins in the input of each.
    pub(super) begins: Vec<u64>,
}

/// Where parts of these lengths lie, one behind the other.
fn ranges(lengths: impl Iterator<Item = u64>) -> Vec<Range<usize>> {
    let mut end = 0;
    let place = |length: u64| {
        let begin = end;
        end += length as usize;
        begin..end
    };
    lengths.map(place).collect()
}

fn of_others(parts: &[Range<usize>], me: usize) -> impl Iterator<Item = Range<usize>> + '_ {
    parts.iter().enumerate().filter(move |(rank, _)| *rank != me).map(|(_, part)| part.clone())
}

/// What a rank sends in all, full or empty, as if it took no time.
const SHORT_BYTES: usize = 4 << 10;
/// Longer rooms are longer than the longest part by up to one in half as many.
const STEPS: usize = 16;
/// How much more must be filled than is left empty.
const FILLED_TO_EMPTY: usize = 4;
/// If the longest input of an exchange on one node has as many, fetching it is worth two barriers.
const FETCHED_BYTES_MIN: u64 = 64 << 10;
