//! Operations that use the post lanes.

use ropeway_proto::limits::POST_BYTES_MAX;
use ropeway_proto::{Command, Completion, Endpoint, Layout};
use ropeway_shm::shelf::ShelvedRecv;

use super::{Operation, Phase};
use crate::post::{Detour, Look, Stage};
use crate::wait::Event;
use crate::{Error, Status};

/// What it has to do with the post lanes.
#[derive(Default)]
pub(super) struct InLane {
    /// What the lanes have to know while the daemon has the operation.
    pub(super) detour: Option<Detour>,
    /// How it has ended in a lane, if that is where it is over.
    ended: Option<Completion>,
    /// From which rank of the node it waits for a message, and the number of the next one to come, while it is kept.
    pub(super) awaited: (u32, u64),
}

impl Operation {
    /// What comes before the daemon is given a receive or, without memory, a probe: if there is a message for it in a post lane, it
    /// need not begin.
    pub(crate) fn post(&mut self, endpoint: &Endpoint, into: Option<&mut [u8]>) -> Option<Completion> {
        let attachment = &self.attachment;
        match attachment.post().detour_recv(endpoint, self.slot, into, |entries| attachment.entrust(entries)) {
            Ok(found) => Some(found),
            Err(detour) => {
                self.in_lane.detour = detour;
                None
            }
        }
    }

    /// Begins an operation that has ended already, in a post lane.
    pub(crate) fn end_at_once(&mut self, completion: Completion) {
        self.phase = self.found(completion);
    }

    /// The outcome of an operation that is over in a post lane.
    #[inline(never)]
    pub(super) fn take_posted(&mut self) -> Result<Status, Error> {
        self.let_go();
        let completion = self.in_lane.ended.take();
        self.judge(completion)
    }

    /// Begins a receive into our own memory, of which this is a part.
    pub(crate) fn begin_recv(&mut self, endpoint: Endpoint, layout: Layout) -> Result<(), Error> {
        let mut memory = self.take_memory().expect("a receive that does not wait has a buffer");
        let into = &mut memory.as_bytes_mut()[..layout.bytes() as usize];
        let phase = match self.keep(endpoint, layout, into) {
            None => self.post(&endpoint, Some(into)).map(|found| self.found(found)),
            kept => kept,
        };
        self.memory = memory.into();
        match phase {
            None => self.begin(|slot, epoch| Command::Recv { slot, epoch, endpoint, layout }),
            Some(phase) => {
                self.enter(phase);
                Ok(())
            }
        }
    }

    /// Where a receive is that needs no daemon. Large messages go by the daemon, which is better told at once.
    fn keep(&mut self, endpoint: Endpoint, layout: Layout, into: &mut [u8]) -> Option<Phase> {
        if into.len() > POST_BYTES_MAX || self.attachment.log().is_on() {
            return None;
        }
        let recv = ShelvedRecv { slot: self.slot, epoch: self.epoch.wrapping_add(1), endpoint, layout };
        match self.attachment.post().keep(recv, into) {
            Look::Found(found) => Some(self.found(found)),
            Look::NotYet(news) => {
                self.in_lane.awaited = news.place();
                Some(Phase::Kept)
            }
            Look::AskDaemon => None,
        }
    }

    fn found(&mut self, completion: Completion) -> Phase {
        self.in_lane.ended = Some(completion);
        Phase::Posted
    }

    /// The outcome of a kept receive, if it has ended.
    #[inline(never)]
    pub(super) fn take_kept(&mut self) -> Option<Result<Status, Error>> {
        if !self.has_happened() {
            return None;
        }
        let (attachment, (source, _)) = (&self.attachment, self.in_lane.awaited);
        match attachment.post().poll((source, self.slot), |entries| attachment.entrust(entries)) {
            Stage::Waiting(next) => {
                self.in_lane.awaited = (source, next);
                return None;
            }
            Stage::Ended(completion) => self.phase = self.found(completion),
            Stage::Entrusted => self.entrusted(),
        }
        self.take_outcome(0)
    }

    /// Takes a kept receive back, or its outcome. `None` if it is not kept, or no more.
    pub(super) fn withdraw_kept(&mut self) -> Option<Result<Option<Status>, Error>> {
        if self.phase != Phase::Kept {
            return None;
        }
        if let Some(outcome) = self.take_kept() {
            return Some(outcome.map(Some));
        }
        if self.phase == Phase::Kept
            && let Some(completion) = self.forget_kept()
        {
            return Some(self.judge(Some(completion)).map(Some));
        }
        (self.phase == Phase::Inactive).then_some(Ok(None))
    }

    /// Lets a kept receive be, unless the daemon has it. Its message, if another thread has received it meanwhile.
    #[cold]
    pub(super) fn forget_kept(&mut self) -> Option<Completion> {
        match self.attachment.post().forget(self.in_lane.awaited.0, self.slot) {
            Some(Stage::Entrusted) => {
                self.entrusted();
                None
            }
            Some(Stage::Ended(completion)) => {
                self.let_go();
                Some(completion)
            }
            Some(Stage::Waiting(_)) | None => {
                self.let_go();
                None
            }
        }
    }

    /// The daemon has got a kept receive.
    fn entrusted(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
        self.in_lane.detour = Some(self.attachment.post().detour_kept(self.in_lane.awaited.0, self.slot));
        self.phase = Phase::Daemon;
    }
}
