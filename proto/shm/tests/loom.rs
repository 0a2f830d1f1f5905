//! The protocols under every schedule that a model checker can think of. Run with `--cfg loom`; see CONTRIBUTING.md.
#![cfg(loom)]

use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ropeway_proto::{Completion, Status};
use ropeway_shm::ring::{RingConsumer, RingProducer, RingWords};
use ropeway_shm::round::RoundWords;
use ropeway_shm::turn::{Due, Guard, Turn, Went};
use ropeway_shm::{Doorbell, RequestSlot};

const CAPACITY: usize = 2;

/// The kernel's part: something to sleep on that remembers one wake-up, as an eventfd does.
#[derive(Default)]
struct Bell {
    has_rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.has_rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn sleep(&self) {
        let mut has_rung = self.has_rung.lock().unwrap();
        while !*has_rung {
            has_rung = self.changed.wait(has_rung).unwrap();
        }
        *has_rung = false;
    }
}

fn entry(number: u64) -> [u64; 8] {
    [number; 8]
}

fn ring() -> (RingProducer<Arc<RingWords<CAPACITY>>>, RingConsumer<Arc<RingWords<CAPACITY>>>) {
    let words = Arc::new(RingWords::new());
    (RingProducer::new(Arc::clone(&words)), RingConsumer::new(words))
}

#[test]
fn entries_come_out_whole_and_in_order() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring();
        let pushing = thread::spawn(move || {
            for number in 1..=3 {
                while producer.push(&[entry(number)]) == 0 {
                    thread::yield_now();
                }
            }
        });
        for number in 1..=3 {
            let popped = loop {
                match consumer.pop().unwrap() {
                    Some(popped) => break popped,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(popped, entry(number));
        }
        pushing.join().unwrap();
        assert_eq!(consumer.pop(), Ok(None));
    });
}

#[test]
fn a_consumer_that_goes_to_sleep_misses_nothing() {
    loom::model(|| {
        let (mut producer, mut consumer) = ring();
        let bell = Arc::new(Bell::default());
        let pushing = {
            let bell = Arc::clone(&bell);
            thread::spawn(move || {
                for number in 1..=2 {
                    assert_eq!(producer.push(&[entry(number)]), 1);
                    if producer.must_wake() {
                        bell.ring();
                    }
                }
            })
        };
        let mut next = 1;
        while next <= 2 {
            while let Some(popped) = consumer.pop().unwrap() {
                assert_eq!(popped, entry(next));
                next += 1;
            }
            // A lost wake-up shows as a deadlock, which loom reports.
            if next <= 2 && consumer.arm() {
                bell.sleep();
                consumer.disarm();
            }
        }
        pushing.join().unwrap();
    });
}

/// A doorbell whose sleepers are a condition variable instead of a futex queue.
#[derive(Default)]
struct Futex {
    doorbell: Doorbell,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Futex {
    /// As the kernel does it: compare and go to sleep in one step.
    fn sleep(&self, seen: u32) {
        let mut guard = self.lock.lock().unwrap();
        while self.doorbell.listen() == seen {
            guard = self.changed.wait(guard).unwrap();
        }
    }

    fn wake(&self) {
        self.doorbell.count_up();
        drop(self.lock.lock().unwrap());
        self.changed.notify_all();
    }
}

#[test]
fn a_waiter_that_goes_to_sleep_sees_the_completion() {
    loom::model(|| {
        let slot = Arc::new(RequestSlot::new());
        let futex = Arc::new(Futex::default());
        let completing = {
            let (slot, futex) = (Arc::clone(&slot), Arc::clone(&futex));
            thread::spawn(move || {
                let completion = Completion { status: Status::Success, source: 3, tag: 4, bytes: 5 };
                if slot.complete(1, &completion).is_some() {
                    futex.wake();
                }
            })
        };
        let seen = futex.doorbell.listen();
        slot.arm(0);
        if !slot.is_done(1) {
            futex.sleep(seen);
        }
        slot.disarm();
        assert!(slot.is_done(1));
        let completion = slot.completion().unwrap();
        assert_eq!((completion.source, completion.tag, completion.bytes), (3, 4, 5));
        completing.join().unwrap();
    });
}

#[test]
fn a_waiter_on_two_requests_wakes_for_either() {
    loom::model(|| {
        let slots = Arc::new([RequestSlot::new(), RequestSlot::new()]);
        let futex = Arc::new(Futex::default());
        let completing = {
            let (slots, futex) = (Arc::clone(&slots), Arc::clone(&futex));
            thread::spawn(move || {
                if slots[1].complete(1, &Completion::bare(Status::Success)).is_some() {
                    futex.wake();
                }
            })
        };
        let seen = futex.doorbell.listen();
        slots.iter().for_each(|slot| slot.arm(0));
        if !slots.iter().any(|slot| slot.is_done(1)) {
            futex.sleep(seen);
        }
        slots.iter().for_each(RequestSlot::disarm);
        assert!(slots[1].is_done(1));
        completing.join().unwrap();
    });
}

#[test]
fn a_daemon_that_goes_wakes_whoever_sleeps() {
    loom::model(|| {
        let slot = Arc::new(RequestSlot::new());
        let (futex, is_gone) = (Arc::new(Futex::default()), Arc::new(AtomicBool::new(false)));
        let watching = {
            let (futex, is_gone) = (Arc::clone(&futex), Arc::clone(&is_gone));
            thread::spawn(move || {
                is_gone.store(true, Ordering::Release);
                futex.wake();
            })
        };
        let seen = futex.doorbell.listen();
        slot.arm(0);
        if !slot.is_done(1) && !is_gone.load(Ordering::Acquire) {
            futex.sleep(seen);
        }
        assert!(is_gone.load(Ordering::Acquire) || slot.is_done(1));
        watching.join().unwrap();
    });
}

/// A client starts an end of a channel that is just coming up: itself, if it finds the channel; else it tells the daemon, which starts the end
/// for it. So one of them does, and both know which message comes next.
#[test]
fn an_end_is_started_by_its_client_or_by_the_daemon_and_never_by_both() {
    const BLOCK: u64 = 64;
    const STARTED: Completion = Completion { status: Status::GoesDirect, source: 0, tag: 0, bytes: 0 };
    loom::model(|| {
        let (mut producer, mut consumer) = ring();
        // What is written down of a channel, and how often its end was started.
        let shared = Arc::new((RequestSlot::new(), AtomicU32::new(0), AtomicU32::new(0)));
        let daemon = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (slot, header, starts) = &*shared;
                header.store(7, Ordering::Relaxed);
                slot.set_channel(BLOCK);
                // The client's last words: a start, or that there is nothing more.
                let said = loop {
                    match consumer.pop().unwrap() {
                        Some(said) => break said,
                        None => thread::yield_now(),
                    }
                };
                if said == entry(1) {
                    let number = starts.fetch_add(1, Ordering::Relaxed) + 1;
                    slot.set_channel_number(number);
                    slot.complete(1, &STARTED);
                }
            })
        };
        let (slot, header, starts) = &*shared;
        match slot.channel() {
            Some(found) => {
                assert_eq!((found, header.load(Ordering::Relaxed)), ((BLOCK, 0), 7));
                starts.fetch_add(1, Ordering::Relaxed);
                assert_eq!(producer.push(&[entry(0)]), 1);
            }
            None => {
                assert_eq!(producer.push(&[entry(1)]), 1);
                while !slot.is_done(1) {
                    thread::yield_now();
                }
                assert_eq!(slot.completion(), Some(STARTED));
                assert_eq!((slot.channel(), header.load(Ordering::Relaxed)), (Some((BLOCK, 1)), 7));
            }
        }
        daemon.join().unwrap();
        assert_eq!(starts.load(Ordering::Relaxed), 1);
    });
}

/// Two parties mark work and try to do it; each leaves it to the other if that one is at it.
#[test]
fn what_is_due_is_done_by_whoever_has_the_turn() {
    loom::model(|| {
        let shared = Arc::new((Turn::new(), Due::<1>::new(), [AtomicBool::new(false), AtomicBool::new(false)]));
        let act = |shared: &(Turn, Due<1>, [AtomicBool; 2]), number: u16| {
            let (turn, due, done) = shared;
            due.mark(number);
            turn.work(u32::from(number) + 1, due, || {
                due.take_while(|index| {
                    done[usize::from(index)].store(true, Ordering::Relaxed);
                    true
                });
                Went::Through
            });
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || act(&other, 1));
        act(&shared, 0);
        thread.join().unwrap();
        assert!(shared.2.iter().all(|done| done.load(Ordering::Relaxed)));
    });
}

/// What is marked without being asked for is found by the guard, or the guard was seen to have gone.
#[test]
fn a_guard_that_leaves_looks_once_more() {
    loom::model(|| {
        let (due, guard) = (Arc::new(Due::<1>::new()), Arc::new(Guard::new()));
        guard.set(true);
        let (other_due, other_guard) = (Arc::clone(&due), Arc::clone(&guard));
        let marking = thread::spawn(move || {
            other_due.mark(3);
            other_guard.is_there()
        });
        guard.set(false);
        let was_seen = due.is_any();
        let was_relied_on = marking.join().unwrap();
        assert!(was_seen || !was_relied_on);
    });
}

/// Two members of a meeting come twice, and each does what pieces it gets.
#[test]
fn a_round_ends_when_all_have_come_and_all_pieces_are_done() {
    const PIECES: u32 = 2;
    struct Meeting {
        rounds: RoundWords,
        inputs: [AtomicU32; 2],
        results: [AtomicU32; PIECES as usize],
    }
    let attend = |meeting: &Meeting, member: usize| {
        for round in 0..2 {
            meeting.inputs[member].store(round + 1, Ordering::Relaxed);
            if meeting.rounds.arrive(2) {
                meeting.rounds.open(round, PIECES);
            }
            while !meeting.rounds.is_over(round) {
                let Some(piece) = meeting.rounds.claim(round, PIECES, member as u32) else {
                    thread::yield_now();
                    continue;
                };
                let sum = meeting.inputs.iter().map(|input| input.load(Ordering::Relaxed)).sum();
                meeting.results[piece as usize].store(sum, Ordering::Relaxed);
                if meeting.rounds.finish(PIECES) {
                    meeting.rounds.end(round);
                }
            }
            for result in &meeting.results {
                assert_eq!(result.load(Ordering::Relaxed), 2 * (round + 1));
            }
        }
    };
    loom::model(move || {
        let word = || AtomicU32::new(0);
        let meeting = Meeting { rounds: RoundWords::new(), inputs: [word(), word()], results: [word(), word()] };
        let meeting = Arc::new(meeting);
        let other = Arc::clone(&meeting);
        let thread = thread::spawn(move || attend(&other, 1));
        attend(&meeting, 0);
        thread.join().unwrap();
    });
}

/// Who ends a round looks at the members' requests only if one may sleep.
#[test]
fn a_member_that_goes_to_sleep_is_counted_before_it_looks() {
    loom::model(|| {
        let rounds = Arc::new(RoundWords::new());
        let slot = Arc::new(RequestSlot::new());
        let futex = Arc::new(Futex::default());
        let ending = {
            let (rounds, slot, futex) = (Arc::clone(&rounds), Arc::clone(&slot), Arc::clone(&futex));
            thread::spawn(move || {
                rounds.end(0);
                fence(Ordering::SeqCst);
                if rounds.has_sleepers_behind_fence() && slot.take_waiter().is_some() {
                    futex.wake();
                }
            })
        };
        let seen = futex.doorbell.listen();
        rounds.note_sleeper();
        slot.arm(0);
        if !rounds.is_over(0) {
            futex.sleep(seen);
        }
        slot.disarm();
        rounds.forget_sleeper();
        assert!(rounds.is_over(0));
        ending.join().unwrap();
        assert!(!rounds.has_sleepers_behind_fence());
    });
}

/// The daemon is one of those who come, after the root: whoever is the last ends the round, and finds what both have brought.
#[test]
fn a_round_that_its_root_opens_ends_with_the_last_of_members_and_daemon() {
    #[derive(Default)]
    struct Node {
        brought: AtomicU32,
        got: AtomicU32,
        late: AtomicU32,
    }
    loom::model(|| {
        let rounds = Arc::new(RoundWords::new());
        let node = Arc::new(Node::default());
        let end = |rounds: &RoundWords, node: &Node| {
            assert_eq!((node.got.load(Ordering::Relaxed), node.late.load(Ordering::Relaxed)), (7, 1));
            rounds.end(0);
        };
        let late = {
            let (rounds, node) = (Arc::clone(&rounds), Arc::clone(&node));
            thread::spawn(move || {
                node.late.store(1, Ordering::Relaxed);
                if rounds.arrive(3) {
                    end(&rounds, &node);
                }
            })
        };
        let daemon = {
            let (rounds, node) = (Arc::clone(&rounds), Arc::clone(&node));
            thread::spawn(move || {
                while rounds.passed() == 0 {
                    thread::yield_now();
                }
                node.got.store(node.brought.load(Ordering::Relaxed), Ordering::Relaxed);
                if rounds.arrive(3) {
                    end(&rounds, &node);
                }
            })
        };
        node.brought.store(7, Ordering::Relaxed);
        assert!(!rounds.arrive(3));
        rounds.pass(1);
        late.join().unwrap();
        daemon.join().unwrap();
        assert!(rounds.is_over(0));
    });
}
