//! Collectives as data: (operation, size, rank, topology) → schedule, a DAG of steps over buffer slices.
//!
//! The crate exists from the start for the rule it stands for: schedules are pure. No I/O, no clock, no threads, no
//! `unsafe`; the lints hold it to that. Point-to-point messages need none, so it holds nothing yet.
#![forbid(unsafe_code)]
