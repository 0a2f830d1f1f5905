//! Post lanes beside a daemon, under every schedule that a model checker can think of: nothing is lost or doubled, messages keep
//! their order whichever way they go, and whoever sleeps is woken. Run with `--cfg loom`.
#![cfg(loom)]

use std::collections::{HashMap, VecDeque};

use loom::cell::UnsafeCell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use ropeway_proto::limits::{POST_BYTES_MAX, POST_CELL_BYTES};
use ropeway_proto::{CommId, Endpoint, Layout, Tag};
use ropeway_shm::Doorbell;
use ropeway_shm::post::{
    CELLS, CellWords, LOCKERS, LaneWords, PostEnvelope, PostMemory, PostReceiver, PostSender, RankWords, has_news,
};
use ropeway_shm::shelf::{Fate, PLACES, PlaceWords, Shelf, ShelvedRecv, fate, take_over};

/// A lane between two ranks, the daemon they have, and a doorbell whose sleepers are a condition variable.
struct Node {
    words: LaneWords,
    sender: RankWords,
    receiver: RankWords,
    cells: [CellWords; CELLS as usize],
    /// An access that is not ordered after the last one of somebody else fails the model.
    payloads: [UnsafeCell<u32>; CELLS as usize],
    lockers: [UnsafeCell<u32>; LOCKERS],
    places: [PlaceWords; PLACES as usize],
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
        self.recv_as(self.next, tag);
        self.next
    }

    fn recv_as(&mut self, id: u32, tag: Tag) {
        match self.messages.iter().position(|&(sent, _)| sent == tag) {
            Some(at) => {
                let (_, value) = self.messages.remove(at).unwrap();
                self.ended.insert(id, value);
            }
            None => self.receives.push_back((id, tag)),
        }
    }
}

impl PostMemory for Node {
    fn words(&self) -> &LaneWords {
        &self.words
    }
    fn place(&self, place: u32) -> &PlaceWords {
        &self.places[place as usize]
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
            places: std::array::from_fn(|_| PlaceWords::new()),
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

    /// What the daemon does with the shelf of a lane whose message has taken the detour. False if it has to look again.
    fn take_over(&self) -> bool {
        let mut daemon = self.daemon.lock().unwrap();
        let Some(_turn) = self.receiver.keys().take_for_daemon() else { return false };
        for recv in take_over(self, self.shelf().used_places(), 0) {
            daemon.recv_as(recv.slot, recv.endpoint.tag.unwrap());
        }
        true
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
        let find_locker = || sender.free_locker(node).or_else(|| sender.unused_locker());
        let locker = if bytes == LONG { find_locker() } else { Some(0) };
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
        while !node.take_over() {
            thread::yield_now();
        }
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

/// A rank that begins receives and then computes: what a client's inbox does with receives that it keeps.
#[derive(Default)]
struct Keeper {
    receiver: Receiver,
    shelf: Shelf,
    /// On the shelf: their place, number and tag.
    kept: Vec<(u32, usize, Tag)>,
    /// By their numbers: what they have got, unless the daemon has them under the number and `SHELVED`.
    received: Vec<Option<u32>>,
}

/// Where numbers of receives begin that were not begun with the daemon.
const SHELVED: u32 = 100;

impl Keeper {
    fn irecv(&mut self, node: &Node, tag: Tag) {
        let _turn = loop {
            match node.receiver.keys().take() {
                Some(turn) => break turn,
                None => thread::yield_now(),
            }
        };
        self.give_up(node);
        let number = self.received.len();
        self.received.push(None);
        let place = self.shelf.find_place().unwrap();
        let endpoint = Endpoint { comm: CommId::WORLD, peer: Some(0), tag: Some(tag) };
        let slot = SHELVED + number as u32;
        self.shelf.put(node, place, &ShelvedRecv { slot, epoch: 1, endpoint, layout: Layout::contiguous(0, 4) });
        self.kept.push((place, number, tag));
        self.serve(node);
        if self.receiver.posted > 0 || !node.words.is_settled() {
            self.entrust(node);
        }
    }

    /// The daemon gets all that is kept.
    fn entrust(&mut self, node: &Node) {
        self.receiver.posted += self.kept.len() as u32;
        node.words.set_posted(self.receiver.posted);
        self.receiver.receiver.close(node);
        self.serve(node);
        for (place, number, tag) in std::mem::take(&mut self.kept) {
            self.shelf.clear(node, place);
            node.daemon.lock().unwrap().recv_as(SHELVED + number as u32, tag);
        }
    }

    fn serve(&mut self, node: &Node) {
        loop {
            let (Receiver { receiver, .. }, kept) = (&mut self.receiver, &mut self.kept);
            let Ok((message, envelope)) =
                receiver.find(node, |envelope| kept.iter().any(|&(_, _, tag)| tag == envelope.tag))
            else {
                return;
            };
            if receiver.take(node, message) {
                let first = kept.iter().position(|&(_, _, tag)| tag == envelope.tag).unwrap();
                let (place, number, _) = kept.remove(first);
                self.shelf.clear(node, place);
                self.end(node, number, (message, &envelope));
            }
        }
    }

    fn end(&mut self, node: &Node, number: usize, (message, envelope): (u64, &PostEnvelope)) {
        // SAFETY: the model checker reports a race.
        let value = node.payload(message, envelope).with(|bytes| unsafe { *bytes });
        self.receiver.receiver.free(node, message);
        self.received[number] = Some(value);
    }

    /// What the daemon has taken over is kept no more.
    fn give_up(&mut self, node: &Node) {
        for (place, number, tag) in std::mem::take(&mut self.kept) {
            match fate(node, place) {
                Fate::Waiting => {
                    self.kept.push((place, number, tag));
                    continue;
                }
                Fate::Assigned(message, envelope) => self.end(node, number, (message, &envelope)),
                Fate::Entrusted => {
                    self.receiver.posted += 1;
                    self.receiver.receiver.keep_to(node.shelf().limit());
                }
            }
            self.shelf.clear(node, place);
        }
    }
}

/// One rank begins to receive these tags and computes while another sends these messages. They arrive, each in its place.
fn while_it_computes(messages: &'static [(Tag, usize)], tags: &'static [Tag]) {
    loom::model(move || {
        let node = Node::new();
        let sending = {
            let node = Arc::clone(&node);
            thread::spawn(move || send_all(&node, messages))
        };
        let mut keeper = Keeper::default();
        tags.iter().for_each(|&tag| keeper.irecv(&node, tag));
        sending.join().unwrap();
        let mut daemon = node.daemon.lock().unwrap();
        assert_eq!(daemon.messages.iter().find(|(tag, _)| tags.contains(tag)), None, "nobody waits for it");
        keeper.give_up(&node);
        keeper.serve(&node);
        for (number, &tag) in tags.iter().enumerate() {
            let nth = tags[..number].iter().filter(|&&earlier| earlier == tag).count();
            let sent = messages.iter().zip(1..).filter(|((sent, _), _)| *sent == tag).map(|(_, value)| value).nth(nth);
            let received = keeper.received[number].or_else(|| daemon.ended.remove(&(SHELVED + number as u32)));
            assert_eq!(received, sent);
        }
    });
}

#[test]
fn a_kept_receive_gets_its_message_though_that_takes_the_detour() {
    while_it_computes(&[(1, LARGE), (0, SMALL)], &[0]);
}

#[test]
fn kept_receives_get_what_is_in_the_lane_and_what_is_not() {
    while_it_computes(&[(0, SMALL), (0, LARGE)], &[0, 0]);
}

#[test]
fn more_receives_may_be_kept_than_the_lane_holds_messages() {
    while_it_computes(&[(0, SMALL), (0, SMALL), (0, SMALL)], &[0, 0, 0]);
}

#[test]
fn kept_receives_get_their_messages_by_tag() {
    while_it_computes(&[(1, SMALL), (0, LARGE)], &[0, 1]);
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
