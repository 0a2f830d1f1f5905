//! Direct channels of a job on this node: where they lie, and the daemon's part in them.
//!
//! The ends move small messages by themselves. The daemon copies large ones while both ends compute, piece by piece and in
//! turn, and sees to it that an end learns when the other is gone, and that nobody's buffer is given back while it is
//! being copied. It keeps what it decides by; what lies in the segment it only hands to the protocols.

use std::collections::VecDeque;
use std::sync::Arc;

use ropeway_engine::DirectId;
use ropeway_proto::{ChannelId, End, NodeId, Status};
use ropeway_shm::eager::{self, EagerMemory, EagerReceiver, Progress};
use ropeway_shm::transfer::{Transfer, TransferMemory};
use ropeway_shm::{Channel, EndOfChannel, Footprint, FreeRanges, JobSegment, OpenChannel, Thresholds, WiredEnd};
use slab::Slab;

use crate::job::RESERVED_AT_ONCE;

/// All direct channels of a job.
pub(crate) struct Channels {
    table: Slab<Entry>,
    space: Space,
    thresholds: Thresholds,
    /// Channels with a message to be copied.
    moving: VecDeque<u32>,
    closing: Vec<Closing>,
    /// Ends of wired channels that are closed here: their other side is to be told.
    unwired: Vec<Unwired>,
}

/// An end of a wired channel that is closed.
pub(crate) struct Unwired {
    pub(crate) node: NodeId,
    pub(crate) index: u16,
    pub(crate) why: Status,
}

struct Entry {
    channel: Channel,
    /// Ends whose requests exist.
    open_ends: u8,
    is_moving: bool,
}

/// An end that is freed as soon as nobody is copying from or to its buffer.
struct Closing {
    channel: u32,
    end: End,
    request: ChannelId,
    why: Status,
}

/// Which parts of the segment's channel area are free.
#[derive(Default)]
struct Space {
    /// Bytes from the area's start that have pages.
    reserved: u64,
    free: FreeRanges,
    /// Parts of the area that are for the words of channels, side by side.
    free_words: FreeRanges,
}

/// Pieces that are copied before the daemon looks at everything else again.
const PIECES_PER_CYCLE: usize = 4;
/// Where blocks begin: a line, which nobody shares with another block.
const BLOCK_ALIGN: u64 = 64;
/// So much of it becomes room for words at a time.
const WORDS_STEP: u64 = 32 << 10;
/// The area grows by this much.
const SPACE_STEP: u64 = 256 << 10;

impl Channels {
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        Self {
            table: Slab::new(),
            space: Space::default(),
            thresholds,
            moving: VecDeque::new(),
            closing: Vec::new(),
            unwired: Vec::new(),
        }
    }

    /// Memory the channels have taken.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.space.reserved
    }

    /// Sets a channel up and tells both ends. `None` if there is no memory for it within `bytes_left`.
    pub(crate) fn open(
        &mut self,
        job: &Arc<JobSegment>,
        send: EndOfChannel,
        recv: EndOfChannel,
        bytes_left: u64,
    ) -> Option<DirectId> {
        let channel = self.space.place(job, Channel::new(&self.thresholds, send, recv), bytes_left)?;
        channel.write(job)?;
        for end in [send, recv] {
            job.slot(end.local_rank, end.slot)?.set_channel(channel.block());
        }
        let index = self.table.insert(Entry { channel, open_ends: 2, is_moving: false });
        Some(DirectId(index as u32))
    }

    /// Whether `take_space` would not have to ask the kernel for much; if it would, there is some more memory by now.
    pub(crate) fn prepare_space(&mut self, job: &Arc<JobSegment>, bytes: u64, bytes_left: u64) -> bool {
        self.space.prepare(job, bytes, bytes_left)
    }

    /// Memory for something else that belongs to channels: a wire.
    pub(crate) fn take_space(&mut self, job: &Arc<JobSegment>, bytes: u64, bytes_left: u64) -> Option<u64> {
        self.space.take(job, bytes, bytes_left)
    }

    /// What `take_space` had taken.
    pub(crate) fn give_space_back(&mut self, block: u64, bytes: u64) {
        self.space.give_back(block, bytes);
    }

    /// Sets a channel up whose other end is on another node. Nobody is told yet.
    pub(crate) fn open_wired(
        &mut self,
        job: &Arc<JobSegment>,
        own: EndOfChannel,
        bytes: u64,
        wired: WiredEnd,
        bytes_left: u64,
    ) -> Option<(DirectId, Channel)> {
        let channel = self.space.place(job, Channel::new_wired(bytes, own, wired), bytes_left)?;
        channel.write(job)?;
        let index = self.table.insert(Entry { channel, open_ends: 1, is_moving: false });
        Some((DirectId(index as u32), channel))
    }

    /// A channel, if there is one of that name.
    pub(crate) fn find(&self, id: DirectId) -> Option<&Channel> {
        self.table.get(id.0 as usize).map(|entry| &entry.channel)
    }

    /// The next end of a wired channel that was closed.
    pub(crate) fn take_unwired(&mut self) -> Option<Unwired> {
        self.unwired.pop()
    }

    /// Nobody uses the wired channel any more.
    pub(crate) fn remove_wired(&mut self, id: DirectId) {
        if let Some(Entry { channel, .. }) = self.table.try_remove(id.0 as usize) {
            self.space.clear(&channel);
        }
    }

    /// Starts an end for its client, which did not know of the channel yet: so it is the end's first message.
    pub(crate) fn start(&mut self, job: &Arc<JobSegment>, id: DirectId, end: End) {
        let Some(entry) = self.table.get(id.0 as usize) else { return };
        let Some(open) = entry.channel.on(job) else { return };
        let progress = match end {
            _ if !entry.channel.is_small() => return self.start_large(id, &open, end),
            End::Send => entry.channel.sender(0).start(&open),
            End::Recv => EagerReceiver::default().start(&open),
        };
        if end == End::Recv {
            match progress {
                Progress::Done => {
                    open.note_taken();
                }
                // SYNC slot-waiter: a sender that has only offered its message may sleep until its receiver has come.
                Progress::Pending => {
                    open.wake_sender();
                }
            }
        }
        let own = entry.channel.end(end);
        if let Some(slot) = job.slot(own.local_rank, own.slot) {
            slot.set_channel_number(u32::from(progress == Progress::Done));
        }
    }

    /// The other end may have started, or only have offered to, and sleep.
    fn start_large(&mut self, id: DirectId, open: &OpenChannel, end: End) {
        let transfer = Transfer::default();
        if transfer.start(open, end, None) || transfer.meet(open) {
            self.wish_move(id);
        }
        // SYNC slot-waiter: an end that has only offered its message may sleep until the other one has come.
        TransferMemory::wake(open, end.peer());
    }

    /// An end asks for its message to be copied. Not if the other one is gone.
    pub(crate) fn wish_move(&mut self, id: DirectId) {
        if let Some(entry) = self.table.get_mut(id.0 as usize)
            && entry.open_ends > 1
            && !std::mem::replace(&mut entry.is_moving, true)
        {
            self.moving.push_back(id.0);
        }
    }

    /// Copies a piece of a few messages that are to be copied, in turn. Says how many pieces, and of how many bytes at most.
    pub(crate) fn copy_pieces(&mut self, job: &Arc<JobSegment>) -> (u64, u64) {
        let mut pieces = 0;
        for _ in 0..self.moving.len().min(PIECES_PER_CYCLE) {
            let Some(index) = self.moving.pop_front() else { break };
            let Some(entry) = self.table.get_mut(index as usize) else { continue };
            let open = entry.channel.on(job);
            let moved = open.and_then(|open| Some(Transfer::moving_or_met(&open)?.help(&open, 1))).unwrap_or(0);
            if moved > 0 {
                pieces += 1;
                self.moving.push_back(index);
            } else {
                entry.is_moving = false;
            }
        }
        (pieces, pieces * self.thresholds.piece_bytes)
    }

    /// An end is gone. True if its request, when one is named, can be freed now; if not, `take_closed` will say so.
    pub(crate) fn close(
        &mut self,
        job: &Arc<JobSegment>,
        id: DirectId,
        end: End,
        request: Option<ChannelId>,
        why: Status,
    ) -> bool {
        self.take_offers(job, id, end);
        // Whose process is gone may have given its request up before, and is waited for no more.
        self.closing.retain(|closing| (closing.channel, closing.end) != (id.0, end));
        match request {
            Some(request) if !self.is_out_of_use(job, id, end) => {
                self.wish_move(id);
                self.closing.push(Closing { channel: id.0, end, request, why });
                false
            }
            _ => {
                self.finish_close(job, (id.0, end), request, why);
                true
            }
        }
    }

    /// What both ends have offered travels on, though one of them is given up before anybody has come to wait.
    fn take_offers(&mut self, job: &Arc<JobSegment>, id: DirectId, end: End) {
        let channel = self.table.get(id.0 as usize).map(|entry| &entry.channel);
        let Some(channel) = channel.filter(|channel| channel.wired().is_none()) else { return };
        let Some(open) = channel.on(job) else { return };
        if channel.is_small() {
            return eager::settle(&open);
        }
        let transfer = Transfer::next_of(TransferMemory::words(&open));
        if transfer.is_met(&open, end) {
            transfer.meet(&open);
        }
    }

    /// Whether somebody waits for a copy that others are making.
    pub(crate) fn is_closing(&self) -> bool {
        !self.closing.is_empty()
    }

    /// The next request whose buffer nobody uses any more.
    pub(crate) fn take_closed(&mut self, job: &Arc<JobSegment>) -> Option<ChannelId> {
        let is_free = |closing: &Closing| self.is_out_of_use(job, DirectId(closing.channel), closing.end);
        let index = self.closing.iter().position(is_free)?;
        let Closing { channel, end, request, why } = self.closing.swap_remove(index);
        self.finish_close(job, (channel, end), Some(request), why);
        Some(request)
    }

    /// Takes an end's buffer out of use. A copy whose other end is gone is none.
    fn is_out_of_use(&self, job: &Arc<JobSegment>, id: DirectId, end: End) -> bool {
        let is_alone = |entry: &Entry| entry.open_ends < 2 && entry.channel.wired().is_none();
        self.table.get(id.0 as usize).is_none_or(|entry| entry.channel.withdraw(job, end) || is_alone(entry))
    }

    fn finish_close(
        &mut self,
        job: &Arc<JobSegment>,
        (index, end): (u32, End),
        request: Option<ChannelId>,
        why: Status,
    ) {
        let Some(entry) = self.table.get_mut(index as usize) else { return };
        let channel = entry.channel;
        channel.withdraw(job, end);
        let own = channel.end(end);
        // The slot of a request that was freed before may be another one's.
        if let Some(slot) = job.slot(own.local_rank, own.slot).filter(|_| request.is_some()) {
            slot.set_channel(0);
        }
        if let Some(&WiredEnd { node, index, .. }) = channel.wired() {
            return self.unwired.push(Unwired { node, index, why });
        }
        entry.open_ends -= 1;
        entry.is_moving = false;
        self.moving.retain(|&other| other != index);
        if entry.open_ends > 0 {
            // What both had started the other end copies alone from here: it takes its buffer back when it finds nothing left to copy.
            channel.close(job, end.peer(), why);
            return;
        }
        self.table.remove(index as usize);
        self.space.clear(&channel);
    }
}

impl Space {
    /// Gives the channel a place, if there is memory for it.
    fn place(&mut self, job: &JobSegment, channel: Channel, bytes_left: u64) -> Option<Channel> {
        let Footprint { words, cells } = channel.footprint();
        let before = self.reserved;
        if !self.free_words.has(words) {
            let start = self.take(job, WORDS_STEP, bytes_left)?;
            self.free_words.give(start, start + WORDS_STEP);
        }
        let cells = match cells {
            0 => None,
            bytes => Some(self.take(job, bytes, bytes_left.saturating_sub(self.reserved - before))?),
        };
        Some(channel.at(self.free_words.take(words)?, cells))
    }

    /// The channel is no more.
    fn clear(&mut self, channel: &Channel) {
        let Footprint { words, cells } = channel.footprint();
        self.free_words.give(channel.block(), channel.block() + words);
        if let Some((start, end)) = self.free_words.take_whole(WORDS_STEP) {
            self.free.give(start, end);
        }
        self.give_back(channel.first_cell(), cells);
    }

    /// What was taken with so many bytes is free again.
    fn give_back(&mut self, block: u64, bytes: u64) {
        self.free.give(block, block + bytes.next_multiple_of(BLOCK_ALIGN));
    }

    /// A block in the segment, if there is memory for it.
    fn take(&mut self, job: &JobSegment, bytes: u64, bytes_left: u64) -> Option<u64> {
        let bytes = bytes.checked_next_multiple_of(BLOCK_ALIGN)?;
        let missing = self.missing(job, bytes);
        if missing > 0 {
            self.reserve(job, missing, bytes_left)?;
        }
        self.free.take(bytes)
    }

    /// How much more has to be reserved to have so many bytes.
    fn missing(&self, job: &JobSegment, bytes: u64) -> u64 {
        let end = job.channels().start + self.reserved;
        if self.free.has(bytes) { 0 } else { bytes - (end - self.free.start_of_last(end)) }
    }

    fn reserve(&mut self, job: &JobSegment, missing: u64, bytes_left: u64) -> Option<()> {
        let area = job.channels();
        let reserved = self.reserved.checked_add(missing)?.checked_next_multiple_of(SPACE_STEP)?;
        if reserved > area.end - area.start || reserved - self.reserved > bytes_left {
            return None;
        }
        job.reserve_channels(self.reserved..reserved).ok()?;
        self.free.give(area.start + self.reserved, area.start + reserved);
        self.reserved = reserved;
        Some(())
    }

    /// Whether `take` has not much to reserve, or can't; if it has, a part of that is done.
    fn prepare(&mut self, job: &JobSegment, bytes: u64, bytes_left: u64) -> bool {
        let missing = bytes.checked_next_multiple_of(BLOCK_ALIGN).map_or(u64::MAX, |bytes| self.missing(job, bytes));
        let area = job.channels();
        if missing <= RESERVED_AT_ONCE || missing > bytes_left.min(area.end - area.start - self.reserved) {
            return true;
        }
        self.reserve(job, RESERVED_AT_ONCE, bytes_left).is_none()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    use super::*;
    use nix::fcntl::{FallocateFlags, fallocate};
    use ropeway_proto::Layout;
    use ropeway_shm::JobGeometry;

    const PIECE: u64 = 64 << 10;
    const SLOTS: u32 = 10;
    const SLOT_BYTES: u64 = 16 * PIECE;
    const ARENA: u64 = SLOTS as u64 * SLOT_BYTES;

    /// A channel from rank 0 to rank 1 for so many pieces, both ends of which are started and leave the copy to the daemon.
    fn begin(channels: &mut Channels, job: &Arc<JobSegment>, slot: u32, pieces: u64) -> OpenChannel {
        let end = |local_rank| {
            let at = job.arena(local_rank).start + u64::from(slot) * SLOT_BYTES;
            EndOfChannel { local_rank, slot, layout: Layout::contiguous(at, pieces * PIECE) }
        };
        let id = channels.open(job, end(0), end(1), u64::MAX).unwrap();
        let open = channels.find(id).unwrap().on(job).unwrap();
        for end in [End::Recv, End::Send] {
            Transfer::default().start(&open, end, None);
        }
        channels.wish_move(id);
        open
    }

    fn job() -> Arc<JobSegment> {
        let job = JobSegment::create(JobGeometry { local_ranks: 2, arena_bytes_max: ARENA }).unwrap();
        for rank in 0..2 {
            job.reserve_slots(rank, 0..SLOTS).unwrap();
            job.reserve_arena(rank, 0..ARENA).unwrap();
        }
        Arc::new(job)
    }

    fn channels() -> Channels {
        Channels::new(Thresholds { eager_bytes_max: 8 << 10, piece_bytes: PIECE })
    }

    #[test]
    fn large_messages_are_copied_a_piece_at_a_time_in_turn() {
        let (job, mut channels) = (job(), channels());
        let opened = [(0, 16), (1, 2), (2, 3)].map(|(slot, pieces)| (pieces, begin(&mut channels, &job, slot, pieces)));
        for round in 1..=16 {
            let moving = opened.iter().filter(|(pieces, _)| *pieces >= round).count() as u64;
            assert_eq!(channels.copy_pieces(&job), (moving, moving * PIECE), "round {round}");
            for (pieces, open) in &opened {
                assert_eq!(Transfer::default().is_over(TransferMemory::words(open)), *pieces <= round);
            }
        }
        assert_eq!(channels.copy_pieces(&job), (0, 0));
    }

    #[test]
    fn what_was_started_with_an_end_that_is_gone_is_left_to_the_other_one() {
        let (job, mut channels) = (job(), channels());
        let open = begin(&mut channels, &job, 0, 3);
        assert_eq!(channels.copy_pieces(&job).0, 1);
        assert!(channels.close(&job, DirectId(0), End::Send, None, Status::RankFailed));
        // It may have asked just before.
        channels.wish_move(DirectId(0));
        assert_eq!(channels.copy_pieces(&job), (0, 0), "nobody else has the buffer now");
        assert_eq!(Transfer::default().help(&open, u32::MAX), 2);
        assert!(Transfer::default().is_over(TransferMemory::words(&open)));
    }

    #[test]
    fn in_a_cycle_few_pieces_are_copied_however_many_messages_move() {
        let (job, mut channels) = (job(), channels());
        let opened: Vec<_> = (0..SLOTS).map(|slot| begin(&mut channels, &job, slot, 2)).collect();
        let pieces = 2 * SLOTS as usize;
        for cycle in 1..=pieces / PIECES_PER_CYCLE {
            assert_eq!(channels.copy_pieces(&job).0, PIECES_PER_CYCLE as u64);
            // Those that came last have had their first piece when those that came first get their second.
            let over = (cycle * PIECES_PER_CYCLE).saturating_sub(SLOTS as usize);
            let is_over = |open: &&OpenChannel| Transfer::default().is_over(TransferMemory::words(*open));
            assert_eq!(opened.iter().take_while(is_over).count(), over);
        }
    }

    #[test]
    fn an_end_that_waits_for_a_copy_and_whose_process_is_gone_then_is_closed_once() {
        let (job, mut channels) = (job(), channels());
        let open = begin(&mut channels, &job, 0, 2);
        channels.copy_pieces(&job);
        let (id, freed) = (DirectId(0), ChannelId { index: 0, generation: 0 });
        assert!(!channels.close(&job, id, End::Send, Some(freed), Status::PeerFreed), "the message moves");
        assert!(channels.close(&job, id, End::Send, None, Status::RankFailed));
        assert_eq!((channels.take_closed(&job), channels.is_closing()), (None, false));
        assert!(channels.find(id).is_some(), "the receiver has it still");
        assert!(channels.close(&job, id, End::Recv, Some(freed), Status::PeerFreed) && channels.find(id).is_none());
        drop(open);
    }

    #[test]
    fn memory_is_asked_for_once() {
        let (job, mut space) = (job(), Space::default());
        let file = File::from(job.fd().try_clone_to_owned().unwrap());
        let pages = || file.metadata().unwrap().blocks() * 512;
        let take = |space: &mut Space| space.take(&job, SPACE_STEP / 2, u64::MAX).unwrap();
        let first = take(&mut space);
        // What the kernel is asked for again it goes through again: a page that is gone would come back.
        fallocate(
            &file,
            FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE,
            first as i64,
            4096,
        )
        .unwrap();
        let before = pages();
        for _ in 0..9 {
            take(&mut space);
        }
        assert_eq!((space.reserved, pages() - before), (5 * SPACE_STEP, 4 * SPACE_STEP));
    }

    #[test]
    fn much_memory_is_prepared_little_by_little() {
        let (job, mut space) = (job(), Space::default());
        let much = 3 * RESERVED_AT_ONCE + SPACE_STEP;
        let steps = (1..).find(|_| space.prepare(&job, much, u64::MAX)).unwrap();
        assert_eq!((steps, space.reserved), (4, 3 * RESERVED_AT_ONCE));
        let block = space.take(&job, much, u64::MAX).unwrap();
        // Nothing is to be prepared for what there is, and for what can't be had.
        space.give_back(block, much);
        assert!(space.prepare(&job, much, 0) && space.prepare(&job, 4 * much, much));
        assert!(space.prepare(&job, job.channels().end - job.channels().start + 1, u64::MAX));
        assert_eq!([(much + 1, 0), (u64::MAX, u64::MAX)].map(|(bytes, left)| space.take(&job, bytes, left)), [None; 2]);
        assert_eq!(space.reserved, much);
    }

    /// Cells for 64 KiB are 256 KiB.
    #[test]
    fn words_lie_side_by_side_however_many_cells_a_channel_has() {
        const CHANNELS: u64 = 1000;
        let (job, mut space) = (job(), Space::default());
        let wired = |end| WiredEnd { wire: job.channels().start, index: 0, end, peer: 1, node: NodeId(1) };
        let mut place = |bytes, end| {
            let own = EndOfChannel { local_rank: 0, slot: 0, layout: Layout::contiguous(job.arena(0).start, bytes) };
            space.place(&job, Channel::new_wired(bytes, own, wired(end)), u64::MAX).unwrap()
        };
        let channels: Vec<_> = (0..CHANNELS)
            .map(|index| place([64 << 10, 8, 100][index as usize % 3], [End::Send, End::Recv][index as usize % 2]))
            .collect();
        let mut taken: Vec<_> = channels
            .iter()
            .flat_map(|channel| {
                let Footprint { words, cells } = channel.footprint();
                [(channel.block(), words), (channel.first_cell(), cells)]
            })
            .filter(|&(_, bytes)| bytes > 0)
            .collect();
        taken.sort_unstable();
        assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        let parts: HashSet<_> = channels.iter().map(|channel| channel.block() / WORDS_STEP).collect();
        let words: u64 = channels.iter().map(|channel| channel.footprint().words).sum();
        assert!(parts.len() as u64 <= 2 * words.div_ceil(WORDS_STEP), "{words} in {} parts", parts.len());
        // What they had can be had for anything again.
        channels.iter().for_each(|channel| space.clear(channel));
        assert!(space.free.has(space.reserved) && space.free_words.largest() == 0);
    }

    #[test]
    fn memory_of_any_size_is_used_again_for_any_other() {
        let (job, mut space) = (job(), Space::default());
        for size in 1..100 {
            let sizes = [size * 1000, 1, SPACE_STEP - size];
            let blocks = sizes.map(|bytes| space.take(&job, bytes, u64::MAX).unwrap());
            assert!(blocks.iter().all(|block| block % BLOCK_ALIGN == 0));
            blocks.iter().zip(sizes).for_each(|(&block, bytes)| space.give_back(block, bytes));
        }
        assert_eq!(space.reserved, 2 * SPACE_STEP);
    }
}
