//! How a collective is done: what of it happens within nodes and what between them, and by which algorithm.

use std::fmt;
use std::str::FromStr;

use ropeway_schedule::select::select;
use ropeway_schedule::{Algorithm, BuildError, CostTable};
use serde::{Deserialize, Serialize};

use crate::contribution::element_bytes;
use crate::operation::CollectiveCall;
use crate::progress::Progress;

/// Who takes part between the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Division {
    /// The nodes, each for its ranks, who meet in its memory: Ropeway's own way.
    TwoLevel,
    /// Every rank for itself, wherever it lives.
    Flat,
    /// So many leaders of each node's ranks, who all exchange with each other.
    Multileader {
        /// Leaders of a node.
        leaders: u32,
    },
    /// So many groups with a leader on every node, who exchange within their group.
    Multigroup {
        /// Groups, and so leaders of a node.
        groups: u32,
    },
}

impl Division {
    /// Who drives it. All but Ropeway's own are baselines: schedules of messages between ranks, who carry them out themselves.
    pub fn progress(self) -> Progress {
        match self {
            Self::TwoLevel => Progress::Independent,
            Self::Flat | Self::Multileader { .. } | Self::Multigroup { .. } => Progress::Client,
        }
    }
}

impl fmt::Display for Division {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoLevel => f.pad("two-level"),
            Self::Flat => f.pad("flat"),
            Self::Multileader { leaders } => write!(f, "multileader:{leaders}"),
            Self::Multigroup { groups } => write!(f, "multigroup:{groups}"),
        }
    }
}

/// A word that is not a [`Division`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not one of two-level, flat, multileader[:LEADERS], multigroup[:GROUPS]")]
pub struct UnknownDivision;

impl FromStr for Division {
    type Err = UnknownDivision;

    fn from_str(word: &str) -> Result<Self, UnknownDivision> {
        let (name, number) = word.split_once(':').map_or((word, None), |(name, number)| (name, Some(number)));
        let of_node = match number.map(str::parse) {
            None => LEADERS,
            Some(Ok(number @ 1..=LEADERS_MAX)) => number,
            Some(_) => return Err(UnknownDivision),
        };
        match name {
            "two-level" if number.is_none() => Ok(Self::TwoLevel),
            "flat" if number.is_none() => Ok(Self::Flat),
            "multileader" => Ok(Self::Multileader { leaders: of_node }),
            "multigroup" => Ok(Self::Multigroup { groups: of_node }),
            _ => Err(UnknownDivision),
        }
    }
}

impl TryFrom<String> for Division {
    type Error = UnknownDivision;

    fn try_from(word: String) -> Result<Self, UnknownDivision> {
        word.parse()
    }
}

impl From<Division> for String {
    fn from(division: Division) -> Self {
        division.to_string()
    }
}

/// A division, and the algorithm of those who take part in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Method {
    /// Who takes part between the nodes.
    pub division: Division,
    /// By which algorithm, if not the one that is predicted to be fastest.
    pub algorithm: Option<String>,
}

impl Method {
    /// Ropeway's own way, by the algorithm that nodes choose.
    pub fn usual() -> Self {
        Self { division: Division::TwoLevel, algorithm: None }
    }

    /// A division of so many ranks a node. `algorithm` is meant for those who have a choice.
    pub fn new(division: Division, ranks_per_node: u32, algorithm: Option<&Algorithm>) -> Self {
        let algorithm = match division {
            Division::TwoLevel | Division::Flat => algorithm.map(Algorithm::to_string),
            Division::Multileader { leaders } => Some(format!("multileader:{ranks_per_node},{leaders}")),
            Division::Multigroup { groups } => Some(format!("multigroup:{ranks_per_node},{groups}")),
        };
        Self { division, algorithm }
    }

    /// Whether ranks can do this call so. What nodes can do their daemons know.
    ///
    /// # Errors
    /// What keeps the algorithm from it.
    pub fn check(&self, call: CollectiveCall, ranks: u32) -> Result<(), BuildError> {
        match self.division {
            Division::TwoLevel => Ok(()),
            _ => self.schedule_algorithm(call, ranks, 1).check(&call.shape(ranks, 1)),
        }
    }

    /// The same with the algorithm that ranks choose for blocks of so many bytes, if they have not been told one.
    pub(crate) fn decided(&self, call: CollectiveCall, ranks: u32, bytes: usize) -> Self {
        match self.division {
            Division::TwoLevel => self.clone(),
            _ => {
                let algorithm = self.schedule_algorithm(call, ranks, bytes.div_ceil(element_bytes(call)));
                Self { algorithm: Some(algorithm.to_string()), ..*self }
            }
        }
    }

    /// What ranks do, as participants of a schedule.
    pub(crate) fn schedule_algorithm(&self, call: CollectiveCall, ranks: u32, count: usize) -> Algorithm {
        let choose = || select(&call.shape(ranks, count), element_bytes(call) as u64, &CostTable::default()).algorithm;
        self.algorithm.as_ref().map_or_else(choose, |name| name.parse().expect("it was an algorithm that was named"))
    }
}

/// With a single one, multileader and multigroup would be the same.
const LEADERS: u32 = 2;

/// A node has no more ranks.
const LEADERS_MAX: u32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::Operation;

    #[test]
    fn divisions_survive_their_names() {
        for word in ["two-level", "flat", "multileader:1", "multigroup:4"] {
            let division: Division = word.parse().unwrap();
            assert_eq!(division.to_string(), word);
            assert_eq!(serde_json::from_str::<Division>(&serde_json::to_string(&division).unwrap()).unwrap(), division);
        }
        assert_eq!("multileader".parse(), Ok(Division::Multileader { leaders: 2 }));
        for word in ["two-levels", "flat:2", "multigroup:0", "multigroup:4097", "multigroup:x", "multigroup:", ""] {
            assert_eq!(word.parse::<Division>(), Err(UnknownDivision), "{word}");
        }
    }

    #[test]
    fn only_who_has_a_choice_is_told_an_algorithm() {
        let algorithm = |word: &str| {
            Method::new(word.parse().unwrap(), 4, Some(&"ring".parse().unwrap())).algorithm.unwrap_or_default()
        };
        let words = ["two-level", "flat", "multileader:2", "multigroup:4"];
        assert_eq!(words.map(algorithm), ["ring", "ring", "multileader:4,2", "multigroup:4,4"]);
        assert_eq!(Method::new(Division::Flat, 4, None).algorithm, None);
    }

    #[test]
    fn what_an_algorithm_can_not_do_is_known_before() {
        let check = |word: &str, operation, ranks| {
            let method = Method::new(word.parse().unwrap(), 4, None);
            method.check(CollectiveCall::of(operation), ranks).map_err(|error| error.to_string())
        };
        assert_eq!(check("flat", Operation::Scan, 7), Ok(()));
        assert_eq!(check("multileader:2", Operation::Allgather, 8), Ok(()));
        assert!(
            check("multileader:3", Operation::Allgather, 8).unwrap_err().contains("dealt out to its leaders evenly")
        );
        assert!(check("multigroup:2", Operation::Bcast, 8).unwrap_err().contains("can't be used for this bcast"));
    }

    #[test]
    fn ranks_decide_by_size() {
        let flat = Method::new(Division::Flat, 4, None);
        let decided = |bytes| flat.decided(CollectiveCall::of(Operation::Allreduce), 8, bytes).algorithm.unwrap();
        assert_ne!(decided(8), decided(8 << 20));
        assert_eq!(Method::usual().decided(CollectiveCall::of(Operation::Bcast), 8, 1), Method::usual());
    }
}
