//! `ropeway predict`: what a program would gain.

mod account;
mod recording;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::failure::{Failure, print};

/// Says where the time of a recorded program went, and what persistent requests and overlap would save.
///
/// The recording is that of `ropeway run --record FILE`. Of each rank's time it says how much was computing, how much calls of
/// the library, how much waiting for partners that started late, and how much waiting for transfer. The two savings are bounds
/// by the model of docs/tracing.md.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway run -n 4 --record run.jsonl -- ./solver
  ropeway predict run.jsonl
  ropeway predict run.jsonl --overhead o_s=0.6us     with what `ropeway bench overhead` says of this machine
  ropeway predict run.jsonl --json")]
pub(crate) struct Flags {
    /// The recording.
    #[arg(value_name = "FILE")]
    recording: PathBuf,
    /// What setting up a message costs, o_s=TIME with ns or us [default: the median of the recorded one-shot calls].
    #[arg(long, value_name = "o_s=TIME", value_parser = overhead)]
    overhead: Option<Duration>,
    /// One JSON object a line: a rank each, then all of them.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let prediction = recording::recorded(&flags.recording, flags.overhead)?;
    print(&if flags.json { prediction.json() } else { prediction.to_string() })
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
