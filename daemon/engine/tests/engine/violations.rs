//! What clients must not do. The engine says so, and everybody else goes on.

use ropeway_engine::Violation;
use ropeway_proto::collective::{CollectiveKind, CollectiveMember, CollectiveShape};
use ropeway_proto::{Batch, CommId, Command, Endpoint, Layout, Status};

use crate::cluster::{Cluster, TAG};

const LAYOUT: Layout = Layout { offset: 0, block_bytes: 8, stride_bytes: 8, blocks: 1 };

fn to(rank: u32) -> Endpoint {
    Cluster::endpoint(rank, TAG)
}

/// What the engine says to a command of rank 0, whose slot 0 has a bound send and has seen two epochs.
fn answer(command: Command) -> Result<(), Violation> {
    let mut cluster = Cluster::pair();
    cluster.channel(8);
    cluster.start(0, 0);
    cluster.settle();
    let answer = cluster.command(0, command);
    // The other rank is not concerned.
    cluster.start(1, 0);
    cluster.settle();
    assert_eq!(cluster.status(1, 0), Some(Status::Success));
    answer
}

#[test]
fn an_epoch_must_be_the_slots_next() {
    for epoch in [0, 2, 4, u32::MAX] {
        let expected = Err(Violation::WrongEpoch { slot: 0, found: epoch, expected: 3 });
        assert_eq!(answer(Command::Start { slot: 0, epoch }), expected);
        assert_eq!(answer(Command::Free { slot: 0, epoch }), expected);
        assert_eq!(answer(Command::InitSend { slot: 0, epoch, endpoint: to(1), layout: LAYOUT }), expected);
    }
    let expected = Err(Violation::WrongEpoch { slot: 9, found: 0, expected: 1 });
    assert_eq!(answer(Command::Recv { slot: 9, epoch: 0, endpoint: to(1), layout: LAYOUT }), expected);
}

#[test]
fn only_the_current_operation_can_be_cancelled() {
    for epoch in [1, 3] {
        let expected = Err(Violation::WrongEpoch { slot: 0, found: epoch, expected: 2 });
        assert_eq!(answer(Command::Cancel { slot: 0, epoch }), expected);
    }
    assert_eq!(answer(Command::Cancel { slot: 0, epoch: 2 }), Ok(()));
}

#[test]
fn a_slot_holds_one_request() {
    let (slot, epoch, endpoint, layout) = (0, 3, to(1), LAYOUT);
    for command in [
        Command::InitSend { slot, epoch, endpoint, layout },
        Command::InitRecv { slot, epoch, endpoint, layout },
        Command::Send { slot, epoch, endpoint, layout },
        Command::Recv { slot, epoch, endpoint, layout },
        Command::Probe { slot, epoch, endpoint, wait: false },
    ] {
        assert_eq!(answer(command), Err(Violation::SlotInUse { slot: 0 }));
    }
}

#[test]
fn commands_in_a_batch_are_checked_as_if_they_were_alone() {
    let batch = |commands: &[Command]| {
        let mut batch = Batch::new();
        commands.iter().for_each(|command| assert!(batch.add(&command.encode())));
        Command::Several(batch)
    };
    // A batch says no epochs: a start has whatever is next.
    let start = |slot| Command::Start { slot, epoch: 77 };
    assert_eq!(answer(batch(&[start(0), start(0)])), Err(Violation::WrongState { slot: 0 }));
    assert_eq!(answer(batch(&[Command::Move { slot: 0 }, start(5)])), Err(Violation::NoRequest { slot: 5 }));
    let mut cluster = Cluster::pair();
    cluster.channel(8);
    for epoch in 2..5 {
        cluster.command(0, batch(&[start(0)])).unwrap();
        cluster.command(1, batch(&[Command::Tend { node: 0 }, start(0)])).unwrap();
        cluster.settle();
        assert_eq!([0, 1].map(|rank| cluster.status(rank, 0)), [Some(Status::Success); 2], "{epoch}");
    }
}

#[test]
fn an_empty_slot_has_nothing_to_start_or_free() {
    assert_eq!(answer(Command::Start { slot: 5, epoch: 1 }), Err(Violation::NoRequest { slot: 5 }));
    assert_eq!(answer(Command::Free { slot: 5, epoch: 1 }), Err(Violation::NoRequest { slot: 5 }));
}

#[test]
fn ranks_outside_of_the_job_do_not_exist() {
    let expected = Err(Violation::RankOutOfRange { rank: 2, size: 2 });
    for command in [
        Command::InitSend { slot: 1, epoch: 1, endpoint: to(2), layout: LAYOUT },
        Command::Recv { slot: 1, epoch: 1, endpoint: to(2), layout: LAYOUT },
        Command::Probe { slot: 1, epoch: 1, endpoint: to(2), wait: true },
    ] {
        assert_eq!(answer(command), expected);
    }
}

#[test]
fn an_active_request_cannot_be_started() {
    let mut cluster = Cluster::pair();
    cluster.init_recv(0, 0, 1, 8);
    let epoch = cluster.start(0, 0) + 1;
    assert_eq!(cluster.command(0, Command::Start { slot: 0, epoch }), Err(Violation::WrongState { slot: 0 }));
}

#[test]
fn a_request_that_is_being_freed_cannot_be_started_or_freed() {
    for is_start in [true, false] {
        let mut cluster = Cluster::pair();
        cluster.channel(1000);
        cluster.start(1, 0);
        cluster.settle();
        let epoch = cluster.free(1, 0) + 1;
        let command = if is_start { Command::Start { slot: 0, epoch } } else { Command::Free { slot: 0, epoch } };
        assert_eq!(cluster.command(1, command), Err(Violation::WrongState { slot: 0 }));
    }
}

#[test]
fn a_one_shot_operation_cannot_be_started_or_freed() {
    let recv = Command::Recv { slot: 0, epoch: 1, endpoint: to(1), layout: LAYOUT };
    let probe = Command::Probe { slot: 0, epoch: 1, endpoint: to(1), wait: true };
    for first in [recv, probe] {
        for second in [Command::Start { slot: 0, epoch: 2 }, Command::Free { slot: 0, epoch: 2 }] {
            let mut cluster = Cluster::pair();
            cluster.command(0, first).unwrap();
            assert_eq!(cluster.command(0, second), Err(Violation::WrongState { slot: 0 }));
        }
    }
}

#[test]
fn requests_that_nobody_meets_are_not_remembered_without_limit() {
    use ropeway_proto::limits::SLOTS_PER_RANK;
    for is_send in [true, false] {
        let mut cluster = Cluster::pair();
        let (slot, endpoint, layout) = (0, to(1), LAYOUT);
        let mut epochs = 1..;
        let mut next = || epochs.next().unwrap();
        let refused_after = (0..).find(|_| {
            let epoch = next();
            let init = match is_send {
                true => Command::InitSend { slot, epoch, endpoint, layout },
                false => Command::InitRecv { slot, epoch, endpoint, layout },
            };
            let answer = cluster.command(0, init);
            if answer.is_ok() {
                cluster.command(0, Command::Free { slot, epoch: next() }).unwrap();
            }
            answer == Err(Violation::TooManyRequests)
        });
        assert_eq!(refused_after, Some(2 * SLOTS_PER_RANK));
    }
}

#[test]
fn a_registration_that_is_refused_leaves_the_slot_as_it_was() {
    use ropeway_engine::RegistrationError;
    use ropeway_proto::limits::SLOTS_PER_RANK;
    let mut cluster = Cluster::pair();
    for number in 0..SLOTS_PER_RANK {
        let (slot, layout) = (1, LAYOUT);
        let endpoint = Cluster::endpoint(1, number as i32);
        for (epoch, init) in [(4 * number, true), (4 * number + 2, false)] {
            let init = match init {
                true => Command::InitSend { slot, epoch: epoch + 1, endpoint, layout },
                false => Command::InitRecv { slot, epoch: epoch + 1, endpoint, layout },
            };
            cluster.command(0, init).unwrap();
            cluster.command(0, Command::Free { slot, epoch: epoch + 2 }).unwrap();
        }
    }
    let mut register = || cluster.engines[0].register((0, 0), 1, CommId::WORLD, barrier());
    let refused = Err(RegistrationError::Violation(Violation::TooManyRequests));
    assert_eq!([register(), register()], [refused.clone(), refused]);
    // The other ends of both come.
    cluster.init_recv(1, 0, 0, 8);
    cluster.settle();
    assert_eq!(cluster.engines[0].register((0, 0), 1, CommId::WORLD, barrier()), Ok(()));
}

/// Of both ranks, as the first one registers it.
fn barrier() -> CollectiveMember {
    let shape = CollectiveShape {
        kind: CollectiveKind::Barrier,
        members: vec![0, 1],
        root: 0,
        combination: None,
        element_bytes: 1,
        counts: Vec::new(),
        is_reproducible: false,
        algorithm: None,
    };
    CollectiveMember { shape: shape.into(), number: 0, rank: 0, input: 0, output: 0 }
}
