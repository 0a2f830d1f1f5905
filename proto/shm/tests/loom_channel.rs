//! The two protocols of direct channels under every schedule that a model checker can think of: nobody touches a buffer
//! that is somebody else's, nothing is lost or doubled, and whoever sleeps is woken. Run with `--cfg loom`.
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ropeway_proto::End;
use ropeway_shm::eager::{CellWord, EagerMemory, EagerReceiver, EagerSender, EagerWords, Progress};
use ropeway_shm::transfer::{Transfer, TransferMemory, TransferWords};
use ropeway_shm::{Doorbell, RequestSlot};

/// A doorbell whose sleepers are a condition variable instead of a futex queue, and the slot that leads to it.
struct Sleeper {
    slot: RequestSlot,
    doorbell: Doorbell,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Sleeper {
    fn new() -> Self {
        let (slot, doorbell) = (RequestSlot::new(), Doorbell::default());
        Self { slot, doorbell, lock: Mutex::new(()), changed: Condvar::new() }
    }

    /// What a client's `wait` does, without the spinning.
    fn sleep_until(&self, is_due: impl Fn() -> bool) {
        loop {
            let seen = self.doorbell.listen();
            self.slot.arm(0);
            if is_due() {
                return self.slot.disarm();
            }
            let mut guard = self.lock.lock().unwrap();
            while self.doorbell.listen() == seen {
                guard = self.changed.wait(guard).unwrap();
            }
        }
    }

    fn wake(&self) {
        if self.slot.take_waiter().is_some() {
            self.doorbell.count_up();
            drop(self.lock.lock().unwrap());
            self.changed.notify_all();
        }
    }
}

/// Buffers are loom cells: an access that is not ordered after the last one of somebody else fails the model.
struct Eager {
    words: EagerWords,
    cell: CellWord,
    send_buffer: UnsafeCell<u32>,
    cell_bytes: UnsafeCell<u32>,
    recv_buffer: UnsafeCell<u32>,
    is_placed: bool,
    /// The daemon's word that the other end is gone.
    is_closed: AtomicBool,
    sender: Sleeper,
    receiver: Sleeper,
}

// SAFETY: the model checker watches every access to the cells.
unsafe impl Sync for Eager {}
// SAFETY: as above.
unsafe impl Send for Eager {}

impl Eager {
    fn new(is_placed: bool) -> Arc<Self> {
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

    fn write(&self, value: u32) {
        // SAFETY: the model checker reports a race.
        self.send_buffer.with_mut(|bytes| unsafe { *bytes = value });
    }

    fn read(&self) -> u32 {
        // SAFETY: the model checker reports a race.
        self.recv_buffer.with(|bytes| unsafe { *bytes })
    }

    /// What the daemon does when an end is gone: takes its buffer out of use, and tells the other one. The buffer is free then.
    fn close(&self, gone: End) {
        while !self.words.withdraw(gone) {
            thread::yield_now();
        }
        // SYNC channel-closed (store).
        self.is_closed.store(true, Ordering::Release);
        let other = if gone == End::Send { &self.receiver } else { &self.sender };
        other.wake();
    }

    fn is_closed(&self) -> bool {
        // SYNC channel-closed (load).
        self.is_closed.load(Ordering::Acquire)
    }
}

fn copy(from: &UnsafeCell<u32>, to: &UnsafeCell<u32>) {
    // SAFETY: the model checker reports a race.
    let value = from.with(|bytes| unsafe { *bytes });
    // SAFETY: as above.
    to.with_mut(|bytes| unsafe { *bytes = value });
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

fn receive(receiver: &mut EagerReceiver, memory: &Eager) -> u32 {
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

/// Starts a message that neither start copies. With many of them one fence and one look at each sleeper follow.
fn offer_send(sender: EagerSender, memory: &Eager) {
    sender.offer(&memory.words);
    memory.receiver.wake();
}

fn offer_recv(receiver: EagerReceiver, memory: &Eager) {
    receiver.offer(&memory.words);
    memory.sender.wake();
}

fn send_offered(sender: &mut EagerSender, memory: &Eager) {
    while sender.meet(memory) == Progress::Pending {
        memory.sender.sleep_until(|| sender.has_met(&memory.words));
    }
}

fn receive_offered(receiver: &mut EagerReceiver, memory: &Eager) -> u32 {
    while receiver.meet(memory) == Progress::Pending {
        memory.receiver.sleep_until(|| receiver.has_met(memory));
    }
    memory.read()
}

#[test]
fn what_both_ends_offer_arrives_whole_and_in_order() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut sender = EagerSender::default().parking();
                for value in 1..=2 {
                    memory.write(value);
                    offer_send(sender, &memory);
                    send_offered(&mut sender, &memory);
                }
                memory.write(99);
            })
        };
        let mut receiver = EagerReceiver::default();
        for value in 1..=2 {
            offer_recv(receiver, &memory);
            assert_eq!(receive_offered(&mut receiver, &memory), value);
        }
        sending.join().unwrap();
        assert!(memory.words.withdraw(End::Send) && memory.words.withdraw(End::Recv));
    });
}

#[test]
fn what_is_offered_arrives_though_one_end_computes() {
    for waits in [End::Send, End::Recv] {
        loom::model(move || {
            let memory = Eager::new(true);
            let sending = {
                let memory = Arc::clone(&memory);
                thread::spawn(move || {
                    let mut sender = EagerSender::default().parking();
                    memory.write(1);
                    offer_send(sender, &memory);
                    if waits == End::Send {
                        send_offered(&mut sender, &memory);
                        memory.write(99);
                    }
                    sender
                })
            };
            let mut receiver = EagerReceiver::default();
            offer_recv(receiver, &memory);
            if waits == End::Recv {
                assert_eq!(receive_offered(&mut receiver, &memory), 1);
            }
            let mut sender = sending.join().unwrap();
            // Who comes to wait now finds it done.
            assert_eq!(sender.meet(&*memory) == Progress::Done, waits == End::Recv);
            assert_eq!(receiver.meet(&*memory) == Progress::Done, waits == End::Send);
            assert_eq!(memory.read(), 1);
        });
    }
}

#[test]
fn an_offered_receive_that_is_taken_back_loses_nothing() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut sender = EagerSender::default().parking();
                memory.write(1);
                offer_send(sender, &memory);
                send_offered(&mut sender, &memory);
            })
        };
        let mut receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        if receiver.cancel(&*memory) {
            // SAFETY: the model checker reports a race.
            memory.recv_buffer.with_mut(|bytes| unsafe { *bytes = 7 });
            offer_recv(receiver, &memory);
        }
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        sending.join().unwrap();
    });
}

#[test]
fn nobody_touches_an_offered_buffer_whose_owner_is_gone() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let sender = EagerSender::default().parking();
                memory.write(1);
                offer_send(sender, &memory);
                memory.close(End::Send);
                memory.write(99);
            })
        };
        let mut receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        let mut progress = receiver.meet(&*memory);
        while progress == Progress::Pending && !memory.is_closed() {
            memory.receiver.sleep_until(|| receiver.has_met(&*memory) || memory.is_closed());
            progress = receiver.meet(&*memory);
        }
        // What came before the end counts.
        if progress == Progress::Done || receiver.meet(&*memory) == Progress::Done {
            assert_eq!(memory.read(), 1);
        } else {
            assert!(receiver.cancel(&*memory));
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
            // SAFETY: the model checker reports a race.
            memory.recv_buffer.with_mut(|bytes| unsafe { *bytes = 7 });
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
            if sender.cancel(&memory.words) {
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
                        assert!(sender.cancel(&memory.words), "nobody is there to take it");
                    }
                }
            })
        };
        memory.close(End::Recv);
        // Somebody else's memory now.
        // SAFETY: the model checker reports a race.
        memory.recv_buffer.with_mut(|bytes| unsafe { *bytes = 7 });
        sending.join().unwrap();
        assert_eq!(memory.read(), 7);
    });
}

const PIECES: usize = 2;

/// A large message of two pieces.
struct Large {
    words: TransferWords,
    send_buffer: [UnsafeCell<u32>; PIECES],
    recv_buffer: [UnsafeCell<u32>; PIECES],
    sleepers: [Sleeper; 2],
}

// SAFETY: the model checker watches every access to the cells.
unsafe impl Sync for Large {}
// SAFETY: as above.
unsafe impl Send for Large {}

impl Large {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: TransferWords::new(),
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
}

fn send_large(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        // SAFETY: the model checker reports a race.
        memory.send_buffer.iter().for_each(|piece| piece.with_mut(|bytes| unsafe { *bytes = value }));
        memory.run(transfer, End::Send);
        transfer = transfer.next();
    }
}

fn receive_large(memory: &Large, messages: u32) {
    let mut transfer = Transfer::default();
    for value in 1..=messages {
        memory.run(transfer, End::Recv);
        for piece in &memory.recv_buffer {
            // SAFETY: the model checker reports a race.
            assert_eq!(piece.with(|bytes| unsafe { *bytes }), value);
        }
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
                if let Some(transfer) = Transfer::moving(&*memory) {
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
