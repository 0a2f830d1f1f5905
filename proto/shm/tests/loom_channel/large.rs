//! Large messages: pieces that anybody may copy.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use ropeway_proto::End;
use ropeway_shm::transfer::{Transfer, TransferMemory, TransferWords};

use crate::{Sleeper, copy};

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
