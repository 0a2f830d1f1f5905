//! Puts measuring threads on cores of their own.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Two cores that may be used, if there are so many. A rank that is pinned to one borrows from the tool that has started it.
pub(crate) fn two_cores() -> [Option<usize>; 2] {
    let own = cores_of(Pid::from_raw(0));
    let cores = if own.len() < 2 { cores_of(Pid::parent()) } else { own };
    match cores[..] {
        [first, second, ..] => [Some(first), Some(second)],
        _ => [None, None],
    }
}

fn cores_of(process: Pid) -> Vec<usize> {
    let allowed = sched_getaffinity(process).unwrap_or_default();
    (0..CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect()
}

/// Keeps this thread on a core. Where that is not allowed, it stays where the kernel puts it.
pub(crate) fn settle(core: Option<usize>) {
    let mut set = CpuSet::new();
    if core.is_some_and(|core| set.set(core).is_ok()) {
        let _ = sched_setaffinity(Pid::from_raw(0), &set);
    }
}

/// Keeps this thread on one of the cores it may use, which are dealt to the ranks in turn.
pub(crate) fn pin(rank: u32) -> io::Result<()> {
    let cores = cores_of(Pid::from_raw(0));
    let mut set = CpuSet::new();
    if let Some(&core) = cores.iter().cycle().nth(rank as usize) {
        set.set(core)?;
    }
    Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
}

/// Lets this thread use all cores of the tool that has started this rank, which may itself be pinned to one.
pub(crate) fn roam() {
    let _ = sched_getaffinity(Pid::parent()).and_then(|cores| sched_setaffinity(Pid::from_raw(0), &cores));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn a_thread_that_is_pinned_still_finds_two_cores_and_keeps_its_own() {
        let cores = cores_of(Pid::from_raw(0));
        let [Some(first), Some(second)] = two_cores() else { return };
        assert_ne!(first, second);
        let pinned = move || {
            settle(Some(second));
            let others = thread::scope(|scope| {
                let measuring = scope.spawn(|| {
                    settle(Some(first));
                    cores_of(Pid::from_raw(0))
                });
                measuring.join().unwrap()
            });
            (others, cores_of(Pid::from_raw(0)))
        };
        assert_eq!(thread::spawn(pinned).join().unwrap(), (vec![first], vec![second]));
        assert_eq!(cores_of(Pid::from_raw(0)), cores);
    }

    #[test]
    fn a_thread_of_a_rank_that_is_pinned_gets_free() {
        let all = cores_of(Pid::parent());
        let pinned = || {
            settle(two_cores()[0]);
            let roaming = || {
                roam();
                cores_of(Pid::from_raw(0))
            };
            thread::spawn(roaming).join().unwrap()
        };
        assert_eq!(thread::spawn(pinned).join().unwrap(), all);
    }
}
