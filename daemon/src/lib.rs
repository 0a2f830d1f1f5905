//! The per-node progress daemon: what drives the engine with sockets, a clock and threads.
//!
//! | file | what |
//! |---|---|
//! | [`config`] | every setting, once |
//! | [`calibration`] | sizes chosen by what copying costs here |
//! | [`embed`] | a daemon on a thread of its own, inside another program |
//! | `server` | the duty cycle: commands → devices → completions → idle |
//! | `home` | on which cores it is, if nodes share a machine |
//! | `idle` | what a cycle without work does: yield, then sleep |
//! | `priority` | when it goes before the ranks |
//! | `conductor` | control sockets: jobs are created, clients attach, detach, die |
//! | `door` | where connections come in |
//! | `client` | one control connection |
//! | `job` | an engine, its segment, its ranks' rings |
//! | `absence` | when it was kept from its work |
//! | `log` | what the daemon does and when, if a launcher wants to know |
//! | `link` | connections to other daemons: dialling, hello, routes |
//! | `channels` | where direct channels lie, and the daemon's part in them |
//! | `meetings` | where members of collectives meet, and the daemon's part in them |
//! | [`schedules`] | what nodes do for collectives between them |
//! | `shelves` | receives that ranks keep for messages of their node, once the daemon has a message for them |
//! | `wires` | connections that ranks work by themselves, and the daemon's part in them |
//! | [`device`] | the contract of a device, and the three that keep it |
#![forbid(unsafe_code)]

mod absence;
mod burial;
pub mod calibration;
mod channels;
mod client;
mod collectives;
mod conductor;
pub mod config;
pub mod device;
mod door;
pub mod embed;
mod habit;
mod home;
mod idle;
mod job;
mod link;
mod log;
mod meetings;
mod priority;
pub mod schedules;
mod server;
mod service;
mod shelves;
mod sockets;
mod wires;

pub use config::Config;
pub use embed::{Daemon, DaemonError};
pub use service::run;
