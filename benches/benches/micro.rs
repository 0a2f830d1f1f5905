//! Times the inner parts with criterion: `cargo bench -p ropeway-bench`, in less than a minute.
//!
//! For questions within a part, as what a change of the ring does to the ring. What users feel is measured by `ropeway bench`.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use ropeway::control::ControlSocket;
use ropeway::{RecvRequest, SendRequest, Session};
use ropeway_bench::micro::{Arrays, CommandRing, EnginePair, generate, shapes};
use ropeway_daemon::{Config, Daemon};
use ropeway_proto::control::JobSpec;
use ropeway_proto::operator::{Operator, Scalar};
use ropeway_proto::{Command, JobId};

fn ring(criterion: &mut Criterion) {
    let mut ring = CommandRing::create().expect("memory for a ring");
    let entry = Command::Start { slot: 0, epoch: 1 }.encode();
    criterion.bench_function("ring/push and pop", |bencher| bencher.iter(|| ring.pass(black_box(&entry))));
}

/// A direct channel with both of its ends here, so that no wait has to wait: a message is two starts and two waits.
fn start_and_wait(criterion: &mut Criterion) {
    let daemon = Daemon::start(Config::default()).expect("a daemon of this process");
    let connect = || daemon.connect().expect("a connection to it");
    let mut launcher = ControlSocket::new(connect());
    launcher.create_job(JobSpec::single_node(JOB, 1)).expect("a job of one rank");
    let session = Session::attach(connect(), JOB, 0).expect("its rank");
    let world = session.world();

    let mut group = criterion.benchmark_group("start and wait");
    for bytes in MESSAGE_BYTES {
        let buffer = || world.alloc::<u8>(bytes).expect("a buffer");
        let mut recv = world.recv_init(buffer(), 0, 0).expect("a receive");
        let mut send = world.send_init(buffer(), 0, 0).expect("a send");
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| message(black_box(&mut send), black_box(&mut recv)).expect("a message"));
        });
    }
}

fn message(send: &mut SendRequest<u8>, recv: &mut RecvRequest<u8>) -> Result<(), ropeway::Error> {
    let receiving = recv.start()?;
    send.start()?.wait()?;
    receiving.wait()?;
    Ok(())
}

/// What the engines of both nodes do for one message.
fn engine(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("engine");
    for (protocol, bytes) in [("eager", 8), ("rendezvous", 64 << 10)] {
        let mut engines = EnginePair::new(bytes);
        group.bench_function(protocol, |bencher| bencher.iter(|| engines.message()));
    }
}

fn schedule(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("schedule");
    for shape in PARTICIPANTS.into_iter().flat_map(shapes) {
        let id = BenchmarkId::new(shape.collective.name(), shape.size);
        group.bench_with_input(id, &shape, |bencher, shape| bencher.iter(|| generate(shape).expect("a schedule")));
    }
}

/// In bytes of one of the two arrays a second, beside a copy of as many.
fn combine(criterion: &mut Criterion) {
    let arrays = Arrays::create(COMBINED_BYTES).expect("memory for two arrays");
    let mut group = criterion.benchmark_group("combine 64 KiB");
    group.throughput(Throughput::Bytes(COMBINED_BYTES));
    group.bench_function("copy", |bencher| bencher.iter(|| arrays.combine(None, Scalar::F64).expect("it fits")));
    for (operator, scalar) in COMBINED {
        let id = BenchmarkId::new(operator.to_string(), format!("{scalar:?}"));
        group.bench_function(id, |bencher| {
            bencher.iter(|| arrays.combine(Some(operator), scalar).expect("it fits"));
        });
    }
}

const COMBINED_BYTES: u64 = 64 << 10;
const COMBINED: [(Operator, Scalar); 6] = [
    (Operator::Sum, Scalar::F64),
    (Operator::Sum, Scalar::F32),
    (Operator::Sum, Scalar::I32),
    (Operator::Prod, Scalar::F64),
    (Operator::Max, Scalar::F64),
    (Operator::BitXor, Scalar::U64),
];
const JOB: JobId = JobId(1);
const MESSAGE_BYTES: [usize; 2] = [8, 4 << 10];
const PARTICIPANTS: [u32; 3] = [8, 64, 1024];

/// Short, because these parts take microseconds at most and vary little; no plots, so that nothing but figures is left behind.
fn short() -> Criterion {
    let criterion = Criterion::default().without_plots();
    criterion.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = micro;
    config = short();
    targets = ring, start_and_wait, engine, schedule, combine
}
criterion_main!(micro);
