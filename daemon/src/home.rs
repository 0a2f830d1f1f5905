//! Where the daemon is that shares a machine with the daemons of other nodes.
//!
//! Daemons that talk to each other are woken on each other's cores, and then one core does the work of two nodes while the other
//! halts. So a daemon stays on the cores of its node as long as its ranks leave them to it. But on that of a rank that computes it would
//! have to wait for the end of a time slice, whatever arrives; then it takes any core there is, until ranks wait for one message after
//! another again. A rank that computes after a receive says so; then the daemon is where others are, because anywhere might be behind that
//! rank, and nothing comes before the rank waits. And from a rank that computes after it has started something the daemon would take the time the start is to save: the
//! kernel wakes it on the core of who wakes it, although another one may be idle. Then it keeps off that core, until what it waits for
//! comes from another node. If ranks send and receive and compute meanwhile, those of other nodes most likely do the same, and there is
//! no better core than its own: elsewhere one rank would pay for two daemons. There it sleeps rather than yields
//! ([`idle`](crate::idle)), so it is woken at once.

use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::habit::Habits;

/// The cores of the daemon's thread.
pub(crate) struct Home {
    /// Of each place. `None` if all are the same.
    cores: Option<[CpuSet; 3]>,
    place: Place,
    computed: Option<Computed>,
    /// How often ranks had said that they have computed after a receive.
    late_receives: u32,
    /// When the daemon went to sleep, if they seemed to compute then.
    seemed_to_compute_at: Option<Instant>,
    /// The last time they seemed to they did not, or not for long.
    is_sceptical: bool,
}

/// When it was last known that ranks compute for long.
#[derive(Clone, Copy)]
struct Computed {
    at: Instant,
    /// How often ranks had come to wait at once by then.
    prompt_waits: u32,
    /// Where the daemon is better while they do.
    place: Place,
}

/// Where the daemon may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// On its node's cores.
    Home,
    /// On all others.
    Away,
    Anywhere,
}

/// What the daemon looks at before it decides where to be.
pub(crate) trait Surroundings {
    /// Whether a rank computes now, or seems to.
    fn do_ranks_compute(&self) -> bool;
    /// Whether something large is to come from another node.
    fn await_large(&self) -> bool;
}

/// Who has computed comes back to it within that time, most often.
const STAY_OUT: Duration = Duration::from_millis(100);
/// Unless they have waited for so many messages at once since then. With 3, sends of 64 KiB in turns with others that nothing was computed
/// beside hid half of what they hide with 16.
const PROMPT_WAITS: u32 = 16;
/// Who computes does for so long. A rank that was woken, or starts what comes next, seems to for a moment.
const LONG: Duration = Duration::from_micros(50);
const THIS_THREAD: Pid = Pid::from_raw(0);

impl Home {
    /// For the thread that calls it. Without `cores` it may be anywhere, and stays so.
    pub(crate) fn new(cores: &[usize]) -> nix::Result<Self> {
        let all = sched_getaffinity(THIS_THREAD)?;
        let (mut home, mut away) = (CpuSet::new(), all);
        for &core in cores.iter().filter(|&&core| core < CpuSet::count()) {
            if all.is_set(core)? {
                home.set(core)?;
                away.unset(core)?;
            }
        }
        Ok(Self {
            cores: (home != CpuSet::new() && home != all).then_some([home, away, all]),
            place: Place::Anywhere,
            computed: None,
            late_receives: 0,
            seemed_to_compute_at: None,
            is_sceptical: false,
        })
    }

    /// The daemon has nothing to do, and maybe it `is_about_to_sleep`: it goes where it should be woken.
    pub(crate) fn rest(&mut self, is_about_to_sleep: bool, now: Instant, habits: &Habits, around: &impl Surroundings) {
        let Some(cores) = &self.cores else { return };
        // Who yields the core to a rank that computes is behind it, and never sees it compute.
        if std::mem::replace(&mut self.late_receives, habits.late_receives()) != habits.late_receives() {
            self.computed = Some(Computed::at(now, habits, Place::Away));
        }
        // A look that does not end in sleep sees ranks between two waits.
        self.seemed_to_compute_at = (is_about_to_sleep && around.do_ranks_compute()).then_some(now);
        let may_compute_again = |Computed { at, prompt_waits, .. }: &Computed| {
            now.duration_since(*at) < STAY_OUT && habits.prompt_waits().wrapping_sub(*prompt_waits) < PROMPT_WAITS
        };
        let seem_to_compute = self.seemed_to_compute_at.is_some() && !self.is_sceptical;
        let outside = match self.computed.filter(may_compute_again) {
            Some(Computed { place, .. }) => Some(place),
            None => seem_to_compute.then_some(Place::Anywhere),
        };
        let place = match outside {
            _ if habits.compute_sending() && around.await_large() => Place::Anywhere,
            _ if habits.compute_sending() => Place::Away,
            Some(outside) if !habits.compute_both_ways() => outside,
            _ => Place::Home,
        };
        if place != self.place {
            self.place = place;
            // Where it can't go it is slower and no less right.
            let _ = sched_setaffinity(THIS_THREAD, &cores[place as usize]);
        }
    }

    /// The daemon has slept.
    pub(crate) fn wake(&mut self, now: Instant, habits: &Habits, around: &impl Surroundings) {
        let Some(slept_at) = self.seemed_to_compute_at.take() else { return };
        self.is_sceptical = now.duration_since(slept_at) < LONG || !around.do_ranks_compute();
        if !self.is_sceptical {
            self.computed = Some(Computed::at(now, habits, Place::Anywhere));
        }
    }
}

impl Computed {
    fn at(at: Instant, habits: &Habits, place: Place) -> Self {
        Self { at, prompt_waits: habits.prompt_waits(), place }
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

    #[derive(Default)]
    struct Around {
        compute: bool,
        awaits: bool,
    }

    impl Surroundings for Around {
        fn do_ranks_compute(&self) -> bool {
            self.compute
        }

        fn await_large(&self) -> bool {
            self.awaits
        }
    }

    /// A thread whose home is the first of all cores, unless that is the only one; afterwards it may be anywhere again.
    fn at_home(test: impl FnOnce(Home, &[usize])) {
        let everywhere = allowed();
        let all = cores(&everywhere);
        if all.len() > 1 {
            test(Home::new(&all[..1]).unwrap(), &all);
            sched_setaffinity(THIS_THREAD, &everywhere).unwrap();
        }
    }

    #[test]
    fn it_is_at_home_while_ranks_wait_and_anywhere_while_they_compute() {
        at_home(|mut home, all| {
            assert_eq!(cores(&allowed()), all);
            let start = Instant::now();
            let at = |ms| start + Duration::from_millis(ms);
            let steps = [
                (0, false, false, true),
                // A rank that is seen between two waits does not compute.
                (1, false, true, true),
                // Not for long, as is seen when the daemon has slept, which is wary the next time.
                (2, true, true, false),
                (3, true, false, true),
                (4, true, true, true),
                (5, true, true, false),
                (6, true, false, false),
                (104, false, false, false),
                (105, false, false, true),
                (106, true, true, true),
                (107, true, true, false),
            ];
            for (ms, sleeps, compute, is_home) in steps {
                let around = Around { compute, ..Around::default() };
                home.wake(at(ms), &Habits::default(), &around);
                home.rest(sleeps, at(ms), &Habits::default(), &around);
                assert_eq!(cores(&allowed()), if is_home { &all[..1] } else { all }, "after {ms} ms");
            }
        });
    }

    #[test]
    fn who_is_awake_for_a_moment_between_two_waits_does_not_compute() {
        at_home(|mut home, all| {
            let (start, around) = (Instant::now(), Around { compute: true, ..Around::default() });
            let mut cores_after = |us| {
                home.wake(start + Duration::from_micros(us), &Habits::default(), &around);
                home.rest(true, start + Duration::from_micros(us), &Habits::default(), &around);
                cores(&allowed())
            };
            assert_eq!(cores_after(0), all);
            assert_eq!([10, 20, 30].map(&mut cores_after), [&all[..1]; 3]);
            assert_eq!(cores_after(80), all, "it has slept for long");
        });
    }

    #[test]
    fn ranks_that_wait_for_one_message_after_another_bring_it_home() {
        at_home(|mut home, all| {
            let (start, mut habits) = (Instant::now(), Habits::default());
            let computing = Around { compute: true, ..Around::default() };
            habits.learn([7, 0, 0, 0]);
            home.rest(true, start, &habits, &computing);
            home.wake(start + LONG, &habits, &computing);
            let mut cores_after = |waits| {
                habits.learn([7 + waits, 0, 0, 0]);
                home.rest(false, start + LONG, &habits, &Around::default());
                cores(&allowed())
            };
            assert_eq!(cores_after(PROMPT_WAITS - 1), all);
            assert_eq!(cores_after(PROMPT_WAITS), all[..1]);
        });
    }

    #[test]
    fn who_computes_after_a_receive_says_so_even_if_the_daemon_never_slept() {
        at_home(|mut home, all| {
            let mut habits = Habits::default();
            let mut cores_after = |prompt_waits, late_receives| {
                habits.learn([prompt_waits, 0, 0, late_receives]);
                home.rest(false, Instant::now(), &habits, &Around::default());
                cores(&allowed())
            };
            assert_eq!(cores_after(1, 0), all[..1]);
            assert_eq!(cores_after(2, 1), all[1..]);
            assert_eq!(cores_after(2 + PROMPT_WAITS, 1), all[..1]);
        });
    }

    #[test]
    fn it_keeps_off_who_starts_and_computes_until_something_comes() {
        at_home(|mut home, all| {
            let mut habits = Habits::default();
            let mut cores_after = |waits, awaits| {
                habits.learn(waits);
                home.rest(false, Instant::now(), &habits, &Around { awaits, ..Around::default() });
                cores(&allowed())
            };
            assert_eq!(cores_after([0, 0, 0, 0], true), all[..1]);
            assert_eq!(cores_after([0, 5, 0, 0], false), all[1..]);
            assert_eq!(cores_after([0, 5, 0, 0], true), all);
            assert_eq!(cores_after([5, 5, 0, 0], true), all[..1]);
        });
    }

    #[test]
    fn it_stays_at_home_when_all_seem_to_compute() {
        at_home(|mut home, all| {
            let mut habits = Habits::default();
            habits.learn([0, 0, 100, 0]);
            let around = Around { compute: true, ..Around::default() };
            home.rest(true, Instant::now(), &habits, &around);
            assert_eq!(cores(&allowed()), all[..1]);
        });
    }

    #[test]
    fn without_cores_of_its_own_it_is_anywhere() {
        let all = allowed();
        for own in [Vec::new(), cores(&all), vec![CpuSet::count() - 1]] {
            let mut home = Home::new(&own).unwrap();
            let mut habits = Habits::default();
            habits.learn([0, 100, 0, 0]);
            home.rest(true, Instant::now(), &habits, &Around::default());
            assert_eq!(allowed(), all);
        }
    }
}
