//! Which step meets which.

use std::collections::BTreeMap;

use super::CheckError;
use crate::step::{Action, Schedule};

/// Of every send, recv, signal and wait the step at the other end.
pub(super) struct Links {
    partners: Vec<Vec<u32>>,
}

impl Links {
    pub(super) fn new(schedules: &[Schedule]) -> Result<Self, CheckError> {
        let mut partners: Vec<_> = schedules.iter().map(|schedule| vec![u32::MAX; schedule.steps().len()]).collect();
        let mut messages = BTreeMap::new();
        let mut signals = BTreeMap::new();
        for (me, schedule) in (0..).zip(schedules) {
            for (step, at) in (0..).zip(schedule.steps()) {
                match at.action {
                    Action::Send { peer, from } => ends(&mut messages, me, peer).0.push((step, from.length)),
                    Action::Recv { peer, into } => ends(&mut messages, peer, me).1.push((step, into.length)),
                    Action::Signal { peer } => ends(&mut signals, me, peer).0.push((step, 0)),
                    Action::Wait { peer } => ends(&mut signals, peer, me).1.push((step, 0)),
                    Action::Combine { .. } | Action::Copy { .. } => {}
                }
            }
        }
        for (what, pairs) in [("messages", messages), ("signals", signals)] {
            for ((sender, receiver), (out, into)) in pairs {
                if out.len() != into.len() {
                    let (sent, expected) = (out.len(), into.len());
                    return Err(CheckError::Unmatched { sender, receiver, what, sent, expected });
                }
                for (index, (&(sends, sent), &(receives, expected))) in out.iter().zip(&into).enumerate() {
                    if sent != expected {
                        return Err(CheckError::MessageLength { sender, receiver, index, sent, expected });
                    }
                    partners[sender as usize][sends as usize] = receives;
                    partners[receiver as usize][receives as usize] = sends;
                }
            }
        }
        Ok(Self { partners })
    }

    /// The step that this one meets, at its peer.
    pub(super) fn partner(&self, me: u32, step: u32) -> u32 {
        self.partners[me as usize][step as usize]
    }
}

/// Steps and lengths at both ends.
type Ends = (Vec<(u32, u64)>, Vec<(u32, u64)>);

fn ends(pairs: &mut BTreeMap<(u32, u32), Ends>, sender: u32, receiver: u32) -> &mut Ends {
    pairs.entry((sender, receiver)).or_default()
}
