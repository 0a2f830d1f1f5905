//! Runs the programs on several ranks.

mod cg;
mod compositing;
mod fft;
mod guide;
mod job;
mod point_to_point;
mod radix_sort;
mod variant;
