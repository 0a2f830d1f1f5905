//! Costs by which algorithms are chosen: those of a job's first node, whatever others are configured to.

use ropeway::Operator;
use ropeway::control::ControlSocket;
use ropeway_daemon::Config;
use ropeway_daemon::config::cost_table;
use ropeway_proto::control::JobSpec;
use ropeway_proto::costs::Costs;
use ropeway_proto::{JobId, NodeId};
use ropeway_schedule::{Collective, Order, Shape, select};

use crate::common::{Cluster, config, soon};

const NODES: u32 = 4;
const COUNT: usize = 10_000;

/// Messages that are all start, or all bytes.
fn extremes() -> [Costs; 2] {
    [[1e6, 1e6, 0.001, 0.001, 0.001], [1.0, 1.0, 100.0, 1.0, 1.0]].map(|ns| Costs::from_ns(ns).unwrap())
}

fn choices(collective: &Collective) -> Vec<String> {
    let shape = Shape::new(NODES, collective.clone());
    extremes().map(|costs| select(&shape, 8, &cost_table(costs)).algorithm.to_string()).into()
}

#[test]
fn all_nodes_choose_by_the_costs_of_the_first() {
    let (root, count) = (0, COUNT as u64);
    for collective in [Collective::Bcast { root, count }, Collective::Allreduce { count, order: Order::Any }] {
        let choices = choices(&collective);
        assert_ne!(choices[0], choices[1], "alone they would choose alike");
    }
    let sent = [0, 1].map(|first| {
        let configs = (0..NODES as usize).map(|node| Config { costs: extremes()[(node + first) % 2], ..config() });
        let cluster = Cluster::start_with(NODES, configs.collect());
        assert_eq!(cluster.spec.costs, Some(extremes()[first]));
        let act = &|rank: u32| {
            let session = cluster.attach(rank);
            let mut data = vec![u64::from(rank + 1); COUNT];
            session.world().allreduce_in_place(&mut data, Operator::Sum).unwrap();
            assert!(data.iter().all(|&sum| sum == 10));
            data.fill(rank.into());
            session.world().bcast(&mut data, 3).unwrap();
            assert!(data.iter().all(|&root| root == 3));
        };
        soon(|| std::thread::scope(|scope| (0..NODES).for_each(|rank| drop(scope.spawn(move || act(rank))))));
        (0..NODES as usize).map(|node| cluster.counter(node, "bytes_sent")).sum::<u64>()
    });
    // So it is by different algorithms: one sends each byte several times as often as the other.
    assert!(sent[0].abs_diff(sent[1]) > COUNT as u64 * 8, "{sent:?}");
}

#[test]
fn a_job_without_the_first_nodes_costs_or_with_impossible_ones_is_refused() {
    let cluster = Cluster::start(2, 2);
    let mut launcher = ControlSocket::new(cluster.daemons[1].connect().unwrap());
    let mut refused = |costs, why: &str| {
        let spec = JobSpec { job: JobId(5), node: NodeId(1), costs, ..cluster.spec.clone() };
        let error = launcher.create_job(spec).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    refused(None, "create it on its first node first");
    refused(Some(Costs { latency: 0, ..extremes()[0] }), "not valid");
    refused(Some(Costs { byte: u64::MAX, ..extremes()[0] }), "not valid");
}
