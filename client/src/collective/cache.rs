//! What a communicator has registered for calls that were not.
//!
//! Registering takes a round trip to the daemon, so it is done once for calls that are alike. All ranks must do so at the same
//! calls, though none knows how far the others are. They do because they decide it by nothing but what all of them have
//! said: the calls, which all ranks make in the same order. So calls alike take turns on a ring of registered collectives
//! by their number, not by which is free; and of too many kinds of calls the one that was called least recently goes, not
//! the one that nobody needs any more.
//!
//! * A turn that begins while the one before it on its lane runs waits for that. It ends as soon as all ranks have begun it,
//!   which this rank has.
//! * What goes is freed when the last turn on this rank is over. Then all ranks have come to that turn, and whoever has not
//!   noticed its end yet still finds it: a round that is over stays over. None of them comes for another round, for with
//!   their next call of this kind they register anew, as this rank does.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use ropeway_proto::collective::CollectiveKind;
use ropeway_proto::limits::{ONE_SHOT_BYTES_MAX, ONE_SHOT_LANES_MAX, ONE_SHOT_LANES_MIN, ONE_SHOT_SHAPES_MAX};

use super::call::Call;
use super::fetch::SharedInputs;
use super::form::Extent;
use super::lane::Lane;
use super::registration::{Placement, check};
use crate::{Communicator, Error};

/// What all handles of a communicator know of its collectives.
#[derive(Default)]
pub(crate) struct Collectives {
    /// How many were registered. All ranks count alike.
    registered: AtomicU32,
    cache: Mutex<Cache>,
    shared_inputs: Mutex<Option<SharedInputs>>,
}

impl Collectives {
    /// The number of the next one that is registered.
    pub(crate) fn next_number(&self) -> u32 {
        self.registered.fetch_add(1, Ordering::Relaxed)
    }

    /// It was not registered, and nobody was told: who registers it again has to be in step with the others.
    pub(crate) fn take_back_number(&self, number: u32) {
        // If another thread has taken the next one, the program was not in step before.
        let _ = self.registered.compare_exchange(number.wrapping_add(1), number, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Locked as long as other ranks may read.
    pub(super) fn shared_inputs(&self) -> MutexGuard<'_, Option<SharedInputs>> {
        self.shared_inputs.lock().expect("nothing panics under this lock")
    }

    pub(super) fn cache(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().expect("nothing panics under this lock")
    }
}

/// Rings of registered collectives, one for each kind of call, the last called last.
#[derive(Default)]
pub(super) struct Cache {
    rings: Vec<Ring>,
    /// Of all rings.
    bytes: u64,
    /// Lanes of rings that have gone, whose last turn runs yet.
    leaving: Vec<Arc<Lane>>,
}

/// The lanes of calls that are alike.
struct Ring {
    call: Call<'static>,
    is_blocking: bool,
    extent: Extent,
    lane_bytes: u64,
    lanes: Vec<Arc<Lane>>,
    /// The lane whose turn is next; as many as there are if it has to be registered yet.
    next: usize,
}

impl Cache {
    /// The lane on which a call has its turn, and how its arrays fit in, once they were checked. Registers it if need be.
    pub(super) fn turn(
        &mut self,
        communicator: &Communicator,
        call: &Call<'_>,
        is_blocking: bool,
        check_arrays: impl FnOnce(&Extent) -> Result<(), Error>,
    ) -> Result<(Arc<Lane>, Extent), Error> {
        let is_alike = |ring: &Ring| ring.is_blocking == is_blocking && ring.call == *call;
        match self.rings.iter().rposition(is_alike) {
            Some(found) => {
                check_arrays(&self.rings[found].extent)?;
                self.rings[found..].rotate_left(1);
            }
            None => {
                let shape = call.shape(communicator.members());
                check(&shape)?;
                let extent = Extent::of(&shape, communicator.rank());
                check_arrays(&extent)?;
                self.rings.push(Ring::new(call.clone(), is_blocking, extent, communicator.size()));
            }
        }
        self.last_lane(communicator)
    }

    /// The next lane of the ring called last.
    fn last_lane(&mut self, communicator: &Communicator) -> Result<(Arc<Lane>, Extent), Error> {
        let ring = self.rings.last().expect("it was just called");
        if ring.next == ring.lanes.len() {
            let (call, bytes) = (ring.call.clone(), ring.lane_bytes);
            self.make_room(bytes);
            let placement = placement(call.kind);
            let collective = communicator.register(call.shape(communicator.members()), placement, call.function())?;
            self.bytes += bytes;
            self.rings.last_mut().expect("the last is never removed").lanes.push(Arc::new(Lane::new(collective)));
        }
        let ring = self.rings.last_mut().expect("the last is never removed");
        let lane = ring.lanes[ring.next].clone();
        ring.next = (ring.next + 1) % ring.width();
        Ok((lane, ring.extent.clone()))
    }

    /// Has rings go, those called least recently first, until there is room for so many bytes.
    fn make_room(&mut self, bytes: u64) {
        let is_full = |cache: &Self| {
            cache.rings.len() > ONE_SHOT_SHAPES_MAX || cache.bytes.saturating_add(bytes) > ONE_SHOT_BYTES_MAX
        };
        while self.rings.len() > 1 && is_full(self) {
            let ring = self.rings.remove(0);
            self.bytes -= ring.lane_bytes * ring.lanes.len() as u64;
            self.leaving.extend(ring.lanes);
        }
        self.leaving.retain(|lane| lane.is_running());
    }
}

impl Ring {
    fn new(call: Call<'_>, is_blocking: bool, extent: Extent, ranks: u32) -> Self {
        let lane_bytes = call.bytes(ranks);
        Self { call: call.into_owned(), is_blocking, extent, lane_bytes, lanes: Vec::new(), next: 0 }
    }

    /// How many lanes it may have.
    fn width(&self) -> usize {
        if self.is_blocking {
            return 1;
        }
        let fitting = ONE_SHOT_BYTES_MAX / self.lane_bytes.max(1);
        fitting.clamp(ONE_SHOT_LANES_MIN, ONE_SHOT_LANES_MAX) as usize
    }
}

/// Everything goes through a copy, so one array is enough where a collective can do with it.
fn placement(kind: CollectiveKind) -> Placement {
    match kind {
        CollectiveKind::Allreduce | CollectiveKind::Scan | CollectiveKind::Exscan | CollectiveKind::Allgather => {
            Placement::InPlace
        }
        _ => Placement::Apart,
    }
}
