use ropeway_proto::batch::BATCH_COMMANDS;
use ropeway_proto::hello::ClusterKey;
use ropeway_proto::limits::DOORBELLS;
use ropeway_proto::{Batch, Command};

use super::*;

#[test]
fn the_end_of_a_job_rings_each_doorbell_of_those_who_have_come_once() {
    let config = Config::on_loopback(ClusterKey([9; 32]));
    let mut job = Job::new(JobSpec::single_node(JobId(1), 100), 0, &config, Log::default()).unwrap();
    for local_rank in [3, 5] {
        job.attach(local_rank, 0, Arc::new(ControlSegment::create().unwrap())).unwrap();
    }
    assert_eq!(job.end().len(), 2);
    assert!(!job.arm(), "somebody is to be woken");
    job.deliver(&Counters::create().unwrap()).unwrap();
    assert_eq!(job.segment.doorbell_calls().wake_ups, 2 * DOORBELLS as u32);
    assert!(job.arm());
}

/// So that who says much at once does not keep the others waiting for longer.
#[test]
fn in_a_turn_at_a_ring_a_batch_counts_as_what_is_in_it() {
    let config = Config::on_loopback(ClusterKey([9; 32]));
    let mut job = Job::new(JobSpec::single_node(JobId(1), 1), 0, &config, Log::default()).unwrap();
    let control = Arc::new(ControlSegment::create().unwrap());
    job.attach(0, 0, Arc::clone(&control)).unwrap();
    let (counters, mut offenders) = (Counters::create().unwrap(), Vec::new());
    let command = Command::Tend { node: 0 }.encode();
    let mut batch = Batch::default();
    while batch.add(&command) {}
    let mut ring = control.producer();
    let mut entries_of_a_turn = |entry, count| {
        assert_eq!(ring.push(&vec![entry; count]), count);
        let mut poll = || job.poll_commands(&counters, &mut offenders);
        let first = poll();
        assert_eq!(first + poll(), count, "and the others in the next one");
        first
    };
    assert_eq!(entries_of_a_turn(command, 100), 64);
    assert_eq!(entries_of_a_turn(batch.encode(), 5), 64usize.div_ceil(BATCH_COMMANDS));
    assert!(offenders.is_empty());
}
