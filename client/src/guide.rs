#![doc = include_str!("guide/index.md")]

#[doc = include_str!("guide/messages.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_messages.rs")]
#[doc = "```"]
pub mod messages {}

#[doc = include_str!("guide/broadcast.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_broadcast.rs")]
#[doc = "```"]
pub mod broadcast {}

#[doc = include_str!("guide/reductions.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_reductions.rs")]
#[doc = "```"]
pub mod reductions {}

#[doc = include_str!("guide/gather_scatter.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_gather_scatter.rs")]
#[doc = "```"]
pub mod gather_scatter {}

#[doc = include_str!("guide/communicators.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_communicators.rs")]
#[doc = "```"]
pub mod communicators {}

#[doc = include_str!("guide/overlap.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_overlap.rs")]
#[doc = "```"]
pub mod overlap {}

#[doc = include_str!("guide/failures.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_failures.rs")]
#[doc = "```"]
pub mod failures {}

#[doc = include_str!("guide/from_mpi.md")]
#[doc = "```no_run"]
#[doc = include_str!("../../examples/src/bin/guide_from_mpi.rs")]
#[doc = "```"]
pub mod from_mpi {}

#[doc = include_str!("guide/inside.md")]
pub mod inside {}

#[doc = include_str!("guide/algorithms.md")]
#[doc = "```text"]
#[doc = include_str!("../../daemon/schedule/src/algorithms/dissemination.rs")]
#[doc = "```"]
pub mod algorithms {}
