//! Shapes of grids.

/// The lengths of a grid of `dimensions` dimensions for `ranks` ranks that are as close to each other as can be, the longest
/// first. Among shapes whose longest and shortest dimension differ equally, the one whose longest is shortest.
///
/// Prime factors dealt out one by one do not give that (Träff and Lübbe 2015); so all shapes are looked at.
///
/// ```
/// assert_eq!(ropeway::dims_create(12, 2), [4, 3]);
/// assert_eq!(ropeway::dims_create(72, 3), [6, 4, 3]);
/// assert_eq!(ropeway::dims_create(7, 2), [7, 1]);
/// ```
///
/// Panics if there are no ranks, or if ranks are to be dealt to no dimension.
pub fn dims_create(ranks: u32, dimensions: usize) -> Vec<u32> {
    assert!(ranks > 0, "a grid has places");
    assert!(ranks == 1 || dimensions > 0, "{ranks} ranks do not fit a grid without dimensions");
    let mut best = None;
    extend(&mut Vec::with_capacity(dimensions), ranks, dimensions, &mut best);
    best.expect("all in one dimension is a shape")
}

/// Tries all shapes that begin with `dims`, with `ranks` places in the dimensions that are left, none longer than the last.
fn extend(dims: &mut Vec<u32>, ranks: u32, left: usize, best: &mut Option<Vec<u32>>) {
    if left == 0 {
        if ranks == 1 && best.as_ref().is_none_or(|best| spread(dims) < spread(best)) {
            *best = Some(dims.clone());
        }
        return;
    }
    let longest = dims.last().map_or(ranks, |&last| last.min(ranks));
    // The longest of those that are left can't be shorter than their mean.
    let is_enough = |&length: &u32| length.checked_pow(left as u32).is_none_or(|places| places >= ranks);
    for length in (1..=longest).rev().take_while(is_enough).filter(|&length| ranks.is_multiple_of(length)) {
        dims.push(length);
        extend(dims, ranks / length, left - 1, best);
        dims.pop();
    }
}

/// What is to be small: the difference of the longest and the shortest, then the longest.
fn spread(dims: &[u32]) -> (u32, u32) {
    let (longest, shortest) = (dims.first().copied().unwrap_or(1), dims.last().copied().unwrap_or(1));
    (longest - shortest, longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_as_square_as_they_can_be() {
        assert_eq!(dims_create(1, 0), Vec::<u32>::new());
        assert_eq!(dims_create(1, 3), [1, 1, 1]);
        assert_eq!(dims_create(64, 3), [4, 4, 4]);
        assert_eq!(dims_create(13, 3), [13, 1, 1]);
        assert_eq!(dims_create(36, 2), [6, 6]);
        assert_eq!(dims_create(131_072, 2), [512, 256]);
        assert_eq!(dims_create(131_072, 17), [2; 17]);
        assert_eq!(dims_create(110_880, 4), [22, 21, 16, 15]);
    }

    #[test]
    fn every_rank_has_a_place() {
        for (ranks, dimensions) in (1..200).flat_map(|ranks| (1..5).map(move |dimensions| (ranks, dimensions))) {
            let dims = dims_create(ranks, dimensions);
            assert_eq!((dims.len(), dims.iter().product::<u32>()), (dimensions, ranks));
            assert!(dims.is_sorted_by(|first, second| first >= second));
        }
    }
}
