//! `ropeway bench NAME …`: a subcommand for each benchmark, whose help shows what it heeds, and `ropeway bench report …`.
//!
//! All benchmarks take the same [`Flags`]. Options may also come before the name, as in `ropeway bench --json latency`: then
//! clap sees no subcommand, and the name is an argument.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, ArgMatches, Args, Error, FromArgMatches, Parser, ValueEnum};

use super::flags::Flags;
use super::name::Name;
use super::options::ignored;
use super::{help, report};

/// What was asked for.
pub(crate) enum Command {
    /// A benchmark.
    One(Box<Flags>),
    /// All of them, on a page.
    Report(report::Flags),
}

/// `bench` as it is typed.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: Command,
}

impl Command {
    /// What a line asks for that begins with `bench`.
    pub(super) fn typed(line: &str) -> Result<Self, Error> {
        Line::try_parse_from(line.split_whitespace()).map(|line| line.command)
    }
}

impl Args for Command {
    fn augment_args(command: clap::Command) -> clap::Command {
        let report = report::Flags::augment_args(clap::Command::new(REPORT));
        let names = Name::value_variants();
        Flags::augment_args(command)
            .mut_args(|arg| {
                let heeding = names.iter().filter(|&&name| !ignored(name).any(|id| arg.get_id() == id)).count();
                // What only some understand is in their own help.
                arg.hide(heeding * 2 < names.len())
            })
            .mut_arg(OPERATION, |arg| arg.index(2).required_if_eq(NAME, Name::Coll.to_string()))
            .arg(Arg::new(NAME).value_name("NAME").index(1).required(true).hide(true).value_parser(names_parser()))
            .subcommands(names.iter().map(|&name| help::command(name)))
            .subcommand(report)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .arg_required_else_help(true)
            .subcommand_value_name("NAME")
            .subcommand_help_heading("Benchmarks")
            .override_usage("ropeway bench NAME [OPTIONS]")
            .about(help::ABOUT)
            .long_about(help::LONG_ABOUT)
            .after_help(help::EXAMPLES)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Command {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let one = |word: &str, matches| {
            let mut flags = Flags::from_arg_matches(matches)?;
            flags.name = Name::from_str(word, false).expect("only names of benchmarks are accepted");
            Ok(Self::One(Box::new(flags)))
        };
        match matches.subcommand() {
            Some((REPORT, matches)) => report::Flags::from_arg_matches(matches).map(Self::Report),
            Some((word, matches)) => one(word, matches),
            None => one(matches.get_one::<String>(NAME).expect("it is required"), matches),
        }
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// All names, so that one that is mistyped is answered with the right one.
fn names_parser() -> impl TypedValueParser<Value = String> {
    let names = Name::value_variants().iter().map(Name::to_string).chain([REPORT.to_owned()]);
    PossibleValuesParser::new(names).try_map(|word| match word.as_str() {
        REPORT => Err("report comes before its options: ropeway bench report [OPTIONS]"),
        _ => Ok(word),
    })
}

const NAME: &str = "name";
const OPERATION: &str = "operation";
const REPORT: &str = "report";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_can_be_typed_and_is_in_the_right_help() {
        for &name in Name::value_variants() {
            let help = help::command(name).render_long_help().to_string();
            let (_, examples) = help.split_once("Examples:\n").unwrap();
            for example in examples.lines() {
                let line = example.strip_prefix("  ropeway ").unwrap_or_else(|| panic!("{name}: {example}"));
                let command = Command::typed(line).unwrap_or_else(|error| panic!("{example}: {error}"));
                let Command::One(flags) = command else { panic!("{example} is a report") };
                assert!(flags.name == name && flags.is_understood(), "{name}: {example}");
            }
        }
    }

    #[test]
    fn options_may_come_before_the_name() {
        let Ok(Command::One(flags)) = Command::typed("bench -n 4 --wait polling coll --json allreduce --root 1") else {
            panic!("it is refused");
        };
        assert!(flags.name == Name::Coll && flags.ranks == 4 && flags.json && flags.collective.operation.is_some());
        for line in ["bench coll", "bench --json coll"] {
            let error = Command::typed(line).err().unwrap().to_string();
            assert!(error.contains("<OPERATION>"), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_mistyped_is_answered_with_the_right_one() {
        for (line, right) in
            [("bench latncy", "'latency'"), ("bench reprot", "'report'"), ("bench --json reprot", "'report'")]
        {
            let error = Command::typed(line).err().unwrap().to_string();
            assert!(error.contains("similar") && error.contains(right), "{error}");
        }
        let error = Command::typed("bench --json report").err().unwrap().to_string();
        assert!(error.contains("report comes before its options"), "{error}");
    }
}
