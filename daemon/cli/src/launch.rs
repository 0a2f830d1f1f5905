//! Starts the ranks of a job and sees to it that nothing of them is left.
//!
//! ```text
//!   tool ── Events: signals, lines of output ──► Running::next      one thread decides everything
//!    │
//!    ├── Daemons    embedded, one a node, or the system's
//!    ├── Job        created on each of them; ends when its connections close
//!    └── Ranks      a process and a process group each, with an inherited connection to its daemon
//! ```
//!
//! A job ends when all ranks have, or when the first of them fails, time is up, or the user interrupts: then all groups get
//! SIGTERM (stopped until all have it), and half a second later SIGKILL; launchers of other libraries get it alone, and more time.
//! What ranks have left in groups of their own is killed then too.
//! Ranks are started by the main thread, because they are bound to die with the thread that started them.

mod cores;
mod daemons;
mod error;
mod events;
mod input;
mod job;
mod logs;
mod network;
mod open_files;
mod outcome;
mod output;
mod program;
mod ranks;
mod running;

pub(crate) use daemons::{Daemons, Patience, named_socket, new_key, system_socket};
pub(crate) use error::LaunchError;
pub(crate) use events::Events;
pub(crate) use job::Job;
pub(crate) use logs::Logs;
pub(crate) use network::{LINK, Network, Rate};
pub(crate) use open_files::raise as raise_open_files;
pub(crate) use outcome::Outcome;
pub(crate) use program::Program;
pub(crate) use running::{Ending, Input, Launch, Next, Output, Running};
