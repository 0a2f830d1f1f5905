//! Options that mean nothing to a benchmark are refused, and not in its help: what is ignored misleads.

use super::flags::Flags;
use super::name::Name;
use crate::failure::Failure;

/// Options that stand or fall together, and whether a benchmark heeds them.
struct Rule {
    /// As they are typed.
    options: &'static str,
    /// Their names within [`Flags`].
    ids: &'static [&'static str],
    is_given: fn(&Flags) -> bool,
    is_heeded: bool,
    /// What to do if they are not.
    instead: &'static str,
}

/// The options that a benchmark does not heed, by their names within [`Flags`].
pub(super) fn ignored(name: Name) -> impl Iterator<Item = &'static str> {
    rules(name).filter(|rule| !rule.is_heeded).flat_map(|rule| rule.ids.iter().copied())
}

impl Flags {
    /// An error that names an option that was given and means nothing to this benchmark.
    pub(super) fn check_options(&self) -> Result<(), Failure> {
        match rules(self.name).find(|rule| !rule.is_heeded && (rule.is_given)(self)) {
            None => Ok(()),
            Some(Rule { options, instead, .. }) => {
                Err(Failure::Usage(format!("{options} means nothing to {}: {instead}", self.name)))
            }
        }
    }
}

fn rules(name: Name) -> impl Iterator<Item = Rule> {
    [of_amounts(name), of_subjects(name), of_collectives_and_programs(name), of_places(name)].into_iter().flatten()
}

/// How much is measured.
fn of_amounts(name: Name) -> Vec<Rule> {
    let (is_contest, is_idle) = (name.is_contest(), name == Name::Idle);
    let sizes = if is_idle { "idle ranks send nothing" } else { "sizes follow from --points and --segments" };
    let rounds =
        if is_idle { "see --seconds" } else { "a batch takes 20 ms on either side; --runs makes more of them" };
    let has_rounds = !is_idle && !is_contest;
    let has_classes = matches!(name, Name::Asynchrony | Name::Overlap | Name::Boum);
    let takes_turns =
        is_contest || has_classes || matches!(name, Name::Latency | Name::Stream | Name::Overhead | Name::Wakeup);
    vec![
        rule("--sizes", &["sizes"], |flags| flags.sizes.is_some(), (!is_idle && name != Name::Segments, sizes)),
        rule(
            "--sizes 0",
            &[],
            |flags| flags.sizes.iter().flatten().any(|size| size.0 == 0),
            (matches!(name, Name::Boum | Name::Overhead), "use 1 or more, or see overhead and boum"),
        ),
        rule("--iters", &["iters"], |flags| flags.iters.is_some(), (has_rounds, rounds)),
        rule("--warmup", &["warmup"], |flags| flags.warmup.is_some(), (has_rounds, rounds)),
        rule(
            "--seconds",
            &["seconds"],
            |flags| flags.seconds.is_some(),
            (is_idle || name == Name::Skew, "see --runs and --iters"),
        ),
        rule("more than one --wait", &[], |flags| flags.wait.len() > 1, (takes_turns, "ask for one at a time")),
    ]
}

/// What is measured.
fn of_subjects(name: Name) -> Vec<Rule> {
    use Name::{Asynchrony, Boum, Coll, Compare, Idle, Overlap, Persistence, Segments, Transparency};
    let mode = match name {
        Compare => "our messages are persistent, others' are of all kinds; for blocking calls see --of is,cg",
        Transparency => "its programs use blocking calls; for persistent messages see compare",
        Boum | Segments => "it needs both kinds of messages, so leave it out",
        _ => "its messages are persistent, so leave it out",
    };
    let has_modes = !matches!(name, Compare | Transparency | Idle | Persistence | Boum | Segments);
    let progress =
        if name == Coll { "ranks drive collectives with --division flat" } else { "see overlap and asynchrony" };
    let has_subjects = name.is_contest() || name == Overlap;
    vec![
        rule("--mode", &["mode"], |flags| flags.mode.is_some(), (has_modes, mode)),
        rule(
            "--progress",
            &["progress"],
            |flags| flags.progress.is_some(),
            (matches!(name, Asynchrony | Overlap), progress),
        ),
        rule("--of", &["of"], |flags| !flags.of.is_empty(), (has_subjects, "see overlap, compare and transparency")),
        rule(
            "--peer",
            &["peers"],
            |flags| !flags.peers.is_empty(),
            (name.is_contest(), "see compare and transparency"),
        ),
        rule("--touch", &["touch"], |flags| flags.touch, (name == Compare, "see compare")),
    ]
}

/// Which collectives and programs are measured.
fn of_collectives_and_programs(name: Name) -> Vec<Rule> {
    use Name::{Boum, Coll, Overlap, Segments};
    vec![
        rule(
            "OPERATION",
            &["operation"],
            |flags| flags.collective.operation.is_some(),
            (name == Coll, "see coll, and --of of overlap and compare"),
        ),
        rule(
            "--root, --op, --uneven, --algorithm or --division",
            &["root", "op", "uneven", "algorithm", "division"],
            |flags| flags.collective.has_arguments(),
            (matches!(name, Coll | Overlap), "see coll, and overlap --of"),
        ),
        rule("--unknowns", &["unknowns"], |flags| !flags.programs.unknowns.is_empty(), (name == Boum, "see boum")),
        rule(
            "--points",
            &["points"],
            |flags| !flags.programs.points.is_empty(),
            (matches!(name, Boum | Segments), "see boum and segments"),
        ),
        rule(
            "--segments",
            &["segments"],
            |flags| !flags.programs.segments.is_empty(),
            (name == Segments, "see segments"),
        ),
    ]
}

/// Where it is measured, and what is told of that.
fn of_places(name: Name) -> Vec<Rule> {
    let is_contest = name.is_contest();
    let is_single = !is_contest && !matches!(name, Name::Boum | Name::Segments);
    let attach = "it starts its own daemons beside others' programs, so leave it out";
    let pin = if is_contest { "both sides are pinned where there are cores" } else { "its programs are not pinned" };
    vec![
        rule(
            "--beside-links",
            &["beside_links"],
            |flags| flags.beside_links.is_some(),
            (name == Name::Latency, "see latency"),
        ),
        rule("--attach", &["attach"], |flags| flags.attach, (!is_contest, attach)),
        rule("--pin", &["pin"], |flags| flags.pin, (is_single, pin)),
    ]
}

fn rule(
    options: &'static str,
    ids: &'static [&'static str],
    is_given: fn(&Flags) -> bool,
    (is_heeded, instead): (bool, &'static str),
) -> Rule {
    Rule { options, ids, is_given, is_heeded, instead }
}
