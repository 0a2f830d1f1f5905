//! Every algorithm by its name, for every operation: it gives what any other gives, or says why it can't.

use std::collections::BTreeSet;
use std::sync::Mutex;

use ropeway::{Collective, Communicator, Error, Operator, Plain, UserOperator};
use ropeway_daemon::Config;
use ropeway_schedule::Algorithm;

use crate::common::{Cluster, config, everybody, everybody_of, uneven};

/// Nodes and ranks: of one rank each, of several, of as many on each node or not.
const PLACES: [(usize, u32); 4] = [(4, 4), (3, 7), (2, 4), (4, 8)];
/// Fewer elements than nodes, and a number that nothing divides.
const COUNTS: [usize; 2] = [3, 1009];
/// Beside those that stand for a name alone.
const FURTHER: [&str; 7] =
    ["k-nomial:3", "standard-exchange:3", "radix-k:2,2", "bruck:3", "linear-pipeline:2", "dissemination:3", "cayley:2"];

/// What a rank gets in a round in which everybody brings something else.
fn round<T: Plain>(mut collective: Collective<T>, element: impl Fn(usize) -> T) -> Vec<T> {
    collective.input_mut().iter_mut().enumerate().for_each(|(index, place)| *place = element(index));
    collective.start().unwrap().wait().unwrap();
    collective.output().to_vec()
}

/// One of each operation, by name.
fn operations(world: &Communicator, count: usize) -> Vec<(&'static str, Result<Vec<u64>, Error>)> {
    let rank = u64::from(world.rank());
    let run = |made: Result<Collective<u64>, Error>| {
        made.map(|collective| round(collective, |index| (rank + 1) * 1_000_003 + index as u64 * 31))
    };
    let (last, sum) = (world.size() - 1, Operator::Sum);
    let counts = uneven(world.size() as usize, count);
    vec![
        ("barrier", world.barrier_init().map(|barrier| round(barrier, |_| 0)).map(|_| Vec::new())),
        ("bcast", run(world.bcast_init(count, last))),
        ("reduce", run(world.reduce_init(count, sum, last))),
        ("allreduce", run(world.allreduce_init(count, sum))),
        ("reduce-scatter", run(world.reduce_scatter_init(&counts, sum))),
        ("scan", run(world.scan_init(count, sum))),
        ("exscan", run(world.exscan_init(count, sum))),
        ("gather", run(world.gatherv_init(&counts, last))),
        ("scatter", run(world.scatterv_init(&counts, last))),
        ("allgather", run(world.allgatherv_init(&counts))),
        ("alltoall", run(world.alltoall_init(count))),
    ]
}

/// The pairs of algorithm and operation that were done.
fn done(place: (usize, u32)) -> BTreeSet<(String, &'static str)> {
    let done = Mutex::new(BTreeSet::new());
    let names = Algorithm::all().into_iter().map(|algorithm| algorithm.to_string());
    let names: Vec<String> = names.chain(FURTHER.map(str::to_owned)).collect();
    everybody(place, |world| {
        for count in COUNTS {
            let expected = operations(&world, count);
            for name in &names {
                for ((operation, found), (_, expected)) in
                    operations(&world.with_algorithm(name), count).into_iter().zip(&expected)
                {
                    match found {
                        Ok(found) => {
                            assert_eq!(
                                found,
                                *expected.as_ref().unwrap(),
                                "{operation} of {count} by {name} on {place:?}"
                            );
                            done.lock().unwrap().insert((name.clone(), operation));
                        }
                        Err(error) => {
                            let why = error.to_string();
                            assert!(why.contains(&format!("{name} can't be used for this")), "{operation}: {why}");
                        }
                    }
                }
            }
        }
    });
    done.into_inner().unwrap()
}

#[test]
fn every_algorithm_gives_what_any_other_gives() {
    let all: BTreeSet<_> = PLACES.into_iter().flat_map(done).collect();
    let names: BTreeSet<_> = all.iter().map(|(name, _)| name.split(':').next().unwrap()).collect();
    assert_eq!(names, Algorithm::names().map(|(name, _)| name).collect());
    let of = |name: &str| all.iter().filter(|(by, _)| by == name).map(|(_, operation)| *operation).collect::<Vec<_>>();
    assert_eq!(of("linear").len(), 11);
    assert_eq!(of("bruck:3"), ["allgather", "alltoall"]);
    assert_eq!(of("pairwise"), ["allgather", "allreduce", "alltoall", "reduce-scatter"]);
}

#[test]
fn names_that_nothing_has_are_refused_with_those_there_are() {
    for place in [(1, 2), (3, 7)] {
        everybody(place, |world| {
            let error = world.with_algorithm("rng").barrier_init().unwrap_err();
            assert!(error.to_string().contains("no algorithm is called rng: take one of linear"), "{error}");
            let one_shot = world.with_algorithm("dissemination").allreduce(&[1u8], &mut [0], Operator::Sum);
            assert_eq!(one_shot.is_err(), place.0 > 1, "signals combine nothing");
        });
    }
}

#[test]
fn what_is_refused_is_called_as_it_was_asked_for() {
    everybody((2, 3), |world| {
        let sum = UserOperator::new(|left: &mut u64, right: &u64| *left += right);
        let error = world.with_algorithm("recursive-halving").allreduce_init::<u64>(9, &sum).unwrap_err();
        assert!(error.to_string().contains("between nodes this allreduce goes by allgather"), "{error}");
        let error = world.with_algorithm("recursive-halving").scan_init::<u64>(9, Operator::Sum).unwrap_err();
        assert!(error.to_string().contains("between nodes this scan goes by exscan"), "{error}");
        let error = world.with_algorithm("bruck").allreduce_init::<u64>(9, Operator::Sum).unwrap_err();
        assert!(!error.to_string().contains("between nodes"), "{error}");
    });
}

#[test]
fn equal_blocks_are_exchanged_by_an_algorithm_that_needs_them_in_every_form() {
    for place in [(2, 2), (2, 4), (3, 3)] {
        everybody(place, |world| {
            let (ranks, bruck) = (world.size() as usize, world.with_algorithm("bruck"));
            let input: Vec<u64> = (0..5 * ranks as u64).map(|index| index + 1000 * u64::from(world.rank())).collect();
            let mut output = vec![0; 5 * ranks];
            bruck.alltoallv(&input, &mut output, &vec![5; ranks * ranks]).unwrap();
            for (from, block) in output.chunks(5).enumerate() {
                let first = 1000 * from as u64 + 5 * u64::from(world.rank());
                assert!(block.iter().zip(first..).all(|(&found, sent)| found == sent));
            }
        });
    }
}

/// Its request and its memory become free in one step.
#[test]
fn what_is_refused_takes_no_memory() {
    const COUNT: usize = 1 << 17;
    let small = || Config { job_memory_bytes_max: 16 << 20, ..config() };
    everybody_of(&Cluster::start_with(2, vec![small(), small()]), 2, |world| {
        let misfit = world.with_algorithm("rng");
        for _ in 0..40 {
            let error = misfit.allreduce_init::<u64>(COUNT, Operator::Sum).unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{error}");
            let error = misfit.allreduce(&vec![1u64; COUNT], &mut vec![0; COUNT], Operator::Sum).unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{error}");
        }
        let sum = world.allreduce_init::<u64>(COUNT, Operator::Sum).unwrap();
        assert_eq!(round(sum, |index| index as u64)[9], 18);
    });
}

#[test]
fn who_is_refused_alone_is_in_step_with_the_others_afterwards() {
    for nodes in [1, 2] {
        everybody((nodes, 2), |world| {
            if world.rank() == 0 {
                let refused = world.with_algorithm("rng").allreduce_init::<u64>(10, Operator::Sum);
                assert!(matches!(refused, Err(Error::Refused(_))));
            }
            let sum = world.allreduce_init::<u64>(10, Operator::Sum).unwrap();
            assert_eq!(round(sum, |index| index as u64)[9], 18);
        });
    }
}
