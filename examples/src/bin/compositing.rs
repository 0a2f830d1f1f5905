//! Lays PNG pictures over each other, one of each rank.
//!
//! `ropeway run -n 4 -- target/release/compositing --make-layers layers --output picture.png --check`
#![forbid(unsafe_code)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use ropeway::{Communicator, Error};
use ropeway_examples::compositing::{Compositor, Image, ImageError, blend, draw};

/// Lays PNG pictures over each other with the `over` operator, in parallel: one of each rank, the first in front.
#[derive(Parser)]
#[command(
    version,
    after_help = "\
Start it with:
  ropeway run -n 4 -- compositing --make-layers layers --output picture.png --check
  ropeway run -n 3 -- compositing front.png middle.png back.png --output picture.png"
)]
struct Flags {
    /// The layers from front to back, as many as there are ranks.
    #[arg(value_name = "LAYER", required_unless_present = "make_layers")]
    layers: Vec<PathBuf>,
    /// Draw the layers first, each rank its own, into files in this directory.
    #[arg(long, value_name = "DIR", conflicts_with = "layers")]
    make_layers: Option<PathBuf>,
    /// Width of drawn layers.
    #[arg(long, default_value_t = 640, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    width: u32,
    /// Height of drawn layers.
    #[arg(long, default_value_t = 480, value_parser = clap::value_parser!(u32).range(1..=1 << 14))]
    height: u32,
    /// Where the picture is written.
    #[arg(long, value_name = "FILE", default_value = "composited.png")]
    output: PathBuf,
    /// Compare the picture with a serial blend, bit by bit.
    #[arg(long)]
    check: bool,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Ropeway(#[from] Error),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error("can't make the directory {}: {source}", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("there are {layers} layers, but {ranks} ranks; start it with -n {layers}")]
    Layers { layers: usize, ranks: usize },
    #[error("{} has {found:?} pixels, {} has {first:?}; they must be alike", path.display(), first_path.display())]
    Sizes { path: PathBuf, found: [u32; 2], first_path: PathBuf, first: [u32; 2] },
    #[error("row {row}, column {column} differs from the serial blend")]
    Differs { row: usize, column: usize },
}

fn main() -> ExitCode {
    match run(&Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("compositing: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(flags: &Flags) -> Result<(), Failure> {
    let session = ropeway::init()?;
    let world = session.world();
    let rank = world.rank() as usize;
    let paths = layer_paths(flags, &world)?;
    let layer = Image::read_png(&paths[rank])?;
    check_sizes(&world, &paths, &layer)?;

    let mut compositor = Compositor::new(&world, layer.width, layer.height)?;
    world.barrier()?;
    let begin = Instant::now();
    let pixels = compositor.composite(&layer.pixels)?;
    if rank != 0 {
        return Ok(());
    }
    let ms = begin.elapsed().as_secs_f64() * 1e3;
    let picture = Image { pixels: pixels.to_vec(), ..layer };
    picture.write_png(&flags.output)?;
    let Image { width, height, .. } = picture;
    println!("{} layers of {width} x {height} pixels in {ms:.2} ms: {}", paths.len(), flags.output.display());
    if flags.check {
        compare(&picture, &paths)?;
        println!("the same as the serial blend, to the bit");
    }
    Ok(())
}

/// The files of all layers, after this rank's was drawn if it is to be.
fn layer_paths(flags: &Flags, world: &Communicator) -> Result<Vec<PathBuf>, Failure> {
    let (rank, ranks) = (world.rank(), world.size());
    let Some(directory) = &flags.make_layers else {
        let (layers, ranks) = (flags.layers.len(), ranks as usize);
        return if layers == ranks { Ok(flags.layers.clone()) } else { Err(Failure::Layers { layers, ranks }) };
    };
    fs::create_dir_all(directory).map_err(|source| Failure::Directory { path: directory.clone(), source })?;
    let path = |rank: u32| directory.join(format!("layer-{rank:03}.png"));
    draw(flags.width as usize, flags.height as usize, rank, ranks).write_png(&path(rank))?;
    Ok((0..ranks).map(path).collect())
}

fn check_sizes(world: &Communicator, paths: &[PathBuf], layer: &Image) -> Result<(), Failure> {
    let mut sizes = world.allgather_init::<[u32; 2]>(1)?;
    sizes.input_mut()[0] = [layer.width as u32, layer.height as u32];
    sizes.start()?.wait()?;
    let first = sizes.output()[0];
    match sizes.output().iter().zip(paths).find(|&(&size, _)| size != first) {
        Some((&found, path)) => Err(Failure::Sizes { path: path.clone(), found, first_path: paths[0].clone(), first }),
        None => Ok(()),
    }
}

/// Blends all layers in this process alone, and compares.
fn compare(picture: &Image, paths: &[impl AsRef<Path>]) -> Result<(), Failure> {
    let layers = paths.iter().map(|path| Image::read_png(path.as_ref())).collect::<Result<Vec<_>, _>>()?;
    let mut serial = vec![[0; 4]; picture.pixels.len()];
    blend(layers.iter().map(|layer| &layer.pixels[..]), &mut serial);
    match picture.pixels.iter().zip(&serial).position(|(ours, theirs)| ours != theirs) {
        Some(index) => Err(Failure::Differs { row: index / picture.width, column: index % picture.width }),
        None => Ok(()),
    }
}
