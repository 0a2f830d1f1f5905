//! What `ropeway bench compare` and `transparency` measure, round by round.

use ropeway::WaitMode;
use ropeway_bench::{Contest, Kind, Operation, Size};

use super::Flags;
use crate::failure::Failure;

/// What to compare.
pub(super) fn kinds(flags: &Flags) -> Vec<Kind> {
    if flags.of.is_empty() {
        return Kind::OF_MESSAGES.into();
    }
    flags.of.clone()
}

/// Which programs to compare that gain nothing from what Ropeway is for.
pub(super) fn kernels(flags: &Flags) -> Result<Vec<Kind>, Failure> {
    if flags.of.is_empty() {
        return Ok(Kind::OF_KERNELS.into());
    }
    match flags.of.iter().find(|kind| !Kind::OF_KERNELS.contains(kind)) {
        Some(kind) => Err(Failure::Usage(format!("transparency --of takes is and cg: for {kind} see compare"))),
        None => Ok(flags.of.clone()),
    }
}

/// Whether that can be done as it was asked for.
pub(super) fn check(bench: &str, kinds: &[Kind], flags: &Flags) -> Result<(), Failure> {
    let ranks = flags.ranks;
    if kinds.iter().any(|kind| Kind::OF_MESSAGES.contains(kind)) && !ranks.is_multiple_of(2) {
        return Err(Failure::Usage(format!("{bench} pairs the ranks, and {ranks} are not pairs: use -n 2")));
    }
    if ranks < 2 {
        return Err(Failure::Usage(format!("{bench} needs at least 2 ranks: use -n 2")));
    }
    let writes = |kind: &&Kind| Kind::OF_KERNELS.contains(kind) || kind.is_benchmark();
    if let Some(kind) = kinds.iter().filter(|_| flags.touch).find(writes) {
        return Err(Failure::Usage(format!("{kind} writes what it sends: leave --touch out")));
    }
    if kinds.iter().all(|&kind| is_barrier(kind)) && (flags.sizes.is_some() || flags.touch) {
        return Err(Failure::Usage("a barrier has no size and no data: leave --sizes and --touch out".into()));
    }
    Ok(())
}

fn is_barrier(kind: Kind) -> bool {
    matches!(kind, Kind::Collective(Operation::Barrier) | Kind::Overlap(Some(Operation::Barrier)))
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
            kind if is_barrier(kind) => &[8],
            Kind::Overlap(_) => &[64 << 10, 1 << 20],
            Kind::Asynchrony => &[8, 64 << 10, 1 << 20],
            Kind::Persistence => &[8, 1 << 10, 64 << 10, 1 << 20],
            Kind::Overhead => &[8, 64 << 10, 1 << 20, 4 << 20],
            // A block for each rank.
            Kind::Collective(
                Operation::ReduceScatter
                | Operation::Gather
                | Operation::Scatter
                | Operation::Allgather
                | Operation::Alltoall,
            ) => &[8, 1 << 10, 64 << 10],
            Kind::Collective(_) => &[8, 1 << 10, 64 << 10, 1 << 20],
            Kind::IntegerSort | Kind::ConjugateGradients => &[8 << 10, 64 << 10, 1 << 20],
        };
        // A barrier takes as long whatever the size of others.
        let asked = flags.sizes.clone().filter(|_| !is_barrier(kind));
        let sizes = asked.unwrap_or_else(|| defaults.iter().copied().map(Size).collect());
        let usual: &[WaitMode] = match kind {
            Kind::Exchange => &[WaitMode::Adaptive, WaitMode::Polling, WaitMode::Blocking],
            Kind::IntegerSort | Kind::ConjugateGradients => &[WaitMode::Polling, WaitMode::Blocking],
            _ => &[WaitMode::Adaptive],
        };
        for wait in flags.waits(usual) {
            let contest = Contest { kind, touch: flags.touch, batch_s: BATCH_S };
            rounds.push(Round { contest, wait, sizes: sizes.clone() });
        }
    }
    rounds
}

const BATCH_S: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Command;

    #[test]
    fn a_barrier_is_measured_once_whatever_the_sizes_of_others() {
        let line = "bench compare --of barrier,bcast,overlap:barrier,overlap:bcast --sizes 8,1K,64K";
        let Command::One(flags) = Command::typed(line).unwrap() else { panic!("{line}") };
        let sizes: Vec<_> = rounds(&flags, &kinds(&flags)).iter().map(|round| round.sizes.len()).collect();
        assert_eq!(sizes, [1, 3, 1, 3]);
    }
}
