//! Ends that start with others, and say so in one place for all of them.

use loom::thread;
use ropeway_proto::End;
use ropeway_shm::eager::{EagerReceiver, EagerSender, Progress};
use ropeway_shm::transfer::Transfer;

use crate::eager::Eager;
use crate::large::Large;
use crate::offered::{beside, offer_recv, receive_offered, send_offered};

#[test]
fn small_messages_that_start_with_others_arrive_whole_and_in_order() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default().parking();
            memory.join(End::Send, 0);
            for value in 1..=2 {
                memory.write(value);
                memory.begin_round(End::Send);
                send_offered(&mut sender, memory);
            }
            memory.write(99);
        });
        let mut receiver = EagerReceiver::default();
        memory.join(End::Recv, 0);
        for value in 1..=2 {
            memory.begin_round(End::Recv);
            assert_eq!(receive_offered(&mut receiver, &memory), value);
        }
        sending.join().unwrap();
        assert!(memory.words.withdraw(End::Send) && memory.words.withdraw(End::Recv));
    });
}

#[test]
fn a_large_message_that_starts_with_others_arrives_whole() {
    loom::model(|| {
        let (memory, transfer) = (Large::new(), Transfer::default());
        let sending = {
            let memory = memory.clone();
            thread::spawn(move || {
                memory.join(End::Send, 0);
                memory.write(1);
                memory.begin_round(End::Send);
                memory.finish_offered(transfer, End::Send);
                memory.write(99);
            })
        };
        memory.join(End::Recv, 0);
        memory.begin_round(End::Recv);
        memory.finish_offered(transfer, End::Recv);
        memory.check(1);
        sending.join().unwrap();
    });
}

/// The round that has begun when an end joins looks as if it was the last message's, which may not have been taken yet.
#[test]
fn a_message_that_came_before_its_end_joined_is_taken_once() {
    loom::model(|| {
        let memory = Eager::new(true);
        let mut receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        let sending = beside(&memory, |memory| {
            // As a daemon starts the first one.
            let mut sender = EagerSender::default();
            memory.write(1);
            assert_eq!(sender.start(memory), Progress::Done);
            memory.join(End::Send, 1);
            memory.write(99);
        });
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        sending.join().unwrap();
    });
}

/// What is taken back was started with others, and is started alone then.
#[test]
fn a_receive_that_is_taken_back_from_among_others_loses_nothing() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default().parking();
            memory.join(End::Send, 0);
            memory.write(1);
            memory.begin_round(End::Send);
            send_offered(&mut sender, memory);
        });
        let mut receiver = EagerReceiver::default();
        memory.join(End::Recv, 0);
        memory.begin_round(End::Recv);
        if receiver.cancel(&*memory) {
            memory.use_received();
            offer_recv(receiver, &memory);
        }
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        sending.join().unwrap();
    });
}

/// A wire takes the buffer, and gives it back once.
#[test]
fn a_wire_takes_what_was_started_with_others() {
    loom::model(|| {
        let memory = Eager::new(true);
        let wire = beside(&memory, |memory| {
            let wire = EagerSender::default();
            memory.write(5);
            if wire.claim_buffer(memory) {
                wire.unclaim_buffer(&memory.words);
            }
            memory.write(1);
            assert_eq!(EagerSender::default().start(memory), Progress::Done);
        });
        let mut receiver = EagerReceiver::default();
        memory.join(End::Recv, 0);
        memory.begin_round(End::Recv);
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        wire.join().unwrap();
    });
}

/// The request that begins the rounds is another one's afterwards, and begins one more.
#[test]
fn nobody_touches_a_small_buffer_that_has_left_the_others() {
    for gone in [End::Send, End::Recv] {
        loom::model(move || {
            let memory = Eager::new(true);
            memory.join(gone, 0);
            let other = beside(&memory, move |memory| match gone {
                End::Send => {
                    let mut receiver = EagerReceiver::default();
                    offer_recv(receiver, memory);
                    assert_eq!(receiver.meet(memory), Progress::Pending);
                }
                End::Recv => {
                    memory.write(1);
                    assert!(!EagerSender::default().claim_buffer(memory));
                }
            });
            assert!(memory.words.withdraw(gone));
            match gone {
                End::Send => memory.write(99),
                End::Recv => memory.use_received(),
            }
            memory.begin_round(gone);
            other.join().unwrap();
        });
    }
}

#[test]
fn nobody_touches_a_large_buffer_that_has_left_the_others() {
    for gone in [End::Send, End::Recv] {
        loom::model(move || {
            let (memory, transfer) = (Large::new(), Transfer::default());
            memory.join(gone, 0);
            let other = {
                let memory = memory.clone();
                thread::spawn(move || {
                    memory.offer_start(transfer, gone.peer());
                    assert!(!transfer.meet(&*memory));
                    assert_eq!(transfer.help(&*memory, u32::MAX), 0);
                })
            };
            assert!(memory.withdraw(gone));
            memory.begin_round(gone);
            other.join().unwrap();
        });
    }
}

/// Who gives up what it has started takes it back, or waits until whoever has it is done.
#[test]
fn what_was_started_with_others_and_is_given_up_moves_whole_or_not_at_all() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default().parking();
            memory.join(End::Send, 0);
            memory.write(1);
            memory.begin_round(End::Send);
            sender.cancel(memory);
            memory.close(End::Send);
            memory.write(99);
        });
        let mut receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        if receiver.meet(&*memory) == Progress::Done {
            assert_eq!(memory.read(), 1);
        }
        sending.join().unwrap();
    });
}

/// Out of cells, as when its sender does not start with others yet.
#[test]
fn a_receive_with_others_takes_what_came_in_a_cell() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default();
            memory.write(1);
            while sender.start(memory) == Progress::Pending {}
            memory.write(99);
        });
        let mut receiver = EagerReceiver::default();
        memory.join(End::Recv, 0);
        memory.begin_round(End::Recv);
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        memory.begin_round(End::Recv);
        assert!(!receiver.has_met(&*memory), "there is one message");
        sending.join().unwrap();
    });
}
