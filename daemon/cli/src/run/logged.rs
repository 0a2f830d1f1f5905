//! The files of `ropeway run --trace` and `--record`.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::signal::Signal;
use ropeway_proto::limits::LOG_EVENTS_MAX;
use ropeway_shm::EventLog;

use crate::failure::{Failure, tell};
use crate::files::behind_links;
use crate::history::{History, recording, trace};
use crate::launch::{Daemons, Events, Logs, Outcome};

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

/// The files. They are open before the job starts, so that no job runs in vain.
pub(super) struct Files {
    trace: Option<Output>,
    record: Option<Output>,
}

/// The logs of a job, and the files that come of them.
pub(super) struct Logged {
    files: Files,
    pub(super) logs: Logs,
}

/// A file. Until the job has started what is in it stays, and if it never does, what was not there is gone again.
struct Output {
    path: PathBuf,
    file: File,
    /// There was none, and there is no job yet.
    is_new: bool,
}

/// A file that is written until we should end.
struct Watched<'a> {
    file: &'a File,
    interrupt: &'a Interrupt<'a>,
}

/// The signal that we should end by, once it has come.
struct Interrupt<'a> {
    events: &'a Events,
    signal: Cell<Option<Signal>>,
}

impl Wanted {
    /// Opens the files, if any are wanted.
    pub(super) fn open(&self) -> Result<Option<Files>, Failure> {
        let (trace, record) = (self.trace.as_deref(), self.record.as_deref());
        // What is new comes last: who is interrupted while a pipe waits for its reader leaves no empty file.
        let (trace, record) = if trace.is_some_and(|path| !path.exists()) {
            let record = record.map(open);
            (trace.map(open), record)
        } else {
            (trace.map(open), record.map(open))
        };
        if trace.is_none() && record.is_none() {
            return Ok(None);
        }
        let (trace, record) = (trace.transpose()?, record.transpose()?);
        if let (Some(trace), Some(record)) = (&trace, &record)
            && trace.identity()? == record.identity()?
        {
            return Err(Failure::Usage("--trace and --record need different files".to_owned()));
        }
        Ok(Some(Files { trace, record }))
    }
}

impl Files {
    /// Makes the logs.
    pub(super) fn logged(self, ranks: u32, daemons: &Daemons) -> Result<Logged, Failure> {
        Ok(Logged { files: self, logs: Logs::create(ranks, daemons)? })
    }
}

impl Logged {
    /// The job has started: the files are its own now.
    pub(super) fn begin(&mut self) -> Result<(), Failure> {
        let Files { trace, record } = &mut self.files;
        trace.iter_mut().chain(record).try_for_each(Output::begin)
    }

    /// Writes the files when the job has ended, and says what they lack. `daemons`, if they are ours, end before: they tell
    /// of their last moments then.
    pub(super) fn write(self, first_ranks: Vec<u32>, daemons: Daemons, events: &Events) -> Result<(), Failure> {
        let end_ns = EventLog::now_ns();
        let is_systems = matches!(daemons, Daemons::System(_));
        drop(daemons);
        let history = History::of(&self.logs, first_ranks, end_ns);
        let Files { trace, record } = &self.files;
        let interrupt = Interrupt { events, signal: Cell::new(None) };
        let traced = trace.as_ref().map(|output| output.write(&interrupt, |out| trace::write(&history, out)));
        let recorded = record.as_ref().map(|output| output.write(&interrupt, |out| recording::write(&history, out)));
        // Only now: whoever reads what we say may have gone.
        if let (Some(Output { path, .. }), Some(Ok(()))) = (trace, &traced) {
            let file = path.display();
            tell(&format!("ropeway: timeline in {file}: open it in ui.perfetto.dev or chrome://tracing"));
            if is_systems {
                tell("ropeway: it lacks the daemon: the system's serves others too, and keeps no log");
            }
        }
        if let (Some(Output { path, .. }), Some(Ok(()))) = (record, &recorded) {
            tell(&format!("ropeway: recording in {}: see `ropeway predict {0}`", path.display()));
        }
        let of_ranks = history.ranks.iter().enumerate().map(|(rank, told)| (format!("rank {rank}"), told.lost));
        let daemons = history.lost_by_daemons.iter().enumerate().filter(|_| trace.is_some());
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

    fn begin(&mut self) -> Result<(), Failure> {
        self.is_new = false;
        // Pipes and devices have no length.
        let is_file = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let emptied = if is_file { self.file.set_len(0) } else { Ok(()) };
        emptied.map_err(|error| Failure::cannot_write(&self.path, &error))
    }

    fn write(
        &self,
        interrupt: &Interrupt<'_>,
        write: impl FnOnce(BufWriter<Watched<'_>>) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let written = write(BufWriter::new(Watched { file: &self.file, interrupt }));
        written.map_err(|error| match interrupt.signal.get() {
            Some(signal) => {
                tell(&format!("ropeway: {} is incomplete", self.path.display()));
                Failure::Job(Outcome::Interrupted(signal))
            }
            None => Failure::cannot_write(&self.path, &error),
        })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_new {
            // An empty file more does no harm.
            let _ = fs::remove_file(behind_links(&self.path));
        }
    }
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.interrupt.check()?;
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = &mut [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
                    // Whatever it says, the next write knows better.
                    let _ = poll(room, SLICE_MS);
                }
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Interrupt<'_> {
    fn check(&self) -> io::Result<()> {
        if self.signal.get().is_none() {
            self.signal.set(self.events.interrupted(Duration::ZERO));
        }
        // Not `Interrupted`, after which one tries again.
        if self.signal.get().is_some() { Err(io::Error::other("interrupted")) } else { Ok(()) }
    }
}

/// Leaves what is in the file until it is clear that the job is started.
fn open(path: &Path) -> Result<Output, Failure> {
    let is_new = !path.exists();
    let file = File::options().write(true).create(true).truncate(false).open(path);
    let file = file.and_then(|file| unblocked(&file).map(|()| file));
    Ok(Output { path: path.to_owned(), file: file.map_err(|error| Failure::cannot_write(path, &error))?, is_new })
}

/// From now on a pipe or a device that has no room says so. A write that waits is begun again after a signal, and nobody would hear of that.
fn unblocked(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        return Ok(());
    }
    let flags = OFlag::from_bits_retain(fcntl(file, FcntlArg::F_GETFL)?);
    fcntl(file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Nobody notices that it takes so long to be heard.
const SLICE_MS: u8 = 50;
