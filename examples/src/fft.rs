//! A one-dimensional Fourier transform of points that are dealt in blocks to the ranks, by six steps.
//!
//! The n = R·C points are a matrix of R rows and C columns, stored by rows; a rank has some rows. With j = r·C + c for
//! the places of points, and k = s + R·d for those of the result:
//!
//! ```text
//!   X[s + R·d]  =  Σ over c  ω_C^(c·d) · ω_n^(c·s) · Σ over r  ω_R^(r·s) · x[r·C + c]           ω_m = e^(−2πi/m)
//!                  └──────── 5 ────────┘ └── 3 ──┘  └───────────── 2 ──────────────┘
//!
//!   1 transpose: ranks have columns    2 transform each column     3 multiply by the twiddle factors
//!   4 transpose: ranks have rows       5 transform each row        6 transpose: the result is in order
//! ```
//!
//! A transposition is an all-to-all. Each is cut in segments that travel while others are computed: of the first, a
//! segment brings some columns, which are transformed while the next ones come; of the second and third, a segment
//! takes away what has been transformed while the next lines are.
//!
//! D. H. Bailey, *FFTs in External or Hierarchical Memory*, 1990; on segments R. Dimitrov, *Overlapping of
//! Communication and Computation and Early Binding*, 2001.
//!
//! [`BinaryExchange`] is the algorithm of the latter, with messages between pairs of ranks instead of all-to-alls.

mod binary_exchange;
mod transform;
mod transpose;

pub use binary_exchange::{BinaryExchange, Phases, in_order};
pub use rustfft::num_complex::Complex32;
pub use transform::{Shape, Times, Transform, UnfitSize, relative_error, signal, transform_serially};
pub use transpose::Transpose;
