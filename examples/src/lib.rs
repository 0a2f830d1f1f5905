//! Whole programs on Ropeway.
//!
//! | program | what it shows |
//! |---|---|
//! | `ping_pong` | the smallest useful program: two ranks, one message there and back |
//! | `ring` | persistent requests, started again and again |
//! | `halo` | a strided layout: columns of a grid that is stored by rows |
//! | `jacobi` | an iterative solver whose communication is written twice, one-shot and persistent |
//!
//! Start them with `ropeway run -n 4 -- target/release/ring`. The solver is a library too, because `ropeway demo` runs it.
#![forbid(unsafe_code)]

pub mod jacobi;
pub mod matrix_market;
mod mode;

pub use mode::{Mode, UnknownMode};
