//! `ropeway bench NAME …` and `ropeway bench report …`, which is asked for other things than a single benchmark.

use clap::{ArgMatches, Args, Error, FromArgMatches};

use super::{Flags, report};

/// What was asked for.
pub(crate) enum Command {
    /// A benchmark.
    One(Box<Flags>),
    /// All of them, on a page.
    Report(report::Flags),
}

impl Args for Command {
    fn augment_args(command: clap::Command) -> clap::Command {
        let report = report::Flags::augment_args(clap::Command::new(REPORT));
        let command = Flags::augment_args(command).subcommand(report).disable_help_subcommand(true);
        command.args_conflicts_with_subcommands(true).subcommand_negates_reqs(true)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        match matches.subcommand_matches(REPORT) {
            Some(matches) => report::Flags::from_arg_matches(matches).map(Self::Report),
            None => Flags::from_arg_matches(matches).map(|flags| Self::One(Box::new(flags))),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const REPORT: &str = "report";
