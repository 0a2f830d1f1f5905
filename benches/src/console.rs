//! Rank 0's line to the tool that started it.
//!
//! ```text
//!   rank 0 (stdout)              tool (rank 0's stdin)
//!   {"ready":"persistent"}  ──►                          the ranks stand still; the tool reads clocks and counters
//!                           ◄──  (empty line)
//!   … work …
//!   {"done":{…}}            ──►                          the tool reads them again: the difference is this step's
//!                           ◄──  (empty line)
//!   {"outcome":{…}}         ──►                          what came of the steps with that label
//! ```

use std::io::{self, BufRead, Write};

use ropeway::Communicator;
use serde::{Deserialize, Serialize};

use crate::{allocations, gather};

/// A line from rank 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line<T> {
    /// All ranks are ready for a step of this label.
    Ready(String),
    /// All ranks have done it.
    Done {
        /// The step's label.
        label: String,
        /// How often all ranks together have allocated memory in the calls that were measured, if they have counted.
        allocations: Option<u64>,
    },
    /// What came of the steps of this label.
    Outcome {
        /// The steps' label.
        label: String,
        /// What came of them.
        value: T,
    },
}

/// A rank's view of the tool: only rank 0 talks to it, the others follow.
#[derive(Debug)]
pub struct Console {
    world: Communicator,
    counts_allocations: bool,
}

impl Console {
    /// The console of a rank of `world`.
    pub fn new(world: Communicator) -> Self {
        Self { world, counts_allocations: false }
    }

    /// From now on the tool is told what is allocated in each step. All ranks have to call it.
    pub(crate) fn count_allocations(&mut self) {
        self.counts_allocations = true;
    }

    /// Does a step together with all other ranks, while the tool watches.
    pub fn step<R, E>(&mut self, label: &str, work: impl FnOnce() -> Result<R, E>) -> Result<R, E>
    where
        E: From<io::Error> + From<ropeway::Error>,
    {
        // What others are about to register does not belong to the step.
        self.world.barrier()?;
        self.begin(label)?;
        self.world.barrier()?;
        let (result, allocations) = if self.counts_allocations {
            let (result, own) = allocations::counted(work);
            (result?, self.sum(own)?)
        } else {
            (work()?, None)
        };
        self.world.barrier()?;
        self.end(label, allocations)?;
        // Nor does what other ranks register for the next one, which they would begin with while rank 0 waits for the tool.
        self.world.barrier()?;
        Ok(result)
    }

    /// Does a step while the tool watches rank 0, and nobody meets anybody: where that would disturb.
    pub fn lone_step<R, E: From<io::Error>>(&self, label: &str, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.begin(label)?;
        let result = work()?;
        self.end(label, None)?;
        Ok(result)
    }

    /// Tells the tool what came of the steps of this label.
    pub fn outcome<T: Serialize>(&mut self, label: &str, value: T) -> io::Result<()> {
        self.say(&Line::Outcome { label: label.to_owned(), value })
    }

    fn begin(&self, label: &str) -> io::Result<()> {
        self.say(&Line::<()>::Ready(label.to_owned()))?;
        self.await_answer()
    }

    fn end(&self, label: &str, allocations: Option<u64>) -> io::Result<()> {
        self.say(&Line::<()>::Done { label: label.to_owned(), allocations })?;
        // What comes next does not belong to the step, also if a busy machine keeps the tool from looking.
        self.await_answer()
    }

    /// All ranks' counts together, for rank 0.
    fn sum(&self, own: u64) -> Result<Option<u64>, ropeway::Error> {
        let all = gather(&self.world, [own as f64])?;
        Ok(all.map(|all| all.iter().map(|[count]| *count as u64).sum()))
    }

    fn say<T: Serialize>(&self, line: &Line<T>) -> io::Result<()> {
        if self.world.rank() != 0 {
            return Ok(());
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    fn await_answer(&self) -> io::Result<()> {
        if self.world.rank() != 0 {
            return Ok(());
        }
        match io::stdin().lock().read_line(&mut String::new())? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the tool that started this rank is gone")),
            _ => Ok(()),
        }
    }
}
