//! One-shot or persistent.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Which kind of messages a program uses, where it is written both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A new operation each time, matched anew.
    OneShot,
    /// Requests that are bound once.
    Persistent,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::OneShot => "oneshot",
            Self::Persistent => "persistent",
        })
    }
}

/// A word that is not a [`Mode`].
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("is neither oneshot nor persistent")]
pub struct UnknownMode;

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        match word {
            "oneshot" => Ok(Self::OneShot),
            "persistent" => Ok(Self::Persistent),
            _ => Err(UnknownMode),
        }
    }
}
