//! Transforms a signal that is dealt to the ranks, its all-to-alls cut in segments.
//!
//! `ropeway run -n 4 -- target/release/fft --size 1M --segments 1,4,16`
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ropeway::{Communicator, Error, Operator};
use ropeway_examples::fft::{
    Complex32, Shape, Times, Transform, UnfitSize, relative_error, signal, transform_serially,
};
use ropeway_examples::{Size, Table, together};
use serde::Serialize;

/// Transforms a signal with the all-to-alls cut in segments, so that one travels while another is computed; compares
/// with a serial transform.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- fft --size 1M --segments 1,4,16")]
struct Flags {
    /// Complex points in single precision, a power of two.
    #[arg(long, default_value = "256K")]
    size: Size,
    /// Segments of an all-to-all, 1 to 64; several numbers are compared.
    #[arg(long, value_delimiter = ',', default_value = "1,8", value_parser = clap::value_parser!(u32).range(1..=64))]
    segments: Vec<u32>,
    /// Transforms with each number of segments, in turns.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seed of the signal.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// What came of so many segments.
#[derive(Serialize)]
struct Report {
    segments: u32,
    ranks: u32,
    size: usize,
    /// From the serial transform, relative to its length.
    relative_error: f64,
    #[serde(flatten)]
    fastest: Run,
}

/// Times of a run in milliseconds.
#[derive(Clone, Copy, Serialize)]
struct Run {
    /// Of the slowest rank; the others are means of all ranks.
    total_ms: f64,
    transforms_ms: f64,
    packing_ms: f64,
    communication_ms: f64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error(transparent)]
    UnfitSize(#[from] UnfitSize),
    #[error("with {segments} segments the error should be at most {tolerance:.1e}, but is {found:.1e}")]
    Wrong { segments: u32, tolerance: f64, found: f64 },
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fft: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Transforms with so many segments.
struct Contestant {
    segments: u32,
    transform: Transform,
    after: Vec<Complex32>,
    times: Vec<Times>,
}

fn run(flags: &Flags) -> Result<(), Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    let (rank, ranks) = (world.rank(), world.size());
    let shape = Shape::new(flags.size.0, ranks)?;
    let before = signal(flags.seed, shape.before(rank, ranks));
    let mut contestants = Vec::new();
    for &segments in &flags.segments {
        let transform = Transform::new(&world, shape, segments)?;
        let after = vec![Complex32::default(); shape.after(rank, ranks).len()];
        contestants.push(Contestant { segments, transform, after, times: Vec::new() });
    }
    for _ in 0..flags.runs {
        for Contestant { transform, after, times, .. } in &mut contestants {
            world.barrier()?;
            times.push(transform.run(&before, after)?);
        }
    }
    let reference = if rank == 0 { transform_serially(&signal(flags.seed, 0..flags.size.0)) } else { Vec::new() };
    let mut reports = Vec::new();
    for Contestant { segments, after, times, .. } in contestants {
        let pairs: Vec<_> = after.iter().map(|point| [point.re, point.im]).collect();
        let all = together::gather(&world, &pairs, |rank| shape.after(rank, ranks).len())?;
        let fastest = fastest(&world, &times)?;
        let relative_error = relative_error(&all, &reference);
        reports.push(Report { segments, ranks, size: flags.size.0, relative_error, fastest });
    }
    if rank == 0 { judge(flags, &reports) } else { Ok(()) }
}

/// The fastest run of all ranks together.
fn fastest(world: &Communicator, times: &[Times]) -> Result<Run, Error> {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let mine: Vec<f64> = times.iter().map(|times| ms(times.total)).collect();
    let totals = together::combine(world, Operator::Max, &mine)?;
    let parts: Vec<f64> =
        times.iter().flat_map(|times| [times.transforms, times.packing, times.communication].map(ms)).collect();
    let parts = together::mean(world, &parts)?;
    let runs = totals.iter().zip(parts.as_chunks().0);
    let runs = runs.map(|(&total_ms, &[transforms_ms, packing_ms, communication_ms])| Run {
        total_ms,
        transforms_ms,
        packing_ms,
        communication_ms,
    });
    Ok(runs.min_by(|a, b| a.total_ms.total_cmp(&b.total_ms)).expect("there is at least one run"))
}

/// Prints what was found, and says what is wrong with it.
fn judge(flags: &Flags, reports: &[Report]) -> Result<(), Failure> {
    if flags.json {
        for report in reports {
            println!("{}", serde_json::to_string(report).expect("numbers can be written"));
        }
    } else {
        print_table(flags, reports);
    }
    let tolerance = 4.0 * f64::from(f32::EPSILON) * f64::from(flags.size.0.ilog2().max(1));
    let is_wrong = |report: &&Report| report.relative_error > tolerance || report.relative_error.is_nan();
    match reports.iter().find(is_wrong) {
        Some(&Report { segments, relative_error: found, .. }) => Err(Failure::Wrong { segments, tolerance, found }),
        None => Ok(()),
    }
}

fn print_table(flags: &Flags, reports: &[Report]) {
    let error = reports.iter().map(|report| report.relative_error).fold(0.0, f64::max);
    println!("{} points on {} ranks, {error:.1e} from the serial transform", flags.size, reports[0].ranks);
    println!("the fastest of {} runs, in ms:", flags.runs);
    let mut table = Table::new(&["segments", "total", "transforms", "packing", "communication"]);
    for Report { segments, fastest, .. } in reports {
        let times = [fastest.total_ms, fastest.transforms_ms, fastest.packing_ms, fastest.communication_ms];
        let cells = times.iter().map(|time| format!("{time:.3}"));
        table.push([segments.to_string()].into_iter().chain(cells).collect());
    }
    print!("{table}");
}
