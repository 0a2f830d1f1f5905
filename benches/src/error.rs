//! What can go wrong in a rank.

use std::io;

use ropeway_schedule::BuildError;

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum BenchError {
    /// A message did not bring what was sent.
    #[error("wrong data: byte {byte} of a message of {bytes} bytes, {contestant}")]
    WrongData { contestant: String, bytes: usize, byte: usize },
    /// A barrier that is none.
    #[error("wrong barrier: a rank got past it before all had come")]
    OpenBarrier,
    /// A program that was run came to something else than it should have.
    #[error("wrong result: {program} is {difference:.1e} from what is right")]
    WrongResult { program: String, difference: f64 },
    /// A sort that did not.
    #[error("wrong result: keys are missing or out of order")]
    Unsorted,
    /// An algorithm that does not suit.
    #[error(transparent)]
    Schedule(#[from] BuildError),
    /// Ropeway failed.
    #[error(transparent)]
    Ropeway(#[from] ropeway::Error),
    /// The tool that started us, or the floor's TCP connection, failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}
