//! What `ropeway bench compare` measures, round by round.

use ropeway::WaitMode;
use ropeway_bench::{Contest, Kind, Operation, Size};

use super::Flags;
use crate::failure::Failure;

/// What to compare.
pub(super) fn kinds(flags: &Flags) -> Result<Vec<Kind>, Failure> {
    if flags.of.is_empty() {
        return Ok(Kind::OF_MESSAGES.into());
    }
    match flags.of.iter().find(|kind| !kind.has_rival()) {
        Some(kind) => Err(Failure::CannotRun(format!("compare has no {kind} of others: leave it out of --of"))),
        None => Ok(flags.of.clone()),
    }
}

/// What is measured at a time.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) contest: Contest,
    pub(super) wait: WaitMode,
    pub(super) sizes: Vec<Size>,
}

pub(super) fn rounds(flags: &Flags, kinds: &[Kind]) -> Vec<Round> {
    let mut rounds = Vec::new();
    for &kind in kinds {
        let defaults: &[usize] = match kind {
            Kind::Latency if flags.ranks > 2 => &[8, 1 << 10, 8 << 10],
            Kind::Latency => &[8, 8 << 10, 64 << 10, 1 << 20, 4 << 20],
            Kind::Bandwidth => &[64 << 10, 256 << 10, 1 << 20, 4 << 20],
            Kind::Exchange => &[8 << 10],
            Kind::Collective(Operation::Barrier) => &[8],
            Kind::Collective(Operation::Allgather | Operation::Alltoall) => &[8, 1 << 10, 64 << 10],
            Kind::Collective(_) => &[8, 1 << 10, 64 << 10, 1 << 20],
        };
        let sizes = flags.sizes.clone().unwrap_or_else(|| defaults.iter().copied().map(Size).collect());
        let modes = match (flags.wait, kind) {
            (Some(mode), _) => vec![mode],
            (None, Kind::Exchange) => vec![WaitMode::Adaptive, WaitMode::Polling, WaitMode::Blocking],
            (None, _) => vec![WaitMode::Adaptive],
        };
        for wait in modes {
            let contest = Contest { kind, touch: flags.touch, batch_s: BATCH_S };
            rounds.push(Round { contest, wait, sizes: sizes.clone() });
        }
    }
    rounds
}

const BATCH_S: f64 = 0.02;
