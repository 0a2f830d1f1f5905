//! The work within a node of a collective that goes on to other nodes: what comes before, and what after.

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::division::{Division, Operands, Span};

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

    /// Where operands lie that were brought together at `at`, in the order in which they are combined.
    fn operands(&self, operands: Operands, at: u64) -> Vec<u64> {
        let places = (0..).map(|index| at + self.bytes(index * self.division.operand_elements(self.me)));
        match operands {
            Operands::Nodes => places.take(self.division.participants()).collect(),
            Operands::Members => {
                let mut by_member = vec![0; self.shape.members.len()];
                self.division.node_by_node().zip(places).for_each(|(member, place)| by_member[member as usize] = place);
                by_member
            }
        }
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

/// The member whose arrival is enough for what comes before, and what happens between the nodes, because no other's buffer is needed for
/// it. `None` if all have to come.
pub(crate) fn opener(members: &[CollectiveMember], span: &Span) -> Option<u32> {
    let part = Part::new(members, &span.nodes, span.me)?;
    let is_bcast = part.shape.kind == CollectiveKind::Bcast;
    part.root().or(members.first()).filter(|_| is_bcast).map(|member| member.rank)
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
            CollectiveKind::ReduceScatter => alone().filter(|_| self.division.is_in_order()),
            CollectiveKind::Alltoall => alone().filter(|_| self.division.participants() == self.shape.members.len()),
            _ => alone(),
        }
    }

    fn own_output(&self) -> Option<u64> {
        let first = self.members.first().map(|member| member.output);
        let alone = first.filter(|_| self.members.len() == 1);
        let in_order = self.division.is_in_order();
        match self.shape.kind {
            _ if self.division.operands().is_some() => None,
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
    let packs_inputs = part.division.operands() == Some(Operands::Members);
    match shape.kind {
        CollectiveKind::Barrier | CollectiveKind::Bcast => {}
        CollectiveKind::ReduceScatter if packs_inputs => {
            for participant in 0..part.division.participants() as u16 {
                let place = |member| (shape.part(member), part.bytes(shape.before(member)));
                let places: Vec<_> = part.division.on(participant).map(place).collect();
                for input in &inputs {
                    places.iter().for_each(|&(length, shift)| pack(&mut share, length, input + shift));
                }
            }
        }
        _ if packs_inputs => inputs.iter().for_each(|&input| pack(&mut share, part.count(), input)),
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
    if let Some(operands) = part.division.operands() {
        part.combine(&mut share, operands, span.output);
        return Some(share);
    }
    let (shape, count, outputs) = (part.shape, part.count(), part.outputs());
    let mut from = span.output;
    let mut unpack = |share: &mut Share, length: u64, to: Vec<u64>| {
        share.push(length, Act::Copy { from, to });
        from += part.bytes(length);
    };
    let prefix = || (part.me > 0).then_some(span.output).into_iter().chain(part.inputs()).collect();
    match shape.kind {
        CollectiveKind::Barrier => {}
        CollectiveKind::Bcast | CollectiveKind::Allreduce => unpack(&mut share, count, outputs),
        CollectiveKind::Reduce => part.root().iter().for_each(|root| unpack(&mut share, count, vec![root.output])),
        CollectiveKind::Scan => share.push(count, Act::Scan { from: prefix(), to: outputs }),
        CollectiveKind::Exscan => share.push(count, Act::Exscan { from: prefix(), to: outputs }),
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
    /// Operands were brought together at `at`: combines what each member here is to get.
    fn combine(&self, share: &mut Share, operands: Operands, at: u64) {
        let (shape, count, vectors) = (self.shape, self.count(), self.operands(operands, at));
        match (shape.kind, operands) {
            (CollectiveKind::Reduce, _) => {
                let to = self.root().map(|root| root.output).into_iter().collect();
                share.push(count, Act::Fold { from: vectors, to });
            }
            (CollectiveKind::ReduceScatter, _) => {
                let mut before = 0;
                for member in self.members {
                    let from = vectors.iter().map(|vector| vector + self.bytes(before)).collect();
                    share.push(shape.part(member.rank), Act::Fold { from, to: vec![member.output] });
                    before += shape.part(member.rank);
                }
            }
            (CollectiveKind::Scan | CollectiveKind::Exscan, Operands::Members) => {
                let own = u32::from(shape.kind == CollectiveKind::Scan);
                for member in self.members {
                    let from = vectors[..(member.rank + own) as usize].to_vec();
                    share.push(count, Act::Fold { from, to: vec![member.output] });
                }
            }
            (CollectiveKind::Scan | CollectiveKind::Exscan, Operands::Nodes) => {
                let from = vectors[..self.me.into()].iter().copied().chain(self.inputs()).collect();
                let to = self.outputs();
                let is_inclusive = shape.kind == CollectiveKind::Scan;
                share.push(count, if is_inclusive { Act::Scan { from, to } } else { Act::Exscan { from, to } });
            }
            _ => share.push(count, Act::Fold { from: vectors, to: self.outputs() }),
        }
    }
}
