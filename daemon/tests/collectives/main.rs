//! Collectives on daemons: what they compute, by whatever algorithm, and who is needed for it.

mod algorithms;
#[path = "../common/mod.rs"]
mod common;
mod communicators;
mod costs;
mod drifting;
mod in_place;
mod many_ranks;
mod one_shot;
mod operators;
mod progress;
mod registered;
mod rooted;
mod slots_again;
mod topologies;
mod user_operators;
