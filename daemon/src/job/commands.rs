//! What clients say in their rings: checked, and handed on.

use std::time::Instant;

use ropeway_proto::batch::BATCH_COMMANDS;
use ropeway_proto::{Batch, Brief, Command, NodeId, limits};
use ropeway_shm::{Counter, Counters};

use super::{Attached, Job, Offence};

/// Commands taken from one ring in one cycle, and what is left of the entry that the last of them is in.
const COMMANDS_PER_CYCLE: usize = 64;

impl Job {
    /// Takes commands from every ring. Offenders are added to `offenders`, with their client.
    pub(crate) fn poll_commands(&mut self, counters: &Counters, offenders: &mut Vec<(usize, Offence)>) -> usize {
        let mut handled = 0;
        for local_rank in 0..self.ports.len() as u32 {
            match self.poll_ring(local_rank, COMMANDS_PER_CYCLE) {
                Ok(count) => handled += count,
                Err((client, offence)) => offenders.push((client, offence)),
            }
        }
        handled += self.take_over_shelves(offenders);
        if handled > 0 {
            counters.add(Counter::CommandsHandled, handled as u64);
        }
        handled
    }

    /// Takes entries until they were so many commands. Says how many entries.
    fn poll_ring(&mut self, local_rank: u32, commands_max: usize) -> Result<usize, (usize, Offence)> {
        let (mut entries, mut commands) = (0, 0);
        while commands < commands_max
            && let Some(count) = self.poll_entry(local_rank)?
        {
            commands += count;
            entries += 1;
        }
        Ok(entries)
    }

    /// Handles everything that a rank has said so far. Says how many entries that were.
    pub(crate) fn poll_whole_ring(&mut self, local_rank: u32) -> Result<usize, (usize, Offence)> {
        self.poll_ring(local_rank, limits::RING_ENTRIES * BATCH_COMMANDS)
    }

    /// Handles the next entry of a rank, if there is one. Says how many commands it was.
    fn poll_entry(&mut self, local_rank: u32) -> Result<Option<usize>, (usize, Offence)> {
        let Some(Attached { consumer, client, .. }) = &mut self.ports[local_rank as usize].attached else {
            return Ok(None);
        };
        let client = *client;
        let words = consumer.pop().map_err(|violation| (client, violation.into()))?;
        let Some(words) = words else { return Ok(None) };
        self.handle_entry(local_rank, words).map(Some).map_err(|offence| (client, offence))
    }

    /// `words` is a copy of the entry: what is checked here is what is acted on. Says how many commands it was.
    pub(crate) fn handle_entry(&mut self, local_rank: u32, words: [u64; 8]) -> Result<usize, Offence> {
        let command = Command::decode(words)?;
        let (slot, layout) = match command {
            Command::Several(batch) => {
                self.handle_several(local_rank, batch)?;
                return Ok(batch.count());
            }
            Command::InitSend { slot, layout, .. }
            | Command::InitRecv { slot, layout, .. }
            | Command::Send { slot, layout, .. }
            | Command::Recv { slot, layout, .. } => (slot, Some(layout)),
            Command::Start { slot, .. }
            | Command::Move { slot }
            | Command::ArriveAlone { slot }
            | Command::Free { slot, .. }
            | Command::Cancel { slot, .. }
            | Command::Probe { slot, .. } => (slot, None),
            Command::Tend { node } => {
                self.wires.tend(NodeId(node), Instant::now());
                return Ok(1);
            }
        };
        if let Some(layout) = layout {
            self.check_layout(local_rank, &layout)?;
        }
        self.make_sure_of_slot(local_rank, slot)?;
        self.engine.handle_command(local_rank, command)?;
        self.carry_out_local_work();
        if let Command::Send { endpoint, .. } = command
            && let Some(receiver) = endpoint.peer.and_then(|peer| self.local_rank(peer))
        {
            self.shelves.note_detour(local_rank, receiver);
        }
        Ok(1)
    }

    fn handle_several(&mut self, local_rank: u32, batch: Batch) -> Result<(), Offence> {
        for brief in batch.commands() {
            match brief {
                Brief::Start { slot } | Brief::Move { slot } | Brief::ArriveAlone { slot } => {
                    self.make_sure_of_slot(local_rank, slot)?;
                }
                Brief::Tend { node } => self.wires.tend(NodeId(node), Instant::now()),
            }
        }
        self.engine.handle_command(local_rank, Command::Several(batch))?;
        self.carry_out_local_work();
        Ok(())
    }
}
