//! Sorts keys that are dealt to the ranks by their digits, the least significant first.
//!
//! Each digit is a pass over all keys:
//!
//! ```text
//!   1 count the keys of each digit          ─┐ an allgather of the counts
//!   2 where each digit begins, here          │ the overlapped variant does these two while it runs,
//!   3 put the keys into that order           │ the blocking one afterwards
//!   4 wait for everybody's counts           ─┘
//!   5 where each digit of each rank belongs, among all keys
//!   6 send the keys there
//! ```
//!
//! The keys a rank has after step 3 are in the order in which they will be among all keys, so what another rank gets of
//! them is one piece, whose size both know after step 5. That is step 6: one message at most from each rank to each.
//!
//! G. Inozemtsev, *Overlapping Computation and Communication through Offloading in MPI over InfiniBand*, 2014, chapter
//! 4.

mod digits;
mod pass;
mod route;

pub use digits::random_keys;
pub use pass::{Sorter, Times};
