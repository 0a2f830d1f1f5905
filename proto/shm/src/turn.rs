//! Work that anybody may do, one at a time, and nobody waits for: whoever finds somebody at it leaves it to him.
//!
//! So that nothing is left lying, whoever was at it looks once more after giving the turn back.

use crate::primitive::{AtomicU32, AtomicU64, Ordering, fence};

/// Whose turn it is.
#[repr(C)]
pub struct Turn {
    /// Number of the holder; zero if nobody is at it.
    holder: AtomicU32,
}

/// What is to be done: a set of small numbers.
#[repr(C, align(64))]
pub struct Due<const WORDS: usize> {
    words: [AtomicU64; WORDS],
    /// The number that was refused when marks were last taken: it comes first the next time, so that all get their turn.
    first: AtomicU32,
    /// Words that something was ever marked in, from the first on: most often only that one, and there is no need to look at others.
    used: AtomicU32,
}

/// Numbers of a set that are marked together, in no more room than they need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, packed(4))]
pub struct Marks {
    bits: u64,
    word: u16,
}

/// Whether somebody looks after what others mark. Who marks asks afterwards; who stops looking looks once more afterwards.
#[repr(C)]
pub struct Guard {
    is_there: AtomicU32,
}

/// How a turn went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Went {
    /// Everything that was due is done.
    Through,
    /// It can't go on now; somebody will have to come back.
    Stuck,
    /// It could go on, but has taken long enough; who was at it comes back.
    Paused,
}

impl Turn {
    /// Nobody's. In a segment of zeros it is there already; this makes one elsewhere.
    pub fn new() -> Self {
        Self { holder: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.holder.store(0, Ordering::Relaxed);
    }

    /// Takes the turn, unless somebody has it. `holder` is not zero.
    pub fn take(&self, holder: u32) -> bool {
        // SYNC turn (load): what the one before us did.
        self.holder.compare_exchange(0, holder, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the turn back.
    pub fn give_back(&self) {
        // SYNC turn (store).
        self.holder.store(0, Ordering::Release);
    }

    /// Takes the turn from one who is gone in the middle of it. True if he was.
    pub fn inherit(&self, from: u32, holder: u32) -> bool {
        self.holder.compare_exchange(from, holder, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Whether somebody is at it just now.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.holder.load(Ordering::Relaxed) != 0
    }

    /// Whether this one has it.
    pub fn is_held_by(&self, holder: u32) -> bool {
        self.holder.load(Ordering::Acquire) == holder
    }

    /// Has `work` done while something is due, once at least, unless somebody else is at it and so will see to it. `None`
    /// in that case.
    pub fn work<const WORDS: usize>(
        &self,
        holder: u32,
        due: &Due<WORDS>,
        mut work: impl FnMut() -> Went,
    ) -> Option<Went> {
        let mut went = None;
        loop {
            // SYNC turn-due: marked before the turn is tried here, the turn given back before the marks are looked at
            // below; with both fences either we get the turn, or its holder sees our mark.
            fence(Ordering::SeqCst);
            if !self.take(holder) {
                return went;
            }
            let now = work();
            self.give_back();
            fence(Ordering::SeqCst);
            went = Some(now);
            if now != Went::Through || !due.is_any() {
                return went;
            }
        }
    }
}

impl Guard {
    /// Nobody. In a segment of zeros it is there already; this makes one elsewhere.
    pub fn new() -> Self {
        Self { is_there: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.is_there.store(0, Ordering::Relaxed);
    }

    /// Whether somebody looks after what was marked before this.
    #[inline]
    pub fn is_there(&self) -> bool {
        // SYNC guard: the mark before the guard here, the guard before the marks in whoever leaves; with both fences either
        // we see that he has left, or he sees the mark.
        fence(Ordering::SeqCst);
        self.is_there_behind_fence()
    }

    /// The same for what was marked before one SeqCst fence.
    #[inline]
    pub fn is_there_behind_fence(&self) -> bool {
        self.is_there.load(Ordering::Relaxed) != 0
    }

    /// Somebody looks from now on, or no more; then he looks once more.
    pub fn set(&self, is_there: bool) {
        self.is_there.store(is_there.into(), Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }
}

impl Marks {
    /// This number.
    pub fn of(index: u16) -> Self {
        Self { bits: 1 << (index % 64), word: index / 64 }
    }

    /// These too, if they can be marked together.
    pub fn join(&mut self, others: Self) -> bool {
        let are_near = self.word == others.word;
        if are_near {
            self.bits |= others.bits;
        }
        are_near
    }
}

impl<const WORDS: usize> Due<WORDS> {
    /// Nothing. In a segment of zeros it is there already; this makes one elsewhere.
    pub fn new() -> Self {
        Self { words: std::array::from_fn(|_| AtomicU64::new(0)), first: AtomicU32::new(0), used: AtomicU32::new(0) }
    }

    /// Starts anew. Nobody else knows it yet.
    pub fn reset(&self) {
        self.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        self.first.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
    }

    /// Marks a number. Everything written before is visible to whoever takes the mark.
    #[inline]
    pub fn mark(&self, index: u16) {
        self.mark_all(Marks::of(index));
    }

    /// The same of several.
    #[inline]
    pub fn mark_all(&self, marks: Marks) {
        let word = usize::from(marks.word) % WORDS;
        // Before the mark, so that it is behind the same fence.
        if self.used() <= word {
            self.used.fetch_max(word as u32 + 1, Ordering::Relaxed);
        }
        // SYNC due-mark (store).
        self.words[word].fetch_or(marks.bits, Ordering::Release);
    }

    /// Takes a mark back.
    pub fn unmark(&self, index: u16) {
        let Marks { word, bits } = Marks::of(index);
        self.words[usize::from(word) % WORDS].fetch_and(!bits, Ordering::Relaxed);
    }

    /// Whether anything is marked.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.words[..self.used()].iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// How many are marked.
    pub fn count(&self) -> u32 {
        self.words[..self.used()].iter().map(|word| word.load(Ordering::Relaxed).count_ones()).sum()
    }

    /// Takes the marks one by one, in a circle, until `take` refuses one, which stays and is the first the next time.
    pub fn take_while(&self, mut take: impl FnMut(u16) -> bool) -> bool {
        let used = self.used();
        if used == 0 {
            return true;
        }
        let first = self.first.load(Ordering::Relaxed) as usize;
        let (word, from_first) = (first / 64, u64::MAX << (first % 64));
        // The word of the first number comes twice: from that number on, and at the end up to it.
        self.take_word(word % used, from_first, &mut take)
            && (1..used).all(|step| self.take_word((word + step) % used, u64::MAX, &mut take))
            && self.take_word(word % used, !from_first, &mut take)
    }

    #[inline]
    fn used(&self) -> usize {
        (self.used.load(Ordering::Relaxed) as usize).min(WORDS)
    }

    #[inline]
    fn take_word(&self, index: usize, mask: u64, take: &mut impl FnMut(u16) -> bool) -> bool {
        let word = &self.words[index];
        if word.load(Ordering::Relaxed) & mask == 0 {
            return true;
        }
        // SYNC due-mark (load).
        let mut bits = word.fetch_and(!mask, Ordering::AcqRel) & mask;
        while bits != 0 {
            let number = index as u16 * 64 + bits.trailing_zeros() as u16;
            if !take(number) {
                word.fetch_or(bits, Ordering::Relaxed);
                self.first.store(number.into(), Ordering::Relaxed);
                return false;
            }
            bits &= bits - 1;
        }
        true
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NUMBERS: u16 = 256;

    /// Everything is due at any time, and `room` of it can be done at once.
    fn served(room: u16, rounds: u16) -> Vec<u32> {
        let (due, mut served) = (Due::<{ NUMBERS as usize / 64 }>::new(), vec![0; NUMBERS.into()]);
        for _ in 0..rounds {
            (0..NUMBERS).for_each(|number| due.mark(number));
            let mut left = room;
            let is_all = due.take_while(|number| {
                let has_room = left > 0;
                if has_room {
                    left -= 1;
                    served[usize::from(number)] += 1;
                }
                has_room
            });
            assert_eq!(is_all, room >= NUMBERS);
        }
        served
    }

    #[test]
    fn all_get_their_turn_however_much_is_due() {
        for room in [1, 7, 63, 64, 65, 255] {
            let served = served(room, NUMBERS);
            assert!(served.iter().all(|&count| count == u32::from(room)), "{room}: {served:?}");
        }
        assert!(served(NUMBERS, 3).iter().all(|&count| count == 3));
    }

    #[test]
    fn words_are_used_as_soon_as_something_is_marked_there() {
        let due = Due::<4>::new();
        assert!(!due.is_any() && due.take_while(|_| panic!("nothing is marked")));
        for number in [200, 3, 255, 64] {
            due.mark(number);
            assert_eq!((due.is_any(), due.count()), (true, 1));
            assert!(due.take_while(|taken| taken == number));
            assert!(!due.is_any());
        }
        due.mark(130);
        due.reset();
        assert!(!due.is_any());
    }

    #[test]
    fn what_is_refused_stays_and_nothing_is_taken_twice() {
        let due = Due::<2>::new();
        [3, 70, 90].into_iter().for_each(|number| due.mark(number));
        assert!(!due.take_while(|number| number < 90));
        due.mark(4);
        let mut taken = Vec::new();
        assert!(due.take_while(|number| {
            taken.push(number);
            true
        }));
        assert_eq!(taken, [90, 4]);
        assert!(!due.is_any());
    }
}
