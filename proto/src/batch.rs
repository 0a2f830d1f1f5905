//! Client → daemon: several commands in one entry of the command ring.
//!
//! Requests that are started together tell the daemon little each: which slot, and what is to be done with it. So many fit in an entry:
//!
//! ```text
//!  0    1       2     8                16                                      64
//!  +----+-------+-----+----------------+--------------------------------------+
//!  | 12 | count |  0  | kinds, 2 bits  | a slot or a node, 16 bits, of each   |
//!  +----+-------+-----+----------------+--------------------------------------+
//! ```

use zerocopy::byteorder::little_endian::{U16, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::command::{self, ARRIVE_ALONE, COMMAND_WORDS, CommandError, MOVE, SEVERAL, START, TEND};
use crate::ids::Slot;
use crate::limits::SLOTS_PER_RANK;

/// How many commands fit in an entry.
pub const BATCH_COMMANDS: usize = 24;

/// Commands that say no more than a slot or a node each, in the order in which they are to be handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Batch {
    op: u8,
    count: u8,
    reserved: [U16; 3],
    kinds: U64,
    numbers: [U16; BATCH_COMMANDS],
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Brief {
    /// As [`Command::Start`](crate::Command::Start), with whatever epoch is next.
    Start { slot: Slot },
    /// As [`Command::Move`](crate::Command::Move).
    Move { slot: Slot },
    /// As [`Command::ArriveAlone`](crate::Command::ArriveAlone).
    ArriveAlone { slot: Slot },
    /// As [`Command::Tend`](crate::Command::Tend).
    Tend { node: u16 },
}

const _: () = assert!(size_of::<Batch>() == COMMAND_WORDS * 8 && 2 * BATCH_COMMANDS <= 64);
/// So a slot fits in 16 bits, as a node does.
const _: () = assert!(SLOTS_PER_RANK == 1 << 16);

/// What the two bits stand for. `Tend` has its node where others have their slot.
const KINDS: [u8; 4] = [START, MOVE, ARRIVE_ALONE, TEND];

impl Batch {
    /// No command: no entry.
    pub fn new() -> Self {
        let (reserved, numbers) = ([0.into(); 3], [0.into(); BATCH_COMMANDS]);
        Self { op: SEVERAL, count: 0, reserved, kinds: 0.into(), numbers }
    }

    /// How many commands it has.
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Adds the command that an entry encodes. False if it is none of those that can be added, or there is no room for it.
    #[inline]
    pub fn add(&mut self, entry: &[u64; COMMAND_WORDS]) -> bool {
        let (op, slot) = command::op_and_slot(entry);
        KINDS.iter().position(|&kind| kind == op).is_some_and(|kind| self.push(kind, slot as u16))
    }

    /// The same of a command of this kind.
    #[inline]
    pub fn add_brief(&mut self, brief: Brief) -> bool {
        const { assert!(KINDS[0] == START && KINDS[1] == MOVE && KINDS[2] == ARRIVE_ALONE && KINDS[3] == TEND) };
        match brief {
            Brief::Start { slot } => self.push(0, slot as u16),
            Brief::Move { slot } => self.push(1, slot as u16),
            Brief::ArriveAlone { slot } => self.push(2, slot as u16),
            Brief::Tend { node } => self.push(3, node),
        }
    }

    #[inline]
    fn push(&mut self, kind: usize, number: u16) -> bool {
        let Some(free) = self.numbers.get_mut(usize::from(self.count)) else { return false };
        *free = number.into();
        self.kinds = (self.kinds.get() | (kind as u64) << (2 * self.count)).into();
        self.count += 1;
        true
    }

    /// Its commands.
    pub fn commands(self) -> impl Iterator<Item = Brief> {
        let kinds = self.kinds.get();
        self.numbers.into_iter().take(self.count()).enumerate().map(move |(index, number)| {
            let (node, slot) = (number.get(), Slot::from(number.get()));
            match KINDS[(kinds >> (2 * index)) as usize % KINDS.len()] {
                START => Brief::Start { slot },
                MOVE => Brief::Move { slot },
                ARRIVE_ALONE => Brief::ArriveAlone { slot },
                _ => Brief::Tend { node },
            }
        })
    }

    /// The entry as ring words.
    #[inline]
    pub fn encode(&self) -> [u64; COMMAND_WORDS] {
        zerocopy::transmute!(*self)
    }

    /// Reads an entry of several commands. The words may hold anything else.
    pub(crate) fn decode(words: [u64; COMMAND_WORDS]) -> Result<Self, CommandError> {
        let batch: Self = zerocopy::transmute!(words);
        let count = batch.count();
        if !(1..=BATCH_COMMANDS).contains(&count) {
            return Err(CommandError::BadCount(count));
        }
        let behind = batch.reserved.iter().chain(&batch.numbers[count..]);
        let is_reserved_zero =
            behind.into_iter().all(|number| number.get() == 0) && batch.kinds.get() >> (2 * count) == 0;
        if is_reserved_zero { Ok(batch) } else { Err(CommandError::ReservedNotZero) }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{CommId, Command, Endpoint};

    fn batch(commands: &[Command]) -> Batch {
        let mut batch = Batch::new();
        commands.iter().for_each(|command| assert!(batch.add(&command.encode()), "{command:?}"));
        batch
    }

    #[test]
    fn a_batch_has_its_golden_bytes() {
        let (slot, epoch) = (0x0203, 9);
        let commands = [
            Command::Start { slot, epoch },
            Command::Move { slot: 4 },
            Command::Tend { node: 5 },
            Command::ArriveAlone { slot: 6 },
        ];
        let mut golden = [0; 64];
        golden[..2].copy_from_slice(&[12, 4]);
        golden[8] = 0b10_11_01_00;
        golden[16..24].copy_from_slice(&[3, 2, 4, 0, 5, 0, 6, 0]);
        assert_eq!(batch(&commands).encode().as_bytes(), golden);
    }

    #[test]
    fn as_many_fit_as_there_is_room_for() {
        let slots = || (0..BATCH_COMMANDS as u32).map(|index| u32::from(u16::MAX) - index);
        let mut batch = batch(&slots().map(|slot| Command::Start { slot, epoch: slot }).collect::<Vec<_>>());
        assert!(!batch.add(&Command::Move { slot: 0 }.encode()));
        assert_eq!(Command::decode(batch.encode()), Ok(Command::Several(batch)));
        assert!(batch.commands().eq(slots().map(|slot| Brief::Start { slot })));
    }

    #[test]
    fn commands_that_say_more_are_not_added() {
        let endpoint = Endpoint { comm: CommId::WORLD, peer: None, tag: None };
        let mut batch = Batch::new();
        let probe = Command::Probe { slot: 0, epoch: 1, endpoint, wait: true };
        for command in [probe, Command::Free { slot: 1, epoch: 1 }, Command::Cancel { slot: 1, epoch: 1 }] {
            assert!(!batch.add(&command.encode()), "{command:?}");
        }
        assert_eq!(batch, Batch::new());
    }

    #[test]
    fn what_is_behind_the_last_command_is_refused() {
        assert_eq!(Command::decode(Batch::new().encode()), Err(CommandError::BadCount(0)));
        let mut words = batch(&[Command::Move { slot: 7 }; 5]).encode();
        words[0] += 20 << 8;
        assert_eq!(Command::decode(words), Err(CommandError::BadCount(25)));
        for (word, bit) in [(0, 16), (0, 63), (1, 10), (1, 63), (3, 16), (4, 0), (7, 63)] {
            let mut words = batch(&[Command::Move { slot: 7 }; 5]).encode();
            words[word] |= 1 << bit;
            assert_eq!(Command::decode(words), Err(CommandError::ReservedNotZero), "bit {bit} of word {word}");
        }
    }

    proptest! {
        #[test]
        fn random_batches_survive_the_ring(
            count in 1..=BATCH_COMMANDS,
            kinds in any::<u64>(),
            numbers in any::<[u16; BATCH_COMMANDS]>(),
        ) {
            let mut raw = Batch { count: count as u8, kinds: (kinds & ((1 << (2 * count)) - 1)).into(), ..Batch::new() };
            raw.numbers[..count].copy_from_slice(&numbers.map(U16::new)[..count]);
            let batch = Batch::decode(raw.encode()).unwrap();
            let again = batch.commands().fold(Batch::new(), |mut again, brief| {
                let command = match brief {
                    Brief::Start { slot } => Command::Start { slot, epoch: 1 },
                    Brief::Move { slot } => Command::Move { slot },
                    Brief::ArriveAlone { slot } => Command::ArriveAlone { slot },
                    Brief::Tend { node } => Command::Tend { node },
                };
                assert!(again.add(&command.encode()));
                again
            });
            prop_assert_eq!(again, raw);
        }
    }
}
