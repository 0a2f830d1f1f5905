//! A job from its first rank to its last.

use std::io;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use ropeway::WaitMode;

use super::events::{Event, Events};
use super::input::{Source, pump};
use super::job::Job;
use super::output::Outputs;
use super::ranks::Ranks;
use super::{Daemons, LaunchError, Logs, Outcome, Patience, Program};

/// What to start, and how.
pub(crate) struct Launch {
    pub(crate) program: Program,
    pub(crate) ranks: u32,
    pub(crate) wait: Option<WaitMode>,
    /// When it is ended, if it has not by then.
    pub(crate) timeout_at: Option<Instant>,
    pub(crate) input: Input,
    pub(crate) output: Output,
    pub(crate) ending: Ending,
}

/// Who is asked to end when a job has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All processes of all ranks, at once.
    Together,
    /// Each rank's first process: it is a launcher, which ends what it has started and clears up behind it. It can't if that is
    /// asked to end at the same time. What outlives it is killed.
    ByLaunchers,
}

/// Where rank 0's input comes from. The others have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// From the user.
    User,
    /// From [`Running::answers`].
    Tool,
}

/// Where the ranks' output goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// To the user.
    User,
    /// To the user, each line with its rank's number.
    Tagged,
    /// Rank 0's lines come from [`Running::next`], the others' are dropped. Errors go to the user.
    Tool,
}

/// What happens next in a running job.
#[derive(Debug)]
pub(crate) enum Next {
    /// Rank 0 has written a line.
    Line(String),
    /// Everything is over.
    Ended(Outcome),
}

/// A running job. Dropping it ends it.
pub(crate) struct Running<'a> {
    events: &'a Events,
    // Before the job: daemons shall see ranks end, not lose their job.
    ranks: Ranks,
    job: Job,
    outcome: Option<Outcome>,
    answers: Option<ChildStdin>,
    outputs: Outputs,
    open_outputs: usize,
    timeout_at: Option<Instant>,
    ending: Ending,
    /// When patience ends: with ranks that were asked to end, then with outputs that outlive them.
    kill_at: Option<Instant>,
    /// Whether it has ended with those.
    are_outputs_left: bool,
}

impl<'a> Running<'a> {
    pub(crate) fn start(launch: &Launch, daemons: &Daemons, events: &'a Events) -> Result<Self, LaunchError> {
        Self::start_logged(launch, daemons, events, None)
    }

    /// The same, of ranks that write down what they do.
    pub(crate) fn start_logged(
        launch: &Launch,
        daemons: &Daemons,
        events: &'a Events,
        logs: Option<&Logs>,
    ) -> Result<Self, LaunchError> {
        let timeout_at = [launch.timeout_at, events.deadline()].into_iter().flatten().min();
        let job = Job::create_with(daemons, launch.ranks, &Patience { until: timeout_at, events: Some(events) })?;
        let mut ranks = Ranks::new().map_err(LaunchError::system("adopting orphans"))?;
        let (mut outputs, mut started) = (Outputs::default(), (None, 0));
        for rank in 0..launch.ranks {
            let log = logs.map(|logs| logs.of_rank(rank));
            let child = ranks.spawn(rank, &mut launch.command(rank), &job, daemons, log)?;
            let wired = launch.wire(rank, child, &mut outputs, events);
            let (answers, outputs) = wired.map_err(|error| LaunchError::Rank { rank, error })?;
            started = (started.0.or(answers), started.1 + outputs);
        }
        Ok(Self {
            events,
            ranks,
            job,
            outcome: None,
            answers: started.0,
            outputs,
            open_outputs: started.1,
            timeout_at,
            ending: launch.ending,
            kill_at: None,
            are_outputs_left: false,
        })
    }

    /// Waits until something happens.
    pub(crate) fn next(&mut self) -> Next {
        loop {
            if self.ranks.is_empty() && (self.open_outputs == 0 || self.are_outputs_left) {
                return Next::Ended(self.outcome.unwrap_or(Outcome::Success));
            }
            let patience = [self.timeout_at, self.kill_at].into_iter().flatten().min();
            match self.events.next(patience) {
                Some(Event::Line(line)) => return Next::Line(line),
                // An output that outlived an earlier job may be closed only now.
                Some(Event::OutputClosed) => self.open_outputs = self.open_outputs.saturating_sub(1),
                Some(Event::ChildEnded) => self.reap(),
                Some(Event::Interrupted(_)) if self.outcome.is_some() => self.lose_patience(),
                Some(Event::Interrupted(signal)) => self.end(Outcome::Interrupted(signal)),
                None if self.is_past(self.kill_at) => self.lose_patience(),
                // What ranks have said in time is passed on, however slowly it is read.
                None if self.ranks.is_empty() && self.outputs.are_held_up() => {
                    self.timeout_at = Some(Instant::now() + PATIENCE);
                }
                None if self.events.is_over() => self.end(Outcome::OutOfTime),
                None => self.end(Outcome::TimedOut),
            }
        }
    }

    /// Waits for the end, whatever happens before it.
    pub(crate) fn wait(mut self) -> Outcome {
        loop {
            if let Next::Ended(outcome) = self.next() {
                return outcome;
            }
        }
    }

    /// The first rank of each node.
    pub(crate) fn first_ranks(&self) -> Vec<u32> {
        self.job.first_ranks()
    }

    /// Has daemons finish what ranks have asked for until now, and count what ranks have done.
    pub(crate) fn settle(&mut self) -> Result<(), LaunchError> {
        self.job.settle()
    }

    /// Where rank 0 reads what the tool has to say.
    pub(crate) fn answers(&mut self) -> Option<&mut ChildStdin> {
        self.answers.as_mut()
    }

    fn reap(&mut self) {
        let had_ended = self.ranks.is_empty();
        if let Some(failure) = self.ranks.reap() {
            self.end(failure);
        }
        if self.ranks.is_empty() && !had_ended {
            if self.outcome.is_some() {
                self.ranks.kill_orphans();
            }
            // What they have written is still on its way; what they have left behind may keep the pipes open for ever.
            self.kill_at = Some(Instant::now() + PATIENCE);
        }
    }

    /// Kills ranks that run. Once there is none, leaves outputs that nothing comes from.
    fn lose_patience(&mut self) {
        self.kill_at = Some(Instant::now() + PATIENCE);
        if !self.ranks.is_empty() {
            return self.ranks.kill();
        }
        let is_late = matches!(self.outcome, Some(Outcome::Interrupted(_) | Outcome::TimedOut | Outcome::OutOfTime));
        self.are_outputs_left = is_late || self.outputs.are_idle();
    }

    /// Asks the job to end, the first time it is called.
    fn end(&mut self, outcome: Outcome) {
        if self.outcome.is_none() {
            self.outcome = Some(outcome);
            self.timeout_at = None;
            self.kill_at = Some(Instant::now() + self.ending.patience());
            match self.ending {
                Ending::Together => self.ranks.terminate(),
                Ending::ByLaunchers => self.ranks.signal_first(Signal::SIGTERM),
            }
            if self.ranks.is_empty() {
                self.ranks.kill_orphans();
            }
        }
    }

    fn is_past(&self, moment: Option<Instant>) -> bool {
        moment.is_some_and(|moment| Instant::now() >= moment)
    }
}

impl Ending {
    /// How long to wait for those who were asked to end.
    fn patience(self) -> Duration {
        match self {
            Self::Together => PATIENCE,
            Self::ByLaunchers => PATIENCE_WITH_LAUNCHERS,
        }
    }
}

impl Launch {
    fn command(&self, rank: u32) -> Command {
        let mut command = Command::new(&self.program.path);
        command.args(&self.program.args).env("ROPEWAY_SIZE", self.ranks.to_string());
        if let Some(wait) = self.wait {
            command.env("ROPEWAY_WAIT", wait.to_string());
        }
        command.stdin(match (rank, self.input) {
            (0, Input::User) => Source::of_user().stdio(),
            (0, Input::Tool) => Stdio::piped(),
            _ => Stdio::null(),
        });
        match self.output {
            Output::User => {}
            Output::Tagged => {
                command.stdout(Stdio::piped()).stderr(Stdio::piped());
            }
            Output::Tool => {
                command.stdout(if rank == 0 { Stdio::piped() } else { Stdio::null() });
            }
        }
        command
    }

    /// Connects a rank's pipes. Returns where to answer it, and how many outputs are being read.
    fn wire(
        &self,
        rank: u32,
        child: &mut Child,
        outputs: &mut Outputs,
        events: &Events,
    ) -> io::Result<(Option<ChildStdin>, usize)> {
        let mut answers = child.stdin.take();
        if self.input == Input::User
            && let Some(stdin) = answers.take()
        {
            pump(stdin)?;
        }
        let mut count = 0;
        if let Some(stdout) = child.stdout.take() {
            count += 1;
            match self.output {
                Output::Tool => outputs.listen(stdout, events.sender())?,
                _ => outputs.tag(rank, stdout, io::stdout(), events.sender())?,
            }
        }
        if let Some(stderr) = child.stderr.take() {
            count += 1;
            outputs.tag(rank, stderr, io::stderr(), events.sender())?;
        }
        Ok((answers, count))
    }
}

const PATIENCE: Duration = Duration::from_millis(500);
/// Open MPI's launcher itself waits a second for its ranks before it kills them.
const PATIENCE_WITH_LAUNCHERS: Duration = Duration::from_secs(5);
