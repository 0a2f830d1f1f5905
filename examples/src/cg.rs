//! Conjugate gradients for a sparse, symmetric, positive definite system, its rows dealt in blocks to the ranks.
//!
//! ```text
//!   q = A·p            needs all of p: an allgather.            Meanwhile: the product with this rank's own part of p
//!   α = r·r / p·q      needs all of p·q: an allreduce.          There is nothing to do meanwhile
//!   r = r − α·q
//!   β = r·r / r'·r'    needs all of the new r·r: an allreduce.  Meanwhile: x = x + α·p
//!   p = r + β·p
//! ```
//!
//! What can be done meanwhile is handed to the [`Exchange`], which does it beside the communication or after it: see
//! [`Variant`](crate::Variant). The arithmetic is the same, in the same order, so both variants give the same x to the
//! bit. Sums depend on the number of ranks in their last bits.
//!
//! M. R. Hestenes and E. Stiefel, *Methods of Conjugate Gradients for Solving Linear Systems*, 1952; as a test of
//! overlap and early binding R. Dimitrov, *Overlapping of Communication and Computation and Early Binding*, 2001.

mod dense;
mod exchange;
mod matrix;
mod solver;

pub use dense::DenseRows;
pub use exchange::{AmongRanks, Exchange};
pub use matrix::{Matrix, NotSymmetric, Rows, SparseRows};
pub use solver::{Outcome, Settings, Solution, Times, relative_difference, solve, solve_alone, solve_serially};
