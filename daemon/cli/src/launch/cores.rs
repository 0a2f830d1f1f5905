//! Which cores a node has that shares the machine with others.
//!
//! Nodes of a cluster do not take cores from each other. Those of one machine would: ranks that belong together would run on cores far
//! apart, change places all the time, and believe that they have all cores to wait on. And the kernel, which wakes who is called on the core
//! of who calls, would leave one core to the daemons and few ranks, and all others to the other one.

use std::io;
use std::ops::Range;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// While this exists, the thread, and what it starts, stays on a node's cores.
pub(super) struct Confined {
    /// Where it may be at home.
    home: CpuSet,
}

impl Confined {
    /// `None` if there is nothing to deal.
    pub(super) fn to(node: usize, nodes: usize) -> io::Result<Option<Self>> {
        let home = sched_getaffinity(THIS_THREAD)?;
        let all = all_of(&home);
        if nodes == 1 || all.len() == 1 {
            return Ok(None);
        }
        let mut cores = CpuSet::new();
        all[dealt(node, nodes, all.len())].iter().try_for_each(|&core| cores.set(core))?;
        sched_setaffinity(THIS_THREAD, &cores)?;
        Ok(Some(Self { home }))
    }
}

/// A node's own cores, for its daemon. Nothing if it shares them with other nodes, or has all: tied to a core that it shares, a daemon would
/// wait for ranks of others that compute there.
pub(super) fn of_daemon(node: usize, nodes: usize) -> io::Result<Vec<usize>> {
    let all = all_of(&sched_getaffinity(THIS_THREAD)?);
    let has_own = nodes > 1 && all.len() >= nodes;
    Ok(if has_own { all[dealt(node, nodes, all.len())].to_vec() } else { Vec::new() })
}

fn all_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap_or(false)).collect()
}

/// Deals so many cores to the nodes in blocks, or the nodes to the cores if these are fewer.
fn dealt(node: usize, nodes: usize, cores: usize) -> Range<usize> {
    let first = node * cores / nodes;
    first..((node + 1) * cores / nodes).max(first + 1)
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
        all_of(&sched_getaffinity(THIS_THREAD).unwrap())
    }

    fn confined(node: usize, nodes: usize) -> Vec<usize> {
        let _confined = Confined::to(node, nodes).unwrap();
        cores()
    }

    #[test]
    fn nodes_share_out_the_cores_and_leave_none() {
        let all = cores();
        for nodes in 2..=all.len() {
            assert_eq!((0..nodes).flat_map(|node| confined(node, nodes)).collect::<Vec<_>>(), all);
            let of_daemons = (0..nodes).flat_map(|node| of_daemon(node, nodes).unwrap());
            assert_eq!(of_daemons.collect::<Vec<_>>(), all);
            assert_eq!(cores(), all);
        }
    }

    #[test]
    fn each_core_has_as_many_nodes_as_any_other() {
        for (nodes, cores) in [(4, 2), (5, 2), (16, 3), (7, 7)] {
            let mut count = vec![0; cores];
            (0..nodes).flat_map(|node| dealt(node, nodes, cores)).for_each(|core| count[core] += 1);
            let [least, most] = [count.iter().min(), count.iter().max()].map(Option::unwrap);
            assert_eq!(count.iter().sum::<usize>(), nodes, "one core each");
            assert!(most - least <= 1, "{count:?}");
        }
    }

    #[test]
    fn ranks_of_more_nodes_than_cores_share_a_core_with_other_nodes_and_daemons_are_anywhere() {
        let all = cores();
        let nodes = 2 * all.len();
        for node in 0..nodes {
            let dealt = if all.len() == 1 { all.clone() } else { vec![all[node / 2]] };
            assert_eq!(confined(node, nodes), dealt);
            assert!(of_daemon(node, nodes).unwrap().is_empty());
        }
    }

    #[test]
    fn a_node_alone_has_all_cores() {
        assert!(Confined::to(0, 1).unwrap().is_none());
        assert!(of_daemon(0, 1).unwrap().is_empty());
    }
}
