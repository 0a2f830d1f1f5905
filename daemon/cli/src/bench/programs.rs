//! The programs of `ropeway bench boum` and `segments`: which ones, and on how many ranks.

use clap::Args;
use ropeway_bench::Size;
use ropeway_bench::boum::Algorithm;

use crate::failure::Failure;

/// Which programs to run.
#[derive(Args)]
pub(super) struct ProgramFlags {
    /// Unknowns of the systems that are solved [default: 1024,2048,4096].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) unknowns: Vec<Size>,
    /// Points of the transforms, powers of two [default: 512K].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) points: Vec<Size>,
    /// Pieces to cut messages in [default: 1,2,4,8,16,32,64].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) segments: Vec<u32>,
}

impl ProgramFlags {
    /// All of them with their sizes, for up to so many ranks.
    pub(super) fn all(&self, ranks: u32) -> Result<Vec<(Algorithm, usize)>, Failure> {
        let unknowns = or(&self.unknowns, &[1024, 2048, 4096]);
        if let Some(few) = unknowns.iter().find(|&&unknowns| unknowns < ranks as usize) {
            return Err(Failure::Usage(format!("{ranks} ranks are too many for {few} unknowns: use -n {few} or less")));
        }
        let solvers = [Algorithm::Jacobi, Algorithm::Cg].into_iter();
        let mut programs: Vec<_> =
            solvers.flat_map(|solver| unknowns.iter().map(move |&size| (solver, size))).collect();
        programs.extend(self.points(ranks, 1)?.into_iter().map(|points| (Algorithm::Fft, points)));
        Ok(programs)
    }

    /// Points of the transforms, enough for each rank to cut its own in so many segments.
    pub(super) fn points(&self, ranks: u32, segments: u32) -> Result<Vec<usize>, Failure> {
        let points = or(&self.points, &[512 << 10]);
        if !ranks.is_power_of_two() {
            return Err(Failure::Usage(format!(
                "binary exchange goes by powers of two, and {ranks} is none: use -n {}",
                ranks.next_power_of_two() / 2
            )));
        }
        let most = ranks as usize * segments.max(2) as usize;
        match points.iter().find(|points| !points.is_power_of_two() || **points < most) {
            Some(points) => Err(Failure::Usage(format!(
                "{points} points can't be dealt to {ranks} ranks and cut in {segments} segments: use a power of two, at least \
                 {}",
                most.next_power_of_two()
            ))),
            None => Ok(points),
        }
    }

    /// Numbers of segments.
    pub(super) fn segments(&self) -> Vec<u32> {
        if self.segments.is_empty() { (0..=6).map(|exponent| 1 << exponent).collect() } else { self.segments.clone() }
    }
}

fn or(given: &[Size], usual: &[usize]) -> Vec<usize> {
    if given.is_empty() { usual.to_vec() } else { given.iter().map(|size| size.0).collect() }
}
