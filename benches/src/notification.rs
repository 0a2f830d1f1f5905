//! How a rank learns that what it waits for has ended.

use std::fmt;

use ropeway::{UnknownWaitMode, WaitMode};
use serde::{Deserialize, Serialize};

/// A way to wait, as plans and records have it.
///
/// With [`Progress`](crate::Progress) that makes the classification of Dimitrov, "Overlapping of Communication and Computation
/// and Early Binding" (2001), chapter IV: {polling, blocking} notification × {independent, client-driven} progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Notification(pub WaitMode);

impl fmt::Display for Notification {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for Notification {
    type Error = UnknownWaitMode;

    fn try_from(word: String) -> Result<Self, UnknownWaitMode> {
        word.parse().map(Self)
    }
}

impl From<Notification> for String {
    fn from(notification: Notification) -> Self {
        notification.to_string()
    }
}
