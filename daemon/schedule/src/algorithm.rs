//! The algorithms by name, and the one way to build a schedule.

use std::fmt;
use std::str::FromStr;

use crate::algorithms::{Generator, KINDS, Kind, Question};
use crate::builder::Builder;
use crate::cost::Cost;
use crate::error::{BuildError, ShapeError};
use crate::shape::Shape;
use crate::step::Schedule;

/// How a collective is done. Written as a name, and parameters after a colon: `ring`, `k-nomial:4`, `radix-k:4,4,8`.
///
/// [`names`](Self::names) are all that there are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Algorithm {
    name: &'static str,
    /// Such as it takes.
    parameters: Vec<u32>,
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
        KINDS.iter().map(|kind| Self { name: kind.name, parameters: kind.usual.into() }).collect()
    }

    /// One of each kind and of all parameters that are worth a try.
    pub(crate) fn worth_a_try(question: &Question) -> Vec<Self> {
        let with = |kind: &Kind| {
            let name = kind.name;
            (kind.tries)(question).into_iter().map(move |parameters| Self { name, parameters })
        };
        KINDS.iter().flat_map(|kind| with(kind)).collect()
    }

    /// The names, and what their parameters are, for people.
    pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
        KINDS.iter().map(|kind| (kind.name, kind.takes))
    }

    /// What it is called, without parameters.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether its parameters say how ranks live on nodes, so that it is none for nodes.
    pub fn is_among_ranks(&self) -> bool {
        matches!(self.name, "multileader" | "multigroup")
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
        let kind = kind(self.name).expect("it has the name of one");
        (kind.make)(&self.parameters).expect("it has parameters that were taken")
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
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
    Parameters { name: &'static str, takes: &'static str, given: String },
}

impl FromStr for Algorithm {
    type Err = ParseAlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, given) = text.split_once(':').map_or((text, None), |(name, given)| (name, Some(given)));
        let &Kind { name, takes, usual, make, .. } =
            kind(name).ok_or_else(|| ParseAlgorithmError::Name(name.to_owned()))?;
        let number = |word: &str| word.parse().ok().filter(|&number| number <= PARAMETER_MAX);
        let parameters = given.map_or(Some(usual.into()), |given| given.split(',').map(number).collect());
        let taken = parameters.filter(|parameters: &Vec<u32>| make(parameters).is_some());
        match (taken, given) {
            (Some(parameters), _) => Ok(Self { name, parameters }),
            (None, given) => {
                Err(ParseAlgorithmError::Parameters { name, takes, given: given.unwrap_or("nothing").to_owned() })
            }
        }
    }
}

fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().copied().find(|kind| kind.name == name)
}

fn known() -> String {
    Algorithm::names().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
}

/// So that powers of it fit. Algorithms that say what they take name it.
const PARAMETER_MAX: u32 = 1 << 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for text in ["binomial", "k-nomial:4", "ring", "radix-k:4,4,8", "radix-k", "bruck:3", "linear-pipeline:16"] {
            assert_eq!(text.parse::<Algorithm>().unwrap().to_string(), text);
        }
        for algorithm in Algorithm::all() {
            assert_eq!(algorithm.name().parse(), Ok(algorithm.clone()));
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
    }

    #[test]
    fn no_two_have_one_name() {
        for (index, kind) in KINDS.iter().enumerate() {
            assert!(KINDS[..index].iter().all(|other| other.name != kind.name), "{}", kind.name);
        }
    }

    #[test]
    fn wrong_names_are_answered_with_right_ones() {
        let message = |text: &str| text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(message("rng").starts_with("no algorithm is called rng: take one of linear, binomial"));
        assert_eq!(message("k-nomial:1"), "k-nomial takes a radix of 2 to 4096, not 1");
        assert_eq!(message("ring:2"), "ring takes no parameter, not 2");
        assert_eq!(message("ring:"), "ring takes no parameter, not ");
        assert_eq!(message("bruck:0"), "bruck takes 1 to 4096 ports, not 0");
        assert_eq!(message("bruck:9999"), "bruck takes 1 to 4096 ports, not 9999");
        assert_eq!(message("multileader:4"), "multileader takes ranks and leaders a node, such as 4,2, not 4");
        assert_eq!(message("radix-k:4,1"), "radix-k takes radices of 2 to 4096 each, such as 4,4,8, not 4,1");
        assert_eq!(message("radix-k:4,x"), "radix-k takes radices of 2 to 4096 each, such as 4,4,8, not 4,x");
    }
}
