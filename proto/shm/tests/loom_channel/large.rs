//! Large messages: pieces that anybody may copy.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ropeway_proto::End;
use ropeway_shm::Joined;
use ropeway_shm::eager::EagerWords;
use ropeway_shm::transfer::{Transfer, TransferMemory, TransferWords};

use crate::{Sleeper, copy};

const PIECES: usize = 2;

/// A large message of two pieces.
pub(crate) struct Large {
    pub(crate) words: TransferWords,
    /// For what they say of ends that start with others.
    eager: EagerWords,
    send_buffer: [UnsafeCell<u32>; PIECES],
    recv_buffer: [UnsafeCell<u32>; PIECES],
    sleepers: [Sleeper; 2],
}

// SAFETY: the model checker watches every access to the cells.
unsafe impl Sync for Large {}
// SAFETY: as above.
unsafe impl Send for Large {}

impl Large {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            words: TransferWords::new(),
            eager: EagerWords::new(),
            send_buffer: std::array::from_fn(|_| UnsafeCell::new(0)),
            recv_buffer: std::array::from_fn(|_| UnsafeCell::new(0)),
            sleepers: std::array::from_fn(|_| Sleeper::new()),
        })
    }

    fn sleeper(&self, end: End) -> &Sleeper {
        &self.sleepers[usize::from(end == End::Recv)]
    }

    /// What a client does from `start` to the end of `wait`.
    fn run(&self, transfer: Transfer, end: End) {
        transfer.start(self, end, None);
        self.finish(transfer, end);
    }

    fn finish(&self, transfer: Transfer, end: End) {
        while !transfer.is_over(&self.words) {
            transfer.help(self, u32::MAX);
            self.sleeper(end).sleep_until(|| transfer.is_over(&self.words) || transfer.has_pieces(self));
        }
    }

    /// A start that is only offered. With many of them one fence and one look at each sleeper follow.
    pub(crate) fn offer_start(&self, transfer: Transfer, end: End) {
        transfer.offer(&self.words, end, None);
        self.sleeper(end.peer()).wake();
    }

    /// An end starts with others from message `next` on.
    pub(crate) fn join(&self, end: End, next: u32) {
        self.words.note_over(end, next.wrapping_sub(1));
        self.eager.join(end, Joined::new((0, &self.sleeper(end).slot), next), next);
    }

    /// All that start with an end have started.
    pub(crate) fn begin_round(&self, end: End) {
        self.sleeper(end).slot.begin_round();
        self.sleeper(end.peer()).wake();
    }

    /// What whoever gives an end up does.
    pub(crate) fn withdraw(&self, end: End) -> bool {
        self.eager.withdraw(end) && self.words.withdraw(end)
    }

    pub(crate) fn finish_offered(&self, transfer: Transfer, end: End) {
        while !transfer.is_over(&self.words) {
            if transfer.is_met(self, end) {
                transfer.meet(self);
            }
            transfer.help(self, u32::MAX);
            let is_due = || transfer.is_over(&self.words) || transfer.has_pieces(self) || transfer.is_met(self, end);
            self.sleeper(end).sleep_until(is_due);
        }
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: the model checker reports a race.
        self.send_buffer.iter().for_each(|piece| piece.with_mut(|bytes| unsafe { *bytes = value }));
    }

    pub(crate) fn check(&self, value: u32) {
        for piece in &self.recv_buffer {
            // SAFETY: the model checker reports a race.
            assert_eq!(piece.with(|bytes| unsafe { *bytes }), value);
        }
    }
}

impl TransferMemory for Large {
    fn words(&self) -> &TransferWords {
        &self.words
    }
    fn pieces(&self) -> u32 {
        PIECES as u32
    }
    fn copy(&self, piece: u32) {
        copy(&self.send_buffer[piece as usize], &self.recv_buffer[piece as usize]);
    }
    fn wake(&self, end: End) {
        self.sleeper(end).wake();
    }
    fn started_until(&self, end: End, number: u32) -> Option<u64> {
        self.eager.joined(end)?.started_until(&self.sleeper(end).slot, number)
    }
}

fn send_large(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        memory.write(value);
        memory.run(transfer, End::Send);
        transfer = transfer.next();
    }
}

fn receive_large(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        memory.run(transfer, End::Recv);
        memory.check(value);
        transfer = transfer.next();
    }
}

#[test]
fn large_messages_arrive_whole_and_in_order() {
    loom::model(|| {
        let memory = Large::new();
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_large(&memory, 2))
        };
        receive_large(&memory, 2);
        sending.join().unwrap();
    });
}

#[test]
fn the_first_piece_is_left_to_who_comes_last_and_waits() {
    loom::model(|| {
        for until in [Some(7), None] {
            let (memory, transfer) = (Large::new(), Transfer::default());
            assert!(!transfer.start(&*memory, End::Recv, Some(5)), "nothing moves yet");
            assert!(transfer.start(&*memory, End::Send, until));
            assert_eq!(transfer.is_left_to(End::Send, &memory.words), until);
            assert_eq!(transfer.is_left_to(End::Recv, &memory.words), None);
            assert_eq!(transfer.help(&*memory, 1), 1);
            assert_eq!(transfer.is_left_to(End::Send, &memory.words), None, "whoever comes may copy the second one");
        }
    });
}

#[test]
fn a_helper_never_touches_a_buffer_that_is_not_moving() {
    loom::model(|| {
        let memory = Large::new();
        let helping = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                if let Some(transfer) = Transfer::moving_or_met(&*memory) {
                    transfer.help(&*memory, 1);
                }
            })
        };
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_large(&memory, 1))
        };
        receive_large(&memory, 1);
        sending.join().unwrap();
        helping.join().unwrap();
    });
}

#[test]
fn a_start_that_is_taken_back_moves_nothing() {
    loom::model(|| {
        let memory = Large::new();
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_large(&memory, 1))
        };
        let transfer = Transfer::default();
        transfer.start(&*memory, End::Recv, None);
        if transfer.cancel(&memory.words, End::Recv) {
            // SAFETY: the model checker reports a race.
            memory.recv_buffer[0].with_mut(|bytes| unsafe { *bytes = 7 });
            receive_large(&memory, 1);
        } else {
            memory.finish(transfer, End::Recv);
        }
        sending.join().unwrap();
    });
}

#[test]
fn a_message_moves_though_one_end_computes() {
    for waits in [End::Send, End::Recv] {
        loom::model(move || {
            let (memory, transfer) = (Large::new(), Transfer::default());
            let act = move |memory: &Large, end| {
                transfer.start(memory, end, None);
                if waits == end {
                    memory.finish(transfer, end);
                }
            };
            let sending = beside(&memory, move |memory| {
                memory.write(1);
                act(memory, End::Send);
            });
            act(&memory, End::Recv);
            sending.join().unwrap();
            assert!(transfer.is_over(&memory.words));
            memory.check(1);
        });
    }
}

/// The daemon takes a buffer out of use whose owner is gone, while the other end waits and copies.
#[test]
fn nobody_touches_a_buffer_that_is_withdrawn() {
    for gone in [End::Send, End::Recv] {
        loom::model(move || {
            let (memory, transfer) = (Large::new(), Transfer::default());
            memory.write(1);
            transfer.start(&*memory, gone, None);
            let copying = beside(&memory, move |memory| {
                if transfer.start(memory, gone.peer(), None) {
                    transfer.help(memory, u32::MAX);
                }
            });
            // It looks again later if it may not have it.
            if memory.words.withdraw(gone) {
                match gone {
                    End::Send => memory.write(99),
                    // SAFETY: the model checker reports a race.
                    End::Recv => memory.recv_buffer[0].with_mut(|bytes| unsafe { *bytes = 7 }),
                }
                copying.join().unwrap();
            } else {
                copying.join().unwrap();
                assert!(memory.words.withdraw(gone));
                assert!(transfer.is_over(&memory.words));
                memory.check(1);
            }
        });
    }
}

fn send_offered(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        memory.write(value);
        memory.offer_start(transfer, End::Send);
        memory.finish_offered(transfer, End::Send);
        transfer = transfer.next();
    }
    memory.write(99);
}

fn receive_offered(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        memory.offer_start(transfer, End::Recv);
        memory.finish_offered(transfer, End::Recv);
        memory.check(value);
        transfer = transfer.next();
    }
}

/// Has another thread do something with the channel.
fn beside<R: 'static>(memory: &Arc<Large>, act: impl FnOnce(&Large) -> R + 'static) -> thread::JoinHandle<R> {
    let memory = Arc::clone(memory);
    thread::spawn(move || act(&memory))
}

#[test]
fn offered_messages_arrive_whole_and_in_order() {
    loom::model(|| {
        let memory = Large::new();
        let sending = beside(&memory, |memory| send_offered(memory, 2));
        receive_offered(&memory, 2);
        sending.join().unwrap();
    });
}

#[test]
fn an_offer_moves_though_its_end_computes() {
    for waits in [End::Send, End::Recv] {
        loom::model(move || {
            let (memory, transfer) = (Large::new(), Transfer::default());
            let sending = beside(&memory, move |memory| {
                memory.write(1);
                memory.offer_start(transfer, End::Send);
                if waits == End::Send {
                    memory.finish_offered(transfer, End::Send);
                }
            });
            memory.offer_start(transfer, End::Recv);
            if waits == End::Recv {
                memory.finish_offered(transfer, End::Recv);
            }
            sending.join().unwrap();
            assert!(transfer.is_over(&memory.words));
            memory.check(1);
        });
    }
}

#[test]
fn a_helper_moves_what_both_ends_have_offered_that_compute() {
    loom::model(|| {
        let (memory, transfer) = (Large::new(), Transfer::default());
        let offer = move |memory: &Large, end| {
            memory.offer_start(transfer, end);
            // The daemon, which is told by whoever finds the other one there.
            if transfer.is_met(memory, end)
                && let Some(moving) = Transfer::moving_or_met(memory)
            {
                moving.help(memory, u32::MAX);
            }
        };
        let sending = beside(&memory, move |memory| {
            memory.write(1);
            offer(memory, End::Send);
        });
        offer(&memory, End::Recv);
        sending.join().unwrap();
        assert!(transfer.is_over(&memory.words));
        memory.check(1);
    });
}

#[test]
fn an_offer_meets_what_somebody_else_has_started() {
    loom::model(|| {
        let (memory, transfer) = (Large::new(), Transfer::default());
        let sending = beside(&memory, move |memory| {
            memory.write(1);
            // The daemon, for a client that does not know of the channel yet.
            if !transfer.start(memory, End::Send, None) {
                transfer.meet(memory);
            }
            memory.wake(End::Recv);
        });
        receive_offered(&memory, 1);
        sending.join().unwrap();
    });
}

#[test]
fn an_offer_that_is_taken_back_moves_nothing() {
    loom::model(|| {
        let memory = Large::new();
        let sending = beside(&memory, |memory| send_offered(memory, 1));
        let transfer = Transfer::default();
        memory.offer_start(transfer, End::Recv);
        if transfer.take_back(&*memory, End::Recv) {
            // SAFETY: the model checker reports a race.
            memory.recv_buffer[0].with_mut(|bytes| unsafe { *bytes = 7 });
            receive_offered(&memory, 1);
        } else {
            memory.finish_offered(transfer, End::Recv);
            memory.check(1);
        }
        sending.join().unwrap();
    });
}

#[test]
fn nobody_touches_an_offered_buffer_that_is_withdrawn() {
    loom::model(|| {
        let (memory, transfer) = (Large::new(), Transfer::default());
        let sending = beside(&memory, move |memory| {
            memory.write(1);
            memory.offer_start(transfer, End::Send);
            if transfer.is_met(memory, End::Send) && transfer.meet(memory) {
                transfer.help(memory, u32::MAX);
            }
        });
        memory.offer_start(transfer, End::Recv);
        // What the daemon does for a client that gives its buffer up; it looks again later if it may not have it.
        if memory.words.withdraw(End::Recv) {
            // SAFETY: the model checker reports a race.
            memory.recv_buffer[0].with_mut(|bytes| unsafe { *bytes = 7 });
            sending.join().unwrap();
        } else {
            sending.join().unwrap();
            assert!(memory.words.withdraw(End::Recv));
        }
    });
}
