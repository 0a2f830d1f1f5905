//! Sort-last compositing: each rank has drawn what lies in its range of depths; the pictures are laid over each other.
//!
//! ```text
//!   rank 0 ▒▒░░      strip 0 ──► rank 0: over, over, over ─┐
//!   rank 1 ░▒▒░      strip 1 ──► rank 1: over, over, over ─┼─► rank 0: the picture
//!   rank 2 ░░▓▓      strip 2 ──► rank 2: over, over, over ─┘
//!          layers                from front to back
//! ```
//!
//! Rank order is depth order, rank 0 in front: a reduction whose operator is [`over`]. It is not commutative, and it rounds,
//! so it is not quite associative either. But by [`Reproducible`](ropeway::Reproducible) a [`UserOperator`](ropeway::UserOperator) is
//! applied one by one, from front to back as a serial program does it; so the result is the same to the bit. The price is what
//! crosses the network: each node gets every rank's layer of its own strips. Without `Reproducible` it would get one of each node,
//! blended there, and the colours might differ in their last bits.
//!
//! T. Porter and T. Duff, *Compositing Digital Images*, 1984. As a reduction: V. Marendić, *Distributed memory
//! reduction operations in presence of process desynchronization*, 2016, where the layers come from a particle
//! simulation.

mod compositor;
mod image;
mod over;
mod scene;

pub use compositor::Compositor;
pub use image::{Image, ImageError};
pub use over::{Pixel, blend, over};
pub use scene::draw;
