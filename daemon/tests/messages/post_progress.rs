//! One-shot receives that were begun: whatever comes for them, its sender does not wait for a receiver that computes.

use std::collections::VecDeque;

use fastrand::Rng;
use ropeway::{ANY_TAG, Communicator, Error, Pending};
use ropeway_daemon::Config;

use crate::common::numbered::{EDGES, LARGE, SMALL, assert_is, message};
use crate::common::{Cluster, config, pair, soon};

/// Messages that nobody has asked for are not sent ahead, so that each needs its receive.
fn two_ranks() -> Cluster {
    Cluster::start_with(2, vec![Config { link_eager_bytes_max: 0, ..config() }])
}

fn irecv(world: &Communicator, bytes: usize, tag: i32) -> Pending<u8> {
    world.irecv(world.alloc(bytes).unwrap(), 0, tag).unwrap()
}

fn isend(world: &Communicator, number: u32, bytes: usize, tag: i32) -> Pending<u8> {
    let mut buffer = world.alloc(bytes).unwrap();
    buffer.copy_from_slice(&message(number, bytes));
    world.isend(buffer, 1, tag).unwrap()
}

/// More than there are lockers, than a lane has cells, and than a shelf has places.
#[test]
fn any_number_of_receives_may_be_begun() {
    for (count, bytes) in [(9, EDGES[1]), (100, SMALL), (100, EDGES[2]), (1500, SMALL)] {
        let cluster = two_ranks();
        let (zero, one) = pair(&cluster);
        let receiving: Vec<_> = (0..count).map(|_| irecv(&one.world(), bytes, 1)).collect();
        soon(|| (0..count).for_each(|number| zero.world().send(&message(number, bytes), 1, 1).unwrap()));
        for (number, receiving) in (0..).zip(receiving) {
            assert_is(&receiving.wait().unwrap().0, number);
        }
    }
}

#[test]
fn messages_that_nobody_receives_yet_hinder_nobody() {
    let cluster = two_ranks();
    let (zero, one) = pair(&cluster);
    // One on the detour; and more than the lane holds, of which some are there already when the receives begin.
    let lane_is_full = [(0..1, LARGE), (0..40, SMALL)];
    for (unexpected, bytes) in lane_is_full {
        let count = unexpected.end;
        let early: Vec<_> = unexpected.map(|number| isend(&zero.world(), number, bytes, 2)).collect();
        let receiving: Vec<_> = (0..40).map(|_| irecv(&one.world(), SMALL, 1)).collect();
        let late = isend(&zero.world(), count, bytes, 2);
        soon(|| (0..40).for_each(|number| zero.world().send(&message(number, SMALL), 1, 1).unwrap()));
        for (number, receiving) in (0..).zip(receiving) {
            assert_is(&receiving.wait().unwrap().0, number);
        }
        for (number, sending) in (0..).zip(early.into_iter().chain([late])) {
            assert_is(&irecv(&one.world(), bytes, 2).wait().unwrap().0, number);
            sending.wait().unwrap();
        }
    }
}

#[test]
fn the_sender_of_a_message_that_is_too_long_does_not_wait() {
    let cluster = two_ranks();
    let (zero, one) = pair(&cluster);
    let receiving = irecv(&one.world(), SMALL, 1);
    soon(|| zero.world().send(&message(0, LARGE), 1, 1).unwrap());
    let error = receiving.wait().unwrap_err();
    assert!(matches!(error, Error::Truncated { bytes, capacity } if (bytes, capacity) == (LARGE as u64, SMALL as u64)));
}

#[test]
fn what_the_daemon_has_taken_over_can_be_cancelled() {
    let cluster = two_ranks();
    let (zero, one) = pair(&cluster);
    for round in 0..100 {
        let [first, second, third] = [1, 2, 1].map(|tag| irecv(&one.world(), SMALL, tag));
        let detour = isend(&zero.world(), round, LARGE, 3);
        soon(|| zero.world().send(&message(round, SMALL), 1, 1).unwrap());
        assert!(second.cancel().unwrap().1.is_none());
        drop(third);
        assert_is(&first.wait().unwrap().0, round);
        assert_is(&irecv(&one.world(), LARGE, 3).wait().unwrap().0, round);
        detour.wait().unwrap();
        // What was dropped takes nothing.
        let last = irecv(&one.world(), SMALL, 1);
        soon(|| zero.world().send(&message(round, SMALL), 1, 1).unwrap());
        assert_is(&last.wait().unwrap().0, round);
    }
}

/// Begun receives and messages that wait for each other, as the standard matches them.
#[derive(Default)]
struct Oracle {
    receives: VecDeque<(usize, i32)>,
    messages: VecDeque<(u32, i32)>,
    /// By receive: the number of its message.
    matched: Vec<Option<u32>>,
}

fn suits(wanted: i32, tag: i32) -> bool {
    wanted == ANY_WANTED || wanted == tag
}

const ANY_WANTED: i32 = -1;
/// The tag of messages that take the detour, and with them those that follow.
const OF_LARGE: i32 = 2;

impl Oracle {
    fn receive(&mut self, wanted: i32) {
        let at = self.messages.iter().position(|&(_, tag)| suits(wanted, tag));
        let number = at.and_then(|at| self.messages.remove(at)).map(|(number, _)| number);
        if number.is_none() {
            self.receives.push_back((self.matched.len(), wanted));
        }
        self.matched.push(number);
    }

    fn send(&mut self, number: u32, tag: i32) {
        let at = self.receives.iter().position(|&(_, wanted)| suits(wanted, tag));
        match at.and_then(|at| self.receives.remove(at)) {
            Some((receive, _)) => self.matched[receive] = Some(number),
            None => self.messages.push_back((number, tag)),
        }
    }
}

/// Receives are begun, and then their rank does nothing while messages come: few or many, some of which take the detour.
fn while_it_computes(zero: &Communicator, one: &Communicator, random: &mut Rng) {
    let (mut oracle, mut receiving, mut sending) = (Oracle::default(), Vec::new(), Vec::new());
    let has_large = random.bool();
    let send = |oracle: &mut Oracle, random: &mut Rng, number| {
        let tag = if has_large && random.u8(0..8) == 0 { OF_LARGE } else { random.i32(0..OF_LARGE) };
        let small = [SMALL, EDGES[0], EDGES[1], EDGES[2]][random.usize(0..4)];
        oracle.send(number, tag);
        isend(zero, number, if tag == OF_LARGE { LARGE } else { small }, tag)
    };
    let early = random.u32(0..4);
    sending.extend((0..early).map(|number| send(&mut oracle, random, number)));
    for _ in 0..random.usize(1..90) {
        // What may take anything must not get what is too long for it.
        let wanted = if !has_large && random.u8(0..4) == 0 { ANY_WANTED } else { random.i32(0..OF_LARGE) };
        let tag = if wanted == ANY_WANTED { ANY_TAG } else { wanted.into() };
        receiving.push(one.irecv(one.alloc::<u8>(EDGES[2]).unwrap(), 0, tag).unwrap());
        oracle.receive(wanted);
    }
    let count = early + random.u32(1..120);
    sending.extend((early..count).map(|number| send(&mut oracle, random, number)));
    let is_matched = |number: u32| oracle.matched.contains(&Some(number));
    let (matched, others): (Vec<_>, Vec<_>) = (0..).zip(sending).partition(|&(number, _)| is_matched(number));
    soon(|| matched.into_iter().for_each(|(_, sending)| drop(sending.wait().unwrap())));
    for (receive, pending) in oracle.matched.iter().zip(receiving) {
        match receive {
            Some(number) => {
                let (buffer, status) = pending.wait().unwrap();
                assert_is(&buffer[..status.count], *number);
            }
            None => assert!(pending.cancel().unwrap().1.is_none()),
        }
    }
    for (number, tag) in oracle.messages {
        let (buffer, status) = irecv(one, LARGE, tag).wait().unwrap();
        assert_is(&buffer[..status.count], number);
    }
    others.into_iter().for_each(|(_, sending)| drop(sending.wait().unwrap()));
}

#[test]
fn every_message_finds_its_receive_and_no_sender_waits_for_one_that_was_begun() {
    for seed in 0..10 {
        let cluster = two_ranks();
        let (zero, one) = pair(&cluster);
        let mut random = Rng::with_seed(seed);
        (0..20).for_each(|_| while_it_computes(&zero.world(), &one.world(), &mut random));
    }
}
