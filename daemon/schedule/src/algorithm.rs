//! The algorithms by name, and the one way to build a schedule.

use std::fmt;
use std::str::FromStr;

use crate::algorithms::{
    Bruck, Cayley, Dissemination, Generator, Knomial, Linear, LinearPipeline, Multigroup, Multileader, Pairwise,
    PipelinedTree, RadixK, RecursiveDoubling, RecursiveHalving, Ring, ScatterAllgather, StandardExchange,
};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::error::{BuildError, ShapeError, Unsuitable};
use crate::shape::Shape;
use crate::step::Schedule;

/// How a collective is done. Written as a name, and parameters after a colon: `ring`, `k-nomial:4`, `radix-k:4,4,8`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Algorithm {
    /// Everybody with the root, or with everybody, directly; scans from rank to rank.
    Linear,
    /// A k-nomial tree; binomial if the radix is 2.
    Knomial { radix: u32 },
    /// Blocks go around, from neighbor to neighbor.
    Ring,
    /// Exchange with ranks 1, 2, 4, … away.
    RecursiveDoubling,
    /// Recursive doubling with several peers a round.
    StandardExchange { ports: u32 },
    /// Rabenseifner's: halves of the vector, then back.
    RecursiveHalving,
    /// Direct exchange in groups, a digit of the rank after the other.
    RadixK { radices: Vec<u32> },
    /// Exchange with ranks 1, b, b², … further, for any size.
    Bruck { ports: u32 },
    /// Segments along a chain of ranks.
    LinearPipeline { segments: u32 },
    /// Segments along a binary tree.
    PipelinedTree { segments: u32 },
    /// Signals to ranks 1, b, b², … further.
    Dissemination { ports: u32 },
    /// With each other rank in turn.
    Pairwise,
    /// Blocks spread along a tree of constant degree, as they come.
    Cayley { degree: u32 },
    /// Van de Geijn's: pieces down a binomial tree, then around a ring.
    ScatterAllgather,
    /// Leaders of each node's ranks, who all exchange with each other.
    Multileader { ranks_per_node: u32, leaders: u32 },
    /// Leaders of each node's ranks, who exchange with those of their group.
    Multigroup { ranks_per_node: u32, groups: u32 },
}

/// Builds what participant `me` has to do.
///
/// Pure: all participants that are told the same get schedules that fit together, without talking to each other.
///
/// # Errors
/// If the shape makes no sense, or this algorithm is not made for it.
pub fn build(shape: &Shape, algorithm: &Algorithm, me: u32) -> Result<Schedule, BuildError> {
    algorithm.check(shape)?;
    if me >= shape.size {
        return Err(ShapeError::Participant { me, size: shape.size }.into());
    }
    let mut builder = Builder::new(shape, me);
    algorithm.generator().build(&mut builder);
    Ok(builder.finish())
}

/// Builds everybody's schedule. See [`build`].
///
/// # Errors
/// As those of [`build`].
pub fn build_all(shape: &Shape, algorithm: &Algorithm) -> Result<Vec<Schedule>, BuildError> {
    (0..shape.size).map(|me| build(shape, algorithm, me)).collect()
}

impl Algorithm {
    /// One of each kind, with the parameters that stand for a name alone.
    pub fn all() -> Vec<Self> {
        let name = |&(name, _): &(&str, _)| name.parse().expect("these are names");
        NAMES.iter().map(name).collect()
    }

    /// What it is called, without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Knomial { radix: 2 } => "binomial",
            Self::Knomial { .. } => "k-nomial",
            Self::Ring => "ring",
            Self::RecursiveDoubling => "recursive-doubling",
            Self::StandardExchange { .. } => "standard-exchange",
            Self::RecursiveHalving => "recursive-halving",
            Self::RadixK { .. } => "radix-k",
            Self::Bruck { .. } => "bruck",
            Self::LinearPipeline { .. } => "linear-pipeline",
            Self::PipelinedTree { .. } => "pipelined-tree",
            Self::Dissemination { .. } => "dissemination",
            Self::Pairwise => "pairwise",
            Self::Cayley { .. } => "cayley",
            Self::ScatterAllgather => "scatter-allgather",
            Self::Multileader { .. } => "multileader",
            Self::Multigroup { .. } => "multigroup",
        }
    }

    /// Whether it can do this.
    ///
    /// # Errors
    /// What keeps it from that.
    pub fn check(&self, shape: &Shape) -> Result<(), BuildError> {
        shape.check()?;
        self.generator().suits(shape).map_err(|reason| BuildError::Unsuitable {
            algorithm: self.clone(),
            operation: shape.collective.name(),
            reason,
        })
    }

    /// What it costs, for shapes it can do.
    pub(crate) fn cost(&self, shape: &Shape) -> Cost {
        if shape.size == 1 { Cost::default() } else { self.generator().cost(shape) }
    }

    fn generator(&self) -> Box<dyn Generator> {
        match *self {
            Self::Linear => Box::new(Linear),
            Self::Knomial { radix } => Box::new(Knomial { radix }),
            Self::Ring => Box::new(Ring),
            Self::RecursiveDoubling => Box::new(RecursiveDoubling),
            Self::StandardExchange { ports } => Box::new(StandardExchange { ports }),
            Self::RecursiveHalving => Box::new(RecursiveHalving),
            Self::RadixK { ref radices } => Box::new(RadixK { radices: radices.clone() }),
            Self::Bruck { ports } => Box::new(Bruck { ports }),
            Self::LinearPipeline { segments } => Box::new(LinearPipeline { segments }),
            Self::PipelinedTree { segments } => Box::new(PipelinedTree { segments }),
            Self::Dissemination { ports } => Box::new(Dissemination { ports }),
            Self::Pairwise => Box::new(Pairwise),
            Self::Cayley { degree } => Box::new(Cayley { degree }),
            Self::ScatterAllgather => Box::new(ScatterAllgather),
            Self::Multileader { ranks_per_node, leaders } => Box::new(Multileader { ranks_per_node, leaders }),
            Self::Multigroup { ranks_per_node, groups } => Box::new(Multigroup { ranks_per_node, groups }),
        }
    }

    fn parameters(&self) -> Vec<u32> {
        match *self {
            Self::Knomial { radix: 2 } => Vec::new(),
            Self::Knomial { radix: parameter }
            | Self::StandardExchange { ports: parameter }
            | Self::Bruck { ports: parameter }
            | Self::LinearPipeline { segments: parameter }
            | Self::PipelinedTree { segments: parameter }
            | Self::Dissemination { ports: parameter }
            | Self::Cayley { degree: parameter } => vec![parameter],
            Self::RadixK { ref radices } => radices.clone(),
            Self::Multileader { ranks_per_node, leaders: teams }
            | Self::Multigroup { ranks_per_node, groups: teams } => vec![ranks_per_node, teams],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        for (index, parameter) in self.parameters().iter().enumerate() {
            write!(f, "{}{parameter}", if index == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

/// A name that no algorithm has, or parameters that it does not take.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseAlgorithmError {
    /// There is none.
    #[error("no algorithm is called {0}: take one of {known}", known = known())]
    Name(String),
    /// Not a number, not a sensible one, or too many of them.
    #[error("{name} takes {takes}, not {given}")]
    #[expect(missing_docs, reason = "the fields are named after what they hold")]
    Parameters { name: String, takes: &'static str, given: String },
}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, given) = text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
        let Some((name, takes)) = NAMES.iter().find(|(known, _)| *known == name) else {
            return Err(ParseAlgorithmError::Name(name.to_owned()));
        };
        let given_text = given.unwrap_or("nothing").to_owned();
        let refused = || ParseAlgorithmError::Parameters { name: (*name).to_owned(), takes, given: given_text.clone() };
        let numbers = given.map(|given| given.split(',').map(str::parse::<u32>).collect::<Result<Vec<_>, _>>());
        let numbers = numbers.transpose().map_err(|_| refused())?.unwrap_or_default();
        let one = |least, default| match numbers[..] {
            [] => Ok(default),
            [number] if (least..=PARAMETER_MAX).contains(&number) => Ok(number),
            _ => Err(refused()),
        };
        let two = |default| match numbers[..] {
            [] => Ok(default),
            [first, second] if first.min(second) > 0 && first.max(second) <= PARAMETER_MAX => Ok((first, second)),
            _ => Err(refused()),
        };
        let none = |algorithm| if numbers.is_empty() { Ok(algorithm) } else { Err(refused()) };
        match *name {
            "linear" => none(Self::Linear),
            "binomial" => none(Self::Knomial { radix: 2 }),
            "k-nomial" => Ok(Self::Knomial { radix: one(2, 4)? }),
            "ring" => none(Self::Ring),
            "recursive-doubling" => none(Self::RecursiveDoubling),
            "standard-exchange" => Ok(Self::StandardExchange { ports: one(1, 1)? }),
            "recursive-halving" => none(Self::RecursiveHalving),
            "radix-k" if numbers.iter().any(|number| !(2..=PARAMETER_MAX).contains(number)) => Err(refused()),
            "radix-k" => Ok(Self::RadixK { radices: numbers }),
            "bruck" => Ok(Self::Bruck { ports: one(1, 1)? }),
            "linear-pipeline" => Ok(Self::LinearPipeline { segments: one(1, 8)? }),
            "pipelined-tree" => Ok(Self::PipelinedTree { segments: one(1, 8)? }),
            "dissemination" => Ok(Self::Dissemination { ports: one(1, 1)? }),
            "pairwise" => none(Self::Pairwise),
            "cayley" => Ok(Self::Cayley { degree: one(2, 4)? }),
            "multileader" => two((4, 2)).map(|(ranks_per_node, leaders)| Self::Multileader { ranks_per_node, leaders }),
            "multigroup" => two((4, 2)).map(|(ranks_per_node, groups)| Self::Multigroup { ranks_per_node, groups }),
            _ => none(Self::ScatterAllgather),
        }
    }
}

fn known() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

/// Refuses parameters that can only come from a caller that did not parse them.
pub(crate) fn at_least(least: u32, parameter: u32, otherwise: &'static str) -> Result<(), Unsuitable> {
    if (least..=PARAMETER_MAX).contains(&parameter) { Ok(()) } else { Err(Unsuitable::Parameter(otherwise)) }
}

/// So that powers of it fit.
const PARAMETER_MAX: u32 = 1 << 12;

/// Each name, and its parameters.
const NAMES: [(&str, &str); 17] = [
    ("linear", "no parameter"),
    ("binomial", "no parameter"),
    ("k-nomial", "a radix of at least 2"),
    ("ring", "no parameter"),
    ("recursive-doubling", "no parameter"),
    ("standard-exchange", "a number of ports"),
    ("recursive-halving", "no parameter"),
    ("radix-k", "radices of at least 2 each, such as 4,4,8"),
    ("bruck", "a number of ports"),
    ("linear-pipeline", "a number of segments"),
    ("pipelined-tree", "a number of segments"),
    ("dissemination", "a number of ports"),
    ("pairwise", "no parameter"),
    ("cayley", "a degree of at least 2"),
    ("scatter-allgather", "no parameter"),
    ("multileader", "ranks and leaders a node, such as 4,2"),
    ("multigroup", "ranks a node and groups, such as 4,2"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["binomial", "k-nomial:4", "ring", "radix-k:4,4,8", "radix-k", "bruck:3", "linear-pipeline:16"] {
            assert_eq!(text.parse::<Algorithm>().unwrap().to_string(), text);
        }
        assert_eq!(Algorithm::all().len(), NAMES.len());
        for algorithm in Algorithm::all() {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn wrong_names_are_answered_with_right_ones() {
        let message = |text: &str| text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(message("rng").starts_with("no algorithm is called rng: take one of linear, binomial"));
        assert_eq!(message("k-nomial:1"), "k-nomial takes a radix of at least 2, not 1");
        assert_eq!(message("ring:2"), "ring takes no parameter, not 2");
        assert_eq!(message("radix-k:4,x"), "radix-k takes radices of at least 2 each, such as 4,4,8, not 4,x");
    }
}
