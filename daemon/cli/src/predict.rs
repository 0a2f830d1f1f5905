//! `ropeway predict`: what a program would gain.

mod account;
mod described;
mod description;
mod outlook;
mod parameters;
mod recording;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use self::described::Described;
use crate::failure::{Failure, print};

/// Predicts what early binding, overlap and cutting messages in segments would gain a program.
///
/// The program was recorded by `ropeway run --record FILE`, or is described by what one of its ranks does in an iteration.
///
/// Of a recording it says how much of each rank's time was computing, how much calls of the library, how much waiting for
/// partners that started late, and how much waiting for transfer; what could be saved follows the model of docs/tracing.md.
///
/// For a description, the parameters of the model BOUM are measured now, in a few seconds for each size, or read from what
/// `ropeway bench boum --json` has printed. All ranks are taken to be alike, and each to have a core.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway run -n 4 --record run.jsonl -- ./solver && ropeway predict run.jsonl
  ropeway predict run.jsonl --overhead o_s=0.6us     with what `ropeway bench overhead` says of this machine
  ropeway bench boum --json > here.jsonl && ropeway predict run.jsonl --parameters here.jsonl
  ropeway predict --compute 5ms --message 64K --count 4
  ropeway predict --compute 300us --message 8K --iterations 100 --nodes 2
  ropeway bench boum --json > here.jsonl && ropeway predict --compute 5ms --message 1M --parameters here.jsonl
  ropeway predict --description my-program.toml

A description with messages of several sizes:
  compute = \"5ms\"
  iterations = 1000
  [[message]]
  bytes = \"64K\"
  count = 4
  [[message]]
  bytes = \"16\"
  count = 2")]
#[command(group(ArgGroup::new("program").args(["recording", "compute", "description"]).required(true)))]
pub(crate) struct Flags {
    /// A recording.
    #[arg(value_name = "FILE", conflicts_with_all = ["compute", "message", "count", "iterations", "nodes", "wait", "config"])]
    recording: Option<PathBuf>,
    /// What setting up a recorded message costs, o_s=TIME with ns or us [default: at most the whole of a recorded one-shot call].
    #[arg(long, value_name = "o_s=TIME", value_parser = overhead, conflicts_with_all = ["compute", "description", "parameters"])]
    overhead: Option<Duration>,
    #[command(flatten)]
    described: Described,
    /// JSON instead of tables; of a recording an object for each rank, then one for all of them.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let json = flags.json;
    print(&if let Some(file) = &flags.recording {
        let prediction = recording::recorded(file, (flags.overhead, flags.described.parameters.as_deref()))?;
        if json { prediction.json() } else { prediction.to_string() }
    } else {
        let outlook = flags.described.outlook()?;
        if json { outlook.json() } else { outlook.text() }
    })
}

/// `o_s=0.6us`.
fn overhead(word: &str) -> Result<Duration, String> {
    let (time, ns) = match word.strip_prefix("o_s=") {
        Some(time) if time.ends_with("ns") => (&time[..time.len() - 2], 1.0),
        Some(time) if time.ends_with("us") => (&time[..time.len() - 2], 1e3),
        _ => return Err(BAD_OVERHEAD.to_owned()),
    };
    let seconds = time.parse().ok().and_then(|time: f64| Duration::try_from_secs_f64(time * ns / 1e9).ok());
    seconds.ok_or_else(|| BAD_OVERHEAD.to_owned())
}

const BAD_OVERHEAD: &str = "is not a set-up overhead, such as o_s=600ns or o_s=0.6us";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads_have_units() {
        assert_eq!(overhead("o_s=600ns"), Ok(Duration::from_nanos(600)));
        assert_eq!(overhead("o_s=0.6us"), Ok(Duration::from_nanos(600)));
        for word in ["", "o_s", "o_s=", "o_s=6", "o_s=xus", "o_s=-1ns", "o_i=1us", "600ns"] {
            assert_eq!(overhead(word), Err(BAD_OVERHEAD.to_owned()), "{word}");
        }
    }
}
