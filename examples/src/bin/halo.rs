//! A spot of dye is carried east by a steady wind and spreads north and south; the ranks share the map by columns.
//!
//! The map is stored by rows, so the column a rank owes its eastern neighbour is one element of each row: a *strided*
//! layout, which the daemon gathers. The neighbour receives it as a plain vector. What flows east needs only its western
//! neighbour, and the world is round. Rank 0 computes the whole map alone as well, and compares.
//!
//! `ropeway run -n 4 -- target/release/halo --steps 200`
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use ropeway::{Communicator, Error, Strided};

/// Dye in the wind: a stencil on a grid that the ranks share by columns.
#[derive(Parser)]
#[command(version, after_help = "Start it with: ropeway run -n 4 -- halo --steps 200")]
struct Flags {
    /// Rows of the map.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    rows: u32,
    /// Columns of each rank.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    columns: u32,
    /// Steps in time.
    #[arg(long, default_value_t = 100)]
    steps: u32,
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("halo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the ranks together find what one finds alone.
fn run(flags: &Flags) -> Result<bool, Error> {
    let session = ropeway::init()?;
    let world = session.world();
    let (rank, size) = (world.rank(), world.size());
    let (west, east) = ((rank + size - 1) % size, (rank + 1) % size);
    let (rows, columns) = (flags.rows as usize, flags.columns as usize);

    let mut map = world.alloc::<f64>(rows * columns)?;
    map.copy_from_slice(&first_map(rows, columns, rank as usize * columns));
    let last_column = Strided { first: columns - 1, blocks: rows, block_len: 1, stride: columns };
    let mut send = world.send_init_strided(map, last_column, east, 0)?;
    let mut recv = world.recv_init(world.alloc::<f64>(rows)?, west, 0)?;

    for _ in 0..flags.steps {
        let receiving = recv.start()?;
        send.start()?.wait()?;
        receiving.wait()?;
        step(send.buffer_mut(), columns, recv.buffer());
    }
    compare(&world, flags, send.buffer())
}

/// The columns of the map from `first` on: one spot of dye in the middle of rank 0's part.
fn first_map(rows: usize, columns: usize, first: usize) -> Vec<f64> {
    let mut map = vec![0.0; rows * columns];
    if first == 0 {
        map[rows / 2 * columns + columns / 2] = 1000.0;
    }
    map
}

/// Half of the dye in each cell moves on to the east, a fifth to the north and the south.
fn step(map: &mut [f64], columns: usize, western_halo: &[f64]) {
    let old = map.to_vec();
    let rows = western_halo.len();
    for row in 0..rows {
        let (north, south) = ((row + rows - 1) % rows, (row + 1) % rows);
        for column in 0..columns {
            let west = if column == 0 { western_halo[row] } else { old[row * columns + column - 1] };
            let beside = old[north * columns + column] + old[south * columns + column];
            map[row * columns + column] = 0.3 * old[row * columns + column] + 0.5 * west + 0.1 * beside;
        }
    }
}

/// Rank 0 compares everybody's part with its own computation of all parts.
fn compare(world: &Communicator, flags: &Flags, part: &[f64]) -> Result<bool, Error> {
    if world.rank() != 0 {
        world.send(part, 0, 1)?;
        return Ok(true);
    }
    let (rows, columns, ranks) = (flags.rows as usize, flags.columns as usize, world.size() as usize);
    let width = columns * ranks;
    let mut whole = first_map(rows, columns, 0).chunks(columns).flat_map(|row| padded(row, width)).collect::<Vec<_>>();
    for _ in 0..flags.steps {
        let halo: Vec<f64> = whole.chunks(width).map(|row| row[width - 1]).collect();
        step(&mut whole, width, &halo);
    }
    let mut theirs = part.to_vec();
    for rank in 0..ranks {
        if rank > 0 {
            world.recv(&mut theirs, rank as u32, 1)?;
        }
        let ours = whole.chunks(width).flat_map(|row| &row[rank * columns..][..columns]);
        if !theirs.iter().eq(ours) {
            eprintln!("halo: the part of rank {rank} differs from the serial computation");
            return Ok(false);
        }
    }
    println!("{} steps on {rows} x {width} cells: the same as computed serially", flags.steps);
    Ok(true)
}

fn padded(row: &[f64], width: usize) -> Vec<f64> {
    let mut row = row.to_vec();
    row.resize(width, 0.0);
    row
}
