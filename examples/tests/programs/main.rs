//! Runs the programs on several ranks.

mod cg;
#[path = "../../../daemon/tests/common/mod.rs"]
mod common;
mod compositing;
mod fft;
mod guide;
mod job;
mod point_to_point;
mod radix_sort;
mod variant;
