//! What the ranks of the demonstration do.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use ropeway::Communicator;
use ropeway_bench::{Console, cpu_time, gather};
use ropeway_examples::jacobi::{
    Exchange, NotDominant, OneShot, Persistent, Settings, Solution, System, exchange_only, solve,
};
use ropeway_examples::matrix_market::{self, ReadError};
use ropeway_examples::{Mode, block};
use serde::{Deserialize, Serialize};

/// Solves a system again and again, with both kinds of messages in turns.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct JacobiTask {
    pub(crate) size: u32,
    pub(crate) seed: u64,
    pub(crate) matrix: Option<PathBuf>,
    pub(crate) runs: u32,
}

/// One solution. Times in milliseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Solved {
    pub(crate) mode: Mode,
    /// Until the last rank had it, binding included.
    pub(crate) total_ms: f64,
    /// A rank's time in calls of Ropeway, on average, binding included.
    pub(crate) communication_ms: f64,
    /// The part of it before the first iteration.
    pub(crate) setup_ms: f64,
    /// The same messages once more without computing, so that nobody waits for a rank that computes; binding not included.
    pub(crate) messages_ms: f64,
    /// CPU time of all ranks.
    pub(crate) rank_cpu_s: f64,
    pub(crate) iterations: usize,
    /// Whether all ranks have the same solution.
    pub(crate) ranks_agree: bool,
    pub(crate) x: Vec<f32>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    #[error(transparent)]
    Ropeway(#[from] ropeway::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
    #[error(transparent)]
    NotDominant(#[from] NotDominant),
}

impl JacobiTask {
    pub(crate) fn run(&self, world: &Communicator, console: &mut Console) -> Result<(), TaskError> {
        let system = self.my_rows(world)?;
        // The first of each kind only warms up.
        for run in 0..=self.runs {
            for mode in [Mode::OneShot, Mode::Persistent] {
                let label = if run == 0 { "warm-up".to_owned() } else { mode.to_string() };
                let solved = match mode {
                    Mode::OneShot => timed(console, &label, &system, |unknowns| OneShot::new(world, unknowns))?,
                    Mode::Persistent => timed(console, &label, &system, |unknowns| Persistent::new(world, unknowns))?,
                };
                let all = gather(world, solved.figures())?;
                if let Some(all) = all.filter(|_| run > 0) {
                    console.outcome(&label, solved.together(mode, &all))?;
                }
            }
        }
        Ok(())
    }

    fn my_rows(&self, world: &Communicator) -> Result<System, TaskError> {
        let rows = |unknowns| block(unknowns, world.rank(), world.size());
        match &self.matrix {
            None => Ok(System::generate(self.size as usize, rows(self.size as usize), self.seed)),
            Some(path) => {
                let matrix = matrix_market::read(path)?;
                let rows = rows(matrix.size);
                Ok(System::from_matrix(matrix.size, matrix.elements)?.block(rows))
            }
        }
    }
}

/// A rank's own view of a solve.
struct Timed {
    solution: Solution,
    total_ms: f64,
    setup_ms: f64,
    messages_ms: f64,
    cpu_s: f64,
}

/// Solves the system, and then exchanges the same messages again without computing.
fn timed<E>(
    console: &mut Console,
    label: &str,
    system: &System,
    prepare: impl FnOnce(usize) -> Result<E, ropeway::Error>,
) -> Result<Timed, TaskError>
where
    E: Exchange<Error = ropeway::Error>,
{
    let (mut timed, mut exchange) = console.step(label, || {
        let (begin, cpu_before) = (Instant::now(), cpu_time()?);
        let mut exchange = prepare(system.unknowns())?;
        let setup_ms = ms_since(begin);
        let solution = solve(system, &mut exchange, Settings::default())?;
        let total_ms = ms_since(begin);
        let cpu_s = (cpu_time()? - cpu_before).as_secs_f64();
        Ok::<_, TaskError>((Timed { solution, total_ms, setup_ms, messages_ms: 0.0, cpu_s }, exchange))
    })?;
    let alone = || Ok::<_, TaskError>(exchange_only(system, &mut exchange, &timed.solution)?);
    let alone = console.step("messages alone", alone)?;
    timed.messages_ms = alone.as_secs_f64() * 1e3;
    Ok(timed)
}

fn ms_since(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

impl Timed {
    /// What rank 0 has to know of each rank.
    fn figures(&self) -> [f64; 6] {
        let communication_ms = self.solution.communication.as_secs_f64() * 1e3 + self.setup_ms;
        let sum = self.solution.x.iter().copied().map(f64::from).sum();
        [self.total_ms, communication_ms, self.setup_ms, self.messages_ms, self.cpu_s, sum]
    }

    fn together(self, mode: Mode, all: &[[f64; 6]]) -> Solved {
        let sum = |figure: usize| all.iter().map(|figures| figures[figure]).sum::<f64>();
        let mean = |figure| sum(figure) / all.len() as f64;
        let [.., checksum] = self.figures();
        Solved {
            mode,
            total_ms: all.iter().map(|figures| figures[0]).fold(0.0, f64::max),
            communication_ms: mean(1),
            setup_ms: mean(2),
            messages_ms: mean(3),
            rank_cpu_s: sum(4),
            iterations: self.solution.iterations,
            ranks_agree: all.iter().all(|figures| figures[5].to_bits() == checksum.to_bits()),
            x: self.solution.x,
        }
    }
}
