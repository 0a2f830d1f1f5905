//! The files of `ropeway run --trace` and `--record`.

use std::fs::File;
use std::io::{self, BufWriter};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ropeway_proto::limits::LOG_EVENTS_MAX;
use ropeway_shm::EventLog;

use crate::failure::{Failure, tell};
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
        let (trace, record) = (self.trace.as_deref().map(open), self.record.as_deref().map(open));
        if trace.is_none() && record.is_none() {
            return Ok(None);
        }
        let (trace, record) = (trace.transpose()?, record.transpose()?);
        if let (Some(trace), Some(record)) = (&trace, &record)
            && trace.identity()? == record.identity()?
        {
            return Err(Failure::Usage("--trace and --record need different files".to_owned()));
        }
        let logs = Logs::create(ranks, daemons)?;
        // Nothing can be refused now for which an older file should have stayed.
        [&trace, &record].into_iter().flatten().try_for_each(Output::empty)?;
        Ok(Some(Logged { trace, record, logs }))
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
        let traced = self.trace.as_ref().map(|output| output.write(|out| trace::write(&history, out)));
        let recorded = self.record.as_ref().map(|output| output.write(|out| recording::write(&history, out)));
        // Only now: whoever reads what we say may have gone.
        if let (Some(Output { path, .. }), Some(Ok(()))) = (&self.trace, &traced) {
            let file = path.display();
            tell(&format!("ropeway: timeline in {file}: open it in ui.perfetto.dev or chrome://tracing"));
            if is_systems {
                tell("ropeway: it lacks the daemon: the system's serves others too, and keeps no log");
            }
        }
        if let (Some(Output { path, .. }), Some(Ok(()))) = (&self.record, &recorded) {
            tell(&format!("ropeway: recording in {}: see `ropeway predict {0}`", path.display()));
        }
        let of_ranks = history.ranks.iter().enumerate().map(|(rank, told)| (format!("rank {rank}"), told.lost));
        let daemons = history.lost_by_daemons.iter().enumerate().filter(|_| self.trace.is_some());
        let of_daemons = daemons.map(|(node, &lost)| (format!("daemon of node {node}"), lost));
        for (who, lost) in of_ranks.chain(of_daemons).filter(|&(_, lost)| lost > 0) {
            tell(&format!(
                "ropeway: {who}: its last {lost} events are lost, a log has at most {LOG_EVENTS_MAX}; shorten the run"
            ));
        }
        traced.into_iter().chain(recorded).collect()
    }
}

impl Output {
    /// The same of two names of one file.
    fn identity(&self) -> Result<(u64, u64), Failure> {
        let metadata = self.file.metadata().map_err(|error| Failure::cannot_write(&self.path, &error))?;
        Ok((metadata.dev(), metadata.ino()))
    }

    fn empty(&self) -> Result<(), Failure> {
        // Pipes and devices have no length.
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied.map_err(|error| Failure::cannot_write(&self.path, &error))
    }

    fn write(&self, write: impl FnOnce(BufWriter<&File>) -> io::Result<()>) -> Result<(), Failure> {
        write(BufWriter::new(&self.file)).map_err(|error| Failure::cannot_write(&self.path, &error))
    }
}

/// Leaves what is in the file until it is clear that the job is started.
fn open(path: &Path) -> Result<Output, Failure> {
    let file = File::options().write(true).create(true).truncate(false).open(path);
    Ok(Output { path: path.to_owned(), file: file.map_err(|error| Failure::cannot_write(path, &error))? })
}
