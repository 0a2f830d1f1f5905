//! Whole programs on Ropeway.
//!
//! | program | what it shows |
//! |---|---|
//! | `ping_pong` | the smallest useful program: two ranks, one message there and back |
//! | `ring` | persistent requests, started again and again |
//! | `halo` | a strided layout: columns of a grid that is stored by rows |
//! | `jacobi` | an iterative solver whose communication is written twice, one-shot and persistent |
//! | `cg` | conjugate gradients: an allgather and two allreduces an iteration, with something to compute beside them |
//! | `fft` | a parallel FFT whose all-to-alls are cut in segments that travel while others are computed |
//! | `radix_sort` | an allgather with work beside it, then messages whose sizes change each time |
//! | `compositing` | pictures laid over each other: a reduction whose operator is not commutative |
//! | `guide_messages`, … | a family of operations each, for the chapters of the guide (`ropeway::guide`) |
//!
//! Start them with `ropeway run -n 4 -- target/release/ring`. Where there is more than a page of a program, it is a
//! module here.
#![forbid(unsafe_code)]

mod blocks;
pub mod cg;
pub mod compositing;
pub mod fft;
pub mod jacobi;
pub mod matrix_market;
mod mode;
pub mod radix_sort;
mod random;
mod size;
mod table;
pub mod together;
mod variant;

pub use blocks::block;
pub use mode::{Mode, UnknownMode};
pub use size::{BadSize, Size};
pub use table::Table;
pub use variant::{Variant, timed};
