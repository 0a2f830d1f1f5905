//! How things that stand in a row are dealt to ranks.

use std::ops::Range;

/// Those of `count` things that rank `rank` of `ranks` has: the first `count % ranks` ranks have one more.
pub fn block(count: usize, rank: u32, ranks: u32) -> Range<usize> {
    let (rank, ranks) = (rank as usize, ranks as usize);
    let (each, more) = (count / ranks, count % ranks);
    let begin = rank * each + rank.min(more);
    begin..begin + each + usize::from(rank < more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_everything_in_order() {
        for (count, ranks) in [(10, 4), (3, 3), (2048, 7), (2, 5)] {
            let blocks: Vec<_> = (0..ranks).flat_map(|rank| block(count, rank, ranks)).collect();
            assert_eq!(blocks, (0..count).collect::<Vec<_>>());
        }
    }
}
