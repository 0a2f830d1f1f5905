//! Options that mean nothing to a benchmark are refused: what is ignored misleads.

use super::flags::{Flags, Name};
use crate::failure::Failure;

/// An option, and whether a benchmark heeds it.
struct Rule {
    option: &'static str,
    is_given: bool,
    is_heeded: bool,
    /// What to do about it.
    instead: &'static str,
}

impl Flags {
    /// An error that names an option that was given and means nothing to this benchmark.
    pub(super) fn check_options(&self) -> Result<(), Failure> {
        let rules = [self.rules_of_amounts(), self.rules_of_subjects(), self.rules_of_places()];
        match rules.into_iter().flatten().find(|rule| rule.is_given && !rule.is_heeded) {
            None => Ok(()),
            Some(Rule { option, instead, .. }) => {
                Err(Failure::CannotRun(format!("{option} means nothing to {}: {instead}", self.name)))
            }
        }
    }

    /// How much is measured.
    fn rules_of_amounts(&self) -> Vec<Rule> {
        let name = self.name;
        let (is_contest, is_idle) = (name.is_contest(), name == Name::Idle);
        let sizes = if is_idle { "idle ranks send nothing" } else { "sizes follow from --points and --segments" };
        let rounds =
            if is_idle { "see --seconds" } else { "a batch takes 20 ms on either side; --runs makes more of them" };
        let turns = name.is_contest() || matches!(name, Name::Asynchrony | Name::Overlap | Name::Boum);
        vec![
            rule("--sizes", self.sizes.is_some(), !is_idle && name != Name::Segments, sizes),
            rule("--iters", self.iters.is_some(), !is_idle && !is_contest, rounds),
            rule("--warmup", self.warmup.is_some(), !is_idle && !is_contest, rounds),
            rule("--seconds", self.seconds.is_some(), is_idle || name == Name::Skew, "see --runs and --iters"),
            rule("more than one --wait", self.wait.len() > 1, turns, "ask for one at a time"),
        ]
    }

    /// What is measured.
    fn rules_of_subjects(&self) -> Vec<Rule> {
        use Name::{Asynchrony, Boum, Coll, Compare, Idle, Overlap, Persistence, Segments, Transparency};
        let name = self.name;
        let mode = match name {
            Compare => "our messages are persistent, others' are of all kinds; for blocking calls see --of is,cg",
            Transparency => "its programs use blocking calls; for persistent messages see compare",
            Boum | Segments => "it needs both kinds of messages, so leave it out",
            _ => "its messages are persistent, so leave it out",
        };
        let in_mode = !matches!(name, Compare | Transparency | Idle | Persistence | Boum | Segments);
        vec![
            rule("--mode", self.mode.is_some(), in_mode, mode),
            rule(
                "OPERATION",
                self.collective.operation.is_some(),
                name == Coll,
                "see coll, and --of of overlap and compare",
            ),
            rule(
                "--root, --op, --algorithm or --division",
                self.collective.has_arguments(),
                matches!(name, Coll | Overlap),
                "see coll, and overlap --of",
            ),
            rule(
                "--progress",
                self.progress.is_some(),
                matches!(name, Asynchrony | Overlap | Coll),
                "see overlap and asynchrony",
            ),
            rule("--unknowns", !self.programs.unknowns.is_empty(), name == Boum, "see boum"),
            rule(
                "--points",
                !self.programs.points.is_empty(),
                matches!(name, Boum | Segments),
                "see boum and segments",
            ),
            rule("--segments", !self.programs.segments.is_empty(), name == Segments, "see segments"),
            rule(
                "--of",
                !self.of.is_empty(),
                name.is_contest() || name == Overlap,
                "see overlap, compare and transparency",
            ),
            rule("--peer", !self.peers.is_empty(), name.is_contest(), "see compare and transparency"),
            rule("--touch", self.touch, name == Compare, "see compare"),
        ]
    }

    /// Where it is measured, and what is told of that.
    fn rules_of_places(&self) -> Vec<Rule> {
        let is_contest = self.name.is_contest();
        let has_programs = matches!(self.name, Name::Boum | Name::Segments);
        let pin =
            if is_contest { "both sides are pinned where there are cores" } else { "its programs are not pinned" };
        let counters = "counters are those of single benchmarks, such as latency and coll";
        vec![
            rule("--netns", self.netns, !is_contest, "others run on loopback or shared memory, so see --nodes 2 alone"),
            rule(
                "--rate",
                self.rate.is_some(),
                self.netns,
                "it is that of lines between namespaces, so add --nodes 2 --netns",
            ),
            rule(
                "--attach",
                self.attach,
                !is_contest,
                "it starts its own daemons beside others' programs, so leave it out",
            ),
            rule("--pin", self.pin, !is_contest && !has_programs, pin),
            rule("--counters", self.counters, !is_contest && !has_programs, counters),
        ]
    }
}

fn rule(option: &'static str, is_given: bool, is_heeded: bool, instead: &'static str) -> Rule {
    Rule { option, is_given, is_heeded, instead }
}
