//! Collectives as data: (operation, size, rank) → schedule, a directed acyclic graph of steps over buffer slices.
//!
//! Pure: no I/O, no clock, no threads, no `unsafe`; the lints hold the crate to that. A [`Shape`] says what is to be done,
//! [`select()`] chooses an [`Algorithm`] by a [`CostTable`], [`build`] makes one participant's [`Schedule`], and
//! [`check`](check::check) proves everybody's schedules right together.
//!
//! ```
//! use ropeway_schedule::{Collective, CostTable, Order, Shape, build_all, check, select};
//!
//! let shape = Shape::new(6, Collective::Allreduce { count: 1000, order: Order::Rank });
//! let choice = select(&shape, 8, &CostTable::default());
//! let schedules = build_all(&shape, &choice.algorithm).unwrap();
//! assert!(check::check(&shape, &schedules).unwrap().depth >= 3);
//! ```
//!
//! | file | what |
//! |---|---|
//! | [`step`] | steps, slices, schedules |
//! | [`shape`], [`counts`], [`neighborhood`] | what is to be done, and how long the buffers are |
//! | `builder`, `hazard` | steps written down in turn; what must really wait for what follows from the memory they touch |
//! | [`patterns`] | who talks to whom |
//! | `algorithms` | one generator a file |
//! | [`mod@select`], [`cost`] | the choice, and its reasons |
//! | [`mod@check`] | matched, acyclic, in bounds, free of races, and right by a reference interpreter |
//! | [`form`], [`tasks`] | eager and rendezvous forms; schedules as task lists of a network card |
#![forbid(unsafe_code)]

pub mod algorithm;
mod algorithms;
mod builder;
pub mod check;
pub mod cost;
pub mod counts;
pub mod error;
pub mod form;
mod hazard;
pub mod neighborhood;
pub mod patterns;
pub mod select;
pub mod shape;
pub mod step;
pub mod tasks;

pub use algorithm::{Algorithm, ParseAlgorithmError, build, build_all};
pub use cost::{Cost, CostTable};
pub use counts::{Counts, PairCounts};
pub use error::{BuildError, ShapeError, Unsuitable};
pub use neighborhood::Neighborhood;
pub use select::{Candidate, Choice, select};
pub use shape::{Collective, Order, Shape};
pub use step::{Action, Buffer, Dependents, Schedule, Side, Slice, Step};
