//! All shared-memory `unsafe` of Ropeway: segments, rings, doorbells, request slots, arenas, counters, logs, vectored I/O.
//!
//! What the others get are safe types whose rules hold whatever the process at the other end does. The protocols, the races
//! they avoid, and why they do: README.md of this crate.

#![expect(clippy::new_without_default, reason = "nobody wants a ring, a lane or a cell by default")]

mod prefetch;
mod primitive;

pub mod collect;
pub mod doorbell;
pub mod eager;
mod joined;
pub mod pairs;
pub mod post;
pub mod relay;
pub mod request;
pub mod ring;
pub mod round;
pub mod shelf;
pub mod transfer;
pub mod turn;

/// A fingerprint of the sources that segments are made by: where things lie in them, what each word means, how work is shared out. Only who
/// has the same can share a segment.
pub const BUILD: u64 = match u64::from_str_radix(env!("ROPEWAY_BUILD"), 10) {
    Ok(build) => build,
    Err(_) => panic!("the build script prints a number"),
};

pub use doorbell::{Doorbell, DoorbellCalls};
pub use joined::Joined;
pub use request::RequestSlot;
pub use ring::RingViolation;

// What a model can't have: it knows neither mappings nor system calls.
cfg_if::cfg_if! {
    if #[cfg(not(loom))] {
        mod arena;
        mod cache;
        mod channel;
        mod chunk;
        mod collect_area;
        mod combine;
        mod control;
        mod counters;
        mod crowd;
        pub mod descriptor;
        mod event_log;
        pub mod eventfd;
        mod exchange;
        mod free_ranges;
        mod job;
        mod known;
        mod listener;
        mod mapped;
        mod meeting;
        mod meeting_plan;
        mod offers;
        mod pair_area;
        mod post_area;
        mod puts;
        mod relay_area;
        mod segment;
        mod share;
        mod stage;
        mod unpaced;
        mod user_function;
        mod vectored;
        mod whereabouts;
        mod wire;
        mod wired;

        pub use self::{
            arena::{Arena, ArenaFull, ArenaSlot},
            channel::{Channel, EndOfChannel, Footprint, OpenChannel, Thresholds},
            combine::combine,
            control::{CommandRing, Consumer, ControlSegment, Producer, SinceStart},
            counters::{Counter, Counters},
            event_log::EventLog,
            free_ranges::FreeRanges,
            job::{JobGeometry, JobSegment, OutOfBounds, PAGE_BYTES},
            known::KnownChannels,
            meeting::{Arrival, Helped, Meeting},
            meeting_plan::MeetingPlan,
            offers::Offers,
            post_area::PostLane,
            prefetch::{Line, prepare_to_write, prepare_to_write_whole},
            puts::Puts,
            unpaced::leave_unpaced,
            segment::{Segment, SegmentError},
            share::own_buffers,
            user_function::UserFunction,
            vectored::{Gather, Scatter, set_receive_low_water},
            wire::{Received, Sent, Traffic, Wire, WireChannels},
            wired::{WireViolation, WiredEnd},
        };
    }
}
