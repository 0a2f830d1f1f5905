//! The processes of a job.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, dup};
use ropeway::control::ControlSocket;

use super::Outcome;
use super::cores::Confined;
use super::job::Job;
use super::{Daemons, LaunchError};

/// The ranks that run. Dropping this kills them.
pub(super) struct Ranks {
    running: Vec<(u32, Child)>,
}

impl Ranks {
    /// None yet. From now on orphans of our descendants become our children, so that we can wait until they are gone.
    pub(super) fn new() -> io::Result<Self> {
        set_child_subreaper(true)?;
        Ok(Self { running: Vec::new() })
    }

    /// Starts a rank with a connection to its daemon, and a log if it is to keep one, in a process group of its own.
    pub(super) fn spawn(
        &mut self,
        rank: u32,
        command: &mut Command,
        job: &Job,
        daemons: &Daemons,
        log: Option<BorrowedFd<'_>>,
    ) -> Result<&mut Child, LaunchError> {
        let failed = |error| LaunchError::Rank { rank, error };
        let node = job.node_of(rank);
        let mut connection = daemons.connect(node).map_err(failed)?;
        ControlSocket::expect(&mut connection, job.id, rank).map_err(failed)?;
        // Copies survive `exec`. They exist only while this rank is being started, so that no other inherits them.
        let inherited = dup(&connection).map_err(|error| failed(error.into()))?;
        let log = log.map(dup).transpose().map_err(|error| failed(error.into()))?;
        match &log {
            Some(log) => command.env("ROPEWAY_LOG", log.as_raw_fd().to_string()),
            // We may be a rank ourselves, and our log is not theirs.
            None => command.env_remove("ROPEWAY_LOG"),
        };
        // A process starts on the cores and in the network of the thread that starts it.
        let _confined = Confined::to(node, daemons.nodes() as usize).map_err(failed)?;
        let _inside = daemons.enter(node).map_err(failed)?;
        let child = command
            .env("ROPEWAY_FD", inherited.as_raw_fd().to_string())
            .env("ROPEWAY_JOB", format!("{:016x}", job.id.0))
            .env("ROPEWAY_RANK", rank.to_string())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        self.running.push((rank, child));
        Ok(&mut self.running.last_mut().expect("it was just pushed").1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// Sends a signal to all processes of all ranks.
    pub(super) fn signal(&self, signal: Signal) {
        for (_, child) in &self.running {
            // Fails only if the group is gone, which is what we want in the end.
            let _ = killpg(group_of(child), signal);
        }
    }

    /// Asks all processes of all ranks to end: SIGTERM. They are stopped while the signals go out, so that nobody is told of the
    /// end of another, and takes it for a failure, before it knows that all end.
    pub(super) fn terminate(&self) {
        for signal in [Signal::SIGSTOP, Signal::SIGTERM, Signal::SIGCONT] {
            self.signal(signal);
        }
    }

    /// Sends a signal to the first process of each rank alone.
    pub(super) fn signal_first(&self, signal: Signal) {
        for (_, child) in &self.running {
            // Fails only if it is gone: until it is reaped, which we do, nobody else has its number.
            let _ = kill(group_of(child), signal);
        }
    }

    /// Takes note of ranks that have ended, and returns how the first of them failed, if any did.
    pub(super) fn reap(&mut self) -> io::Result<Option<Outcome>> {
        let mut failures = Vec::new();
        let mut running = Vec::with_capacity(self.running.len());
        for (rank, child) in self.running.drain(..) {
            // It stays a zombie until we have cleaned up, so that nobody else can have its number.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(group_of(&child)), flags) {
                Ok(WaitStatus::Exited(_, 0)) => bury(child),
                Ok(WaitStatus::Exited(_, status)) => {
                    failures.push(Outcome::Exited { rank, status: status as u8 });
                    bury(child);
                }
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    failures.push(Outcome::Killed { rank, signal });
                    bury(child);
                }
                Ok(_) | Err(_) => running.push((rank, child)),
            }
        }
        self.running = running;
        self.reap_orphans();
        // When several have ended since the last look, the others probably failed because of the one that was killed.
        let killed = failures.iter().find(|outcome| matches!(outcome, Outcome::Killed { .. }));
        Ok(killed.or(failures.first()).copied())
    }

    /// Reaps what ranks have started, not waited for, and what has ended.
    fn reap_orphans(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        while let Ok(status) = waitid(Id::All, flags | WaitPidFlag::WNOWAIT) {
            let Some(ended) = status.pid() else { return };
            let is_rank = self.running.iter().any(|(_, child)| group_of(child) == ended);
            if is_rank || waitid(Id::Pid(ended), flags).is_err() {
                // A rank that has ended just now has its own signal on the way.
                return;
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        self.running.drain(..).for_each(|(_, child)| bury(child));
    }
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

/// Kills what a rank has left running in its group, and reaps all of it.
fn bury(mut child: Child) {
    let group = group_of(&child);
    let _ = killpg(group, Signal::SIGKILL);
    // Fails only if somebody else has reaped it.
    let _ = child.wait();
    // Its orphans have become our children; when this fails there is none left.
    while waitid(Id::PGid(group), WaitPidFlag::WEXITED).is_ok() {}
}
