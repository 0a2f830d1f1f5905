//! Runs a program as the ranks of a job, on daemons of this process.

use std::process::{Command, Output, Stdio};

use crate::common::{Cluster, Process};

/// What the ranks have written, rank 0 first, and how they have ended.
pub(crate) struct Ended(Vec<Output>);

impl Ended {
    /// What rank 0 has written. All ranks must have succeeded, and the others must have been silent.
    pub(crate) fn stdout(&self) -> String {
        for (rank, output) in self.0.iter().enumerate() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "rank {rank} ended with {}: {complaint}", output.status);
            assert!(rank == 0 || output.stdout.is_empty(), "rank {rank} has written something");
        }
        String::from_utf8(self.0[0].stdout.clone()).unwrap()
    }

    /// The same as one JSON object a line.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        self.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What rank 0 complains of. It must have failed.
    pub(crate) fn complaint(&self) -> String {
        assert_eq!(self.0[0].status.code(), Some(1));
        String::from_utf8(self.0[0].stderr.clone()).unwrap()
    }
}

/// Runs `program` with `args` as all ranks of a job on one node, and waits for them.
pub(crate) fn run(program: &str, ranks: u32, args: &[&str]) -> Ended {
    run_on(1, program, ranks, args)
}

/// The same on as many nodes.
pub(crate) fn run_on(nodes: usize, program: &str, ranks: u32, args: &[&str]) -> Ended {
    let cluster = Cluster::start(nodes, ranks);
    let command = || {
        let mut command = Command::new(program);
        command.args(args).env_remove("ROPEWAY_WAIT").stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let programs: Vec<Process> = (0..ranks).map(|rank| cluster.connected(rank, command())).collect();
    // Nobody blocks on a full pipe: what the ranks write is little.
    Ended(programs.into_iter().map(Process::output).collect())
}
