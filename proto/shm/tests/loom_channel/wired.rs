//! Small messages to and from a wire: who works it takes a buffer, and may give it back without having moved a message.

use loom::sync::Arc;
use loom::thread;
use ropeway_shm::eager::{EagerMemory, EagerReceiver, EagerSender, Progress};

use crate::eager::{Eager, receive};

/// The connection has no room for it at first.
#[test]
fn a_send_that_the_wire_gives_back_leaves_later_or_is_taken_back() {
    loom::model(|| {
        let memory = Eager::new(false);
        let wire = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut wire = EagerReceiver::default();
                if wire.claim(&*memory) {
                    memory.place();
                    wire.unclaim(&memory.words);
                }
                loop {
                    memory.receiver.sleep_until(|| wire.is_expected(&*memory));
                    if wire.claim(&*memory) {
                        memory.place();
                        wire.release(&*memory);
                        return memory.read();
                    }
                }
            })
        };
        let mut sender = EagerSender::default().parking();
        memory.write(1);
        let mut progress = sender.start(&*memory);
        let mut left = 1;
        if progress == Progress::Pending && sender.cancel(&*memory) {
            left = 2;
            memory.write(left);
            progress = sender.start(&*memory);
        }
        while progress == Progress::Pending {
            memory.sender.sleep_until(|| sender.is_due(&memory.words));
            progress = sender.poll(&*memory);
        }
        memory.write(99);
        assert_eq!(wire.join().unwrap(), left);
    });
}

/// A message was foreseen that has not come, or not all of it.
#[test]
fn a_receive_that_the_wire_gives_back_gets_its_message_later() {
    loom::model(|| {
        let memory = Eager::new(true);
        let wire = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let mut wire = EagerSender::default();
                memory.write(5);
                if wire.claim_buffer(&*memory) {
                    memory.place();
                    wire.unclaim_buffer(&memory.words);
                }
                memory.write(1);
                assert_eq!(wire.start(&*memory), Progress::Done);
            })
        };
        let mut receiver = EagerReceiver::default();
        if receiver.start(&*memory) == Progress::Pending {
            if receiver.cancel(&*memory) {
                // The buffer is ours again, until it is started anew.
                memory.use_received();
                assert_eq!(receive(&mut receiver, &memory), 1);
            } else {
                memory.receiver.sleep_until(|| receiver.is_due(&*memory));
                assert_eq!(receiver.poll(&*memory), Progress::Done);
            }
        }
        assert_eq!(memory.read(), 1);
        wire.join().unwrap();
    });
}
