//! Conjugate gradients for a dense system, with messages of both kinds.

use std::time::{Duration, Instant};

use ropeway::{Communicator, Error};
use ropeway_examples::cg::{DenseRows, Exchange, Rows, Settings, Solution, solve};
use ropeway_examples::jacobi::{OneShotSwap, PersistentSwap, Swap};
use ropeway_examples::{Mode, block};

use super::application::{Application, Computing, Run, SEED, on_average};
use super::silent::{Laps, Silent};
use super::swaps::come_apart;
use crate::{BenchError, Console};

pub(super) fn run(application: &Application, world: &Communicator, console: &mut Console) -> Result<(), BenchError> {
    let unknowns = application.size;
    let rows = Rows::dense(unknowns, block(unknowns, world.rank(), world.size()), SEED);
    let mut computing = Computing::default();
    application.take_turns(world, console, &mut [Mode::OneShot, Mode::Persistent], |&mut mode| {
        let how = (mode, &mut computing);
        match mode {
            Mode::OneShot => once::<OneShotSwap<f64>>(application, world, &rows, how),
            Mode::Persistent => once::<PersistentSwap<f64>>(application, world, &rows, how),
        }
    })
}

fn once<S: Swap<f64>>(
    application: &Application,
    world: &Communicator,
    rows: &Rows<DenseRows>,
    (mode, computing): (Mode, &mut Computing),
) -> Result<Run, BenchError> {
    let compute = |iterations| compute_only(world, application.size, rows, iterations);
    computing.before(compute)?;
    let begin = Instant::now();
    let mut exchange = ByMessages::<S>::new(world, application.size)?;
    let set_up = begin.elapsed().as_secs_f64();
    world.barrier()?;
    let solution = solve(rows, &mut exchange, SETTINGS)?;
    // `f64::max` would lose NaN, which is the largest here.
    let farthest = solution.x.iter().map(|x| (x - 1.0).abs()).max_by(f64::total_cmp).unwrap_or(0.0);
    application.check(farthest, DIFFERENCE_MAX)?;
    world.barrier()?;
    come_apart(world.rank() == 0);
    exchange.sum(0.0, || ())?;
    let communication = exchange.exchange_only(&solution.x, solution.iterations)?.as_secs_f64();
    let computation = computing.after(solution.iterations, compute)?;
    let total = on_average(world, solution.times.total)?;
    Ok(Run::of_solver(mode, solution.iterations as u64, [set_up, total, communication, computation]))
}

/// How many seconds ranks compute in so many iterations, and nothing else.
fn compute_only(
    world: &Communicator,
    unknowns: usize,
    rows: &Rows<DenseRows>,
    iterations: usize,
) -> Result<f64, BenchError> {
    let (_, laps) = solve_alone(world, unknowns, rows, iterations)?;
    Ok(laps.together()?)
}

fn solve_alone<'a>(
    world: &'a Communicator,
    unknowns: usize,
    rows: &Rows<DenseRows>,
    iterations: usize,
) -> Result<(Solution, Laps<'a>), Error> {
    let mut alone = Alone { silence: ByMessages::new(world, unknowns)?, laps: Laps::new(world) };
    // Its own part alone would be solved earlier.
    let settings = Settings { tolerance: 0.0, iterations_max: iterations };
    Ok((solve(rows, &mut alone, settings)?, alone.laps))
}

/// An exchange that only looks at the clock.
struct Alone<'a> {
    silence: ByMessages<Silent>,
    /// They begin at the first sum, which is before the first iteration.
    laps: Laps<'a>,
}

impl Exchange for Alone<'_> {
    type Error = Error;

    fn gather(&mut self, part: &[f64], meanwhile: impl FnOnce()) -> Result<&[f64], Error> {
        let all = self.silence.gather(part, meanwhile)?;
        self.laps.lap()?;
        Ok(all)
    }

    fn sum(&mut self, mine: f64, meanwhile: impl FnOnce()) -> Result<f64, Error> {
        let sum = self.silence.sum(mine, meanwhile)?;
        self.laps.lap()?;
        // A part of one unknown is solved exactly, and has to go on with the others all the same.
        Ok(if sum > 0.0 { sum } else { f64::MIN_POSITIVE })
    }
}

/// The exchange by a message to, and one from, each other rank: the same messages whether they are bound or not.
struct ByMessages<S> {
    parts: S,
    sums: S,
    /// All parts of a vector.
    vector: Vec<f64>,
    /// What each rank has to add.
    terms: Vec<f64>,
    rank: u32,
}

impl<S: Swap<f64>> ByMessages<S> {
    fn new(world: &Communicator, unknowns: usize) -> Result<Self, Error> {
        let ranks = world.size();
        Ok(Self {
            parts: S::new(world, PARTS, |rank| block(unknowns, rank, ranks).len())?,
            sums: S::new(world, SUMS, |_| 1)?,
            vector: vec![0.0; unknowns],
            terms: vec![0.0; ranks as usize],
            rank: world.rank(),
        })
    }

    /// The messages of so many iterations without computing; how long they take.
    fn exchange_only(&mut self, part: &[f64], iterations: usize) -> Result<Duration, Error> {
        let begin = Instant::now();
        for _ in 0..iterations {
            self.gather(part, || ())?;
            self.sum(0.0, || ())?;
            self.sum(0.0, || ())?;
        }
        Ok(begin.elapsed())
    }
}

impl<S: Swap<f64>> Exchange for ByMessages<S> {
    type Error = Error;

    fn gather(&mut self, part: &[f64], meanwhile: impl FnOnce()) -> Result<&[f64], Error> {
        meanwhile();
        let Self { parts, vector, terms, rank, .. } = self;
        let (unknowns, ranks) = (vector.len(), terms.len() as u32);
        let mut place = |rank, part: &[f64]| vector[block(unknowns, rank, ranks)].copy_from_slice(part);
        place(*rank, part);
        parts.swap(part, place)?;
        Ok(&self.vector)
    }

    fn sum(&mut self, mine: f64, meanwhile: impl FnOnce()) -> Result<f64, Error> {
        meanwhile();
        let Self { sums, terms, rank, .. } = self;
        terms[*rank as usize] = mine;
        sums.swap(&[mine], |rank, theirs| terms[rank as usize] = theirs[0])?;
        // In the order of the ranks, so that all have the same sum to the last bit and end in the same iteration.
        Ok(terms.iter().sum())
    }
}

const SETTINGS: Settings = Settings { tolerance: 1e-10, iterations_max: 100 };
/// What the tolerance leaves.
const DIFFERENCE_MAX: f64 = 1e-6;
const PARTS: i32 = 1;
const SUMS: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::everybody;

    #[test]
    fn computing_alone_goes_on_when_a_part_is_solved() {
        everybody((1, 2), |world| {
            // Of three one rank has a single one, and of one the other has none.
            for unknowns in [100, 3, 1] {
                let rows = Rows::dense(unknowns, block(unknowns, world.rank(), world.size()), SEED);
                assert_eq!(solve_alone(&world, unknowns, &rows, 20).unwrap().0.iterations, 20);
            }
        });
    }
}
