//! Jacobi's method for a dense, diagonally dominant system, its rows dealt in blocks to the ranks.
//!
//! ```text
//!          A          x     b
//!   rank 0 ████████   █     █     every iteration a rank computes its own part of x from its rows and all of x;
//!   rank 1 ████████ · █  =  █     then everybody needs everybody's part, and the largest change of all, to know
//!   rank 2 ████████   █     █     whether to go on
//! ```
//!
//! [`Exchange`] is that communication, and what moves the messages is written twice: [`OneShot`] matches every message of
//! every iteration anew, [`Persistent`] binds all of them once. The arithmetic is the same for any number of ranks, in the same order, so that all
//! solutions agree bit by bit.

mod exchange;
mod solver;
mod system;

pub use exchange::{AmongRanks, Exchange, OneShot, OneShotSwap, Persistent, PersistentSwap, Swap};
pub use solver::{Extremes, Settings, Solution, exchange_only, relative_difference, solve, solve_serially};
pub use system::{NotDominant, System};
