//! Who drives communication once it has been started.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether communication goes on while its program computes.
///
/// Ropeway has independent progress only; the other exists here, as the baseline that it is measured against (see
/// [`Notification`](crate::Notification)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// Daemons drive it: it goes on whatever the program does.
    Independent,
    /// The program drives it: nothing happens outside of the calls that wait for it.
    Client,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Independent => "independent",
            Self::Client => "client",
        })
    }
}
