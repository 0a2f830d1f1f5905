//! Runs the programs on several ranks.

mod cg;
mod compositing;
mod fft;
mod job;
mod point_to_point;
mod radix_sort;
mod variant;
