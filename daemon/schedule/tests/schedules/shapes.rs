//! Operations to try.

use ropeway_schedule::{Collective, Counts, Neighborhood, Order, PairCounts, Shape};

pub(crate) const ORDERS: [Order; 3] = [Order::Any, Order::Rank, Order::Fixed];

/// Counts that differ, with a zero among them.
pub(crate) fn uneven(size: u32) -> Counts {
    Counts::each(&(0..u64::from(size)).map(|rank| rank * 5 % 7).collect::<Vec<_>>())
}

fn reductions(collectives: &mut Vec<Collective>, size: u32, roots: &[u32], count: u64) {
    for order in ORDERS {
        collectives.extend(roots.iter().map(|&root| Collective::Reduce { root, count, order }));
        collectives.push(Collective::Allreduce { count, order });
        collectives.push(Collective::Scan { count, order });
        collectives.push(Collective::Exscan { count, order });
        // As long a vector as those of the others.
        collectives.push(Collective::ReduceScatter { counts: Counts::even(count, size), order });
        collectives.push(Collective::ReduceScatter { counts: uneven(size), order });
    }
}

/// Every operation of a size, with vectors of `count` elements, separate and in place.
pub(crate) fn shapes(size: u32, roots: &[u32], count: u64) -> Vec<Shape> {
    let mut collectives = vec![Collective::Barrier];
    reductions(&mut collectives, size, roots, count);
    let block = count.div_ceil(u64::from(size));
    for counts in [Counts::same(block), uneven(size)] {
        for &root in roots {
            collectives.push(Collective::Gather { root, counts: counts.clone() });
            collectives.push(Collective::Scatter { root, counts: counts.clone() });
        }
        collectives.push(Collective::Allgather { counts });
    }
    collectives.extend(roots.iter().map(|&root| Collective::Bcast { root, count }));
    let row = |from: u64| (0..u64::from(size)).map(move |to| (from + to) * 3 % 5);
    let symmetric = (0..u64::from(size)).flat_map(row).collect();
    for counts in [PairCounts::Same(block), PairCounts::Matrix(symmetric)] {
        collectives.push(Collective::Alltoall { counts });
    }
    let separate: Vec<_> = collectives.into_iter().map(|collective| Shape::new(size, collective)).collect();
    let in_place = separate.iter().cloned().map(Shape::in_place);
    let mut shapes: Vec<_> = separate.iter().cloned().chain(in_place).collect();
    // An alltoall that is as uneven as they come; not in place.
    let uneven = (0..u64::from(size)).flat_map(|from| (0..u64::from(size)).map(move |to| (from * 3 + to * 2) % 5));
    let counts = PairCounts::Matrix(uneven.collect());
    shapes.push(Shape::new(size, Collective::Alltoall { counts }));
    for neighborhood in neighborhoods(size) {
        let neighborhood = || neighborhood.clone();
        shapes.push(Shape::new(size, Collective::NeighborAllgather { neighborhood: neighborhood(), count: block }));
        shapes.push(Shape::new(size, Collective::NeighborAlltoall { neighborhood: neighborhood(), count: block }));
    }
    shapes
}

fn neighborhoods(size: u32) -> Vec<Neighborhood> {
    let mut found = vec![Neighborhood::grid(&[(size, true)]), Neighborhood::grid(&[(size, false)])];
    if size.is_multiple_of(2) {
        found.push(Neighborhood::grid(&[(2, true), (size / 2, true)]));
        found.push(Neighborhood::grid(&[(size / 2, false), (1, true), (2, true)]));
    }
    // A star whose middle everybody hears twice and itself once.
    let others: Vec<_> = (0..size).collect();
    let twice = |rank: u32| if rank == 0 { vec![0] } else { vec![0, 0] };
    let destinations = others.iter().flat_map(|&rank| twice(rank).into_iter().map(move |_| rank)).collect();
    let mut out = vec![Vec::new(); size as usize];
    out[0] = destinations;
    found.push(Neighborhood::graph((0..size).map(twice).collect(), out));
    found
}
