//! Runs the built tool.

pub(crate) mod shares;

use std::ops::{Deref, DerefMut};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The tool, out of reach of a daemon that happens to run on this machine, and with signals as they are at a terminal: a shell has what it starts
/// in the background ignore some, and so would the tool.
pub(crate) fn ropeway(args: &[&str]) -> Command {
    let mut command = Command::new("/usr/bin/env");
    command
        .args(["--default-signal", env!("CARGO_BIN_EXE_ropeway")])
        .args(args)
        .env("ROPEWAY_SOCKET", "")
        .env_remove("ROPEWAY_WAIT");
    command
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Lines of standard output, sorted, because ranks write in any order.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them expect lines")]
pub(crate) fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<_> = stdout(output).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Standard output as one JSON object a line.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them expect JSON")]
pub(crate) fn records(output: &Output) -> Vec<serde_json::Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A process that does not outlive the test, however that ends.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them interrupt the tool")]
pub(crate) struct Running(Option<Child>);

#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them interrupt the tool")]
impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id() as i32), signal).unwrap();
    }

    /// What it has written to the pipes that it was given.
    pub(crate) fn output(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// Its children, as soon as those that are there at the same time are as they should be.
    pub(crate) fn until_children(&mut self, are_there: impl Fn(&[String]) -> bool) -> Vec<String> {
        let file = format!("/proc/{0}/task/{0}/children", self.id());
        loop {
            assert_eq!(self.try_wait().unwrap(), None, "it has ended already");
            let children: Vec<_> =
                std::fs::read_to_string(&file).unwrap().split_whitespace().map(str::to_owned).collect();
            if are_there(&children) {
                return children;
            }
            std::thread::yield_now();
        }
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().unwrap()
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        let is_running = |child: &mut Child| matches!(child.try_wait(), Ok(None));
        if is_running(child) {
            // The tool ends what its ranks have started, too, if it is asked.
            let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
            let give_up = Instant::now() + Duration::from_secs(10);
            while is_running(child) && Instant::now() < give_up {
                std::thread::yield_now();
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether network namespaces can be made here; if not, that is said. Where they can't, what the tool says about it is tested.
///
/// # Panics
/// If root can't make them where everything is to be checked, which the environment variable `CI` tells.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them need namespaces")]
pub(crate) fn has_namespaces() -> bool {
    let runs = |program| Command::new(program).arg("-V").output().is_ok();
    let (is_root, has_programs) = (nix::unistd::geteuid().is_root(), runs("ip") && runs("tc"));
    assert!(!is_root || has_programs || std::env::var_os("CI").is_none(), "no ip and tc: install iproute2");
    if !(is_root && has_programs) {
        eprintln!("no network namespaces, which take root, and ip and tc of iproute2: nothing between them is tested");
    }
    is_root && has_programs
}

/// Rows of a table, below the line that says what it is about and the heading, and above what its marks mean.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them expect tables")]
pub(crate) fn table_rows(table: &str) -> usize {
    table.lines().filter(|line| !line.contains("in doubt")).count() - 2
}
