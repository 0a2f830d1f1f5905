//! The processes of a job.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, dup};
use ropeway::control::ControlSocket;

use super::Outcome;
use super::cores::Confined;
use super::job::Job;
use super::open_files::AsGiven;
use super::{Daemons, LaunchError};

/// The ranks that run. Dropping this kills them.
pub(super) struct Ranks {
    running: Vec<(u32, Child)>,
    /// Children we had before, from whoever was replaced by us: none of ours to end.
    strangers: HashSet<Pid>,
}

impl Ranks {
    /// None yet. From now on orphans of our descendants become our children, so that we can wait until they are gone.
    pub(super) fn new() -> io::Result<Self> {
        set_child_subreaper(true)?;
        Ok(Self { running: Vec::new(), strangers: children().into_iter().collect() })
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
        let as_given = AsGiven::restore(inherited.as_raw_fd(), self.running.len(), daemons.nodes());
        let started = command
            .env("ROPEWAY_FD", inherited.as_raw_fd().to_string())
            .env("ROPEWAY_JOB", format!("{:016x}", job.id.0))
            .env("ROPEWAY_RANK", rank.to_string())
            .process_group(0)
            .spawn();
        drop(as_given);
        let child = started.map_err(|error| LaunchError::starting(rank, command.get_program(), error))?;
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

    /// Kills all processes of all ranks. A rank that belongs to another user now is left, and no longer waited for.
    pub(super) fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        self.running.retain(|(_, child)| kill(group_of(child), Signal::SIGKILL) != Err(nix::Error::EPERM));
        if self.is_empty() {
            self.kill_orphans();
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
    pub(super) fn reap(&mut self) -> Option<Outcome> {
        let mut failures = Vec::new();
        let mut running = Vec::with_capacity(self.running.len());
        for (rank, child) in self.running.drain(..) {
            // It stays a zombie until we have cleaned up, so that nobody else can have its number.
            let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
            match waitid(Id::Pid(group_of(&child)), flags) {
                Ok(WaitStatus::StillAlive) => running.push((rank, child)),
                // Also an error: EINVAL stands for a real-time signal, which nix has no name for.
                _ => failures.extend(bury(child).ok().and_then(|status| Outcome::failure(rank, status))),
            }
        }
        self.running = running;
        self.reap_orphans();
        // When several have ended since the last look, the others probably failed because of the one that was killed.
        let killed = failures.iter().find(|outcome| matches!(outcome, Outcome::Killed { .. }));
        killed.or(failures.first()).copied()
    }

    /// Reaps what ranks have started, not waited for, and what has ended.
    fn reap_orphans(&self) {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        let is_rank = |process| self.running.iter().any(|(_, child)| group_of(child) == process);
        loop {
            match waitid(Id::All, flags | WaitPidFlag::WNOWAIT) {
                Ok(status) => match status.pid() {
                    // A rank that has ended just now has its own signal on the way.
                    Some(ended) if !is_rank(ended) && waitid(Id::Pid(ended), flags).is_ok() => {}
                    _ => return,
                },
                // One of those who have ended was killed by a real-time signal, and nix does not say who.
                Err(nix::Error::EINVAL) => {
                    let reap = |process: Pid| waitid(Id::Pid(process), flags);
                    let mut reaped = children().into_iter().filter(|&process| !is_rank(process)).map(reap);
                    if !reaped.any(|ended| ended == Err(nix::Error::EINVAL)) {
                        return;
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Kills and reaps what ranks have left behind in groups of their own: when a job ends badly nobody else ends that.
    pub(super) fn kill_orphans(&self) {
        let mut others: HashSet<Pid> = self.strangers.clone();
        others.extend(self.running.iter().map(|(_, child)| group_of(child)));
        // Whose parent is killed comes to us, and is found the next time.
        for _ in 0..GENERATIONS_MAX {
            let orphans: Vec<_> = children().into_iter().filter(|process| !others.contains(process)).collect();
            if orphans.is_empty() {
                return;
            }
            for orphan in orphans {
                match kill(orphan, Signal::SIGKILL) {
                    Ok(()) => drop(waitid(Id::Pid(orphan), WaitPidFlag::WEXITED)),
                    // It belongs to another user now.
                    Err(_) => drop(others.insert(orphan)),
                }
            }
        }
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if self.is_empty() {
            return;
        }
        self.signal(Signal::SIGKILL);
        self.running.drain(..).for_each(|(_, child)| drop(bury(child)));
        self.kill_orphans();
    }
}

/// Our children, also those that were adopted.
fn children() -> Vec<Pid> {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return Vec::new() };
    let of_thread = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
    let all: Vec<String> = threads.flatten().map(of_thread).collect();
    let numbers = all.iter().flat_map(|text| text.split_whitespace()).filter_map(|word| word.parse().ok());
    numbers.map(Pid::from_raw).collect()
}

fn group_of(child: &Child) -> Pid {
    Pid::from_raw(child.id() as i32)
}

/// Kills what a rank has left running in its group, and reaps all of it but what belongs to another user now. Returns how the rank itself has
/// ended.
fn bury(mut child: Child) -> io::Result<ExitStatus> {
    let group = group_of(&child);
    // Also if it is dead already and has to be reaped.
    let may_kill_any = || killpg(group, Signal::SIGKILL) != Err(nix::Error::EPERM);
    may_kill_any();
    let may_kill = kill(group, Signal::SIGKILL) != Err(nix::Error::EPERM);
    // Fails only if somebody else has reaped it.
    let status = if may_kill {
        child.wait()
    } else {
        child.try_wait().and_then(|status| status.ok_or_else(|| io::ErrorKind::PermissionDenied.into()))
    };
    // Its orphans have become our children, until there is none left. Another error stands for one that was reaped too.
    let mut last = Instant::now();
    loop {
        match waitid(Id::PGid(group), WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG) {
            Err(nix::Error::ECHILD) => return status,
            // One who may be killed may also be dead, and another's to reap.
            Ok(WaitStatus::StillAlive) if !may_kill_any() || last.elapsed() >= DYING_MAX => return status,
            Ok(WaitStatus::StillAlive) => thread::sleep(DYING),
            _ => last = Instant::now(),
        }
    }
}

/// Nobody who is killed takes much longer to die.
const DYING: Duration = Duration::from_millis(1);
/// Who takes as long on a busy machine is left to die alone.
const DYING_MAX: Duration = Duration::from_secs(1);

/// Each generation of what was left behind is killed in turn: more of them than anybody nests.
const GENERATIONS_MAX: usize = 1000;
