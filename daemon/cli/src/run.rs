//! `ropeway run`: starts the ranks of a job.

mod logged;

use std::ffi::OsString;
use std::time::{Duration, Instant};

use clap::Args;
use ropeway::WaitMode;

use self::logged::{Logged, Wanted};
use crate::configuration::ConfigFlag;
use crate::failure::{Failure, tell};
use crate::launch::{
    Daemons, Ending, Events, Input, Launch, LaunchError, Outcome, Output, Patience, Program, Running, named_socket,
    system_socket,
};

/// Starts the ranks of a job and waits for them.
///
/// Rank 0 reads the standard input; all write to the standard output. The first rank that fails ends the others. Uses the daemon of this machine, at /run/ropeway/ropewayd.sock or
/// where ROPEWAY_SOCKET says, if it runs, is of the tool's build, and one node is asked for; else, and with --config or an empty
/// ROPEWAY_SOCKET, it brings its own.
///
/// With --trace and --record each rank logs what it does, at about 0.1 us an event, two to five events a message and at most
/// 524288 a rank. What there is is written also if a rank fails or the job is interrupted.
#[derive(Args)]
#[command(after_help = "\
Exit status:
  that of the first rank that fails, or 0; 128 + signal if a rank was killed, or the job was interrupted by it
  124  the time of --timeout is over
  126, 127  the program can't be run, or is not found
  2  the command line makes no sense
  3  the daemon of this machine does not answer
  1  anything else, such as a file that can't be written, or a daemon that refuses the job

Examples:
  ropeway run -n 4 -- ./solver input.dat
  ropeway run -n 4 --nodes 2 --wait blocking -- ./solver
  ropeway run -n 4 --nodes 2 --trace timeline.json -- ./solver
  ropeway run -n 4 --record run.jsonl -- ./solver && ropeway predict run.jsonl
  ropeway run -n 2 --tag-output --timeout 60 -- sh -c 'echo I am $ROPEWAY_RANK of $ROPEWAY_SIZE'")]
pub(crate) struct Flags {
    /// Ranks of the job.
    #[arg(short = 'n', long, value_name = "P", value_parser = clap::value_parser!(u32).range(1..=RANKS_MAX))]
    ranks: u32,
    /// Nodes: so many daemons, joined by TCP; ranks and cores are dealt to them in blocks, or, if there are fewer cores, the nodes to the cores.
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: u32,
    /// How ranks wait: polling, blocking or adaptive [default: $ROPEWAY_WAIT, or adaptive].
    #[arg(long, value_name = "MODE")]
    wait: Option<WaitMode>,
    /// Put the rank's number in front of each line of output.
    #[arg(long)]
    tag_output: bool,
    /// End the job after so many seconds, with exit status 124.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    config: ConfigFlag,
    /// Say nothing of a configuration file, nor of a daemon that is not there or of another build.
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let (name, args) = flags.command.split_first().expect("clap requires a program");
    let program = Program::find(name, args)?;
    if flags.ranks < flags.nodes {
        return Err(LaunchError::TooFewRanks { nodes: flags.nodes }.into());
    }
    // A pipe waits for its reader. What ends us then is not to be caught yet.
    let files = flags.wanted.open()?;
    let events = Events::from_signals()?;
    // All that may keep us has this time together.
    let timeout_at = flags.timeout.map(|timeout| Instant::now() + timeout);
    let daemons = flags.daemons(timeout_at, &events)?;
    let launch = Launch {
        program,
        ranks: flags.ranks,
        wait: flags.wait,
        timeout_at,
        input: Input::User,
        output: if flags.tag_output { Output::Tagged } else { Output::User },
        ending: Ending::Together,
    };
    let mut logged = files.map(|files| files.logged(flags.ranks, &daemons)).transpose()?;
    let running = Running::start_logged(&launch, &daemons, &events, logged.as_ref().map(|logged| &logged.logs))?;
    logged.as_mut().map_or(Ok(()), Logged::begin)?;
    let first_ranks = running.first_ranks();
    let outcome = running.wait();
    let written = logged.map_or(Ok(()), |logged| logged.write(first_ranks, daemons, &events));
    match outcome {
        Outcome::Success => written,
        outcome => {
            // Scripts want to know how the ranks ended, whatever became of a file.
            written.unwrap_or_else(|failure| failure.report());
            Err(Failure::Job(outcome))
        }
    }
}

impl Flags {
    /// The daemon of this machine if it runs and will do, else embedded ones.
    fn daemons(&self, timeout_at: Option<Instant>, events: &Events) -> Result<Daemons, Failure> {
        if self.nodes == 1 && !self.config.is_given() {
            let patience = Patience { until: timeout_at, events: Some(events) };
            let why_not = match Daemons::system() {
                Ok(system) if system.are_of_this_build(&patience)? => return Ok(system),
                Ok(_) => {
                    let socket = system_socket();
                    Some(format!("the daemon at {} is of another build than this tool", socket.display()))
                }
                Err(_) => named_socket()
                    .map(|socket| format!("no daemon is running at {}, which ROPEWAY_SOCKET names", socket.display())),
            };
            if let Some(why_not) = why_not.filter(|_| !self.quiet) {
                tell(&format!("ropeway: {why_not}; the job brings its own"));
            }
        }
        if !self.quiet {
            self.config.tell()?;
        }
        Ok(Daemons::embedded(self.nodes, &self.config.read()?)?)
    }
}

/// A time in seconds, with fractions.
pub(crate) fn seconds(word: &str) -> Result<Duration, String> {
    let seconds = word.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.filter(|time| !time.is_zero() && *time <= DAYS_100).ok_or_else(|| "is not a number of seconds".to_owned())
}

const DAYS_100: Duration = Duration::from_secs(100 * 24 * 3600);
/// More processes than one machine is asked to run by mistake.
pub(crate) const RANKS_MAX: i64 = 4096;
pub(crate) const NODES_MAX: i64 = 256;
