//! Which parts of an area are free.

use std::collections::BTreeMap;

/// Ranges that nobody uses. Neighbours are always joined, so that what was taken in small parts can be had as a whole again.
#[derive(Debug, Default)]
pub struct FreeRanges {
    /// Start → end.
    ranges: BTreeMap<u64, u64>,
}

impl FreeRanges {
    /// Takes so many bytes out of the smallest range that has them: large ranges stay large. Says where they begin.
    pub fn take(&mut self, bytes: u64) -> Option<u64> {
        let (start, end) = self.best_fit(bytes)?;
        self.ranges.remove(&start);
        if end - start > bytes {
            self.ranges.insert(start + bytes, end);
        }
        Some(start)
    }

    /// Whether so many bytes can be taken.
    pub fn has(&self, bytes: u64) -> bool {
        self.best_fit(bytes).is_some()
    }

    fn best_fit(&self, bytes: u64) -> Option<(u64, u64)> {
        let fitting = self.ranges.iter().filter(|&(start, end)| end - start >= bytes);
        fitting.min_by_key(|&(start, end)| end - start).map(|(&start, &end)| (start, end))
    }

    /// Takes a range of at least so many bytes as a whole, if there is one.
    pub fn take_whole(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let range = self.best_fit(bytes)?;
        self.ranges.remove(&range.0);
        Some(range)
    }

    /// The most that can be taken at once.
    pub fn largest(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).max().unwrap_or(0)
    }

    /// Nobody uses this range any more, or yet.
    pub fn give(&mut self, mut start: u64, mut end: u64) {
        if start == end {
            return;
        }
        if let Some((&before, &before_end)) = self.ranges.range(..start).next_back()
            && before_end == start
        {
            self.ranges.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        self.ranges.insert(start, end);
    }

    /// From where on everything is free up to `end`.
    pub fn start_of_last(&self, end: u64) -> u64 {
        let last = self.ranges.last_key_value().filter(|&(_, &last_end)| last_end == end);
        last.map_or(end, |(&start, _)| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_become_whole_again_in_whatever_order_they_come_back() {
        for order in [[0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]] {
            let mut free = FreeRanges::default();
            free.give(0, 300);
            let parts = [100; 3].map(|bytes| free.take(bytes).unwrap());
            assert_eq!((parts, free.take(1), free.start_of_last(300)), ([0, 100, 200], None, 300));
            order.iter().for_each(|&part| free.give(parts[part], parts[part] + 100));
            assert_eq!((free.start_of_last(300), free.has(301), free.take(300)), (0, false, Some(0)));
        }
    }

    #[test]
    fn the_smallest_range_that_fits_is_taken_from() {
        let mut free = FreeRanges::default();
        [(0, 1000), (2000, 2100), (3000, 3500)].iter().for_each(|&(start, end)| free.give(start, end));
        assert_eq!([100, 200, 400].map(|bytes| free.take(bytes)), [Some(2000), Some(3000), Some(0)]);
        assert_eq!([301, 300, 300].map(|bytes| free.take_whole(bytes)), [Some((400, 1000)), Some((3200, 3500)), None]);
    }
}
