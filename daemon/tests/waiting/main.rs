//! How ranks on daemons wait for what they have started.

#[path = "../common/mod.rs"]
mod common;
mod event_loops;
mod many;
mod together;
