//! Collectives of one node in which something goes from the root to each of the others, or back: nobody but the root waits for more than one,
//! and for small parts nobody but the root at all.

use std::sync::atomic::{AtomicI32, Ordering};

use nix::unistd::{Pid, gettid};
use ropeway::{Collective, Communicator, Error, Operator, WaitMode};

use crate::common::{Cluster, everybody, soon, until_asleep};

const RANKS: u32 = 4;
/// Comes when all others but the root have what they need.
const LATE: u32 = 3;
const OTHERS: [u32; 2] = [1, 2];
/// Elements of a part: done at once, by who waits, in pieces.
const COUNTS: [usize; 3] = [1, 1500, 100_000];

/// So many rounds others may be ahead where there is little for each: as many as there are cells.
const AHEAD_MAX: u32 = 64;
/// Bytes of a message that takes no lane.
const LARGE: usize = 64 << 10;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Bcast,
    Scatter,
    Gather,
    /// If it is small only: of a larger one all wait for all.
    Reduce,
}

const KINDS: [Kind; 3] = [Kind::Bcast, Kind::Scatter, Kind::Gather];

impl Kind {
    fn register(self, world: &Communicator, count: usize, root: u32) -> Collective<u64> {
        match self {
            // Smaller ones are relayed.
            Self::Bcast => world.bcast_init(count + 1500, root),
            Self::Scatter => world.scatter_init(count, root),
            Self::Gather => world.gather_init(count, root),
            Self::Reduce => world.reduce_init(count, Operator::Sum, root),
        }
        .unwrap()
    }

    fn fill(self, collective: &mut Collective<u64>, (rank, root): (u32, u32), round: u64) {
        match self {
            Self::Bcast if rank == root => collective.output_mut().fill(round),
            Self::Bcast => {}
            Self::Scatter | Self::Gather | Self::Reduce => {
                (0..).zip(collective.input_mut()).for_each(|(at, place)| *place = value(rank, at, round));
            }
        }
    }

    fn check(self, collective: &Collective<u64>, (rank, root): (u32, u32), count: usize, round: u64) {
        let output = collective.output();
        let sum = |at| (0..RANKS).map(|rank| value(rank, at, round)).sum::<u64>();
        let is_right = |(at, found): (usize, &u64)| match self {
            Self::Bcast => *found == round,
            Self::Scatter => *found == value(root, count * rank as usize + at, round),
            Self::Gather => *found == value((at / count) as u32, at % count, round),
            Self::Reduce => rank != root || *found == sum(at),
        };
        assert!(output.iter().enumerate().all(is_right), "{self:?} of {count}, round {round}, rank {rank}");
    }
}

fn value(rank: u32, at: usize, round: u64) -> u64 {
    round << 40 | u64::from(rank) << 32 | at as u64
}

#[test]
fn nobody_but_the_root_waits_for_one_that_is_late() {
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        for (kind, count) in KINDS.into_iter().flat_map(|kind| COUNTS.map(|count| (kind, count))) {
            let mut collective = kind.register(&world, count, 0);
            for round in 0..12 {
                // All come to the first one alike: until all have registered it there is no meeting.
                if rank == LATE && round > 0 {
                    OTHERS.iter().for_each(|&other| assert!(world.recv(&mut [0u8], other, 0).is_ok()));
                }
                kind.fill(&mut collective, (rank, 0), round);
                let running = collective.start().unwrap();
                soon(|| running.wait_with([WaitMode::Blocking, WaitMode::Adaptive][round as usize % 2]).unwrap());
                kind.check(&collective, (rank, 0), count, round);
                if OTHERS.contains(&rank) && round > 0 {
                    world.send(&[1u8], LATE, 0).unwrap();
                }
            }
        }
    });
}

#[test]
fn who_gives_a_small_part_waits_for_nobody_till_it_is_four_rounds_ahead() {
    const AHEAD: u64 = 4;
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        for (kind, root) in [Kind::Gather, Kind::Reduce].into_iter().flat_map(|kind| [0, 2].map(|root| (kind, root))) {
            // Left in a cell at once, or in its buffer till somebody waits.
            for count in [1, 700] {
                let mut collective = kind.register(&world, count, root);
                for turn in 0..4 {
                    let others = || (0..RANKS).filter(|&other| other != root);
                    if rank == root {
                        others().for_each(|other| assert!(soon(|| world.recv(&mut [0u8], other, 0)).is_ok()));
                    }
                    for round in turn * AHEAD..(turn + 1) * AHEAD {
                        kind.fill(&mut collective, (rank, root), round);
                        let mode = [WaitMode::Blocking, WaitMode::Adaptive][turn as usize % 2];
                        soon(|| collective.start().unwrap().wait_with(mode).unwrap());
                        kind.check(&collective, (rank, root), count, round);
                    }
                    if rank != root {
                        world.send(&[1u8], root, 0).unwrap();
                        soon(|| world.recv(&mut [0u8], root, 1)).unwrap();
                    } else {
                        others().for_each(|other| world.send(&[1u8], other, 1).unwrap());
                    }
                }
            }
        }
    });
}

#[test]
fn a_root_that_has_little_for_each_waits_for_nobody_till_it_is_four_rounds_ahead() {
    const AHEAD: u64 = 4;
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        // Put into a cell at once, or left in the root's buffer till somebody waits.
        for (root, count) in [0, 2].into_iter().flat_map(|root| [1, 60].map(|count| (root, count))) {
            let mut collective = Kind::Scatter.register(&world, count, root);
            for turn in 0..4 {
                if rank != root {
                    soon(|| world.recv(&mut [0u8], root, 0)).unwrap();
                }
                for round in turn * AHEAD..(turn + 1) * AHEAD {
                    Kind::Scatter.fill(&mut collective, (rank, root), round);
                    let mode = [WaitMode::Blocking, WaitMode::Adaptive][turn as usize % 2];
                    soon(|| collective.start().unwrap().wait_with(mode).unwrap());
                    Kind::Scatter.check(&collective, (rank, root), count, round);
                }
                if rank == root {
                    (0..RANKS).filter(|&other| other != root).for_each(|other| world.send(&[1u8], other, 0).unwrap());
                }
            }
        }
    });
}

/// Where there is little for each.
#[test]
fn a_root_may_leave_before_others_come_for_what_it_has_given() {
    for count in [1, 60] {
        let cluster = Cluster::start(1, RANKS);
        let mut sessions: Vec<_> = (0..RANKS).map(|rank| cluster.attach(rank)).collect();
        let mut all: Vec<_> =
            sessions.iter().map(|session| Kind::Scatter.register(&session.world(), count, 0)).collect();
        all.iter_mut().for_each(|one| drop(one.start().unwrap()));
        all.iter_mut().for_each(|one| assert!(soon(|| one.active().unwrap().wait()).is_ok()));
        Kind::Scatter.fill(&mut all[0], (0, 0), 1);
        soon(|| all[0].start().unwrap().wait().unwrap());
        drop((all.remove(0), sessions.remove(0)));
        for (rank, (session, one)) in (1..).zip(sessions.iter().zip(&mut all)) {
            // So the node has heard of it.
            let error = soon(|| session.world().recv(&mut [0u8], 0, 0).unwrap_err());
            assert!(matches!(error, Error::RankLeft { rank: 0 }), "{error}");
            soon(|| one.start().unwrap().wait().unwrap());
            Kind::Scatter.check(one, (rank, 0), count, 1);
            let error = soon(|| one.start().and_then(|running| running.wait()).unwrap_err());
            assert!(matches!(error, Error::RankLeft { rank: 0 } | Error::PeerFreed { rank: 0 }), "{error}");
        }
    }
}

#[test]
fn who_waits_learns_of_the_rank_that_has_not_come_and_not_of_one_that_was_done_and_is_gone() {
    let kinds = [
        (Kind::Bcast, 100_000),
        (Kind::Scatter, 100_000),
        (Kind::Gather, 1),
        (Kind::Gather, 100_000),
        (Kind::Reduce, 1),
    ];
    for (kind, count) in kinds {
        let cluster = Cluster::start(1, RANKS);
        let mut sessions: Vec<_> = (0..RANKS).map(|rank| cluster.attach(rank)).collect();
        let mut all: Vec<_> = sessions.iter().map(|session| kind.register(&session.world(), count, 0)).collect();
        all.iter_mut().for_each(|one| drop(one.start().unwrap()));
        all.iter_mut().for_each(|one| assert!(soon(|| one.active().unwrap().wait()).is_ok()));
        // The root and another do their part; the other frees it, and goes.
        drop(all[0].start().unwrap());
        let mut done = all.remove(1);
        soon(|| done.start().unwrap().wait().unwrap());
        drop((done, sessions.remove(1)));
        let error = soon(|| sessions[0].world().recv(&mut [0u8], 1, 0).unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: 1 }), "{error}");
        drop((all.pop(), sessions.pop()));
        let error = soon(|| all[0].active().unwrap().wait().unwrap_err());
        assert!(matches!(error, Error::RankLeft { rank: LATE } | Error::PeerFreed { rank: LATE }), "{kind:?}: {error}");
    }
}

/// More ranks than there may be cores: those who get one again have been overtaken by others, who take message after message meanwhile.
#[test]
fn messages_of_a_root_that_is_ahead_are_not_written_over() {
    everybody((1, RANKS), |world| {
        let mut message = world.bcast_init::<u64>(100, 0).unwrap();
        let mut together = world.barrier_init().unwrap();
        for round in 0..200_000 {
            if round % 500 == 0 {
                together.start().unwrap().wait().unwrap();
            }
            if world.rank() == 0 {
                message.output_mut().fill(round);
            }
            message.start().unwrap().wait().unwrap();
            assert!(message.output().iter().all(|&found| found == round), "rank {}, round {round}", world.rank());
        }
    });
}

#[test]
fn a_root_that_sleeps_gets_on_though_the_last_to_come_computes() {
    let thread_of_root = AtomicI32::new(0);
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        let kinds = KINDS.into_iter().flat_map(|kind| [1, 700, 100_000].map(|count| (kind, count)));
        for (kind, count) in kinds.chain([1, 700].map(|count| (Kind::Reduce, count))) {
            let mut collective = kind.register(&world, count, 0);
            for round in 0..6 {
                kind.fill(&mut collective, (rank, 0), round);
                if rank == LATE && round > 0 {
                    world.recv(&mut [0u8], 0, 0).unwrap();
                    until_asleep(Pid::from_raw(thread_of_root.load(Ordering::Relaxed)));
                }
                if rank == 0 && round > 0 {
                    thread_of_root.store(gettid().as_raw(), Ordering::Relaxed);
                    world.send(&[1u8], LATE, 0).unwrap();
                }
                let running = collective.start().unwrap();
                if rank == LATE && round > 0 {
                    // It does not wait for the collective before the root has it.
                    soon(|| world.recv(&mut [0u8], 0, 1).unwrap());
                }
                soon(|| running.wait_with(WaitMode::Blocking).unwrap());
                if rank == 0 && round > 0 {
                    world.send(&[1u8], LATE, 1).unwrap();
                }
                kind.check(&collective, (rank, 0), count, round);
            }
        }
    });
}

#[test]
fn any_rank_can_be_the_root_and_zero_elements_are_a_part() {
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        for (kind, root) in KINDS.into_iter().flat_map(|kind| [1, 3].map(|root| (kind, root))) {
            for count in [0, 7, 5000] {
                let mut collective = kind.register(&world, count, root);
                for round in 0..20 {
                    kind.fill(&mut collective, (rank, root), round);
                    soon(|| collective.start().unwrap().wait().unwrap());
                    kind.check(&collective, (rank, root), count, round);
                }
            }
        }
    });
}

#[test]
fn who_gives_it_up_ends_no_round_that_others_are_still_in() {
    everybody((1, RANKS), |world| {
        let rank = world.rank();
        let kinds = KINDS.into_iter().flat_map(|kind| COUNTS.map(|count| (kind, count)));
        for (kind, count) in kinds.chain([1, 700].map(|count| (Kind::Reduce, count))) {
            let mut collective = kind.register(&world, count, 0);
            for round in 0..2 {
                if rank == LATE && round == 1 {
                    world.recv(&mut [0u8; LARGE], 1, 0).unwrap();
                }
                kind.fill(&mut collective, (rank, 0), round);
                soon(|| collective.start().unwrap().wait().unwrap());
                kind.check(&collective, (rank, 0), count, round);
            }
            if rank == 1 {
                drop(collective);
                // So much goes through the daemon, which has freed the request before.
                world.send(&[1u8; LARGE], LATE, 0).unwrap();
                continue;
            }
            // Who gives something small, or has little for each, finds out when he can't get further ahead of the others.
            let mut next = || soon(|| collective.start().and_then(|running| running.wait()));
            let error = (0..=AHEAD_MAX)
                .find_map(|_| next().err())
                .unwrap_or_else(|| panic!("{kind:?} of {count}, rank {rank}"));
            assert!(matches!(error, Error::PeerFreed { rank: 1 }), "{kind:?} of {count}, rank {rank}: {error}");
        }
    });
}
