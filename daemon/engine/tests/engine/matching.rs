//! Who gets what on the one-shot path, and what finding out costs.

use ropeway_proto::{CommId, Command, Endpoint, Rank, Status, Tag};

use crate::cluster::{Cluster, TAG};

const SMALL: u64 = 8;

fn matched(cluster: &Cluster, slot: u32) -> Option<(Rank, Tag)> {
    let completion = cluster.outcome(0, slot)?;
    assert_eq!(completion.status, Status::Success);
    Some((completion.source, completion.tag))
}

#[test]
fn wildcards_take_the_message_that_came_first() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    for (slot, (source, tag)) in [(2, 5), (1, 5), (1, 6), (2, 7)].into_iter().enumerate() {
        cluster.send(source, slot as u32, 0, tag, SMALL);
        cluster.settle();
    }
    let asked = [(Some(1), None), (None, Some(7)), (None, None), (None, Some(6))];
    let expected = [(1, 5), (2, 7), (2, 5), (1, 6)];
    for (slot, (pattern, expected)) in asked.into_iter().zip(expected).enumerate() {
        cluster.recv(0, slot as u32, pattern, SMALL);
        cluster.settle();
        assert_eq!(matched(&cluster, slot as u32), Some(expected));
    }
    cluster.assert_nothing_left();
}

#[test]
fn a_message_goes_to_the_receive_that_was_posted_first() {
    let mut cluster = Cluster::new(&[1, 1, 1]);
    for (slot, pattern) in [(Some(1), Some(6)), (None, Some(5)), (Some(1), None), (None, None)].into_iter().enumerate()
    {
        cluster.recv(0, slot as u32, pattern, SMALL);
    }
    for (slot, tag) in [5, 5, 6, 9].into_iter().enumerate() {
        cluster.send(1, slot as u32, 0, tag, SMALL);
        cluster.settle();
    }
    let found: Vec<_> = (0..4).map(|slot| matched(&cluster, slot)).collect();
    assert_eq!(found, [Some((1, 6)), Some((1, 5)), Some((1, 5)), Some((1, 9))]);
}

#[test]
fn communicators_are_worlds_of_their_own() {
    let mut cluster = Cluster::pair();
    cluster.recv(1, 0, (None, None), SMALL);
    let endpoint = Endpoint { comm: CommId(3), ..Cluster::endpoint(1, TAG) };
    let layout = cluster.layout(0, 0, SMALL);
    cluster.command(0, Command::Send { slot: 0, epoch: 1, endpoint, layout }).unwrap();
    cluster.settle();
    assert_eq!(cluster.status(1, 0), None);
    let endpoint = Endpoint { comm: CommId(3), peer: None, tag: None };
    let layout = cluster.layout(1, 1, SMALL);
    cluster.command(1, Command::Recv { slot: 1, epoch: 1, endpoint, layout }).unwrap();
    assert_eq!(cluster.outcome_of(1, 1, 1).unwrap().status, Status::Success);
}

/// Entries visited to match one message of each source while all others wait.
fn visited_per_match(sources: u32, is_early: bool) -> u64 {
    let mut cluster = Cluster::new(&[1, sources]);
    let post = |cluster: &mut Cluster| {
        for source in 1..=sources {
            let (endpoint, layout) = (Cluster::endpoint(source, TAG), cluster.layout(0, 0, 0));
            let recv = Command::Recv { slot: source, epoch: 1, endpoint, layout };
            cluster.command(0, recv).unwrap();
        }
    };
    if !is_early {
        post(&mut cluster);
    }
    for source in (1..=sources).rev() {
        cluster.send(source, 0, 0, TAG, 0);
    }
    cluster.settle();
    if is_early {
        post(&mut cluster);
        cluster.settle();
    }
    let statistics = cluster.engines[0].statistics();
    assert_eq!(statistics.matches, u64::from(sources));
    statistics.entries_visited.div_ceil(statistics.matches)
}

#[test]
fn matching_costs_the_same_whatever_the_number_of_sources() {
    for is_early in [false, true] {
        let costs: Vec<_> = [2, 16, 128, 1024].map(|sources| visited_per_match(sources, is_early)).to_vec();
        assert!(costs.iter().all(|&cost| cost == costs[0] && cost <= 4), "{costs:?}");
    }
}
