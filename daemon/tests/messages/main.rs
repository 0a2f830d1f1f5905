//! Messages between ranks on daemons: what arrives, by which way, and whom it delays.

mod client_api;
#[path = "../common/mod.rs"]
mod common;
mod connections;
mod crossing;
mod direct;
mod lanes;
mod post;
mod post_order;
mod post_progress;
mod progress;
mod shortage;
mod wires;
