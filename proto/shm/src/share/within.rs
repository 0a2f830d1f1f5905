//! The work of a collective all of whose members live on one node.

use ropeway_proto::collective::{CollectiveKind, CollectiveMember};

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
        CollectiveKind::Scan => share.push(count, Act::Scan { before: None, from: inputs, to: outputs }),
        CollectiveKind::Exscan => share.push(count, Act::Exscan { from: inputs, to: outputs }),
        CollectiveKind::Alltoall => {
            let mut filled = outputs;
            for (from, input) in (0..).zip(inputs) {
                let mut from_at = input;
                for (to, target) in (0..).zip(&mut filled) {
                    let length = shape.pair(from, to);
                    share.push(length, Act::Copy { from: from_at, to: vec![*target] });
                    from_at += length * bytes;
                    *target += length * bytes;
                }
            }
        }
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
