//! Exchanges that have the request slots of others before them.

use crate::common::everywhere;

/// Requests of one that is gone are another's afterwards, and count its rounds where they counted those before.
#[test]
fn exchanges_that_follow_each_other_have_their_own_data() {
    everywhere(2, |world| {
        let ring = world.cartesian(&[2], &[true]).unwrap();
        let rank = ring.rank();
        for count in [300, 40_000] {
            let mut last = None;
            for turn in 0..30 {
                let mut exchange = ring.neighbor_alltoall_init::<u32>(count).unwrap();
                for round in 0..4 {
                    let value = 100 * turn + 10 * round;
                    exchange.input_mut().fill(value + rank);
                    exchange.start().unwrap().wait().unwrap();
                    assert!(exchange.output().iter().all(|&element| element == value + 1 - rank));
                }
                // One of them starts once more, or both do, or none, and nobody waits.
                if (turn + rank) % 3 != 0 && turn % 4 != 3 {
                    let _ = exchange.start().unwrap();
                }
                drop(last.replace(exchange));
            }
        }
    });
}
