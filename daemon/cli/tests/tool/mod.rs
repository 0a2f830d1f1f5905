//! Runs the built tool.

use std::process::{Command, Output};

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

/// Whether network namespaces can be made here. Where they can't, what the tool says about it is tested.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them need namespaces")]
pub(crate) fn has_namespaces() -> bool {
    let runs = |program| Command::new(program).arg("-V").output().is_ok();
    nix::unistd::geteuid().is_root() && runs("ip") && runs("tc")
}

/// Rows of a table, below the line that says what it is about and the heading, and above what its marks mean.
#[allow(dead_code, reason = "each test file is a crate of its own, and not all of them expect tables")]
pub(crate) fn table_rows(table: &str) -> usize {
    table.lines().filter(|line| !line.contains("in doubt")).count() - 2
}
