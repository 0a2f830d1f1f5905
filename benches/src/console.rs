//! Rank 0's line to the tool that started it.
//!
//! ```text
//!   rank 0 (stdout)              tool (rank 0's stdin)
//!   {"ready":"persistent"}  ──►                          the ranks stand still; the tool reads clocks and counters
//!                           ◄──  (empty line)
//!   … work …
//!   {"done":"persistent"}   ──►                          the tool reads them again: the difference is this step's
//!   {"outcome":{…}}         ──►                          what came of the steps with that label
//! ```

use std::io::{self, BufRead, Write};

use ropeway::Communicator;
use serde::{Deserialize, Serialize};

/// A line from rank 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line<T> {
    /// All ranks are ready for a step of this label.
    Ready(String),
    /// All ranks have done it.
    Done(String),
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
}

impl Console {
    /// The console of a rank of `world`.
    pub fn new(world: Communicator) -> Self {
        Self { world }
    }

    /// Does a step together with all other ranks, while the tool watches.
    pub fn step<R, E>(&mut self, label: &str, work: impl FnOnce() -> Result<R, E>) -> Result<R, E>
    where
        E: From<io::Error> + From<ropeway::Error>,
    {
        self.lone_step(label, || {
            self.world.barrier()?;
            let result = work()?;
            self.world.barrier()?;
            Ok(result)
        })
    }

    /// Does a step while the tool watches rank 0, and nobody meets anybody: where that would disturb.
    pub fn lone_step<R, E: From<io::Error>>(&self, label: &str, work: impl FnOnce() -> Result<R, E>) -> Result<R, E> {
        self.say(&Line::<()>::Ready(label.to_owned()))?;
        self.await_answer()?;
        let result = work()?;
        self.say(&Line::<()>::Done(label.to_owned()))?;
        Ok(result)
    }

    /// Tells the tool what came of the steps of this label.
    pub fn outcome<T: Serialize>(&mut self, label: &str, value: T) -> io::Result<()> {
        self.say(&Line::Outcome { label: label.to_owned(), value })
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
