//! The tool as a rank of the jobs it starts itself.

use std::ffi::OsString;

use clap::Args;
use ropeway_bench::boum::Application;
use ropeway_bench::{Console, Plan};
use serde::{Deserialize, Serialize};

use crate::demo::JacobiTask;
use crate::failure::Failure;
use crate::launch::{LaunchError, Program};

/// The task, as the tool wrote it.
#[derive(Args)]
pub(crate) struct Flags {
    task: String,
}

/// What a rank has to do.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Task {
    /// A benchmark.
    Bench(Box<Plan>),
    /// The demonstration.
    Jacobi(JacobiTask),
    /// A program that the model is compared with.
    Application(Application),
}

impl Task {
    /// The program that does it.
    pub(crate) fn program(&self) -> Result<Program, LaunchError> {
        let task = serde_json::to_string(self).expect("tasks are plain structures");
        Program::this_tool(vec![OsString::from("rank"), task.into()])
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let task = serde_json::from_str(&flags.task).map_err(Failure::other)?;
    let session = ropeway::init().map_err(Failure::other)?;
    let world = session.world();
    let mut console = Console::new(world.clone());
    let result = match &task {
        Task::Bench(plan) => ropeway_bench::run(&session, &mut console, plan).map_err(|error| error.to_string()),
        Task::Jacobi(task) => task.run(&world, &mut console).map_err(|error| error.to_string()),
        Task::Application(application) => application.run(&world, &mut console).map_err(|error| error.to_string()),
    };
    result.map_err(|error| Failure::Other(format!("rank {}: {error}", world.rank())))
}
