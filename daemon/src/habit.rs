//! What ranks do most of the time once they have started something large.

#[cfg(doc)]
use ropeway_shm::SinceStart;

/// What has been learnt of ranks.
#[derive(Default)]
pub(crate) struct Habits {
    sending: Habit,
    both_ways: Habit,
    prompt_waits: u32,
    late_receives: u32,
}

/// Whether one of two things happens more often than the other, lately.
#[derive(Default)]
struct Habit {
    counts: [u32; 2],
    /// By how many the second one is ahead.
    excess: u32,
    has: bool,
}

/// So many more of the second make a habit; it is none any more when there are as many of the first.
const BEGINS_AT: u32 = 3;
/// No more count.
const EXCESS_MAX: u32 = 8;

impl Habits {
    /// Takes note of how often ranks have come to wait by now, in the order of [`SinceStart`].
    pub(crate) fn learn(&mut self, [at_once, sending, both_ways, receiving]: [u32; 4]) {
        (self.prompt_waits, self.late_receives) = (at_once, receiving);
        let others = at_once.wrapping_add(receiving);
        self.sending.learn([others.wrapping_add(both_ways), sending]);
        self.both_ways.learn([others.wrapping_add(sending), both_ways]);
    }

    /// How often they have not computed, modulo 2³².
    pub(crate) fn prompt_waits(&self) -> u32 {
        self.prompt_waits
    }

    /// How often they have, having received only.
    pub(crate) fn late_receives(&self) -> u32 {
        self.late_receives
    }

    /// They compute, having sent only.
    pub(crate) fn compute_sending(&self) -> bool {
        self.sending.has
    }

    /// They compute, having sent and received.
    pub(crate) fn compute_both_ways(&self) -> bool {
        self.both_ways.has
    }
}

impl Habit {
    /// How often each has happened by now, modulo 2³².
    fn learn(&mut self, counts: [u32; 2]) {
        // Threads of a client that count at once may set a count back for a moment.
        let more = |index: usize| counts[index].wrapping_sub(self.counts[index]).cast_signed().max(0).cast_unsigned();
        let [first, second] = [0, 1].map(more);
        self.counts = counts;
        self.excess = self.excess.saturating_add(second).saturating_sub(first).min(EXCESS_MAX);
        self.has = self.excess >= BEGINS_AT || (self.has && self.excess > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_habit_begins_with_a_few_more_and_ends_with_as_many_of_the_other() {
        let mut habit = Habit { counts: [u32::MAX, 0], ..Habit::default() };
        let counts = [[5, 5], [6, 8], [7, 10], [9, 10], [10, 10], [10, 1000], [17, 1000], [18, 1000]];
        let found = counts.map(|counts| {
            habit.learn(counts);
            habit.has
        });
        assert_eq!(found, [false, false, true, true, false, true, true, false]);
    }

    #[test]
    fn a_count_that_is_set_back_is_nothing_new() {
        let mut habit = Habit { counts: [7, 9], ..Habit::default() };
        habit.learn([7, 8]);
        assert_eq!(habit.excess, 0);
        habit.learn([7, 10]);
        assert_eq!(habit.excess, 2);
    }

    #[test]
    fn who_only_sends_and_who_does_not_have_different_habits() {
        let mut habits = Habits::default();
        let counts = [[0, 3, 0, 0], [0, 3, 6, 0], [3, 3, 6, 3]];
        let found = counts.map(|counts| {
            habits.learn(counts);
            (habits.compute_sending(), habits.compute_both_ways())
        });
        assert_eq!(found, [(true, false), (false, true), (false, false)]);
    }
}
