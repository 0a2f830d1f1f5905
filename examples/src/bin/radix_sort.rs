//! Sorts keys that are dealt to the ranks, and says what overlap is worth.
//!
//! `ropeway run -n 4 -- target/release/radix_sort --keys 4K,64K --bits 2,4,8,16`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use ropeway::{Communicator, Error, Operator};
use ropeway_examples::radix_sort::{Sorter, Times, random_keys};
use ropeway_examples::{Size, Table, Variant, together};
use serde::Serialize;

/// Sorts 32-bit keys by their digits, blocking and overlapped, and compares with a serial sort.
///
/// Each digit needs an allgather of everybody's counts. The overlapped variant puts its own keys in order meanwhile.
/// The table says by how many percent it is faster than the blocking one; a negative number says that it is slower. With one rank on
/// each node the allgather is flat, with several it has two levels.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- radix_sort --keys 4K,64K --bits 2,4,8,16")]
struct Flags {
    /// Keys of each rank.
    #[arg(long, value_delimiter = ',', default_value = "4K,64K")]
    keys: Vec<Size>,
    /// Bits of a digit, 2 to 16: the radix is 2 to the power of them.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "2,4,8,10,12,14,16",
        value_parser = clap::value_parser!(u32).range(2..=16)
    )]
    bits: Vec<u32>,
    /// Algorithms of the allgather between nodes, such as standard-exchange:3, which has three ports; each is a row. `ropeway
    /// explain allgather` lists them. On one node they change nothing: start it with ropeway run --nodes 4 [default: the one that is
    /// predicted to be fastest]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    algorithm: Vec<String>,
    /// Sorts of each variant, in turns; the fastest counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Seed of the keys.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Both variants with one number of keys and one radix.
#[derive(Serialize)]
struct Report {
    ranks: u32,
    keys: usize,
    bits: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<String>,
    blocking: Run,
    overlapped: Run,
    improvement_percent: f64,
}

/// The fastest run of a variant, times in milliseconds.
#[derive(Clone, Copy, Serialize)]
struct Run {
    /// Of the slowest rank; the others are means of all ranks.
    total_ms: f64,
    allgather_ms: f64,
    redistribution_ms: f64,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error("{keys} keys of each rank, {bits} bits, {variant}: not what a serial sort gives")]
    Wrong { keys: Size, bits: u32, variant: Variant },
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("radix_sort: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    let mut reports = Vec::new();
    for &keys in &flags.keys {
        let case = Case::new(&world, flags.seed, keys);
        for (algorithm, &bits) in flags.rows().flat_map(|row| flags.bits.iter().map(move |bits| (row, bits))) {
            let report = case.compare(&world, flags, (algorithm, bits))?;
            if flags.json && world.rank() == 0 {
                println!("{}", serde_json::to_string(&report).expect("numbers can be written"));
            }
            reports.push(report);
        }
    }
    if !flags.json && world.rank() == 0 {
        print_table(flags, &reports);
    }
    Ok(())
}

impl Flags {
    /// Algorithms by which each number of keys is sorted, `None` for whatever is fastest.
    fn rows(&self) -> impl Iterator<Item = Option<&str>> {
        let chosen = self.algorithm.is_empty().then_some(None);
        chosen.into_iter().chain(self.algorithm.iter().map(|name| Some(name.as_str())))
    }
}

/// Keys to be sorted.
struct Case {
    each: Size,
    keys: Vec<u32>,
    /// All keys, sorted serially. Only rank 0 has them.
    expected: Vec<u32>,
}

impl Case {
    fn new(world: &Communicator, seed: u64, each: Size) -> Self {
        let ranks = if world.rank() == 0 { world.size() } else { 0 };
        let mut expected: Vec<u32> = (0..ranks).flat_map(|rank| random_keys(seed, rank, each.0)).collect();
        expected.sort_unstable();
        Self { each, keys: random_keys(seed, world.rank(), each.0), expected }
    }

    /// Sorts them with both variants in turns.
    fn compare(
        &self,
        world: &Communicator,
        flags: &Flags,
        (algorithm, bits): (Option<&str>, u32),
    ) -> Result<Report, Failure> {
        let sorting = algorithm.map_or_else(|| world.clone(), |name| world.with_algorithm(name));
        let mut sorter = Sorter::new(&sorting, self.each.0, bits)?;
        let (mut blocking, mut overlapped) = (Vec::new(), Vec::new());
        for _ in 0..flags.runs {
            blocking.push(self.sort(world, &mut sorter, bits, Variant::Blocking)?);
            overlapped.push(self.sort(world, &mut sorter, bits, Variant::Overlapped)?);
        }
        let (blocking, overlapped) = (fastest(&blocking), fastest(&overlapped));
        let improvement_percent = (1.0 - overlapped.total_ms / blocking.total_ms) * 100.0;
        let (ranks, keys, algorithm) = (world.size(), self.each.0, algorithm.map(str::to_owned));
        Ok(Report { ranks, keys, bits, algorithm, blocking, overlapped, improvement_percent })
    }

    /// Sorts a copy of the keys, and compares the result.
    fn sort(&self, world: &Communicator, sorter: &mut Sorter, bits: u32, variant: Variant) -> Result<Run, Failure> {
        let mut keys = self.keys.clone();
        world.barrier()?;
        let times = sorter.sort(&mut keys, variant)?;
        if together::gather(world, &keys, |_| keys.len())? != self.expected {
            return Err(Failure::Wrong { keys: self.each, bits, variant });
        }
        Ok(Run::of_all(world, times)?)
    }
}

impl Run {
    fn of_all(world: &Communicator, times: Times) -> Result<Self, Error> {
        let [total, allgather, redistribution] =
            [times.total, times.allgather, times.redistribution].map(|time| time.as_secs_f64() * 1e3);
        let slowest = together::combine(world, Operator::Max, &[total])?;
        let means = together::mean(world, &[allgather, redistribution])?;
        Ok(Self { total_ms: slowest[0], allgather_ms: means[0], redistribution_ms: means[1] })
    }
}

fn fastest(runs: &[Run]) -> Run {
    let fastest = runs.iter().min_by(|a, b| a.total_ms.total_cmp(&b.total_ms));
    *fastest.expect("there is at least one run")
}

/// A row for each number of keys and each algorithm, a column for each radix.
fn print_table(flags: &Flags, reports: &[Report]) {
    println!("{} ranks; how much faster than blocking the overlapped sort is, in %:", reports[0].ranks);
    if !flags.algorithm.is_empty() {
        println!("allgather: between nodes, by this algorithm; on one node it changes nothing");
    }
    let columns = flags.bits.iter().map(|bits| format!("{bits} bits"));
    let names = if flags.algorithm.is_empty() { vec!["keys"] } else { vec!["keys", "allgather"] };
    let heading: Vec<String> = names.into_iter().map(str::to_owned).chain(columns).collect();
    let mut table = Table::new(&heading.iter().map(String::as_str).collect::<Vec<_>>());
    let rows = flags.keys.iter().flat_map(|keys| flags.rows().map(move |algorithm| (keys, algorithm)));
    for ((keys, algorithm), reports) in rows.zip(reports.chunks(flags.bits.len())) {
        let names = [keys.to_string()].into_iter().chain(algorithm.map(str::to_owned));
        let cells = reports.iter().map(|report| format!("{:.2}", report.improvement_percent));
        table.push(names.chain(cells).collect());
    }
    print!("{table}");
}
