use ropeway_proto::hello::ClusterKey;
use ropeway_proto::limits::DOORBELLS;

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
