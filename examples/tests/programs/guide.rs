//! The programs of the guide's chapters, which check themselves, on one node and on several.

use crate::job;

/// Nodes and ranks.
const PLACES: [(usize, u32); 5] = [(1, 1), (1, 2), (1, 5), (2, 3), (3, 4)];

/// Runs a program wherever it may live; `expected` is what rank 0 has to say among so many ranks.
fn everywhere(program: &str, expected: impl Fn(u32) -> String) {
    for (nodes, ranks) in PLACES {
        assert_eq!(job::run_on(nodes, program, ranks, &[]).stdout(), expected(ranks), "{ranks} ranks on {nodes} nodes");
    }
}

#[test]
fn messages() {
    everywhere(env!("CARGO_BIN_EXE_guide_messages"), |ranks| {
        let sum: u32 = (0..ranks).map(|rank| rank * rank).sum();
        format!("the squares of {ranks} ranks sum up to {sum}\n")
    });
}

#[test]
fn broadcast() {
    everywhere(env!("CARGO_BIN_EXE_guide_broadcast"), |ranks| {
        format!("40 rows from {ranks} ranks, the last one full of 9.75\n")
    });
}

#[test]
fn reductions() {
    everywhere(env!("CARGO_BIN_EXE_guide_reductions"), |ranks| {
        let vector: Vec<_> = (0..ranks * 6).map(|index| index * 7 % 10).collect();
        let norm = f64::from(vector.iter().map(|element| element * element).sum::<u32>()).sqrt();
        let (largest, at) = if ranks == 1 { (8, 4) } else { (9, 7) };
        format!("{} elements of norm {norm:.3}, the largest is {largest} at {at}\n", vector.len())
    });
}

#[test]
fn gather_and_scatter() {
    everywhere(env!("CARGO_BIN_EXE_guide_gather_scatter"), |ranks| {
        let (text, ranks) = ("stressed desserts drawer reward live evil", ranks as usize);
        let part = |rank| text[text.len() * rank / ranks..text.len() * (rank + 1) / ranks].chars().rev();
        (0..ranks).flat_map(part).chain(['\n']).collect()
    });
}

#[test]
fn communicators() {
    everywhere(env!("CARGO_BIN_EXE_guide_communicators"), |ranks| {
        format!("{ranks} ranks as a grid of {:?}: no heat is lost\n", ropeway::dims_create(ranks, 2))
    });
}

#[test]
fn from_mpi() {
    everywhere(env!("CARGO_BIN_EXE_guide_from_mpi"), |ranks| {
        let nodes = PLACES.iter().find(|place| place.1 == ranks).unwrap().0 as u32;
        let warmest = f64::from(ranks - 1);
        format!("up to {} of {ranks} ranks on a node; the rod is at most {warmest:.3} warm\n", ranks.div_ceil(nodes))
    });
}

#[test]
fn overlap() {
    everywhere(env!("CARGO_BIN_EXE_guide_overlap"), |ranks| {
        format!("8 pieces of 10000 elements, 10 times; the ranks sum up to {}\n", (0..ranks).sum::<u32>())
    });
}

#[test]
fn failures() {
    for (nodes, ranks) in PLACES {
        let said = job::run_on(nodes, env!("CARGO_BIN_EXE_guide_failures"), ranks, &[]).stdout();
        // The last rank does not hear of itself; others hear of it in different words.
        assert_eq!(said.starts_with("round 5: "), ranks > 1, "{said}");
        assert!(said.lines().count() < 2, "{said}");
    }
}
