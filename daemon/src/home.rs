//! Where the daemon is that shares a machine with the daemons of other nodes.
//!
//! Daemons that talk to each other are woken on each other's cores, and then one core does the work of two nodes while the other
//! halts. So a daemon stays on the cores of its node as long as its ranks leave them to it. But on that of a rank that computes it would
//! have to wait for the end of a time slice, whatever arrives; then it takes any core there is.

use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// The cores of the daemon's thread.
pub(crate) struct Home {
    /// Those of its node, and all it may use. `None` if these are the same.
    cores: Option<(CpuSet, CpuSet)>,
    is_home: bool,
    /// When ranks were last seen to compute for long: before a sleep, and still after it.
    computed_at: Option<Instant>,
    /// They did before this sleep.
    seem_to_compute: bool,
}

/// Who has computed comes back to it within that time, most often.
const STAY_OUT: Duration = Duration::from_millis(100);
const THIS_THREAD: Pid = Pid::from_raw(0);

impl Home {
    /// For the thread that calls it. Without `cores` it may be anywhere, and stays so.
    pub(crate) fn new(cores: &[usize]) -> nix::Result<Self> {
        let all = sched_getaffinity(THIS_THREAD)?;
        let mut home = CpuSet::new();
        cores.iter().filter(|&&core| all.is_set(core).unwrap_or(false)).try_for_each(|&core| home.set(core))?;
        let cores = (home != CpuSet::new() && home != all).then_some((home, all));
        Ok(Self { cores, is_home: false, computed_at: None, seem_to_compute: false })
    }

    /// The daemon has nothing to do, and maybe it `is_about_to_sleep`: it goes where it should be woken.
    pub(crate) fn rest(&mut self, is_about_to_sleep: bool, now: Instant, do_ranks_compute: impl FnOnce() -> bool) {
        let Some((home, all)) = &self.cores else { return };
        // A look that does not end in sleep sees ranks between two waits.
        self.seem_to_compute = is_about_to_sleep && do_ranks_compute();
        let is_home = !self.seem_to_compute && self.computed_at.is_none_or(|at| now.duration_since(at) >= STAY_OUT);
        if is_home != self.is_home {
            self.is_home = is_home;
            // Where it can't go it is slower and no less right.
            let _ = sched_setaffinity(THIS_THREAD, if is_home { home } else { all });
        }
    }

    /// The daemon has slept.
    pub(crate) fn wake(&mut self, now: Instant, do_ranks_compute: impl FnOnce() -> bool) {
        if std::mem::take(&mut self.seem_to_compute) && self.cores.is_some() && do_ranks_compute() {
            self.computed_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> CpuSet {
        sched_getaffinity(THIS_THREAD).unwrap()
    }

    fn cores(set: &CpuSet) -> Vec<usize> {
        (0..CpuSet::count()).filter(|&core| set.is_set(core).unwrap()).collect()
    }

    #[test]
    fn it_is_at_home_while_ranks_wait_and_out_while_they_compute() {
        let all = allowed();
        let [first, _, ..] = cores(&all)[..] else { return };
        let mut home = Home::new(&[first]).unwrap();
        assert_eq!(allowed(), all);
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let steps = [
            (0, false, false, true),
            // A rank that is seen between two waits does not compute.
            (1, false, true, true),
            // Not for long, as is seen when the daemon has slept.
            (2, true, true, false),
            (3, true, false, true),
            (4, true, true, false),
            (5, true, true, false),
            (6, true, false, false),
            (104, false, false, false),
            (105, false, false, true),
            (106, true, false, true),
        ];
        for (ms, sleeps, compute, is_home) in steps {
            home.wake(at(ms), || compute);
            home.rest(sleeps, at(ms), || compute);
            assert_eq!(cores(&allowed()), if is_home { vec![first] } else { cores(&all) }, "after {ms} ms");
        }
        sched_setaffinity(THIS_THREAD, &all).unwrap();
    }

    #[test]
    fn without_cores_of_its_own_it_is_anywhere() {
        let all = allowed();
        for own in [Vec::new(), cores(&all), vec![CpuSet::count() - 1]] {
            let mut home = Home::new(&own).unwrap();
            home.rest(true, Instant::now(), || false);
            assert_eq!(allowed(), all);
        }
    }
}
