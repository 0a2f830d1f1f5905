//! In which order a program starts what it has registered: most do the same in each iteration. While one thing starts, the processor fetches what the
//! start of the next one will touch. To wait for that takes longer than all else, if data has driven it out of the caches.
//!
//! What is started lies in a list in that order. What comes next is looked for in the next place, so that nothing has to come from memory for it.

use std::cell::Cell;

use ropeway_shm::Line;

/// What a start touches.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Lines {
    /// So many of the thing that is started, for which the first stands.
    pub(crate) own: (Line, usize),
    /// Elsewhere, to be written.
    pub(crate) written: Line,
    /// Others write them.
    pub(crate) read: [Line; 2],
}

/// The place of a thing in the sequence of the thread that started it last, if it has one.
#[derive(Default)]
pub(crate) struct Place(u8);

thread_local! {
    static SEQUENCE: Sequence = const { Sequence::new() };
}

/// What a thread starts, in that order.
///
/// All of it is hints: of what is gone, or somewhere else by now, the wrong lines are fetched, and nothing else happens.
struct Sequence {
    /// The place of what is likely to come.
    next: Cell<usize>,
    /// Where the iteration begins that is known: up to the place behind the last that was added.
    begin: Cell<usize>,
    /// The last one was known, but not likely to come.
    has_jumped: Cell<bool>,
    places: [Cell<Lines>; PLACES],
}

/// More things than that in an iteration have their places written each time.
const PLACES: usize = 128;

/// Something is being started that has this line: what is likely to follow is fetched.
#[inline]
pub(crate) fn pass(first: Line, place: &mut Place, lines: impl FnOnce() -> Lines) {
    SEQUENCE.with(|sequence| sequence.pass(first, place, lines).fetch());
}

impl Sequence {
    const fn new() -> Self {
        let places = [const { Cell::new(Lines::NONE) }; PLACES];
        Self { next: Cell::new(0), begin: Cell::new(0), has_jumped: Cell::new(false), places }
    }

    /// What is likely to follow.
    #[inline]
    fn pass(&self, first: Line, place: &mut Place, lines: impl FnOnce() -> Lines) -> Lines {
        let expected = self.next.get();
        let at = if self.is_at(expected, first) {
            self.has_jumped.set(false);
            expected
        } else {
            self.find(expected, first, place, lines)
        };
        let next = (at + 1) % PLACES;
        self.next.set(next);
        self.places[next].get()
    }

    fn is_at(&self, place: usize, first: Line) -> bool {
        self.places[place].get().own.0 == first
    }

    /// The place of something that is not the expected one. As a rule the iteration has come to its end, and begins again. If the next one is not the
    /// expected one either, the order has changed: from there on it is written anew.
    #[cold]
    fn find(&self, expected: usize, first: Line, place: &mut Place, lines: impl FnOnce() -> Lines) -> usize {
        let known = usize::from(place.0);
        let behind_begin = |place: usize| place.wrapping_sub(self.begin.get()) % PLACES;
        if self.is_at(known, first) && behind_begin(known) < behind_begin(expected) {
            let comes_again = (known + 1) % PLACES == expected;
            if comes_again || !self.has_jumped.replace(true) {
                return known;
            }
            self.begin.set(expected);
        }
        self.has_jumped.set(false);
        self.places[expected].set(lines());
        place.0 = expected as u8;
        expected
    }
}

impl Lines {
    const NONE: Self = Self { own: (Line::NONE, 0), written: Line::NONE, read: [Line::NONE; 2] };

    #[inline]
    fn fetch(&self) {
        let (first, count) = self.own;
        (0..count).for_each(|line| first.plus(line).prepare_to_write());
        self.written.prepare_to_write();
        self.read.iter().for_each(|line| line.prepare_to_read());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    #[repr(align(64))]
    struct Thing {
        place: Place,
    }

    /// What was expected behind each of these things, as they were started in this order.
    fn expected_behind(sequence: &Sequence, things: &mut [Thing], order: &[usize]) -> Vec<Option<usize>> {
        let lines = things.iter().map(Line::of).collect::<Vec<_>>();
        let start = |&number: &usize| {
            let own = (lines[number], 1);
            let follower = sequence.pass(own.0, &mut things[number].place, || Lines { own, ..Lines::NONE });
            lines.iter().position(|&line| line == follower.own.0)
        };
        order.iter().map(start).collect()
    }

    fn things(count: usize) -> Vec<Thing> {
        (0..count).map(|_| Thing::default()).collect()
    }

    #[test]
    fn what_has_followed_is_expected_again() {
        let (sequence, mut things) = (Sequence::new(), things(3));
        let mut start = |order: &[usize]| expected_behind(&sequence, &mut things, order);
        assert_eq!(start(&[0, 1, 2]), [None; 3]);
        for _ in 0..3 {
            assert_eq!(start(&[0, 1, 2]), [Some(1), Some(2), None]);
        }
    }

    #[test]
    fn another_order_is_learnt_in_one_iteration() {
        let (sequence, mut things) = (Sequence::new(), things(4));
        let mut start = |order: &[usize]| expected_behind(&sequence, &mut things, order);
        start(&[0, 1, 2, 3]);
        start(&[0, 3, 2, 1]);
        start(&[0, 3, 2, 1]);
        for _ in 0..2 * PLACES {
            let expected = start(&[0, 3, 2, 1]);
            let right = [(0, 3), (1, 2), (2, 1)].iter().filter(|&&(at, next)| expected[at] == Some(next)).count();
            assert!(right >= 2, "{expected:?}");
        }
    }

    #[test]
    fn what_comes_alone_keeps_its_place() {
        let (sequence, mut things) = (Sequence::new(), things(1));
        expected_behind(&sequence, &mut things, &[0; 10]);
        assert_eq!((things[0].place.0, sequence.next.get()), (0, 1));
    }

    #[test]
    fn what_has_moved_is_new() {
        let (sequence, mut old) = (Sequence::new(), things(2));
        expected_behind(&sequence, &mut old, &[0, 1]);
        let mut new = things(2);
        std::mem::swap(&mut new[0].place, &mut old[0].place);
        let mut start = |order: &[usize]| expected_behind(&sequence, &mut new, order);
        start(&[0, 1]);
        assert_eq!(start(&[0, 1])[0], Some(1));
    }

    #[test]
    fn more_things_than_places_are_no_harm() {
        let (sequence, mut things) = (Sequence::new(), things(3 * PLACES / 2));
        let order: Vec<_> = (0..things.len()).collect();
        (0..3).for_each(|_| drop(expected_behind(&sequence, &mut things, &order)));
        let mut start = |order: &[usize]| expected_behind(&sequence, &mut things, order);
        start(&[5, 6]);
        start(&[5, 6]);
        assert_eq!(start(&[5, 6])[0], Some(6));
    }
}
