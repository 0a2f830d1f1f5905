//! The work of a collective all of whose members live on one node.

use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};

use super::{Act, Share, common_shape};

/// The work of all members. `None` if they don't say the same, or not all are there, in order.
pub(crate) fn within(members: &[CollectiveMember]) -> Option<Share> {
    let shape = common_shape(members)?;
    let is_in_order = (0..).zip(members).all(|(rank, member)| member.rank == rank);
    if members.len() != shape.members.len() || !is_in_order {
        return None;
    }
    let inputs: Vec<u64> = members.iter().map(|member| member.input).collect();
    let outputs: Vec<u64> = members.iter().map(|member| member.output).collect();
    let root = shape.root as usize;
    let bytes = u64::from(shape.element_bytes);
    let count = shape.counts.first().copied().unwrap_or(0);
    let shifted = |vectors: &[u64], elements: u64| vectors.iter().map(|at| at + elements * bytes).collect();
    let mut share = Share::new(shape);
    match shape.kind {
        CollectiveKind::Barrier => {}
        CollectiveKind::Bcast => share.push(count, Act::Copy { from: outputs[root], to: outputs }),
        CollectiveKind::Reduce => share.push(count, Act::Fold { from: inputs, to: vec![outputs[root]] }),
        CollectiveKind::Allreduce => share.push(count, Act::Fold { from: inputs, to: outputs }),
        CollectiveKind::Scan => share.push(count, Act::Scan { from: inputs, to: outputs }),
        CollectiveKind::Exscan => share.push(count, Act::Exscan { from: inputs, to: outputs }),
        CollectiveKind::Alltoall => exchange_parts(&mut share, shape, members),
        CollectiveKind::ReduceScatter
        | CollectiveKind::Gather
        | CollectiveKind::Scatter
        | CollectiveKind::Allgather => {
            for rank in 0..shape.size() {
                let (own, before) = (rank as usize, shape.before(rank));
                let act = match shape.kind {
                    CollectiveKind::ReduceScatter => {
                        Act::Fold { from: shifted(&inputs, before), to: vec![outputs[own]] }
                    }
                    CollectiveKind::Gather => {
                        Act::Copy { from: inputs[own], to: shifted(&outputs[root..=root], before) }
                    }
                    CollectiveKind::Scatter => {
                        Act::Copy { from: inputs[root] + before * bytes, to: vec![outputs[own]] }
                    }
                    _ => Act::Copy { from: inputs[own], to: shifted(&outputs, before) },
                };
                share.push(shape.part(rank), act);
            }
        }
    }
    Some(share)
}

/// What goes between each member and the root, of a collective in which nothing else goes anywhere; of the root, what it gets from itself.
/// `None` as from [`within`].
pub(crate) fn between_pairs(members: &[CollectiveMember]) -> Option<Vec<Share>> {
    let shape = common_shape(members)?;
    let root = members.get(shape.root as usize)?;
    let in_root = |at: u64, rank: u32| at + shape.before(rank) * u64::from(shape.element_bytes);
    let share = |member: &CollectiveMember| {
        let rank = member.rank;
        let (length, from, to) = match shape.kind {
            CollectiveKind::Bcast => (shape.counts[0], root.output, member.output),
            CollectiveKind::Gather => (shape.part(rank), member.input, in_root(root.output, rank)),
            CollectiveKind::Scatter => (shape.part(rank), in_root(root.input, rank), member.output),
            _ => return None,
        };
        let mut share = Share::new(shape);
        share.push(length, Act::Copy { from, to: vec![to] });
        Some(share)
    };
    members.iter().map(share).collect()
}

/// What goes from one member of an alltoall to another.
struct Way {
    length: u64,
    from: u64,
    to: u64,
}

/// Each member gets its part of each, sender by sender: so what is read lies together. Two members that work in place swap
/// theirs, which must be of one length.
fn exchange_parts(share: &mut Share, shape: &CollectiveShape, members: &[CollectiveMember]) {
    let (ways, size) = (ways(shape, members), members.len());
    for (one, other) in (0..size).flat_map(|one| (0..size).map(move |other| (one, other))) {
        let (there, back) = (&ways[one * size + other], &ways[other * size + one]);
        let is_in_place = [one, other].iter().any(|&index| members[index].input == members[index].output);
        if one == other || !is_in_place || there.length != back.length {
            share.push(there.length, Act::Copy { from: there.from, to: vec![there.to] });
        } else if one < other {
            share.push(there.length, Act::Exchange { from: [there.from, back.from], to: [there.to, back.to] });
        }
    }
}

/// From each member to each, row by row of senders.
fn ways(shape: &CollectiveShape, members: &[CollectiveMember]) -> Vec<Way> {
    let mut filled: Vec<u64> = members.iter().map(|member| member.output).collect();
    let mut ways = Vec::with_capacity(members.len() * members.len());
    for sender in members {
        let mut from = sender.input;
        for (receiver, to) in (0..).zip(&mut filled) {
            let length = shape.pair(sender.rank, receiver);
            let bytes = length * u64::from(shape.element_bytes);
            ways.push(Way { length, from, to: *to });
            from += bytes;
            *to += bytes;
        }
    }
    ways
}
