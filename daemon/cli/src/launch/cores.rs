//! Which cores a node has that shares the machine with others.
//!
//! Nodes of a cluster do not take cores from each other. Those of one machine would: ranks that belong together would run on cores far
//! apart, change places all the time, and believe that they have all cores to wait on.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// While this exists, the thread, and what it starts, stays on a node's cores.
pub(super) struct Confined {
    /// Where it may be at home.
    home: CpuSet,
}

impl Confined {
    /// `None` if the node has no cores of its own.
    pub(super) fn to(node: usize, nodes: usize) -> io::Result<Option<Self>> {
        let home = sched_getaffinity(THIS_THREAD)?;
        let mut cores = CpuSet::new();
        of_node(node, nodes)?.into_iter().try_for_each(|core| cores.set(core))?;
        if cores == CpuSet::new() {
            return Ok(None);
        }
        sched_setaffinity(THIS_THREAD, &cores)?;
        Ok(Some(Self { home }))
    }
}

/// Deals the cores to the nodes in blocks. Nothing if there are not enough of them, or one node has them all.
pub(super) fn of_node(node: usize, nodes: usize) -> io::Result<Vec<usize>> {
    let home = sched_getaffinity(THIS_THREAD)?;
    let all: Vec<usize> = (0..CpuSet::count()).filter(|&core| home.is_set(core).unwrap_or(false)).collect();
    let has_own = nodes > 1 && all.len() >= nodes;
    Ok(if has_own { all[node * all.len() / nodes..(node + 1) * all.len() / nodes].to_vec() } else { Vec::new() })
}

impl Drop for Confined {
    fn drop(&mut self) {
        // If it can't return it is slower and no less right.
        let _ = sched_setaffinity(THIS_THREAD, &self.home);
    }
}

const THIS_THREAD: Pid = Pid::from_raw(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn cores() -> Vec<usize> {
        let own = sched_getaffinity(THIS_THREAD).unwrap();
        (0..CpuSet::count()).filter(|&core| own.is_set(core).unwrap()).collect()
    }

    #[test]
    fn nodes_share_out_the_cores_and_leave_none() {
        let all = cores();
        for nodes in 2..=all.len() {
            let part = |node| {
                let _confined = Confined::to(node, nodes).unwrap().unwrap();
                cores()
            };
            assert_eq!((0..nodes).flat_map(part).collect::<Vec<_>>(), all);
            assert_eq!(cores(), all);
        }
    }

    #[test]
    fn a_node_alone_and_nodes_without_a_core_each_are_not_confined() {
        let all = cores();
        for nodes in [1, all.len() + 1] {
            assert!(Confined::to(0, nodes).unwrap().is_none());
            assert_eq!(cores(), all);
        }
    }
}
