//! Writes a schedule down as if its steps were done one after the other, and finds out what must really wait for what.

use crate::hazard::Hazards;
use crate::shape::Shape;
use crate::step::{Action, Buffer, Schedule, Side, Slice};

/// A schedule in the making.
pub(crate) struct Builder<'a> {
    pub(crate) shape: &'a Shape,
    pub(crate) me: u32,
    pub(crate) size: u32,
    schedule: Schedule,
    hazards: Hazards,
    gate: Vec<u32>,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(shape: &'a Shape, me: u32) -> Self {
        let schedule = Schedule::new(me, shape.size);
        Self { shape, me, size: shape.size, schedule, hazards: Hazards::new(), gate: Vec::new() }
    }

    pub(crate) fn finish(mut self) -> Schedule {
        self.schedule.shrink();
        self.schedule
    }

    /// New scratch memory.
    pub(crate) fn scratch(&mut self, length: u64) -> Slice {
        self.schedule.add_scratch(length)
    }

    /// My input, wherever it is: `length` elements that start at `offset`.
    pub(crate) fn input(&self, offset: u64, length: u64) -> Slice {
        let buffer = if self.shape.is_in_place_at(self.me) { Buffer::Output } else { Buffer::Input };
        Slice { buffer, offset, length }
    }

    pub(crate) fn output(&self, offset: u64, length: u64) -> Slice {
        Slice { buffer: Buffer::Output, offset, length }
    }

    /// From here on nothing is sent before these steps are done, whatever memory it is sent from.
    pub(crate) fn hold_until(&mut self, steps: impl IntoIterator<Item = u32>) {
        self.gate.clear();
        self.gate.extend(steps);
    }

    pub(crate) fn send(&mut self, peer: u32, from: Slice) -> Option<u32> {
        (!from.is_empty()).then(|| self.push(Action::Send { peer, from }))
    }

    pub(crate) fn recv(&mut self, peer: u32, into: Slice) -> Option<u32> {
        (!into.is_empty()).then(|| self.push(Action::Recv { peer, into }))
    }

    pub(crate) fn combine(&mut self, from: Slice, into: Slice, side: Side) {
        if !from.is_empty() {
            self.push(Action::Combine { from, into, side });
        }
    }

    pub(crate) fn copy(&mut self, from: Slice, into: Slice) {
        if !from.is_empty() && from != into {
            self.push(Action::Copy { from, into });
        }
    }

    pub(crate) fn signal(&mut self, peer: u32) {
        self.push(Action::Signal { peer });
    }

    pub(crate) fn wait(&mut self, peer: u32) -> u32 {
        self.push(Action::Wait { peer })
    }

    fn push(&mut self, action: Action) -> u32 {
        let index = u32::try_from(self.schedule.steps().len()).expect("schedules are shorter");
        let mut after = self.hazards.add(index, &action);
        if matches!(action, Action::Send { .. } | Action::Signal { .. }) {
            after.extend_from_slice(&self.gate);
        }
        after.sort_unstable();
        after.dedup();
        self.schedule.push(action, &after)
    }
}

/// A partial result, which begins as one's own operand and takes in those of others.
///
/// The operand may not be written to, so the first one that is taken in goes to where the result belongs, and the operand
/// is combined into it: nothing is copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accumulator {
    operand: Slice,
    home: Slice,
    is_home: bool,
}

impl Accumulator {
    pub(crate) fn new(operand: Slice, home: Slice) -> Self {
        assert_eq!(operand.length, home.length, "a result is as long as its operands");
        Self { operand, home, is_home: operand == home }
    }

    /// Where the partial result is now.
    pub(crate) const fn value(&self) -> Slice {
        if self.is_home { self.home } else { self.operand }
    }

    /// Where it will be in the end.
    pub(crate) const fn home(&self) -> Slice {
        self.home
    }

    pub(crate) fn part(&self, offset: u64, length: u64) -> Self {
        Self { operand: self.operand.part(offset, length), home: self.home.part(offset, length), ..*self }
    }

    /// Takes in what a peer sends. It lands in memory of its own, so it may come at any time.
    pub(crate) fn recv(&mut self, builder: &mut Builder, peer: u32, side: Side) {
        let operand = self.landing(builder);
        builder.recv(peer, operand);
        self.take_in(builder, operand, side);
    }

    /// Takes in what these peers send, on its left, combined in their order and from the left.
    pub(crate) fn recv_before(&mut self, builder: &mut Builder, peers: impl IntoIterator<Item = u32>) {
        let mut peers = peers.into_iter();
        let Some(first) = peers.next() else { return };
        let before = self.landing(builder);
        builder.recv(first, before);
        for peer in peers {
            let operand = builder.scratch(before.length);
            builder.recv(peer, operand);
            builder.combine(operand, before, Side::Right);
        }
        self.take_in(builder, before, Side::Left);
    }

    /// Where the next operand lands: home, if nothing is there yet.
    fn landing(&self, builder: &mut Builder) -> Slice {
        if self.is_home { builder.scratch(self.home.length) } else { self.home }
    }

    /// Combines what has landed with what is there.
    fn take_in(&mut self, builder: &mut Builder, landed: Slice, side: Side) {
        if self.is_home {
            builder.combine(landed, self.home, side);
        } else {
            let opposite = if side == Side::Left { Side::Right } else { Side::Left };
            builder.combine(self.operand, self.home, opposite);
            self.is_home = true;
        }
    }

    /// Says that it came home by another way.
    pub(crate) fn set_home(&mut self) {
        self.is_home = true;
    }

    /// Brings it home, if nothing was taken in.
    pub(crate) fn settle(&mut self, builder: &mut Builder) {
        if !self.is_home {
            builder.copy(self.operand, self.home);
            self.is_home = true;
        }
    }
}

impl Builder<'_> {
    /// `home` becomes ((o0∘o1)∘o2)∘…; operands may be changed if they lie in `home`.
    pub(crate) fn fold_left(&mut self, operands: &[Slice], home: Slice) {
        let (first, rest) = operands.split_first().expect("there is at least one operand");
        let mut rest = rest.to_vec();
        if *first != home {
            for operand in rest.iter_mut().filter(|operand| operand.overlaps(&home)) {
                let copy = self.scratch(operand.length);
                self.copy(*operand, copy);
                *operand = copy;
            }
            self.copy(*first, home);
        }
        for operand in rest {
            self.combine(operand, home, Side::Right);
        }
    }
}
