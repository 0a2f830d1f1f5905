//! Post lanes beside a daemon, under every schedule that a model checker can think of: nothing is lost or doubled, messages keep
//! their order whichever way they go, and whoever sleeps is woken. Run with `--cfg loom`.
#![cfg(loom)]

use std::collections::{HashMap, VecDeque};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ropeway_proto::limits::{POST_BYTES_MAX, POST_CELL_BYTES};
use ropeway_proto::{CommId, Endpoint, Tag};
use ropeway_shm::Doorbell;
use ropeway_shm::post::{
    CELLS, CellWords, LOCKERS, LaneWords, PostEnvelope, PostMemory, PostReceiver, PostSender, RankWords, has_news,
};

/// A lane between two ranks, the daemon they have, and a doorbell whose sleepers are a condition variable.
struct Node {
    words: LaneWords,
    sender: RankWords,
    receiver: RankWords,
    cells: [CellWords; CELLS as usize],
    /// An access that is not ordered after the last one of somebody else fails the model.
    payloads: [UnsafeCell<u32>; CELLS as usize],
    lockers: [UnsafeCell<u32>; LOCKERS],
    daemon: Mutex<Daemon>,
    has_ended: Condvar,
    doorbell: Doorbell,
    asleep: Mutex<()>,
    rung: Condvar,
}

// SAFETY: the model checker watches every access to the payloads.
unsafe impl Sync for Node {}
// SAFETY: as above.
unsafe impl Send for Node {}

/// What the engine's matching promises.
#[derive(Default)]
struct Daemon {
    messages: VecDeque<(Tag, u32)>,
    receives: VecDeque<(u32, Tag)>,
    /// Of receives that have ended, the message.
    ended: HashMap<u32, u32>,
    next: u32,
}

impl Daemon {
    fn send(&mut self, tag: Tag, value: u32) {
        match self.receives.iter().position(|&(_, wanted)| wanted == tag) {
            Some(at) => {
                let (id, _) = self.receives.remove(at).unwrap();
                self.ended.insert(id, value);
            }
            None => self.messages.push_back((tag, value)),
        }
    }

    fn recv(&mut self, tag: Tag) -> u32 {
        self.next += 1;
        match self.messages.iter().position(|&(sent, _)| sent == tag) {
            Some(at) => {
                let (_, value) = self.messages.remove(at).unwrap();
                self.ended.insert(self.next, value);
            }
            None => self.receives.push_back((self.next, tag)),
        }
        self.next
    }
}

impl PostMemory for Node {
    fn words(&self) -> &LaneWords {
        &self.words
    }
    fn sender(&self) -> &RankWords {
        &self.sender
    }
    fn receiver(&self) -> &RankWords {
        &self.receiver
    }
    fn cell(&self, number: u64) -> &CellWords {
        &self.cells[(number % CELLS) as usize]
    }
}

impl Node {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            words: LaneWords::new(),
            sender: RankWords::new(),
            receiver: RankWords::new(),
            cells: std::array::from_fn(|_| CellWords::new()),
            payloads: std::array::from_fn(|_| UnsafeCell::new(0)),
            lockers: std::array::from_fn(|_| UnsafeCell::new(0)),
            daemon: Mutex::default(),
            has_ended: Condvar::new(),
            doorbell: Doorbell::default(),
            asleep: Mutex::new(()),
            rung: Condvar::new(),
        })
    }

    fn payload(&self, number: u64, envelope: &PostEnvelope) -> &UnsafeCell<u32> {
        if envelope.is_long() { &self.lockers[envelope.locker] } else { &self.payloads[(number % CELLS) as usize] }
    }

    fn wake(&self) {
        if self.words.take_waiters() != 0 {
            self.doorbell.count_up();
            drop(self.asleep.lock().unwrap());
            self.rung.notify_all();
        }
    }

    /// What a client's `wait` does, without the spinning.
    fn sleep_until_news(&self, next: u64) {
        loop {
            let seen = self.doorbell.listen();
            self.words.arm(0);
            if has_news(self, next) {
                return;
            }
            let mut guard = self.asleep.lock().unwrap();
            while self.doorbell.listen() == seen {
                guard = self.rung.wait(guard).unwrap();
            }
        }
    }
}

/// Bytes of messages that fit into a cell, into a locker, or never into a lane.
const SMALL: usize = 4;
const LONG: usize = POST_CELL_BYTES + 1;
const LARGE: usize = POST_BYTES_MAX + 1;

/// Sends numbers from 1 on, each with its tag.
fn send_all(node: &Node, messages: &[(Tag, usize)]) {
    let mut sender = PostSender::default();
    node.words.open();
    for (&(tag, bytes), value) in messages.iter().zip(1..) {
        let locker = if bytes == LONG { sender.free_locker(node) } else { Some(0) };
        if let Some(locker) = locker.filter(|_| bytes < LARGE && sender.may_send(node) && sender.has_room(node)) {
            let envelope = PostEnvelope { comm: CommId::WORLD, tag, bytes, locker };
            // SAFETY: the model checker reports a race.
            node.payload(sender.number(), &envelope).with_mut(|bytes| unsafe { *bytes = value });
            if sender.send(node, &envelope) {
                node.wake();
                continue;
            }
        }
        node.words.count_detour();
        node.wake();
        node.daemon.lock().unwrap().send(tag, value);
        node.has_ended.notify_all();
    }
}

/// The receiving rank: what a client's inbox does, for one lane.
#[derive(Default)]
struct Receiver {
    receiver: PostReceiver,
    posted: u32,
}

/// A receive that does not wait.
enum Pending {
    Received(u32),
    Posted(u32),
}

impl Receiver {
    fn take(&mut self, node: &Node, tag: Tag) -> Result<u32, u64> {
        let endpoint = Endpoint { comm: CommId::WORLD, peer: Some(0), tag: Some(tag) };
        loop {
            let (number, envelope) = self.receiver.find(node, |envelope| envelope.suits(&endpoint))?;
            if self.receiver.take(node, number) {
                // SAFETY: the model checker reports a race.
                let value = node.payload(number, &envelope).with(|bytes| unsafe { *bytes });
                self.receiver.free(node, number);
                return Ok(value);
            }
        }
    }

    fn irecv(&mut self, node: &Node, tag: Tag) -> Pending {
        self.posted += 1;
        node.words.set_posted(self.posted);
        if self.posted == 1 {
            self.receiver.close(node);
        }
        match self.take(node, tag) {
            Ok(value) => {
                self.unpost(node);
                Pending::Received(value)
            }
            Err(_) => Pending::Posted(node.daemon.lock().unwrap().recv(tag)),
        }
    }

    fn wait(&mut self, node: &Node, pending: Pending) -> u32 {
        let id = match pending {
            Pending::Received(value) => return value,
            Pending::Posted(id) => id,
        };
        let mut daemon = node.daemon.lock().unwrap();
        let value = loop {
            if let Some(value) = daemon.ended.remove(&id) {
                break value;
            }
            daemon = node.has_ended.wait(daemon).unwrap();
        };
        drop(daemon);
        node.words.count_matched();
        self.unpost(node);
        value
    }

    fn unpost(&mut self, node: &Node) {
        self.posted -= 1;
        node.words.set_posted(self.posted);
        if self.posted == 0 {
            self.receiver.reopen();
        }
    }

    fn recv(&mut self, node: &Node, tag: Tag) -> u32 {
        loop {
            match self.take(node, tag) {
                Ok(value) => return value,
                Err(next) if self.posted == 0 && node.words.is_settled() => node.sleep_until_news(next),
                Err(_) => {
                    let pending = self.irecv(node, tag);
                    return self.wait(node, pending);
                }
            }
        }
    }
}

/// One rank sends these while the other receives.
fn between(messages: &'static [(Tag, usize)], receive: impl Fn(&Node, &mut Receiver) + Sync + Send + 'static) {
    loom::model(move || {
        let node = Node::new();
        let sending = {
            let node = Arc::clone(&node);
            thread::spawn(move || send_all(&node, messages))
        };
        receive(&node, &mut Receiver::default());
        sending.join().unwrap();
        let daemon = node.daemon.lock().unwrap();
        assert!(daemon.messages.is_empty() && daemon.receives.is_empty() && daemon.ended.is_empty());
        assert!(node.words.is_settled() && !node.is_posted());
    });
}

fn arrive_in_order(messages: &'static [(Tag, usize)]) {
    between(messages, |node, receiver| {
        for value in 1..=messages.len() as u32 {
            assert_eq!(receiver.recv(node, 0), value);
        }
    });
}

#[test]
fn small_messages_arrive_in_order_and_wake_sleepers() {
    arrive_in_order(&[(0, SMALL), (0, SMALL)]);
}

#[test]
fn a_small_message_does_not_overtake_a_large_one() {
    arrive_in_order(&[(0, LARGE), (0, SMALL)]);
}

#[test]
fn a_large_message_does_not_overtake_a_small_one() {
    arrive_in_order(&[(0, SMALL), (0, LARGE)]);
}

#[test]
fn cells_are_used_again_and_full_lanes_take_the_detour() {
    arrive_in_order(&[(0, SMALL), (0, SMALL), (0, SMALL)]);
}

#[test]
fn lockers_are_used_again_and_full_ones_mean_the_detour() {
    arrive_in_order(&[(0, LONG), (0, SMALL), (0, LONG)]);
}

#[test]
fn a_locker_is_free_when_its_message_was_received() {
    between(&[(1, LONG), (0, LONG)], |node, receiver| {
        assert_eq!(receiver.recv(node, 0), 2);
        assert_eq!(receiver.recv(node, 1), 1);
    });
}

#[test]
fn the_receive_that_was_posted_first_gets_the_first_message() {
    between(&[(0, SMALL), (0, SMALL)], |node, receiver| {
        let first = receiver.irecv(node, 0);
        let second = receiver.recv(node, 0);
        assert_eq!((receiver.wait(node, first), second), (1, 2));
    });
}

#[test]
fn a_receive_of_another_tag_posted_before_hinders_nobody() {
    between(&[(1, SMALL), (0, SMALL), (0, SMALL)], |node, receiver| {
        let other = receiver.irecv(node, 1);
        assert_eq!(receiver.recv(node, 0), 2);
        assert_eq!(receiver.wait(node, other), 1);
        assert_eq!(receiver.recv(node, 0), 3);
    });
}

#[test]
fn messages_are_received_by_tag() {
    between(&[(1, SMALL), (0, SMALL)], |node, receiver| {
        assert_eq!(receiver.recv(node, 0), 2);
        assert_eq!(receiver.recv(node, 1), 1);
    });
}

#[test]
fn what_was_sent_before_its_sender_left_is_there() {
    loom::model(|| {
        let node = Node::new();
        let sending = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                send_all(&node, &[(0, SMALL)]);
                // What the daemon does for who leaves.
                node.sender.leave();
                node.wake();
            })
        };
        let mut receiver = Receiver::default();
        let mut received = None;
        while !node.sender.is_gone() {
            match receiver.take(&node, 0) {
                Ok(value) => assert_eq!(received.replace(value), None),
                Err(next) => node.sleep_until_news(next),
            }
        }
        received = received.or_else(|| receiver.take(&node, 0).ok());
        assert_eq!(received, Some(1));
        sending.join().unwrap();
    });
}
