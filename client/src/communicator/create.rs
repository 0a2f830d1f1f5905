//! Making communicators of others.
//!
//! The founder of a new communicator, its first member, gives it a block of contexts; what it takes for that is told to the
//! others in one exchange on the parent's private context. A duplicate needs none: see [`Context::take_part`].

use ropeway_proto::{Command, Endpoint, Tag};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{AGREEMENT, Block, Communicator, Membership, dissemination};
use crate::operation::Operation;
use crate::{Error, Group, Plain, Status, one_shot};

/// What a rank says in a split.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Claim {
    /// Negative for none.
    colour: i64,
    key: i32,
    /// Would it found its group's communicator: the block it takes.
    block: u32,
}

/// Communicators made of this one.
///
/// # Errors
/// [`Error::TooManyCommunicators`] if the first rank of the new one has founded as many as it can. And whatever may befall the messages by which the ranks agree:
/// [`Error::RankFailed`], [`Error::RankLeft`] or [`Error::PeerLost`] if one is gone, [`Error::PeerFreed`] if one has failed in it,
/// [`Error::TooManyRequests`] or [`Error::OutOfMemory`] if this one has too much.
impl Communicator {
    /// The same ranks, with a context of its own: messages and collectives never meet those of the original, whoever uses it.
    ///
    /// All ranks call it, in the same order. It takes constant time and memory and sends nothing, but for every sixteenth
    /// duplicate or so of a communicator, when the ranks have to agree on more contexts.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), ropeway::Error> {
    /// let world = ropeway::init()?.world();
    /// let private = world.dup()?; // a library keeps it for itself
    /// # Ok(())
    /// # }
    /// ```
    pub fn dup(&self) -> Result<Self, Error> {
        let block = match self.context.take_part() {
            Some(block) => block,
            None => {
                self.context.refill(self.found(self.group())?);
                self.context.take_part().expect("a new block has parts")
            }
        };
        Ok(Self::new(self.membership().clone(), self.rank(), block))
    }

    /// One communicator for each colour, of the ranks that name it; ranks are numbered by key, and those with the same key in
    /// their order here. Who names none gets none.
    ///
    /// All ranks call it, in the same order; each waits for all. It takes `O(size)` memory and `O(log size)` messages.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), ropeway::Error> {
    /// let world = ropeway::init()?.world();
    /// let row = world.split(Some(world.rank() / 4), 0)?.expect("everybody has a row");
    /// # Ok(())
    /// # }
    /// ```
    pub fn split(&self, colour: Option<u32>, key: i32) -> Result<Option<Self>, Error> {
        let share = self.attachment().share();
        let own = share.take();
        let colour = colour.map_or(-1, i64::from);
        let claims = self.tell_all(self.group(), Claim { colour, key, block: Block::to_word(own) })?;
        let claim_of = |rank: u32| &claims[rank as usize];
        let mut members: Vec<u32> = (0..self.size()).filter(|&rank| claim_of(rank).colour == colour).collect();
        members.sort_by_key(|&rank| claim_of(rank).key);
        let (founder, is_alone) = (members[0], colour < 0);
        if let Some(unused) = own.filter(|_| is_alone || founder != self.rank) {
            share.give_back(unused);
        }
        if is_alone {
            return Ok(None);
        }
        let block = Block::from_word(claim_of(founder).block).ok_or(Error::TooManyCommunicators)?;
        self.made_of(self.group().include(&members)?, block).map(Some)
    }

    /// The ranks of this one that live on this rank's node, in their order here: those whose messages to each other need no network.
    ///
    /// All ranks call it, as [`split`](Self::split).
    ///
    /// # Errors
    /// Those of [`split`](Self::split).
    ///
    /// ```no_run
    /// # fn example() -> Result<(), ropeway::Error> {
    /// let world = ropeway::init()?.world();
    /// let node = world.split_by_node()?;
    /// let is_first_of_its_node = node.rank() == 0;
    /// let leaders = world.split(is_first_of_its_node.then_some(0), 0)?; // one rank of each node
    /// # Ok(())
    /// # }
    /// ```
    pub fn split_by_node(&self) -> Result<Self, Error> {
        let attachment = self.attachment();
        let node = attachment.node_of(attachment.rank()) as u32;
        let split = self.split(Some(node), 0)?;
        Ok(split.expect("every rank has a node"))
    }

    /// The communicator of a group of ranks of this one, numbered as in the group. `None` for a rank that is not in it.
    ///
    /// All ranks of the group call it, in the same order, with the same group; each waits for all. Others need not, and get
    /// `None` at once if they do.
    ///
    /// # Errors
    /// [`Error::BadGroup`] if a rank of the group is none of this communicator; those of all that make one.
    pub fn create(&self, group: &Group) -> Result<Option<Self>, Error> {
        if let Some(rank) = group.ranks().find(|&rank| self.group().number_of(rank).is_none()) {
            return Err(Error::BadGroup { why: format!("rank {rank} of the job is no member of this communicator") });
        }
        if group.number_of(self.attachment().rank()).is_none() {
            return Ok(None);
        }
        let block = self.found(group)?;
        self.made_of(group.clone(), block).map(Some)
    }

    /// A communicator of ranks of this one, us among them.
    fn made_of(&self, group: Group, block: Block) -> Result<Self, Error> {
        let attachment = self.attachment().clone();
        let rank = group.number_of(attachment.rank()).expect("it is for members");
        Ok(Self::new(Membership { attachment, group }, rank, block))
    }

    /// Agrees on a block for a communicator of this group, us among them.
    fn found(&self, group: &Group) -> Result<Block, Error> {
        let attachment = self.attachment();
        let is_founder = group.rank_of(0) == attachment.rank();
        let own = if is_founder { attachment.share().take() } else { None };
        let blocks = self.tell_all(group, Block::to_word(own))?;
        Block::from_word(blocks[0]).ok_or(Error::TooManyCommunicators)
    }

    /// What each of a group of our ranks says, by number in the group (Bruck and others 1997). Who learns that somebody is missing tells those
    /// who come after by a message without anything in it, and goes through all rounds, so that nobody waits for ever, nor finds what is left
    /// of this the next time.
    fn tell_all<T: Plain>(&self, group: &Group, own: T) -> Result<Vec<T>, Error> {
        let size = group.size();
        let number = group.number_of(self.attachment().rank()).expect("it is for members");
        let peer = |number: u32, tag: Tag| {
            let rank = group.translate(number % size, self.group()).expect("it is a group of our ranks");
            self.internal(rank, tag)
        };
        // Ours, that of the one before us, of the one before that …
        let mut known = vec![own];
        let mut failure = None;
        for (round, distance) in dissemination(size) {
            let tag = AGREEMENT + round;
            let count = distance.min(size - distance) as usize;
            let told = if failure.is_none() { &known[..count] } else { &[] };
            let mut heard = vec![own; count];
            let (to, from) = (peer(number + distance, tag), peer(number + size - distance, tag));
            let (sending, mut missing) = match self.tell(told, (to, tag)) {
                Ok(sending) => (sending, None),
                Err(error) => (self.tell::<T>(&[], (to, tag)).unwrap_or_default(), Some(error)),
            };
            let received = self.hear(&mut heard, from);
            let sent = sending.map_or(Ok(()), |mut sending| sending.wait(self.attachment().wait_mode()).map(drop));
            missing = missing.or(sent.err());
            match received {
                Ok(status) if status.count == heard.len() => {}
                Ok(Status { source: rank, .. }) => missing = missing.or(Some(Error::PeerFreed { rank })),
                Err(error) => missing = missing.or(Some(error)),
            }
            known.extend(heard);
            failure = failure.or(missing);
        }
        if let Some(error) = failure {
            return Err(error);
        }
        Ok((0..size).map(|other| known[((number + size - other) % size) as usize]).collect())
    }

    /// Begins to send; `None` if that is done. Without anything in it a message takes nothing that somebody may lack.
    fn tell<T: Plain>(&self, told: &[T], (endpoint, tag): (Endpoint, Tag)) -> Result<Option<Operation>, Error> {
        if self.attachment().send(&endpoint, told.as_bytes())? {
            return Ok(None);
        }
        let terms = self.send_terms::<T>(tag, size_of_val(told) as u64);
        let (layout, mut sending) = one_shot::departure(&self.membership, told, terms)?;
        sending.begin(|slot, epoch| Command::Send { slot, epoch, endpoint, layout })?;
        Ok(Some(sending))
    }

    /// Receives. What there is no memory for is received all the same, and lost: it would be taken for a part of what comes next.
    fn hear<T: Plain>(&self, heard: &mut [T], from: Endpoint) -> Result<Status, Error> {
        let received = one_shot::recv(&self.membership, heard, from);
        if matches!(received, Err(Error::OutOfMemory { .. })) {
            // Cut off, or without anything in it: either way it has come.
            let _ = one_shot::recv::<T>(&self.membership, &mut [], from);
        }
        received
    }
}
