//! The progress engine: everything that is decided about messages, and nothing that is done about them.
//!
//! *Sans-IO*: the engine never reads a clock, opens a socket, spawns a thread, blocks, or touches a byte of payload. It is told
//! what happened (`handle_*`) and says what to do (`poll_*`); whoever drives it, the daemon or the simulator, carries that out.
//! One [`Engine`] serves one job on one node. A node's own ranks reach each other over the *self link*: the engine knows no
//! local path, only links, and one of them happens to lead back to itself.
//!
//! | file | what |
//! |---|---|
//! | [`engine`] | inputs, outputs, who calls what |
//! | [`error`] | what clients and peers must not do |
//! | `request`, `life` | a request's states; the table of requests; what begins and ends one |
//! | `slots` | which request is on which slot, and its epochs |
//! | `bind` | sends and receives are matched once, at init |
//! | `direct` | channels within the node, which their ends use by themselves |
//! | `send`, `recv` | the two ends of a message: eager under credit, rendezvous once armed |
//! | `matching` | one-shot messages: binned queues, wildcards |
//! | `outgoing` | what waits for a link, in turn |
//! | [`collective`], `executor` | collectives between nodes: their channels; their rounds, step by step |
//! | `agreement` | whether their nodes mean the same |
//! | `failure` | ranks and links that are gone |
#![forbid(unsafe_code)]

mod agreement;
mod bind;
pub mod collective;
pub mod direct;
pub mod engine;
pub mod error;
mod executor;
mod failure;
mod life;
mod matching;
mod meeting;
mod outgoing;
mod recv;
mod request;
mod send;
mod slots;
mod stash;

pub use collective::{CollectiveId, CollectiveStep, CollectiveWork, NodeCollective};
pub use direct::{DirectId, LocalWork, Wiring};
pub use engine::{
    Arrival, CompletionOf, Config, Engine, Leftovers, Place, Placement, RankState, StashId, StashWork, Statistics,
    Token, Transmit,
};
pub use error::{ProtocolError, Violation};
pub use meeting::{MeetingId, RegistrationError};
