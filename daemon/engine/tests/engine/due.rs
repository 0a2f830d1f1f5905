//! What a node is to expect from another, so that its link is prepared: large messages.

use ropeway_proto::{NodeId, Status};

use crate::cluster::{CHUNK_BYTES, Cluster, TAG};

const LARGE: u64 = 1000;

/// Whether node 1 says that a large message is due from node 0.
fn is_due(cluster: &Cluster) -> bool {
    cluster.engines[1].is_large_due(NodeId(0))
}

#[test]
fn a_large_message_is_due_from_its_request_to_its_last_piece() {
    for is_one_shot in [false, true] {
        let mut cluster = Cluster::pair();
        if is_one_shot {
            cluster.recv(1, 0, (Some(0), Some(TAG)), LARGE);
        } else {
            cluster.channel(LARGE);
            cluster.start(1, 0);
            cluster.settle();
            assert!(is_due(&cluster));
            cluster.start(0, 0);
        }
        if is_one_shot {
            assert!(!is_due(&cluster));
            cluster.send(0, 0, 1, TAG, LARGE);
            while cluster.transmit(0, 1).is_some() {}
            while cluster.deliver(0, 1) {}
            assert!(is_due(&cluster));
            while cluster.transmit(1, 0).is_some() {}
            while cluster.deliver(1, 0) {}
        }
        while cluster.transmit(0, 1).is_some() {}
        for _ in 1..LARGE.div_ceil(CHUNK_BYTES) {
            assert!(cluster.deliver(0, 1) && is_due(&cluster));
        }
        assert!(cluster.deliver_header(0, 1) && !is_due(&cluster));
        cluster.deliver_payload(0, 1);
        assert_eq!(cluster.status(1, 0), Some(Status::Success));
    }
}

#[test]
fn a_large_message_that_will_never_come_is_not_due() {
    let ends: [fn(&mut Cluster); 6] = [
        |cluster| {
            cluster.free(0, 0);
        },
        |cluster| cluster.end_client(0, false),
        |cluster| cluster.end_client(0, true),
        |cluster| cluster.end_client(1, true),
        |cluster| cluster.cancel(1, 0),
        |cluster| cluster.cut(0, 1),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let mut cluster = Cluster::pair();
        cluster.channel(LARGE);
        cluster.start(1, 0);
        cluster.settle();
        assert!(is_due(&cluster));
        end(&mut cluster);
        cluster.settle();
        assert!(!is_due(&cluster), "end {number}");
    }
}
