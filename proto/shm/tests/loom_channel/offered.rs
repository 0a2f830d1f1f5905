//! Small messages that both ends offer.

use loom::sync::Arc;
use loom::thread::{self, JoinHandle};
use ropeway_proto::End;
use ropeway_shm::eager::{EagerReceiver, EagerSender, Progress, settle};

use crate::eager::Eager;

/// Has another thread do something with the channel.
pub(crate) fn beside<R: 'static>(memory: &Arc<Eager>, act: impl FnOnce(&Eager) -> R + 'static) -> JoinHandle<R> {
    let memory = Arc::clone(memory);
    thread::spawn(move || act(&memory))
}

/// Starts a message that neither start copies. With many of them one fence and one look at each sleeper follow.
pub(crate) fn offer_send(sender: EagerSender, memory: &Eager) {
    sender.offer(&memory.words);
    memory.receiver.wake();
}

pub(crate) fn offer_recv(receiver: EagerReceiver, memory: &Eager) {
    receiver.offer(&memory.words);
    memory.sender.wake();
}

pub(crate) fn send_offered(sender: &mut EagerSender, memory: &Eager) {
    while sender.meet(memory) == Progress::Pending {
        memory.sender.sleep_until(|| sender.has_met(memory));
    }
}

pub(crate) fn receive_offered(receiver: &mut EagerReceiver, memory: &Eager) -> u32 {
    while receiver.meet(memory) == Progress::Pending {
        memory.receiver.sleep_until(|| receiver.has_met(memory));
    }
    memory.read()
}

#[test]
fn what_both_ends_offer_arrives_whole_and_in_order() {
    loom::model(|| {
        let memory = Eager::new(true);
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default().parking();
            for value in 1..=2 {
                memory.write(value);
                offer_send(sender, memory);
                send_offered(&mut sender, memory);
            }
            memory.write(99);
        });
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
            let sending = beside(&memory, move |memory| {
                let mut sender = EagerSender::default().parking();
                memory.write(1);
                offer_send(sender, memory);
                if waits == End::Send {
                    send_offered(&mut sender, memory);
                    memory.write(99);
                }
                sender
            });
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
        let sending = beside(&memory, |memory| {
            let mut sender = EagerSender::default().parking();
            memory.write(1);
            offer_send(sender, memory);
            send_offered(&mut sender, memory);
        });
        let mut receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        if receiver.cancel(&*memory) {
            memory.use_received();
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
        let sending = beside(&memory, |memory| {
            let sender = EagerSender::default().parking();
            memory.write(1);
            offer_send(sender, memory);
            memory.close(End::Send);
            memory.write(99);
        });
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
fn what_both_have_offered_arrives_though_its_sender_is_given_up() {
    loom::model(|| {
        let memory = Eager::new(true);
        let receiver = EagerReceiver::default();
        offer_recv(receiver, &memory);
        let daemon = beside(&memory, |memory| {
            let sender = EagerSender::default().parking();
            memory.write(1);
            offer_send(sender, memory);
            settle(memory);
            // Only who is copying keeps the buffer.
            if memory.words.withdraw(End::Send) {
                memory.write(99);
            }
        });
        let mut receiver = receiver;
        assert_eq!(receive_offered(&mut receiver, &memory), 1);
        daemon.join().unwrap();
    });
}

#[test]
fn a_receive_that_is_taken_back_is_not_settled() {
    loom::model(|| {
        let memory = Eager::new(true);
        let (mut receiver, sender) = (EagerReceiver::default(), EagerSender::default().parking());
        memory.write(1);
        offer_send(sender, &memory);
        offer_recv(receiver, &memory);
        let daemon = beside(&memory, settle);
        if receiver.cancel(&*memory) {
            memory.use_received();
        } else {
            assert_eq!(receive_offered(&mut receiver, &memory), 1);
        }
        daemon.join().unwrap();
    });
}
