//! The work within a node of a collective that goes on to other nodes: what comes before, and what after.

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::division::{Division, Span};

use super::{Act, Share, common_shape};

/// A node's part of a collective.
struct Part<'a> {
    /// Those who live here, ascending.
    members: &'a [CollectiveMember],
    shape: &'a CollectiveShape,
    division: Division<'a>,
    me: u16,
}

impl<'a> Part<'a> {
    /// `None` if these are not the node's members, in order, or they don't say the same.
    fn new(members: &'a [CollectiveMember], nodes: &'a [u16], me: u16) -> Option<Self> {
        let shape = common_shape(members)?;
        let division = Division::new(shape, nodes)?;
        let is_all = division.on(me).eq(members.iter().map(|member| member.rank));
        is_all.then_some(Self { members, shape, division, me })
    }

    fn bytes(&self, elements: u64) -> u64 {
        elements * u64::from(self.shape.element_bytes)
    }

    fn inputs(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.input).collect()
    }

    fn outputs(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.output).collect()
    }

    /// The root, if it lives here.
    fn root(&self) -> Option<&CollectiveMember> {
        self.members.iter().find(|member| member.rank == self.shape.root)
    }

    fn count(&self) -> u64 {
        self.shape.counts.first().copied().unwrap_or(0)
    }

    /// Where each member's vector lies in `at`, where all were brought together, by member.
    fn vectors(&self, at: u64) -> Vec<u64> {
        let mut vectors = vec![0; self.shape.members.len()];
        let places = (0..).map(|index| at + self.bytes(index * self.division.vector()));
        self.division.node_by_node().zip(places).for_each(|(member, place)| vectors[member as usize] = place);
        vectors
    }
}

/// Where a node's part in what happens between the nodes may lie in its members' own buffers, without a copy: what it brings
/// and what it gets. `None` for what needs memory of its own; all of it if the members don't fit together.
pub fn own_buffers(members: &[CollectiveMember], nodes: &[u16], me: u16) -> (Option<u64>, Option<u64>) {
    let Some(part) = Part::new(members, nodes, me) else { return (None, None) };
    let (input, output) = (part.own_input(), part.own_output());
    let between = part.division.between();
    let (input_elements, output_elements) = between.elements(me.into());
    let ends = |at: u64, elements| at + part.bytes(elements);
    // Between the nodes what is brought must not be overwritten by what is got. Of a scatter the latter is the shorter copy.
    let overlaps = input
        .zip(output)
        .is_some_and(|(input, output)| input < ends(output, output_elements) && output < ends(input, input_elements));
    match part.shape.kind {
        _ if !overlaps => (input, output),
        CollectiveKind::Scatter => (input, None),
        _ => (None, output),
    }
}

impl Part<'_> {
    fn own_input(&self) -> Option<u64> {
        let alone = || match self.members {
            [member] => Some(member.input),
            _ => None,
        };
        match self.shape.kind {
            CollectiveKind::Barrier | CollectiveKind::Bcast => None,
            CollectiveKind::Scatter => self.root().filter(|_| self.division.is_in_order()).map(|root| root.input),
            CollectiveKind::ReduceScatter if !self.division.gathers() => {
                alone().filter(|_| self.division.is_in_order())
            }
            CollectiveKind::Alltoall => alone().filter(|_| self.division.participants() == self.shape.members.len()),
            _ => alone(),
        }
    }

    fn own_output(&self) -> Option<u64> {
        let first = self.members.first().map(|member| member.output);
        let alone = first.filter(|_| self.members.len() == 1);
        let in_order = self.division.is_in_order();
        match self.shape.kind {
            _ if self.division.gathers() => None,
            CollectiveKind::Barrier | CollectiveKind::Scan | CollectiveKind::Exscan => None,
            CollectiveKind::Bcast => self.root().map(|root| root.output).or(first),
            CollectiveKind::Reduce => self.root().map(|root| root.output),
            CollectiveKind::Allreduce => first,
            CollectiveKind::Gather => self.root().filter(|_| in_order).map(|root| root.output),
            CollectiveKind::Allgather => first.filter(|_| in_order),
            CollectiveKind::ReduceScatter | CollectiveKind::Scatter => alone,
            CollectiveKind::Alltoall => alone.filter(|_| self.division.participants() == self.shape.members.len()),
        }
    }
}

/// The work before: from the members' inputs to what the node brings. `None` if members and span don't fit together.
pub(crate) fn before(members: &[CollectiveMember], span: &Span) -> Option<Share> {
    let part = Part::new(members, &span.nodes, span.me)?;
    let (shape, inputs) = (part.shape, part.inputs());
    let mut share = Share::new(shape);
    let mut into = span.input;
    let mut pack = |share: &mut Share, length: u64, from: u64| {
        share.push(length, Act::Copy { from, to: vec![into] });
        into += part.bytes(length);
    };
    match shape.kind {
        CollectiveKind::Barrier | CollectiveKind::Bcast => {}
        _ if part.division.gathers() => {
            inputs.iter().for_each(|&input| pack(&mut share, part.division.vector(), input));
        }
        CollectiveKind::Reduce | CollectiveKind::Allreduce | CollectiveKind::Scan | CollectiveKind::Exscan => {
            share.push(part.count(), Act::Fold { from: inputs, to: vec![span.input] });
        }
        CollectiveKind::ReduceScatter => {
            for member in part.division.node_by_node() {
                let shift = part.bytes(shape.before(member));
                let from = inputs.iter().map(|input| input + shift).collect();
                share.push(shape.part(member), Act::Fold { from, to: vec![into] });
                into += part.bytes(shape.part(member));
            }
        }
        CollectiveKind::Gather | CollectiveKind::Allgather => {
            part.members.iter().for_each(|member| pack(&mut share, shape.part(member.rank), member.input));
        }
        CollectiveKind::Scatter => {
            let Some(root) = part.root() else { return Some(share) };
            for member in part.division.node_by_node() {
                pack(&mut share, shape.part(member), root.input + part.bytes(shape.before(member)));
            }
        }
        CollectiveKind::Alltoall => {
            for participant in 0..part.division.participants() as u16 {
                for from in part.members {
                    for to in part.division.on(participant) {
                        let earlier = (0..to).map(|to| shape.pair(from.rank, to)).sum();
                        pack(&mut share, shape.pair(from.rank, to), from.input + part.bytes(earlier));
                    }
                }
            }
        }
    }
    Some(share)
}

/// The work after: from what the node gets to the members' outputs. `None` if members and span don't fit together.
pub(crate) fn after(members: &[CollectiveMember], span: &Span) -> Option<Share> {
    let part = Part::new(members, &span.nodes, span.me)?;
    let mut share = Share::new(part.shape);
    if part.division.gathers() {
        part.combine_vectors(&mut share, span.output);
        return Some(share);
    }
    let (shape, count, outputs) = (part.shape, part.count(), part.outputs());
    let mut from = span.output;
    let mut unpack = |share: &mut Share, length: u64, to: Vec<u64>| {
        share.push(length, Act::Copy { from, to });
        from += part.bytes(length);
    };
    let prefix = (part.me > 0).then_some(span.output);
    match shape.kind {
        CollectiveKind::Barrier => {}
        CollectiveKind::Bcast | CollectiveKind::Allreduce => unpack(&mut share, count, outputs),
        CollectiveKind::Reduce => part.root().iter().for_each(|root| unpack(&mut share, count, vec![root.output])),
        CollectiveKind::Scan => share.push(count, Act::Scan { before: prefix, from: part.inputs(), to: outputs }),
        CollectiveKind::Exscan => {
            let from = prefix.into_iter().chain(part.inputs()).collect();
            share.push(count, Act::Exscan { from, to: outputs });
        }
        CollectiveKind::ReduceScatter | CollectiveKind::Scatter => {
            part.members.iter().for_each(|member| unpack(&mut share, shape.part(member.rank), vec![member.output]));
        }
        CollectiveKind::Gather | CollectiveKind::Allgather => {
            let targets = match shape.kind {
                CollectiveKind::Gather => part.root().map(|root| root.output).into_iter().collect(),
                _ => outputs,
            };
            for member in part.division.node_by_node() {
                let shift = part.bytes(shape.before(member));
                unpack(&mut share, shape.part(member), targets.iter().map(|at| at + shift).collect());
            }
        }
        CollectiveKind::Alltoall => {
            for from in part.division.node_by_node() {
                for to in part.members {
                    let earlier = (0..from).map(|from| shape.pair(from, to.rank)).sum();
                    unpack(&mut share, shape.pair(from, to.rank), vec![to.output + part.bytes(earlier)]);
                }
            }
        }
    }
    Some(share)
}

impl Part<'_> {
    /// All inputs were brought together at `at`: combines what each member here is to get.
    fn combine_vectors(&self, share: &mut Share, at: u64) {
        let (shape, count, vectors) = (self.shape, self.count(), self.vectors(at));
        let mut fold = |length: u64, from: &[u64], shift: u64, to: Vec<u64>| {
            let from = from.iter().map(|vector| vector + self.bytes(shift)).collect();
            share.push(length, Act::Fold { from, to });
        };
        match shape.kind {
            CollectiveKind::Reduce => {
                self.root().iter().for_each(|root| fold(count, &vectors, 0, vec![root.output]));
            }
            CollectiveKind::ReduceScatter => {
                for member in self.members {
                    let (length, shift) = (shape.part(member.rank), shape.before(member.rank));
                    fold(length, &vectors, shift, vec![member.output]);
                }
            }
            CollectiveKind::Scan | CollectiveKind::Exscan => {
                let own = u32::from(shape.kind == CollectiveKind::Scan);
                for member in self.members {
                    fold(count, &vectors[..(member.rank + own) as usize], 0, vec![member.output]);
                }
            }
            _ => fold(count, &vectors, 0, self.outputs()),
        }
    }
}
