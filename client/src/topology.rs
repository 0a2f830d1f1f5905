//! Topologies: communicators whose ranks know their neighbours.

mod cartesian;
mod dims;
mod neighborhood;

pub use cartesian::Cartesian;
pub use dims::dims_create;
pub(crate) use neighborhood::Edge;
pub use neighborhood::Neighborhood;
