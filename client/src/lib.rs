//! Message passing with early binding: requests are registered once, and then moved by a daemon.
//!
//! A program of several ranks exchanges messages through its node's daemon, `ropewayd`. It registers what it will send and
//! receive (*init*), and from then on only says *start* and *wait*; the daemon moves the bytes between the ranks' buffers
//! by itself, also while every rank computes.
//!
//! Every rank sends a row to its right neighbour and receives one from its left, a hundred times:
//!
//! ```no_run
//! use ropeway::Request;
//!
//! fn main() -> Result<(), ropeway::Error> {
//!     let session = ropeway::init()?;
//!     let world = session.world();
//!     let (rank, size) = (world.rank(), world.size());
//!     let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
//!
//!     let mut send = world.send_init(world.alloc::<f64>(1024)?, right, 0)?;
//!     let mut recv = world.recv_init(world.alloc::<f64>(1024)?, left, 0)?;
//!     for step in 0..100 {
//!         send.buffer_mut().fill(f64::from(step));
//!         let receiving = recv.start()?;
//!         let sending = send.start()?;
//!         // … compute; the messages travel meanwhile …
//!         receiving.wait()?;
//!         sending.wait()?;
//!         assert_eq!(recv.buffer()[0], f64::from(step));
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Run it with `ropeway run -n 4 -- PROGRAM`. Without a launcher a program is a job of one rank.
//!
//! * **Buffers** ([`Communicator::alloc`]) are shared with the daemon and hold [`Plain`] data. A request owns its buffer,
//!   and while it is active nobody can touch it: the compiler sees to that, and where it can't, a check at run time.
//! * **Persistent requests** ([`Communicator::send_init`], [`recv_init`](Communicator::recv_init)) are matched once. [`start_all`]
//!   starts many with one publication; an [`ActiveSet`] waits for all, any or some of them.
//! * **One-shot messages** ([`Communicator::send`], [`recv`](Communicator::recv), [`isend`](Communicator::isend),
//!   [`irecv`](Communicator::irecv), [`probe`](Communicator::probe)) are matched one by one, also with [`ANY_SOURCE`] and
//!   [`ANY_TAG`].
//! * **Collectives** are registered too ([`Communicator::allreduce_init`] and others); or called just so, blocking
//!   ([`allreduce`](Communicator::allreduce)) or not ([`iallreduce`](Communicator::iallreduce)). Reductions combine by an [`Operator`],
//!   a [`Reproducible`] one, or a function of the program, a [`UserOperator`].
//! * **Communicators** keep messages apart: [`dup`](Communicator::dup), [`split`](Communicator::split),
//!   [`create`](Communicator::create) of a [`Group`].
//! * **Topologies** are communicators whose ranks know their neighbours, as a [`Cartesian`] grid or a graph ([`Neighborhood`]), and
//!   exchange data with all of them at once ([`NeighborCollective`], [`Neighborhood::neighbor_alltoall`]).
//! * **Waiting** costs as much CPU time as you allow: see [`WaitMode`].
//! * **Threads** may share everything; no lock is held while waiting.
//! * **Failures** are errors: a dead rank, a lost node, a daemon gone. No call blocks for ever after one.
//!
#![cfg_attr(any(doc, doctest), doc = "The [guide] has a chapter for each family of operations, with programs to run.")]
#![forbid(unsafe_code)]

mod attachment;
mod attendance;
mod bell_thread;
mod buffer;
mod collective;
mod combiner;
mod commands;
mod communicator;
mod computing;
pub mod control;
mod core_mates;
mod direct;
mod environment;
mod error;
mod exchange;
mod future;
mod group;
// Only documentation: chapters as Markdown, and the programs of `examples` that belong to them.
#[cfg(any(doc, doctest))]
pub mod guide;
mod log;
mod memory;
mod neighbor_call;
mod neighbor_collective;
mod notifier;
mod one_shot;
mod operation;
mod patience;
mod pending;
mod place;
mod plain;
mod post;
mod presence;
mod private_daemon;
mod registered;
mod request;
mod running;
mod sequence;
mod session;
mod set;
mod several;
mod slots;
mod starts;
mod status;
mod strided;
mod telling;
mod terms;
mod topology;
mod wait;
mod watch;
mod wires;

pub use buffer::Buffer;
pub use collective::{Collective, Combine, Located, Numeric, PendingCollective, Reducible, Reproducible, UserOperator};
pub use communicator::Communicator;
pub use error::Error;
pub use exchange::ActiveExchange;
pub use future::{ActiveFuture, Awaiting, CollectiveFuture, ExchangeFuture, NeighborCollectiveFuture, PendingFuture};
pub use group::Group;
pub use neighbor_call::PendingNeighborCollective;
pub use neighbor_collective::NeighborCollective;
pub use pending::Pending;
pub use plain::Plain;
pub use presence::Favor;
pub use registered::{Incoming, Outgoing, RecvRequest, Registered, SendRequest};
pub use request::{Active, Request};
pub use ropeway_proto::JobId;
pub use ropeway_proto::agreement::Difference;
pub use ropeway_proto::control::MemoryLimit;
pub use ropeway_proto::limits::TAG_MAX;
pub use ropeway_proto::operator::Operator;
pub use running::{Running, wait_all, wait_any};
pub use session::{Session, init};
pub use set::{ActiveSet, start_all};
pub use status::{ANY_SOURCE, ANY_TAG, Source, Status, TagMatch};
pub use strided::Strided;
pub use topology::{Cartesian, Neighborhood, dims_create};
pub use wait::{UnknownWaitMode, WaitMode};
pub use zerocopy;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_may_share_and_move_everything() {
        fn is_shared<T: Send + Sync>() {}
        is_shared::<Session>();
        is_shared::<Communicator>();
        is_shared::<Buffer<f64>>();
        is_shared::<SendRequest<f64>>();
        is_shared::<RecvRequest<f64>>();
        is_shared::<Active<'_>>();
        is_shared::<ActiveSet<'_, SendRequest<f64>>>();
        is_shared::<Pending<f64>>();
        is_shared::<Collective<f64>>();
        is_shared::<PendingCollective<'_, f64>>();
        is_shared::<Located<f64>>();
        is_shared::<UserOperator<f64>>();
        is_shared::<Group>();
        is_shared::<Cartesian>();
        is_shared::<NeighborCollective<f64>>();
        is_shared::<ActiveExchange<'_>>();
        is_shared::<PendingNeighborCollective<'_, f64>>();
        is_shared::<ActiveFuture<'_>>();
        is_shared::<ExchangeFuture<'_>>();
        is_shared::<PendingFuture<f64>>();
        is_shared::<CollectiveFuture<'_, f64>>();
        is_shared::<NeighborCollectiveFuture<'_, f64>>();
        is_shared::<Error>();
    }
}

/// The README's example has to build.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
