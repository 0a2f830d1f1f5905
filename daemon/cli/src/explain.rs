//! `ropeway explain`: which algorithm a collective gets, why, and what it does.

mod flags;
mod report;
mod svg;

use std::fs;

use ropeway_schedule::check::{Execution, Proof, check_structure, trace};
use ropeway_schedule::form::Form;
use ropeway_schedule::select::predict;
use ropeway_schedule::{Algorithm, BuildError, Candidate, Choice, CostTable, Schedule, Shape, build_all, select};

pub(crate) use self::flags::Flags;
use self::flags::Job;
use crate::failure::{Failure, print, tell};

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let job = flags.job()?;
    let form = flags.form(job.bytes / job.element_bytes);
    let explanation =
        Explanation::new(job, flags.algorithm.clone(), form).map_err(|error| Failure::Usage(error.to_string()))?;
    if let Some(path) = &flags.svg {
        let drawing = svg::draw(&explanation)?;
        fs::write(path, drawing)
            .map_err(|error| Failure::Other(format!("can't draw into {}: {error}", path.display())))?;
    }
    if flags.json {
        return print(&explanation.json());
    }
    let steps = if flags.tasks { explanation.tasks() } else { explanation.steps_of(flags.participant) };
    print(&(explanation.text() + &steps))?;
    if let Some(path) = &flags.svg {
        tell(&format!("drawn into {}", path.display()));
    }
    Ok(())
}

/// Everything there is to say about a collective.
struct Explanation {
    job: Job,
    choice: Choice,
    /// The one that is shown: the choice, unless another was asked for.
    shown: Candidate,
    schedules: Vec<Schedule>,
    execution: Execution,
    proof: Proof,
}

impl Explanation {
    fn new(job: Job, wanted: Option<Algorithm>, form: Option<Form>) -> Result<Self, BuildError> {
        let (shape, table) = (&job.shape, &job.table);
        shape.check()?;
        let choice = select(shape, job.element_bytes, table);
        let algorithm = wanted.unwrap_or_else(|| choice.algorithm.clone());
        let mut schedules = build_all(shape, &algorithm)?;
        if let Some(form) = form {
            schedules.iter_mut().for_each(|schedule| *schedule = form.apply(schedule));
        }
        let shown = predict(shape, algorithm, job.element_bytes, table);
        let proof = check_structure(shape, &schedules).expect("what is built fits together");
        let execution = trace(shape, &schedules).expect("it was just done");
        Ok(Self { choice, shown, schedules, execution, proof, job })
    }

    fn shape(&self) -> &Shape {
        &self.job.shape
    }

    fn table(&self) -> &CostTable {
        &self.job.table
    }
}
