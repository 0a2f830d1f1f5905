//! Which steps must wait for which, because they touch the same elements.

use std::collections::BTreeMap;

use crate::step::{Action, Buffer, Slice};

/// What was done to the three buffers so far, step by step.
///
/// A read waits for the last write to each of its elements, a write also for all reads since. Any order of execution that
/// keeps to that gives every element the same history.
pub(crate) struct Hazards {
    buffers: [BTreeMap<u64, Span>; 3],
}

/// Elements with one history, from the key to `end`.
#[derive(Clone)]
struct Span {
    end: u64,
    writer: Option<u32>,
    readers: Vec<u32>,
}

impl Hazards {
    pub(crate) fn new() -> Self {
        let untouched = || BTreeMap::from([(0, Span { end: u64::MAX, writer: None, readers: Vec::new() })]);
        Self { buffers: [untouched(), untouched(), untouched()] }
    }

    /// Takes note of a step, and says what it must wait for: ascending, each once.
    pub(crate) fn add(&mut self, step: u32, action: &Action) -> Vec<u32> {
        let mut after = Vec::new();
        if let Some(slice) = action.reads() {
            self.read(slice, step, &mut after);
        }
        if let Some(slice) = action.writes() {
            self.write(slice, step, &mut after);
        }
        after.retain(|&other| other != step);
        after.sort_unstable();
        after.dedup();
        after
    }

    fn read(&mut self, slice: Slice, step: u32, after: &mut Vec<u32>) {
        for span in self.cut_out(slice).range_mut(slice.offset..slice.end()).map(|(_, span)| span) {
            after.extend(span.writer);
            span.readers.push(step);
        }
    }

    fn write(&mut self, slice: Slice, step: u32, after: &mut Vec<u32>) {
        let spans = self.cut_out(slice);
        let starts: Vec<_> = spans.range(slice.offset..slice.end()).map(|(&start, _)| start).collect();
        for start in starts {
            let span = spans.remove(&start).expect("it was there a moment ago");
            after.extend(span.writer);
            after.extend(span.readers);
        }
        if !slice.is_empty() {
            spans.insert(slice.offset, Span { end: slice.end(), writer: Some(step), readers: Vec::new() });
        }
    }

    /// Makes spans begin and end where the slice does.
    fn cut_out(&mut self, slice: Slice) -> &mut BTreeMap<u64, Span> {
        let spans = match slice.buffer {
            Buffer::Input => &mut self.buffers[0],
            Buffer::Output => &mut self.buffers[1],
            Buffer::Scratch => &mut self.buffers[2],
        };
        for at in [slice.offset, slice.end()] {
            let (&start, span) = spans.range_mut(..=at).next_back().expect("spans cover everything");
            if start < at {
                let rest = span.clone();
                span.end = at;
                spans.insert(at, rest);
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_waits_for_writes_and_a_write_for_reads() {
        let slice = |offset, length| Slice { buffer: Buffer::Output, offset, length };
        let mut hazards = Hazards::new();
        let recv = |offset, length| Action::Recv { peer: 1, into: slice(offset, length) };
        let send = |offset, length| Action::Send { peer: 1, from: slice(offset, length) };
        assert_eq!(hazards.add(0, &recv(0, 4)), []);
        assert_eq!(hazards.add(1, &recv(4, 4)), []);
        assert_eq!(hazards.add(2, &send(2, 4)), [0, 1]);
        assert_eq!(hazards.add(3, &send(0, 2)), [0]);
        assert_eq!(hazards.add(4, &recv(5, 9)), [1, 2]);
        assert_eq!(hazards.add(5, &recv(3, 1)), [0, 2]);
        assert_eq!(hazards.add(6, &send(14, 1)), []);
    }
}
