//! Programs as the model BOUM sees them, and as they are.
//!
//! The Bandwidth and Overhead User-level Model tells from a few parameters, all of them measured from within a program, how long
//! the program takes, what early binding saves it and in how many segments its messages should travel. [`Costs`] are the
//! parameters, [`Workload`] is a program, [`Prediction`] what the model says; [`Application`] are programs to compare that
//! with. R. Dimitrov, *Overlapping of Communication and Computation and Early Binding*, 2001. How everything is measured: `docs/boum.md`.

mod application;
mod cg;
mod costs;
mod fft;
mod jacobi;
pub mod model;
mod parameters;
mod silent;
mod swaps;
mod workload;

pub use application::{Algorithm, Application, Run};
pub use costs::{Costs, Figure, NotMeasured};
pub(crate) use parameters::run;
pub use workload::{Messages, Prediction, Workload};
