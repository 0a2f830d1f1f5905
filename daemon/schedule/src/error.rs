//! Why a schedule can't be made.

use crate::algorithm::Algorithm;

/// A shape that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ShapeError {
    /// Nobody takes part.
    #[error("a collective needs at least one participant")]
    NoParticipants,
    /// There are as many participants as fit the arithmetic, and no more.
    #[error("{size} participants are too many: at most {max}")]
    TooManyParticipants { size: u32, max: u32 },
    /// The root does not take part.
    #[error("root {root} does not exist among {size} participants: name one of 0 to {}", size - 1)]
    Root { root: u32, size: u32 },
    /// Whoever asks does not take part.
    #[error("participant {me} does not exist among {size}: name one of 0 to {}", size - 1)]
    Participant { me: u32, size: u32 },
    /// One count a participant.
    #[error("{given} counts for {size} participants: give one for each")]
    CountsLength { given: usize, size: u32 },
    /// One count a pair.
    #[error("{given} counts for {size} participants: give one for each pair, {size} rows of {size}")]
    MatrixLength { given: usize, size: u32 },
    /// Offsets would overflow.
    #[error("too many elements: at most {max} in all")]
    TooManyElements { max: u64 },
    /// In place each block is replaced by one of the same length.
    #[error("alltoall in place needs as much from each peer as goes to it")]
    Asymmetric,
    /// What is sent and received must not share memory.
    #[error("{operation} has no form in place: give it an input and an output")]
    NotInPlace { operation: &'static str },
    /// Somebody sends what nobody expects, or expects what nobody sends.
    #[error(
        "{source_rank} names {dest_rank} as a destination {sent} times, and is named by it as a source {expected} times"
    )]
    Neighborhood { source_rank: u32, dest_rank: u32, sent: usize, expected: usize },
    /// A neighborhood is one of exactly the participants.
    #[error("a neighborhood of {given} participants does not fit {size}")]
    NeighborhoodSize { given: usize, size: u32 },
    /// A neighbor that does not take part.
    #[error("participant {rank} has neighbor {neighbor}, which does not exist among {size}")]
    Neighbor { rank: u32, neighbor: u32, size: u32 },
}

/// What keeps an algorithm from a shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Unsuitable {
    /// It was not made for this operation.
    #[error("it does not do this operation")]
    Operation,
    /// It mixes operands of different ranks as they come.
    #[error("it needs an operator that commutes: say that yours does, or take one that keeps rank order")]
    NeedsCommutative,
    /// It keeps the order of operands, but not how they are grouped.
    #[error("it does not group operands in fixed order: take linear, pairwise or linear-pipeline")]
    NoFixedOrder,
    /// Its exchange leaves nobody over only then.
    #[error("it needs a power of {base} as number of participants: others, such as ring and dissemination, take any")]
    NeedsPower { base: u32 },
    /// The radices leave participants over.
    #[error("the product of its radices must be the number of participants")]
    NeedsProduct,
    /// Blocks travel together, and nobody knows the lengths of others'.
    #[error("it needs blocks of one length: take pairwise or linear")]
    NeedsSameCounts,
    /// A parameter without meaning.
    #[error("{0}")]
    Parameter(&'static str),
}

/// Why a schedule can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum BuildError {
    /// Nobody could.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// Another algorithm could.
    #[error("{algorithm} can't be used for this {operation}: {reason}")]
    Unsuitable { algorithm: Algorithm, operation: &'static str, reason: Unsuitable },
}
