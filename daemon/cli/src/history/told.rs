//! A rank's events, made into requests and their operations.

use std::collections::HashMap;

use ropeway_proto::event::OperationKind;
use ropeway_proto::{Endpoint, Event, EventKind, Slot};

use super::{OperationHistory, RankHistory, RequestHistory, Span};

/// What a rank has told, event by event in the order of time.
#[derive(Default)]
struct Told {
    rank: RankHistory,
    /// What is on each slot now.
    on_slot: HashMap<Slot, OnSlot>,
    /// One-shot requests alike, by what they have in common.
    alike: HashMap<(OperationKind, Endpoint, u64), usize>,
    /// By thread, a wait that has not ended.
    waiting: HashMap<u16, Wait>,
    /// By thread, when it last waited for several and did not learn yet what had ended.
    waited: HashMap<u16, u64>,
}

struct OnSlot {
    operation: OperationKind,
    endpoint: Endpoint,
    bytes: u64,
    /// The registered request.
    request: Option<usize>,
    /// The one-shot operation that runs.
    once: Option<OperationHistory>,
}

struct Wait {
    slot: Option<Slot>,
    begin_ns: u64,
    /// Whether the thread has learnt meanwhile of something that ended.
    has_heard: bool,
}

/// The history of a rank of a job that took `duration_ns`. `lost`: events it had no room for.
pub(super) fn rank(events: &[Event], lost: u64, duration_ns: u64) -> RankHistory {
    let mut told = Told::default();
    events.iter().for_each(|event| told.hear(event));
    let has_left = events.iter().any(|event| event.kind == EventKind::Left);
    let last_ns = events.iter().map(|event| event.at_ns + event.took_ns).max();
    // Whoever was killed was there to the end.
    let left_ns = if has_left || lost > 0 { last_ns.unwrap_or(duration_ns) } else { duration_ns };
    told.rank.never_joined = !events.iter().any(|event| event.kind == EventKind::Joined);
    told.finish(left_ns, lost)
}

impl Told {
    fn hear(&mut self, event: &Event) {
        let &Event { at_ns, took_ns, thread, kind } = event;
        let span = Span { begin_ns: at_ns, end_ns: at_ns + took_ns, thread };
        match kind {
            EventKind::Joined => self.rank.joined_ns = at_ns,
            EventKind::Init { slot, operation, endpoint, bytes } => self.init(slot, operation, (endpoint, bytes), span),
            EventKind::Start { slot } => self.start(slot, span),
            EventKind::Publish => self.rank.publishes.push(span),
            EventKind::WaitBegin { slot } => self.begin_wait(thread, slot, at_ns),
            EventKind::WaitEnd { .. } => self.end_wait(span),
            EventKind::End { slot, is_ok, peer, tag, .. } => {
                let wait_ns = self.wait_for(slot, thread);
                self.end(slot, is_ok, wait_ns, at_ns);
                self.arrived(slot, is_ok.then_some((peer, tag)));
            }
            EventKind::Free { slot } => self.free(slot),
            EventKind::Left | EventKind::Awake { .. } | EventKind::PieceBegin(_) | EventKind::PieceEnd(_) => {}
        }
    }

    fn init(&mut self, slot: Slot, operation: OperationKind, (endpoint, bytes): (Endpoint, u64), span: Span) {
        let mut on_slot = OnSlot { operation, endpoint, bytes, request: None, once: None };
        if operation.is_persistent() {
            on_slot.request = Some(self.rank.requests.len());
            self.rank.requests.push(request(&on_slot, Some(span)));
        } else {
            on_slot.once = Some(begun(slot, span));
        }
        self.on_slot.insert(slot, on_slot);
    }

    fn start(&mut self, slot: Slot, span: Span) {
        let request = self.on_slot.get(&slot).and_then(|on_slot| on_slot.request);
        if let Some(request) = request {
            self.rank.requests[request].operations.push(begun(slot, span));
        }
    }

    fn begin_wait(&mut self, thread: u16, slot: Option<Slot>, begin_ns: u64) {
        self.waiting.insert(thread, Wait { slot, begin_ns, has_heard: false });
    }

    fn end_wait(&mut self, span: Span) {
        let Some(wait) = self.waiting.remove(&span.thread) else { return };
        self.rank.waits.push(Span { begin_ns: wait.begin_ns, ..span });
        if wait.slot.is_none() && !wait.has_heard {
            self.waited.insert(span.thread, wait.begin_ns);
        }
    }

    /// Since when the thread that learns of an operation's end has waited for it.
    fn wait_for(&mut self, slot: Slot, thread: u16) -> Option<u64> {
        match self.waiting.get_mut(&thread) {
            Some(wait) if wait.slot.is_none_or(|other| other == slot) => {
                self.waited.remove(&thread);
                wait.has_heard = true;
                Some(wait.begin_ns)
            }
            Some(_) => None,
            None => self.waited.remove(&thread),
        }
    }

    fn end(&mut self, slot: Slot, is_ok: bool, wait_ns: Option<u64>, at_ns: u64) {
        let Some(on_slot) = self.on_slot.get_mut(&slot) else { return };
        let running = match on_slot.request {
            Some(request) => self.rank.requests[request].operations.last_mut(),
            None => on_slot.once.as_mut(),
        };
        if let Some(running) = running {
            // Before it was started nobody waited for it.
            let wait_ns = wait_ns.map(|wait_ns| wait_ns.max(running.start.begin_ns));
            *running = OperationHistory { wait_ns, end_ns: Some(at_ns), is_ok, ..running.clone() };
        }
    }

    /// A one-shot receive knows only now whose message it is.
    fn arrived(&mut self, slot: Slot, from: Option<(u32, i32)>) {
        if let (Some(on_slot), Some((peer, tag))) = (self.on_slot.get_mut(&slot), from)
            && on_slot.operation == OperationKind::RecvOnce
        {
            on_slot.endpoint = Endpoint { peer: Some(peer), tag: Some(tag), ..on_slot.endpoint };
        }
    }

    fn free(&mut self, slot: Slot) {
        if let Some(mut on_slot) = self.on_slot.remove(&slot)
            && let Some(once) = on_slot.once.take()
        {
            let requests = &mut self.rank.requests;
            let key = (on_slot.operation, on_slot.endpoint, on_slot.bytes);
            let index = *self.alike.entry(key).or_insert_with(|| {
                requests.push(request(&on_slot, None));
                requests.len() - 1
            });
            requests[index].operations.push(once);
        }
    }

    /// What never ended was waited for all the same: by a thread that says so, or that waits for whatever ends.
    fn tell_the_waited_for(&mut self) {
        for wait in self.waiting.values() {
            let waited_for = self.on_slot.iter_mut().filter(|(slot, _)| wait.slot.is_none_or(|other| other == **slot));
            for (_, on_slot) in waited_for {
                let running = match on_slot.request {
                    Some(request) => self.rank.requests[request].operations.last_mut(),
                    None => on_slot.once.as_mut(),
                };
                if let Some(running) = running.filter(|running| running.end_ns.is_none()) {
                    running.wait_ns = Some(wait.begin_ns.max(running.start.begin_ns));
                }
            }
        }
    }

    fn finish(mut self, left_ns: u64, lost: u64) -> RankHistory {
        self.tell_the_waited_for();
        let (waits, slots) = (&mut self.rank.waits, self.on_slot.keys().copied().collect::<Vec<_>>());
        waits.extend(self.waiting.iter().map(|(&thread, wait)| {
            let begin_ns = wait.begin_ns;
            Span { begin_ns, end_ns: left_ns.max(begin_ns), thread }
        }));
        waits.sort_unstable();
        // One-shot requests whose process was killed amid them.
        slots.into_iter().for_each(|slot| self.free(slot));
        for request in &mut self.rank.requests {
            request.operations.sort_by_key(|operation| operation.start.begin_ns);
        }
        RankHistory { left_ns, lost, ..self.rank }
    }
}

fn begun(slot: Slot, start: Span) -> OperationHistory {
    OperationHistory { start, wait_ns: None, end_ns: None, is_ok: false, slot }
}

fn request(on_slot: &OnSlot, init: Option<Span>) -> RequestHistory {
    let &OnSlot { operation, endpoint, bytes, .. } = on_slot;
    let (comm, peer, tag) = (endpoint.comm.0, endpoint.peer, endpoint.tag);
    RequestHistory { operation, comm, peer, tag, bytes, init, operations: Vec::new() }
}

#[cfg(test)]
mod tests {
    use ropeway_proto::CommId;

    use super::*;

    const FROM_1: Endpoint = Endpoint { comm: CommId(0), peer: Some(1), tag: Some(7) };

    fn at(at_ns: u64, kind: EventKind) -> Event {
        Event { at_ns, took_ns: 2, thread: 0, kind }
    }

    fn init(slot: Slot, operation: OperationKind, endpoint: Endpoint) -> EventKind {
        EventKind::Init { slot, operation, endpoint, bytes: 8 }
    }

    fn end(slot: Slot) -> EventKind {
        EventKind::End { slot, is_ok: true, peer: 1, tag: 7, bytes: 8 }
    }

    fn waits(request: &RequestHistory) -> Vec<Option<u64>> {
        request.operations.iter().map(|operation| operation.wait_ns).collect()
    }

    #[test]
    fn a_request_has_its_operations_with_their_waits() {
        let events = [
            at(0, EventKind::Joined),
            at(1, init(4, OperationKind::Recv, FROM_1)),
            at(10, EventKind::Start { slot: 4 }),
            at(20, EventKind::WaitBegin { slot: Some(4) }),
            at(29, end(4)),
            at(30, EventKind::WaitEnd { slot: Some(4) }),
            at(40, EventKind::Start { slot: 4 }),
            at(49, end(4)),
            at(50, EventKind::Free { slot: 4 }),
            at(60, EventKind::Left),
        ];
        let rank = rank(&events, 0, 100);
        let [request] = &rank.requests[..] else { panic!("{rank:?}") };
        assert_eq!((request.operation, request.peer, request.tag), (OperationKind::Recv, Some(1), Some(7)));
        assert_eq!(request.init.map(|init| (init.begin_ns, init.end_ns)), Some((1, 3)));
        assert_eq!(waits(request), [Some(20), None]);
        assert_eq!(request.operations[1].end_ns, Some(49));
        assert_eq!(rank.waits.iter().map(Span::ns).collect::<Vec<_>>(), [12]);
        assert_eq!(rank.left_ns, 62);
    }

    #[test]
    fn one_shot_messages_alike_are_one_request_whatever_they_were_asked_for_by() {
        let any = Endpoint { peer: None, tag: None, ..FROM_1 };
        let once = |begin, slot, endpoint| {
            let ends = [at(begin + 5, end(slot)), at(begin + 6, EventKind::Free { slot })];
            [vec![at(begin, init(slot, OperationKind::RecvOnce, endpoint))], ends.to_vec()].concat()
        };
        let events = [once(0, 1, any), once(10, 2, FROM_1), once(20, 1, any)].concat();
        let rank = rank(&events, 0, 100);
        let [request] = &rank.requests[..] else { panic!("{rank:?}") };
        assert_eq!((request.peer, request.init), (Some(1), None));
        assert_eq!(request.operations.len(), 3);
    }

    #[test]
    fn who_is_killed_while_it_waits_has_waited_to_the_end() {
        let events = [
            at(0, EventKind::Joined),
            at(1, init(4, OperationKind::SendOnce, FROM_1)),
            at(5, EventKind::WaitBegin { slot: Some(4) }),
        ];
        let rank = rank(&events, 0, 100);
        assert_eq!(rank.waits, [Span { begin_ns: 5, end_ns: 100, thread: 0 }]);
        let [operation] = &rank.requests[0].operations[..] else { panic!("{rank:?}") };
        assert_eq!((operation.wait_ns, operation.end_ns), (Some(5), None));
    }

    #[test]
    fn who_waits_for_whatever_ends_waits_for_all_that_runs() {
        let events = [
            at(0, EventKind::Joined),
            at(1, init(4, OperationKind::Recv, FROM_1)),
            at(2, init(5, OperationKind::Recv, FROM_1)),
            at(3, EventKind::Start { slot: 4 }),
            at(4, EventKind::Start { slot: 5 }),
            at(9, end(5)),
            at(10, EventKind::WaitBegin { slot: None }),
        ];
        let told = rank(&events, 0, 100);
        assert_eq!((waits(&told.requests[0]), waits(&told.requests[1])), (vec![Some(10)], vec![None]));
        assert!(!told.never_joined && rank(&[], 0, 100).never_joined);
    }

    #[test]
    fn a_wait_for_several_is_that_of_what_ended() {
        let events = [
            at(1, init(4, OperationKind::Recv, FROM_1)),
            at(2, init(5, OperationKind::Send, FROM_1)),
            at(3, EventKind::Start { slot: 4 }),
            at(4, EventKind::Start { slot: 5 }),
            at(10, EventKind::WaitBegin { slot: None }),
            at(20, EventKind::WaitEnd { slot: None }),
            // It is told only afterwards which has ended; the other was over when it was asked for.
            at(21, end(5)),
            at(23, end(4)),
        ];
        let rank = rank(&events, 0, 100);
        assert_eq!((waits(&rank.requests[0]), waits(&rank.requests[1])), (vec![None], vec![Some(10)]));
    }

    #[test]
    fn a_wait_that_has_told_what_ended_is_that_of_nothing_else() {
        let events = [
            at(1, init(4, OperationKind::Recv, FROM_1)),
            at(2, init(5, OperationKind::Send, FROM_1)),
            at(3, EventKind::Start { slot: 4 }),
            at(4, EventKind::Start { slot: 5 }),
            at(10, EventKind::WaitBegin { slot: None }),
            at(19, end(5)),
            at(20, EventKind::WaitEnd { slot: None }),
            // Over by itself while the program computed.
            at(50, end(4)),
        ];
        let rank = rank(&events, 0, 100);
        assert_eq!((waits(&rank.requests[0]), waits(&rank.requests[1])), (vec![None], vec![Some(10)]));
    }
}
