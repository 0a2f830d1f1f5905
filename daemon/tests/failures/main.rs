//! What becomes of a job on daemons when somebody fails, or lies.

mod causes;
#[path = "../common/mod.rs"]
mod common;
mod misbehaviour;
