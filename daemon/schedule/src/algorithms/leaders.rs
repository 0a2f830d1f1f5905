//! Allgather in two levels, among ranks: leaders collect what their node's ranks have, exchange it, and hand it on.
//!
//! Every node's ranks are dealt out to n leaders. With *several leaders* all of them exchange with each other, as if each was on a node of
//! its own, and hand everything on to their own ranks. In *several groups* only the leaders with the same number exchange, and each
//! hands its group's blocks on to all ranks of the node. Between leaders blocks go around a ring, which the source found best.
//! These are the faithful baseline; where a daemon acts for its node, ranks meet in memory instead, and nodes are the participants.
//! Source: seed 001 (Inozemtsev 2014), §4.4 and §4.4.1, figure 4.5.
//!
//! ```text
//! 16 ranks, 4 a node, 2 groups:   node 0     node 1     node 2      node 3
//!                       group 0  (0) 1  ─── (4) 5  ─── (8)  9  ─── (12) 13
//!                       group 1  (2) 3  ─── (6) 7  ─── (10) 11 ─── (14) 15
//! ```

use super::linear::place_own;
use super::{Generator, Kind, Question};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::shape::{Collective, Shape};
use crate::step::Slice;

pub(super) static MULTILEADER: Kind = Kind {
    name: "multileader",
    takes: "ranks and leaders a node, such as 4,2",
    usual: &[4, 2],
    make: |parameters| match *parameters {
        [ranks_per_node, leaders] if ranks_per_node.min(leaders) > 0 => {
            Some(Box::new(Multileader { ranks_per_node, leaders }))
        }
        _ => None,
    },
    tries: NONE,
};

pub(super) static MULTIGROUP: Kind = Kind {
    name: "multigroup",
    takes: "ranks a node and groups, such as 4,2",
    usual: &[4, 2],
    make: |parameters| match *parameters {
        [ranks_per_node, groups] if ranks_per_node.min(groups) > 0 => {
            Some(Box::new(Multigroup { ranks_per_node, groups }))
        }
        _ => None,
    },
    tries: NONE,
};

/// They depend on who lives where, which a shape does not tell: somebody who knows can ask for them.
const NONE: fn(&Question) -> Vec<Vec<u32>> = |_| Vec::new();

/// Several leaders a node, all of which exchange with each other.
struct Multileader {
    ranks_per_node: u32,
    leaders: u32,
}

/// Several groups, each with a leader on every node.
struct Multigroup {
    ranks_per_node: u32,
    groups: u32,
}

/// Where a rank is.
#[derive(Clone, Copy)]
struct Place {
    me: u32,
    ranks_per_node: u32,
    /// Ranks that one leader collects from, itself among them.
    team: u32,
}

impl Place {
    const fn node(&self) -> u32 {
        self.me / self.ranks_per_node
    }

    const fn leader(&self) -> u32 {
        self.me - self.me % self.team
    }

    const fn is_leader(&self) -> bool {
        self.me == self.leader()
    }

    fn leaders_of_node(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.node() * self.ranks_per_node;
        (first..first + self.ranks_per_node).step_by(self.team as usize)
    }
}

impl Generator for Multileader {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        suits(shape, self.ranks_per_node, self.leaders)
    }

    fn build(&self, b: &mut Builder) {
        let Collective::Allgather { counts } = &b.shape.collective else {
            unreachable!("other operations do not suit");
        };
        let place = Place { me: b.me, ranks_per_node: self.ranks_per_node, team: self.ranks_per_node / self.leaders };
        collect(b, counts, place);
        let whole = b.output(0, counts.offset(b.size));
        if !place.is_leader() {
            b.recv(place.leader(), whole);
            return;
        }
        let leaders: Vec<_> = (0..b.size).step_by(place.team as usize).collect();
        go_around(b, &leaders, |leader| team(counts, leader, place.team, whole));
        for member in b.me + 1..b.me + place.team {
            b.send(member, whole);
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let team = self.ranks_per_node / self.leaders;
        let total = total(shape);
        let share = total / f64::from(shape.size);
        let leaders = f64::from(shape.size / team);
        let members = f64::from(team - 1);
        local(members, members * share)
            + Cost::rounds(leaders - 1.0).moved(total * (leaders - 1.0) / leaders)
            + local(members, members * total)
    }
}

impl Generator for Multigroup {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        suits(shape, self.ranks_per_node, self.groups)
    }

    fn build(&self, b: &mut Builder) {
        let Collective::Allgather { counts } = &b.shape.collective else {
            unreachable!("other operations do not suit");
        };
        let place = Place { me: b.me, ranks_per_node: self.ranks_per_node, team: self.ranks_per_node / self.groups };
        collect(b, counts, place);
        let whole = b.output(0, counts.offset(b.size));
        let blocks = |leader: u32| team(counts, leader, place.team, whole);
        // The leaders of a group, by node.
        let group = |leader: u32| (leader % place.ranks_per_node..b.shape.size).step_by(place.ranks_per_node as usize);
        let first = place.node() * place.ranks_per_node;
        if place.is_leader() {
            go_around(b, &group(b.me).collect::<Vec<_>>(), blocks);
            for leader in group(b.me) {
                for neighbor in (first..first + place.ranks_per_node).filter(|&rank| rank != place.me) {
                    b.send(neighbor, blocks(leader));
                }
            }
        }
        for leader in place.leaders_of_node().filter(|&leader| leader != place.me) {
            for distant in group(leader) {
                b.recv(leader, blocks(distant));
            }
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let team = self.ranks_per_node / self.groups;
        let total = total(shape);
        let share = total / f64::from(shape.size);
        let nodes = f64::from(shape.size / self.ranks_per_node);
        let group = total / f64::from(self.groups);
        let neighbors = f64::from(self.ranks_per_node - 1);
        let members = f64::from(team - 1);
        local(members, members * share)
            + Cost::rounds(nodes - 1.0).moved(group * (nodes - 1.0) / nodes)
            + local(neighbors * nodes, neighbors * group)
    }
}

fn suits(shape: &Shape, ranks_per_node: u32, leaders: u32) -> Result<(), Unsuitable> {
    if !matches!(shape.collective, Collective::Allgather { .. }) {
        return Err(Unsuitable::Operation);
    }
    if !ranks_per_node.is_multiple_of(leaders) {
        return Err(Unsuitable::Parameter("the ranks of a node must be dealt out to its leaders evenly"));
    }
    if !shape.size.is_multiple_of(ranks_per_node) {
        return Err(Unsuitable::Parameter("every node must have the same number of ranks"));
    }
    Ok(())
}

/// A message to or from each of one's own, whose processors work at the same time.
fn local(messages: f64, moved: f64) -> Cost {
    Cost::rounds(messages.min(1.0)).further(messages - 1.0).moved(moved)
}

fn total(shape: &Shape) -> f64 {
    if let Collective::Allgather { counts } = &shape.collective { counts.offset(shape.size) as f64 } else { 0.0 }
}

/// The blocks that a leader collects: its own ranks are consecutive.
fn team(counts: &Counts, leader: u32, ranks: u32, whole: Slice) -> Slice {
    whole.part(counts.offset(leader), counts.span(leader, leader + ranks))
}

fn collect(b: &mut Builder, counts: &Counts, place: Place) {
    let own = place_own(b, counts);
    if !place.is_leader() {
        b.send(place.leader(), own);
        return;
    }
    for member in b.me + 1..b.me + place.team {
        let block = b.output(counts.offset(member), counts.count(member));
        b.recv(member, block);
    }
}

fn go_around(b: &mut Builder, leaders: &[u32], blocks: impl Fn(u32) -> Slice) {
    let (size, me) = (leaders.len(), leaders.iter().position(|&leader| leader == b.me).expect("I am a leader"));
    let (next, previous) = (leaders[(me + 1) % size], leaders[(me + size - 1) % size]);
    for round in 0..size - 1 {
        b.send(next, blocks(leaders[(me + size - round) % size]));
        b.recv(previous, blocks(leaders[(me + size - round - 1) % size]));
    }
}
