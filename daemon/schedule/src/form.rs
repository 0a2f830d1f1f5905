//! The two ways in which messages reach memory: seed 001 (Inozemtsev 2014), §4.3.

use crate::step::{Action, Schedule, Slice};

/// How a schedule's messages are sent.
///
/// An engine whose channels are bound early needs neither: its channels choose by themselves. These are the forms for devices
/// that can only send, receive and wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// In pieces of at most `block` elements, as long as the receiver's prepared buffers: it need not be asked.
    Eager {
        /// Elements of a buffer, at least 1.
        block: u64,
    },
    /// Each receiver signals first that its memory is ready ("clear to send"). The signals of receives that wait for nothing go
    /// out at the start, so that no round trip is added unless somebody is late.
    Rendezvous,
}

impl Form {
    /// The same schedule in this form. All participants must choose the same.
    pub fn apply(self, schedule: &Schedule) -> Schedule {
        let mut formed = Schedule::new(schedule.me(), schedule.size());
        formed.add_scratch(schedule.scratch_elements());
        // The steps that stand for each of the original ones.
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(schedule.steps().len());
        for (index, step) in (0..).zip(schedule.steps()) {
            let after = schedule.after(index).iter().map(|&other| places[other as usize]);
            let after: Vec<_> = after.flat_map(|(first, last)| first..=last).collect();
            places.push(match self {
                Self::Eager { block } => cut(&mut formed, step.action, &after, block),
                Self::Rendezvous => ask(&mut formed, step.action, after),
            });
        }
        formed.shrink();
        formed
    }
}

fn cut(formed: &mut Schedule, action: Action, after: &[u32], block: u64) -> (u32, u32) {
    let pieces = |slice: Slice| {
        let starts = (0..slice.length).step_by(usize::try_from(block.max(1)).unwrap_or(usize::MAX));
        starts.map(move |start| slice.part(start, block.max(1).min(slice.length - start)))
    };
    let steps: Vec<_> = match action {
        Action::Send { peer, from } => {
            pieces(from).map(|from| formed.push(Action::Send { peer, from }, after)).collect()
        }
        Action::Recv { peer, into } => {
            pieces(into).map(|into| formed.push(Action::Recv { peer, into }, after)).collect()
        }
        other => vec![formed.push(other, after)],
    };
    (steps[0], steps[steps.len() - 1])
}

fn ask(formed: &mut Schedule, action: Action, mut after: Vec<u32>) -> (u32, u32) {
    match action {
        Action::Send { peer, .. } => after.push(formed.push(Action::Wait { peer }, &[])),
        Action::Recv { peer, .. } => {
            formed.push(Action::Signal { peer }, &after);
        }
        _ => {}
    }
    let step = formed.push(action, &after);
    (step, step)
}
