//! What the parties of Ropeway agree on: client and daemon, daemon and daemon.
//!
//! Pure data. This crate reads no clock, opens no socket, spawns nothing and contains no `unsafe`.
//!
//! | module | between | what |
//! |---|---|---|
//! | [`agreement`] | daemon ↔ daemon | whether members on different nodes have registered the same |
//! | [`batch`] | client → daemon | several commands in one entry |
//! | [`collective`] | client → daemon | what the members of a collective agree on |
//! | [`command`] | client → daemon | 64-byte entries of the command ring |
//! | [`completion`] | daemon → client | what a request slot says when an operation ends |
//! | [`control`] | client ↔ daemon | attach, create a job, reserve memory: the control socket |
//! | [`costs`] | between the daemons of a job | what messages between nodes cost, by which all choose alike |
//! | [`division`] | client, daemon | what of a collective happens within nodes, and what between them |
//! | [`event`] | client, daemon → launcher | what a process has done and when, for a trace or a recording |
//! | [`frame`] | daemon ↔ daemon | 64-byte headers in front of every payload |
//! | [`wire`] | node ↔ node | 32-byte headers of small messages that whoever waits moves |
//! | [`hello`] | daemon ↔ daemon | the first bytes of a link or wire: version range and key |
#![forbid(unsafe_code)]

pub mod agreement;
pub mod batch;
pub mod collective;
pub mod command;
pub mod completion;
pub mod control;
pub mod costs;
pub mod division;
pub mod event;
pub mod frame;
pub mod hello;
pub mod ids;
pub mod layout;
pub mod limits;
pub mod operator;
pub mod wire;

pub use batch::{BATCH_COMMANDS, Batch, Brief};
pub use command::{Command, Endpoint};
pub use completion::{Cause, Completion, Status};
pub use event::{Event, EventKind};
pub use frame::{Envelope, Frame};
pub use ids::{ChannelId, CommId, End, Epoch, JobId, NodeId, Rank, Slot, Tag};
pub use layout::Layout;
pub use operator::{ElementType, Operator, Scalar};
pub use wire::WireFrame;
