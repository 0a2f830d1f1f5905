//! The files of `ropeway run --trace` and `--record`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use ropeway_proto::limits::LOG_EVENTS_MAX;
use ropeway_shm::EventLog;

use crate::failure::Failure;
use crate::history::{History, recording, trace};
use crate::launch::{Daemons, Logs};

/// What the user wants to keep of a job.
#[derive(clap::Args)]
pub(super) struct Wanted {
    /// Write a timeline to FILE: what each rank and daemon did when, for ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write each rank's starts, waits and sizes to FILE, for `ropeway predict`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// The logs of a job, and the files that come of them. Those are open before the job starts, so that no job runs in vain.
pub(super) struct Logged {
    trace: Option<Output>,
    record: Option<Output>,
    pub(super) logs: Logs,
}

struct Output {
    path: PathBuf,
    file: File,
}

impl Wanted {
    /// Opens the files and makes the logs, if any are wanted.
    pub(super) fn open(&self, ranks: u32, daemons: &Daemons) -> Result<Option<Logged>, Failure> {
        if self.trace.is_some() && self.trace == self.record {
            return Err(Failure::Usage("--trace and --record need different files".to_owned()));
        }
        let (trace, record) = (self.trace.as_deref().map(create), self.record.as_deref().map(create));
        if trace.is_none() && record.is_none() {
            return Ok(None);
        }
        let (trace, record) = (trace.transpose()?, record.transpose()?);
        Ok(Some(Logged { trace, record, logs: Logs::create(ranks, daemons)? }))
    }
}

impl Logged {
    /// Writes the files when the job has ended, and says what they lack. `daemons`, if they are ours, end before: they tell
    /// of their last moments then.
    pub(super) fn write(self, first_ranks: Vec<u32>, daemons: Daemons) -> Result<(), Failure> {
        let end_ns = EventLog::now_ns();
        let is_systems = matches!(daemons, Daemons::System(_));
        drop(daemons);
        let history = History::of(&self.logs, first_ranks, end_ns);
        if let Some(output) = &self.trace {
            output.write(|out| trace::write(&history, out))?;
            eprintln!("ropeway: timeline in {}: open it in ui.perfetto.dev or chrome://tracing", output.path.display());
            if is_systems {
                eprintln!("ropeway: it lacks the daemon: the system's serves others too, and keeps no log");
            }
        }
        if let Some(output) = &self.record {
            output.write(|out| recording::write(&history, out))?;
            eprintln!("ropeway: recording in {}: see `ropeway predict {0}`", output.path.display());
        }
        for (rank, told) in history.ranks.iter().enumerate().filter(|(_, told)| told.lost > 0) {
            let lost = told.lost;
            eprintln!(
                "ropeway: rank {rank}: its last {lost} events are lost, a log has at most {LOG_EVENTS_MAX}; shorten the run"
            );
        }
        Ok(())
    }
}

impl Output {
    fn write(&self, write: impl FnOnce(BufWriter<&File>) -> io::Result<()>) -> Result<(), Failure> {
        write(BufWriter::new(&self.file)).map_err(|error| Failure::cannot_write(&self.path, &error))
    }
}

fn create(path: &Path) -> Result<Output, Failure> {
    let file = File::create(path).map_err(|error| Failure::cannot_write(path, &error))?;
    Ok(Output { path: path.to_owned(), file })
}
