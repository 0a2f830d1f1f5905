//! Matching of one-shot messages: who gets what, in the order MPI asks for, whatever the queues' lengths.
//!
//! Posted receives and unexpected messages are binned by (communicator, source, tag), so that a match costs the same
//! with one entry queued or a million. Wildcards are bins of their own:
//!
//! * a receive waits in exactly one bin, the one of its own pattern; a message looks at the heads of the four bins that
//!   could take it and gives itself to the receive that was posted first;
//! * a message waits in all four bins that could ask for it; a receive takes the head of its own bin, and the message
//!   is unlinked from the other three (lists threaded through the entries, so unlinking is O(1)).

use std::collections::{HashMap, VecDeque};

use ropeway_proto::{ChannelId, CommId, Envelope, NodeId, Rank, Tag};
use slab::Slab;

use crate::engine::StashId;

/// What a receive asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pattern {
    pub(crate) comm: CommId,
    pub(crate) source: Option<Rank>,
    pub(crate) tag: Option<Tag>,
}

impl Pattern {
    /// The four patterns that a message satisfies.
    fn of(envelope: &Envelope) -> [Self; 4] {
        let Envelope { comm, source, tag, .. } = *envelope;
        [(Some(source), Some(tag)), (Some(source), None), (None, Some(tag)), (None, None)].map(|(source, tag)| Self {
            comm,
            source,
            tag,
        })
    }

    pub(crate) fn accepts(&self, envelope: &Envelope) -> bool {
        Self::of(envelope).contains(self)
    }
}

/// Receives that wait for a message.
#[derive(Default)]
pub(crate) struct Posted {
    bins: HashMap<Pattern, VecDeque<(u64, ChannelId)>>,
    order: u64,
}

impl Posted {
    pub(crate) fn push(&mut self, pattern: Pattern, id: ChannelId) {
        self.order += 1;
        self.bins.entry(pattern).or_default().push_back((self.order, id));
    }

    /// Takes the receive that was posted first among those that accept the message.
    pub(crate) fn take(&mut self, envelope: &Envelope, visited: &mut u64) -> Option<ChannelId> {
        let heads = Pattern::of(envelope).into_iter().filter_map(|pattern| {
            let &(order, _) = self.bins.get(&pattern)?.front()?;
            *visited += 1;
            Some((order, pattern))
        });
        let (_, pattern) = heads.min_by_key(|&(order, _)| order)?;
        let bin = self.bins.get_mut(&pattern)?;
        let (_, id) = bin.pop_front()?;
        if bin.is_empty() {
            self.bins.remove(&pattern);
        }
        Some(id)
    }

    /// Withdraws a receive; says whether it was still waiting.
    pub(crate) fn remove(&mut self, pattern: Pattern, id: ChannelId) -> bool {
        let Some(bin) = self.bins.get_mut(&pattern) else { return false };
        let before = bin.len();
        bin.retain(|&(_, other)| other != id);
        let is_removed = bin.len() < before;
        if bin.is_empty() {
            self.bins.remove(&pattern);
        }
        is_removed
    }
}

/// A message that no receive has asked for yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) envelope: Envelope,
    pub(crate) bytes: u64,
    pub(crate) content: Content,
}

impl Message {
    /// The node that has it still, and its send there, if it was announced.
    fn announced_by(&self) -> Option<(NodeId, ChannelId)> {
        match self.content {
            Content::Announced { node, send } => Some((node, send)),
            Content::Stashed(_) => None,
        }
    }

    /// The node that has it still, if it was announced.
    pub(crate) fn announcer(&self) -> Option<NodeId> {
        self.announced_by().map(|(node, _)| node)
    }
}

/// Where a waiting message is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Content {
    /// Here, in the stash.
    Stashed(StashId),
    /// Still with the sender.
    Announced { send: ChannelId, node: NodeId },
}

/// Messages that wait for a receive.
#[derive(Default)]
pub(crate) struct Unexpected {
    entries: Slab<Entry>,
    bins: HashMap<Pattern, Ends>,
    /// Those that were announced, by whose sends they are.
    announced: HashMap<(NodeId, ChannelId), u32>,
}

struct Entry {
    message: Message,
    /// Neighbours in the four bins, in the order of [`Pattern::of`].
    links: [Ends; 4],
}

/// First and last of a list, or previous and next of an entry.
#[derive(Clone, Copy)]
struct Ends {
    before: u32,
    after: u32,
}

const NONE: u32 = u32::MAX;

impl Unexpected {
    pub(crate) fn push(&mut self, message: Message) {
        let links = [Ends { before: NONE, after: NONE }; 4];
        let key = self.entries.insert(Entry { message, links }) as u32;
        self.announced.extend(message.announced_by().map(|by| (by, key)));
        for (which, pattern) in Pattern::of(&message.envelope).into_iter().enumerate() {
            let bin = self.bins.entry(pattern).or_insert(Ends { before: key, after: NONE });
            let last = std::mem::replace(&mut bin.after, key);
            self.entries[key as usize].links[which].before = last;
            if last != NONE {
                self.link_in(last, pattern).after = key;
            }
        }
    }

    /// The oldest message that satisfies `pattern`, left where it is.
    pub(crate) fn peek(&self, pattern: Pattern, visited: &mut u64) -> Option<&Message> {
        let bin = self.bins.get(&pattern)?;
        *visited += 1;
        Some(&self.entries[bin.before as usize].message)
    }

    /// Takes the oldest message that satisfies `pattern`.
    pub(crate) fn take(&mut self, pattern: Pattern, visited: &mut u64) -> Option<Message> {
        let key = self.bins.get(&pattern)?.before;
        *visited += 1;
        Some(self.remove(key))
    }

    /// Takes the message that this send has announced.
    pub(crate) fn take_announced(&mut self, node: NodeId, send: ChannelId) -> Option<Message> {
        let key = *self.announced.get(&(node, send))?;
        Some(self.remove(key))
    }

    /// Takes every message that satisfies `wanted`. Walks them all: for failures.
    pub(crate) fn take_if(&mut self, wanted: impl Fn(&Message) -> bool) -> Vec<Message> {
        let keys: Vec<_> =
            self.entries.iter().filter(|(_, entry)| wanted(&entry.message)).map(|(key, _)| key).collect();
        keys.into_iter().map(|key| self.remove(key as u32)).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn remove(&mut self, key: u32) -> Message {
        let Entry { message, links } = self.entries.remove(key as usize);
        if let Some(by) = message.announced_by()
            && self.announced.get(&by) == Some(&key)
        {
            // A daemon that lies may have announced it twice; then only the last one can be withdrawn.
            self.announced.remove(&by);
        }
        for (pattern, link) in Pattern::of(&message.envelope).into_iter().zip(links) {
            match link.before {
                NONE => self.bins.get_mut(&pattern).expect("a linked entry has its bin").before = link.after,
                before => self.link_in(before, pattern).after = link.after,
            }
            match link.after {
                NONE => self.bins.get_mut(&pattern).expect("a linked entry has its bin").after = link.before,
                after => self.link_in(after, pattern).before = link.before,
            }
            if link.before == NONE && link.after == NONE {
                self.bins.remove(&pattern);
            }
        }
        message
    }

    /// The links of an entry within the bin of `pattern`.
    fn link_in(&mut self, key: u32, pattern: Pattern) -> &mut Ends {
        // Which of an entry's four bins a pattern is depends only on its wildcards.
        let which = usize::from(pattern.source.is_none()) * 2 + usize::from(pattern.tag.is_none());
        &mut self.entries[key as usize].links[which]
    }
}

/// Eager one-shot messages that came from one rank to another.
#[derive(Clone, Copy, Default)]
pub(crate) struct PairReceived {
    /// Stashed, and not asked for yet.
    pub(crate) waiting: u32,
    /// Taken, and not returned the credit of.
    pub(crate) owed: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn envelope(source: Rank, tag: Tag) -> Envelope {
        Envelope { comm: CommId::WORLD, source, dest: 0, tag }
    }

    fn pattern(source: Option<Rank>, tag: Option<Tag>) -> Pattern {
        Pattern { comm: CommId::WORLD, source, tag }
    }

    fn id(index: u32) -> ChannelId {
        ChannelId { index, generation: 0 }
    }

    fn message(source: Rank, tag: Tag, number: u32) -> Message {
        Message { envelope: envelope(source, tag), bytes: 0, content: Content::Stashed(StashId(number)) }
    }

    fn number(message: &Message) -> u32 {
        if let Content::Stashed(StashId(number)) = message.content { number } else { unreachable!() }
    }

    #[test]
    fn the_receive_posted_first_gets_the_message() {
        let mut posted = Posted::default();
        posted.push(pattern(Some(1), Some(5)), id(0));
        posted.push(pattern(None, None), id(1));
        posted.push(pattern(Some(2), None), id(2));
        let mut visited = 0;
        assert_eq!(posted.take(&envelope(2, 5), &mut visited), Some(id(1)));
        assert_eq!(posted.take(&envelope(1, 5), &mut visited), Some(id(0)));
        assert_eq!(posted.take(&envelope(1, 5), &mut visited), None);
        assert_eq!(posted.take(&envelope(2, 9), &mut visited), Some(id(2)));
    }

    #[test]
    fn long_queues_are_not_searched() {
        let (mut posted, mut unexpected, mut visited) = (Posted::default(), Unexpected::default(), 0);
        for source in 0..1000 {
            for tag in 0..10 {
                posted.push(pattern(Some(source), Some(tag)), id(source));
                unexpected.push(message(source, tag, source));
            }
        }
        assert_eq!(posted.take(&envelope(999, 9), &mut visited), Some(id(999)));
        assert_eq!(unexpected.take(pattern(Some(999), Some(9)), &mut visited).as_ref().map(number), Some(999));
        assert_eq!(unexpected.take(pattern(Some(500), None), &mut visited).as_ref().map(number), Some(500));
        assert_eq!(visited, 3);
    }

    #[test]
    fn what_was_announced_is_found_by_whose_send_it_is() {
        let (mut unexpected, mut visited) = (Unexpected::default(), 0);
        let announced = |tag, index| Message {
            content: Content::Announced { send: id(index), node: NodeId(1) },
            ..message(1, tag, 0)
        };
        (0..4).for_each(|index| unexpected.push(announced(5, index)));
        unexpected.push(message(1, 5, 9));
        let mut take = |node, index| unexpected.take_announced(NodeId(node), id(index)).map(|message| message.content);
        assert!(take(1, 2).is_some() && take(1, 2).is_none() && take(0, 1).is_none());
        unexpected.take(pattern(Some(1), None), &mut visited).unwrap();
        assert!(unexpected.take_announced(NodeId(1), id(0)).is_none(), "it was asked for");
        // A lie.
        (0..2).for_each(|tag| unexpected.push(announced(tag, 3)));
        assert_eq!(unexpected.take_announced(NodeId(1), id(3)).unwrap().envelope.tag, 1);
        assert!(unexpected.take_announced(NodeId(1), id(3)).is_none());
        assert_eq!((unexpected.len(), unexpected.announced.len()), (4, 1));
    }

    proptest! {
        /// Against plain lists that are searched from the front.
        #[test]
        fn the_bins_agree_with_plain_queues(
            operations in proptest::collection::vec((any::<bool>(), 0u32..3, 0i32..3, any::<bool>(), any::<bool>()), 0..200)
        ) {
            let (mut posted, mut unexpected, mut visited) = (Posted::default(), Unexpected::default(), 0);
            let (mut posted_oracle, mut unexpected_oracle) = (Vec::new(), Vec::new());
            for (index, (is_message, source, tag, any_source, any_tag)) in operations.into_iter().enumerate() {
                let index = index as u32;
                if is_message {
                    let envelope = envelope(source, tag);
                    let expected = posted_oracle.iter().position(|(p, _): &(Pattern, u32)| p.accepts(&envelope));
                    let expected = expected.map(|at| posted_oracle.remove(at).1);
                    prop_assert_eq!(posted.take(&envelope, &mut visited).map(|id| id.index), expected);
                    if expected.is_none() {
                        unexpected.push(message(source, tag, index));
                        unexpected_oracle.push((envelope, index));
                    }
                } else {
                    let pattern = pattern((!any_source).then_some(source), (!any_tag).then_some(tag));
                    let expected = unexpected_oracle.iter().position(|(e, _)| pattern.accepts(e));
                    let expected = expected.map(|at| unexpected_oracle.remove(at).1);
                    prop_assert_eq!(unexpected.peek(pattern, &mut visited).map(number), expected);
                    prop_assert_eq!(unexpected.take(pattern, &mut visited).as_ref().map(number), expected);
                    if expected.is_none() {
                        posted.push(pattern, id(index));
                        posted_oracle.push((pattern, index));
                    }
                }
            }
            prop_assert_eq!(unexpected.len(), unexpected_oracle.len());
        }
    }
}
