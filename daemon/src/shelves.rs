//! Receives that ranks of this node keep for their post lanes, once the daemon has a message that may be for one.
//!
//! A message takes the detour by the daemon if it finds no room in its lane. Its receiver notices when it looks, and posts here what
//! it has kept; but it may compute. So the daemon takes that over itself.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use ropeway_proto::Command;
use ropeway_shm::JobSegment;
use ropeway_shm::shelf;

use crate::job::{Job, Offence};

/// Those to look at, and what is known of them.
#[derive(Default)]
pub(crate) struct Shelves {
    /// Lanes of which a message has taken the detour, by sender and receiver.
    detours: Vec<(u32, u32)>,
    /// Places of their shelves that have memory for sure, and with them the cells.
    reserved: HashMap<(u32, u32), u32>,
}

impl Shelves {
    /// A message has taken the detour.
    pub(crate) fn note_detour(&mut self, sender: u32, receiver: u32) {
        if self.detours.last() != Some(&(sender, receiver)) {
            self.detours.push((sender, receiver));
        }
    }

    /// This one could not be looked at.
    fn leave(&mut self, sender: u32, receiver: u32) {
        if !self.detours.contains(&(sender, receiver)) {
            self.detours.push((sender, receiver));
        }
    }

    /// Whether some could not be looked at, because their owner was at them.
    pub(crate) fn has_left(&self) -> bool {
        !self.detours.is_empty()
    }

    /// Makes sure that a lane's shelf can be read, as far as it is used. How many places that are, none if nothing is there.
    fn reserve(&mut self, segment: &JobSegment, (sender, receiver): (u32, u32)) -> io::Result<u32> {
        let used = segment.post_lane(sender, receiver).map_or(0, |lane| lane.used_places());
        let reserved = self.reserved.get(&(sender, receiver)).copied().unwrap_or(0);
        if used > reserved {
            segment.reserve_post_cells(sender, receiver)?;
            segment.open_post_shelf(sender, receiver, reserved..used)?;
            self.reserved.insert((sender, receiver), used);
        }
        Ok(used)
    }
}

impl Job {
    /// Takes over what lies on the shelves of lanes whose messages have taken the detour. Offenders are added to `offenders`.
    pub(crate) fn take_over_shelves(&mut self, offenders: &mut Vec<(usize, Offence)>) -> usize {
        let mut taken = 0;
        for (sender, receiver) in std::mem::take(&mut self.shelves.detours) {
            match self.take_over_shelf(sender, receiver) {
                Ok(count) => taken += count,
                Err(offender) => offenders.push(offender),
            }
        }
        taken
    }

    fn take_over_shelf(&mut self, sender: u32, receiver: u32) -> Result<usize, (usize, Offence)> {
        let segment = Arc::clone(&self.segment);
        let Some(client) = self.client_of(receiver) else { return Ok(0) };
        let (Some(lane), Some(owner)) = (segment.post_lane(sender, receiver), segment.post_rank(receiver)) else {
            return Ok(0);
        };
        let Some(_turn) = owner.keys().take_for_daemon() else {
            self.shelves.leave(sender, receiver);
            return Ok(0);
        };
        let places = self.shelves.reserve(&segment, (sender, receiver));
        let places = places.map_err(|error| (client, Offence::NoMemory(error)))?;
        if places == 0 {
            return Ok(0);
        }
        // What the rank has asked for before comes first. It can't ask for anything about these receives now.
        self.poll_whole_ring(receiver)?;
        let source = self.engine.spec().local_ranks().start + sender;
        let taken = shelf::take_over(&lane, places, source);
        for &recv in &taken {
            self.handle_entry(receiver, Command::from(recv).encode()).map_err(|offence| (client, offence))?;
        }
        Ok(taken.len())
    }
}
