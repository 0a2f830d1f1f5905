//! Small messages: cells, buffers that are written to directly, and messages that are parked.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use ropeway_proto::End;
use ropeway_shm::eager::{CellWord, EagerMemory, EagerReceiver, EagerSender, EagerWords, Progress};
use ropeway_shm::{Joined, RequestSlot};

use crate::{Sleeper, copy};

/// Buffers are loom cells: an access that is not ordered after the last one of somebody else fails the model.
pub(crate) struct Eager {
    pub(crate) words: EagerWords,
    cell: CellWord,
    send_buffer: UnsafeCell<u32>,
    cell_bytes: UnsafeCell<u32>,
    recv_buffer: UnsafeCell<u32>,
    is_placed: bool,
    /// The daemon's word that the other end is gone.
    is_closed: AtomicBool,
    pub(crate) sender: Sleeper,
    pub(crate) receiver: Sleeper,
}

/// The slot in which an end says that it has started with others. Nobody is woken by it here.
fn of_end(memory: &Eager, end: End) -> &RequestSlot {
    let sleeper = if end == End::Send { &memory.sender } else { &memory.receiver };
    &sleeper.slot
}

// SAFETY: the model checker watches every access to the cells.
unsafe impl Sync for Eager {}
// SAFETY: as above.
unsafe impl Send for Eager {}

impl Eager {
    pub(crate) fn new(is_placed: bool) -> Arc<Self> {
        Arc::new(Self {
            words: EagerWords::new(),
            cell: CellWord::new(),
            send_buffer: UnsafeCell::new(0),
            cell_bytes: UnsafeCell::new(0),
            recv_buffer: UnsafeCell::new(0),
            is_placed,
            is_closed: AtomicBool::new(false),
            sender: Sleeper::new(),
            receiver: Sleeper::new(),
        })
    }

    pub(crate) fn write(&self, value: u32) {
        // SAFETY: the model checker reports a race.
        self.send_buffer.with_mut(|bytes| unsafe { *bytes = value });
    }

    pub(crate) fn read(&self) -> u32 {
        // SAFETY: the model checker reports a race.
        self.recv_buffer.with(|bytes| unsafe { *bytes })
    }

    /// What a program may do with its buffer when a receive was taken back.
    pub(crate) fn use_received(&self) {
        // SAFETY: the model checker reports a race.
        self.recv_buffer.with_mut(|bytes| unsafe { *bytes = 7 });
    }

    /// What the daemon does when an end is gone: takes its buffer out of use, and tells the other one. The buffer is free then.
    pub(crate) fn close(&self, gone: End) {
        while !self.words.withdraw(gone) {
            thread::yield_now();
        }
        // SYNC channel-closed (store).
        self.is_closed.store(true, Ordering::Release);
        let other = if gone == End::Send { &self.receiver } else { &self.sender };
        other.wake();
    }

    /// An end starts with others from message `next` on.
    pub(crate) fn join(&self, end: End, next: u32) {
        self.words.join(end, Joined::new((0, of_end(self, end)), next), next);
    }

    /// All that start with an end have started.
    pub(crate) fn begin_round(&self, end: End) {
        of_end(self, end).begin_round();
        let other = if end == End::Send { &self.receiver } else { &self.sender };
        other.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        // SYNC channel-closed (load).
        self.is_closed.load(Ordering::Acquire)
    }
}

impl EagerMemory for Eager {
    fn words(&self) -> &EagerWords {
        &self.words
    }
    fn cell(&self, _number: u32) -> &CellWord {
        &self.cell
    }
    fn fill(&self, _number: u32) {
        copy(&self.send_buffer, &self.cell_bytes);
    }
    fn empty(&self, _number: u32) {
        copy(&self.cell_bytes, &self.recv_buffer);
    }
    fn place(&self) {
        copy(&self.send_buffer, &self.recv_buffer);
    }
    fn is_placed(&self) -> bool {
        self.is_placed
    }
    fn has_started(&self, end: End, number: u32) -> bool {
        let joined = self.words.joined(end);
        joined.is_some_and(|joined| joined.started_until(of_end(self, end), number).is_some())
    }
    fn wake_receiver(&self) {
        self.receiver.wake();
    }
    fn wake_sender(&self) {
        self.sender.wake();
    }
}

fn send_all(memory: &Eager, messages: u32) {
    send_all_by(EagerSender::default(), memory, messages);
}

fn send_all_by(mut sender: EagerSender, memory: &Eager, messages: u32) {
    for value in 1..=messages {
        memory.write(value);
        let mut progress = sender.start(memory);
        while progress == Progress::Pending {
            memory.sender.sleep_until(|| sender.is_due(&memory.words));
            progress = sender.poll(memory);
        }
    }
    // The buffer is ours again.
    memory.write(99);
}

pub(crate) fn receive(receiver: &mut EagerReceiver, memory: &Eager) -> u32 {
    let mut progress = receiver.start(memory);
    while progress == Progress::Pending {
        memory.receiver.sleep_until(|| receiver.is_due(memory));
        progress = receiver.poll(memory);
    }
    memory.read()
}

fn small_messages_arrive(is_placed: bool) {
    loom::model(move || {
        let memory = Eager::new(is_placed);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_all(&memory, 2))
        };
        let mut receiver = EagerReceiver::default();
        for value in 1..=2 {
            assert_eq!(receive(&mut receiver, &memory), value);
        }
        sending.join().unwrap();
        assert!(memory.words.withdraw(End::Send) && memory.words.withdraw(End::Recv));
    });
}

#[test]
fn tiny_messages_arrive_whole_in_order_and_wake_sleepers() {
    small_messages_arrive(false);
}

#[test]
fn placed_messages_arrive_whole_in_order_and_wake_sleepers() {
    small_messages_arrive(true);
}

/// As a wire, which looks for what is parked when it is told that something is due.
#[test]
fn messages_of_a_sender_that_parks_are_taken_out_of_its_buffer() {
    loom::model(|| {
        let memory = Eager::new(false);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_all_by(EagerSender::default().parking(), &memory, 2))
        };
        let mut receiver = EagerReceiver::default();
        for value in 1..=2 {
            memory.receiver.sleep_until(|| receiver.is_expected(&*memory));
            assert_eq!(receiver.start(&*memory), Progress::Done);
            assert_eq!(memory.read(), value);
        }
        sending.join().unwrap();
    });
}

#[test]
fn a_receive_that_is_taken_back_loses_nothing() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || send_all(&memory, 1))
        };
        let mut receiver = EagerReceiver::default();
        let is_here = receiver.start(&*memory) == Progress::Done;
        if !is_here && receiver.cancel(&*memory) {
            // The buffer is ours again, until it is started anew.
            memory.use_received();
            assert_eq!(receive(&mut receiver, &memory), 1);
        } else if !is_here {
            memory.receiver.sleep_until(|| receiver.is_due(&*memory));
            assert_eq!(receiver.poll(&*memory), Progress::Done);
            assert_eq!(memory.read(), 1);
        }
        sending.join().unwrap();
    });
}

#[test]
fn a_parked_send_that_is_taken_back_is_sent_or_not() {
    loom::model(|| {
        let memory = Eager::new(false);
        let receiving = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut receiver = EagerReceiver::default();
                assert_eq!(receive(&mut receiver, &memory), 1);
                let second = receive(&mut receiver, &memory);
                assert!(second == 2 || second == 3, "{second}");
            })
        };
        let mut sender = EagerSender::default();
        memory.write(1);
        assert_eq!(sender.start(&*memory), Progress::Done);
        memory.write(2);
        if sender.start(&*memory) == Progress::Pending {
            if sender.cancel(&*memory) {
                memory.write(3);
                let mut progress = sender.start(&*memory);
                while progress == Progress::Pending {
                    memory.sender.sleep_until(|| sender.is_due(&memory.words));
                    progress = sender.poll(&*memory);
                }
            } else {
                memory.sender.sleep_until(|| sender.is_due(&memory.words));
                assert_eq!(sender.poll(&*memory), Progress::Done);
            }
        }
        receiving.join().unwrap();
    });
}

/// The second message finds the cell full, so it may be parked in the buffer of a sender that goes away.
fn what_was_sent_before_the_sender_went_still_arrives(is_placed: bool) {
    loom::model(move || {
        let memory = Eager::new(is_placed);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut sender = EagerSender::default();
                memory.write(1);
                assert_eq!(sender.start(&*memory), Progress::Done);
                memory.write(2);
                let is_sent = sender.start(&*memory) == Progress::Done;
                memory.close(End::Send);
                memory.write(99);
                is_sent
            })
        };
        let mut receiver = EagerReceiver::default();
        let mut received = 0;
        for value in 1..=2 {
            let mut progress = receiver.start(&*memory);
            while progress == Progress::Pending {
                memory.receiver.sleep_until(|| receiver.is_due(&*memory) || memory.is_closed());
                // In this order: what came before the end counts.
                let is_closed = memory.is_closed();
                progress = receiver.poll(&*memory);
                if is_closed {
                    break;
                }
            }
            if progress == Progress::Pending {
                break;
            }
            assert_eq!(memory.read(), value);
            received = value;
        }
        let is_sent = sending.join().unwrap();
        assert!(received == 2 || (received == 1 && !is_sent), "{received} received, second sent: {is_sent}");
    });
}

#[test]
fn tiny_messages_arrive_though_their_sender_goes() {
    what_was_sent_before_the_sender_went_still_arrives(false);
}

#[test]
fn placed_messages_arrive_though_their_sender_goes() {
    what_was_sent_before_the_sender_went_still_arrives(true);
}

#[test]
fn nobody_writes_to_a_receiver_that_is_gone_nor_waits_for_it() {
    loom::model(|| {
        let memory = Eager::new(true);
        assert_eq!(EagerReceiver::default().start(&*memory), Progress::Pending);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut sender = EagerSender::default();
                for value in 1..=3 {
                    memory.write(value);
                    if sender.start(&*memory) == Progress::Pending {
                        memory.sender.sleep_until(|| sender.is_due(&memory.words) || memory.is_closed());
                        assert!(sender.cancel(&*memory), "nobody is there to take it");
                    }
                }
            })
        };
        memory.close(End::Recv);
        // Somebody else's memory now.
        memory.use_received();
        sending.join().unwrap();
        assert_eq!(memory.read(), 7);
    });
}
