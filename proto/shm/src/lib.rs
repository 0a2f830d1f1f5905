//! All shared-memory `unsafe` of Ropeway: segments, rings, doorbells, request slots, arenas, counters, logs, vectored I/O.
//!
//! What the others get are safe types whose rules hold whatever the process at the other end does. The protocols, the races
//! they avoid, and why they do: README.md of this crate.

mod prefetch;
mod primitive;

pub mod collect;
pub mod doorbell;
pub mod eager;
pub mod pairs;
pub mod post;
pub mod relay;
pub mod request;
pub mod ring;
pub mod round;
pub mod shelf;
pub mod transfer;
pub mod turn;

#[cfg(not(loom))]
mod arena;
#[cfg(not(loom))]
mod channel;
#[cfg(not(loom))]
mod chunk;
#[cfg(not(loom))]
mod collect_area;
#[cfg(not(loom))]
mod combine;
#[cfg(not(loom))]
mod control;
#[cfg(not(loom))]
mod counters;
#[cfg(not(loom))]
mod crowd;
#[cfg(not(loom))]
pub mod descriptor;
#[cfg(not(loom))]
mod event_log;
#[cfg(not(loom))]
pub mod eventfd;
#[cfg(not(loom))]
mod exchange;
#[cfg(not(loom))]
mod free_ranges;
#[cfg(not(loom))]
mod job;
#[cfg(not(loom))]
mod known;
#[cfg(not(loom))]
mod mapped;
#[cfg(not(loom))]
mod meeting;
#[cfg(not(loom))]
mod meeting_plan;
#[cfg(not(loom))]
mod pair_area;
#[cfg(not(loom))]
mod post_area;
#[cfg(not(loom))]
mod relay_area;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod stage;
#[cfg(not(loom))]
mod user_function;
#[cfg(not(loom))]
mod vectored;
#[cfg(not(loom))]
mod whereabouts;
#[cfg(not(loom))]
mod wire;
#[cfg(not(loom))]
mod wired;

/// A fingerprint of the sources that segments are made by: where things lie in them, what each word means, how work is shared out. Only who
/// has the same can share a segment.
pub const BUILD: u64 = match u64::from_str_radix(env!("ROPEWAY_BUILD"), 10) {
    Ok(build) => build,
    Err(_) => panic!("the build script prints a number"),
};

pub use doorbell::{Doorbell, DoorbellCalls};
pub use request::RequestSlot;
pub use ring::RingViolation;

#[cfg(not(loom))]
pub use self::{
    arena::{Arena, ArenaFull, ArenaSlot},
    channel::{Channel, EndOfChannel, OpenChannel, Thresholds},
    combine::combine,
    control::{Consumer, ControlSegment, Producer, SinceStart},
    counters::{Counter, Counters},
    event_log::EventLog,
    free_ranges::FreeRanges,
    job::{JobGeometry, JobSegment, OutOfBounds, PAGE_BYTES},
    known::KnownChannels,
    meeting::{Arrival, Helped, Meeting},
    meeting_plan::MeetingPlan,
    post_area::PostLane,
    segment::{Segment, SegmentError},
    share::own_buffers,
    user_function::UserFunction,
    vectored::{Gather, Scatter, set_receive_low_water},
    wire::{Received, Sent, Traffic, Wire, WireChannels},
    wired::{WireViolation, WiredEnd},
};
