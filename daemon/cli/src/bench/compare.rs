//! `ropeway bench compare` and `transparency`: Ropeway and every MPI library on the machine, in turns.

mod lines;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ropeway_bench::{
    Bench, Doubt, Figure, Floor, Kind, MPI_CONTEST, MPI_HEADERS, Measured, Plan, Setting, Size, Summary,
};
use ropeway_daemon::Config;

use self::lines::{Line, Standing};
use super::peer::{self, PLACING, Peer, Placement};
use super::rounds::{Round, check, kernels, kinds, rounds};
use super::ticker::Ticker;
use super::verdict::verdict;
use super::{Flags, Found};
use crate::failure::{Failure, tell};
use crate::launch::{Daemons, Ending, Events, Input, Launch, Next, Outcome, Output, Program, Rate, Running};
use crate::rank::Task;
use crate::steps::{Seen, Steps, Told};

/// A peer's run must end within this time; a library that spins on too few cores would take for ever.
const PATIENCE: Duration = Duration::from_secs(60);
/// Our thread that takes signals is as soon there as others of ours.
const PATIENCE_WITH_SIGNALS: Duration = Duration::from_millis(100);

/// `compare`: messages, collectives, whatever is asked for.
pub(super) fn measure(flags: &Flags, events: &Events, progress: &Ticker) -> Result<Found, Failure> {
    contend(("compare", kinds(flags)), flags, events, progress)
}

/// `transparency`: programs that use neither persistent requests nor overlap.
pub(super) fn transparency(flags: &Flags, events: &Events, progress: &Ticker) -> Result<Found, Failure> {
    contend(("transparency", kernels(flags)?), flags, events, progress)
}

fn contend(
    (bench, kinds): (&'static str, Vec<Kind>),
    flags: &Flags,
    events: &Events,
    progress: &Ticker,
) -> Result<Found, Failure> {
    check(bench, &kinds, flags)?;
    flags.check_network()?;
    let peers = find_peers(flags);
    check_interrupt(events, peers.is_err())?;
    let mut peers = peers?;
    check_placing(flags)?;
    let folder = tempfile::Builder::new().prefix("ropeway-compare-").tempdir().map_err(Failure::other)?;
    let programs = build(&mut peers, folder.path(), events)?;
    let daemons = flags.daemons()?;
    let namespaces = daemons.namespaces();
    // Their launchers are started as jobs of one rank, so that they end as jobs do.
    let starter = Daemons::embedded(1, &Config::default())?;
    let complaints = folder.path().join("complaints");
    let (mut lines, mut cut_short) = (Vec::new(), None);
    for round in rounds(flags, &kinds) {
        let runner = Runner {
            bench,
            flags,
            round,
            daemons: &daemons,
            namespaces: &namespaces,
            starter: &starter,
            complaints: &complaints,
            events,
            progress,
        };
        let (of_round, failure) = runner.compare(&peers, &programs);
        lines.extend(of_round);
        cut_short = failure;
        if cut_short.is_some() {
            break;
        }
    }
    if lines.is_empty() && cut_short.is_none() {
        return Err(Failure::CannotRun(
            "none of the MPI libraries could be compared with: why is said above".to_owned(),
        ));
    }
    let counted = lines::counted(&lines);
    Ok(Found { records: lines::json(&lines), table: lines::table(flags, &lines), counted, cut_short })
}

fn find_peers(flags: &Flags) -> Result<Vec<Peer>, Failure> {
    let listed = std::env::var_os("ROPEWAY_PEERS").unwrap_or_default();
    let mut named = flags.peers.clone();
    named.extend(std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()));
    if let Some(missing) = named.iter().find(|place| !place.exists()) {
        return Err(Failure::CannotRun(format!(
            "there is no MPI library at {}: name its mpicc, or the folder it is installed in",
            missing.display()
        )));
    }
    if let Some(other) = named.iter().find(|place| !peer::is_at(place)) {
        return Err(Failure::CannotRun(format!(
            "{} is no MPI library that is known here: name its mpicc, or the folder it is installed in; mpiexec has to be beside it",
            other.display()
        )));
    }
    let peers = peer::find(&named);
    if peers.is_empty() {
        let hint = "install one (apt-get install openmpi-bin libopenmpi-dev) or name it with --peer";
        return Err(Failure::CannotRun(format!("no MPI library found to compare with: {hint}")));
    }
    Ok(peers)
}

/// Whether others' ranks can be put into the nodes' namespaces.
fn check_placing(flags: &Flags) -> Result<(), Failure> {
    let is_missing = |program: &&&str| Program::find(program.as_ref(), &[]).is_err();
    match PLACING.iter().filter(|_| flags.netns).find(is_missing) {
        None => Ok(()),
        Some(program) => Err(Failure::CannotRun(format!(
            "--netns puts other libraries' ranks into the nodes' namespaces with {}, and there is no {program}: install util-linux \
             and mount, or leave --netns out",
            PLACING.join(", ")
        ))),
    }
}

/// Builds the other side with every peer. Those that can't are named and left out.
fn build(peers: &mut Vec<Peer>, folder: &Path, events: &Events) -> Result<Vec<PathBuf>, Failure> {
    let source = folder.join("contest.c");
    std::fs::write(&source, MPI_CONTEST).map_err(Failure::other)?;
    for (name, header) in MPI_HEADERS {
        std::fs::write(folder.join(name), header).map_err(Failure::other)?;
    }
    let (mut programs, mut able) = (Vec::new(), Vec::new());
    for peer in std::mem::take(peers) {
        let program = folder.join(format!("contest-{}", programs.len()));
        let built = peer.compile(&source, &program).output();
        let complaint = match built {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                Some(said.lines().next().map_or_else(|| output.status.to_string(), str::to_owned))
            }
            Err(error) => Some(error.to_string()),
        };
        check_interrupt(events, complaint.is_some())?;
        match complaint {
            Some(why) => tell(&format!("ropeway: {} is left out, it does not build programs here: {why}", peer.name)),
            None => {
                programs.push(program);
                able.push(peer);
            }
        }
    }
    *peers = able;
    if peers.is_empty() {
        return Err(Failure::CannotRun("no MPI library builds programs here".to_owned()));
    }
    Ok(programs)
}

/// Whether the user wants an end. A terminal's interrupt ends also what we have started, and we may learn of that first.
fn check_interrupt(events: &Events, has_failed: bool) -> Result<(), Failure> {
    let patience = if has_failed { PATIENCE_WITH_SIGNALS } else { Duration::ZERO };
    events.interrupted(patience).map_or(Ok(()), |signal| Err(Failure::Job(Outcome::Interrupted(signal))))
}

/// The figures of one contestant: by size and what is measured of it, by run.
type Figures<T = f64> = Vec<Vec<T>>;

/// A figure of ours in a run.
#[derive(Clone)]
struct Ours {
    figure: f64,
    /// What the machine can do without us, just after it.
    floor: Option<Floor>,
    /// What was counted meanwhile, the floor's time included.
    seen: Seen,
}

/// A round, and all it takes to measure it.
struct Runner<'a> {
    /// What the records are called.
    bench: &'static str,
    flags: &'a Flags,
    round: Round,
    daemons: &'a Daemons,
    /// Where others' ranks belong, if nodes have networks of their own.
    namespaces: &'a [String],
    starter: &'a Daemons,
    /// Where peers complain.
    complaints: &'a Path,
    events: &'a Events,
    progress: &'a Ticker,
}

/// A peer, and the kind of its requests.
struct Rival<'a> {
    peer: &'a Peer,
    program: &'a Path,
    form: &'static str,
    figures: Figures,
}

impl Runner<'_> {
    /// All contestants, run by run in turns: what came of all runs that were complete, and why there are not more.
    fn compare(&self, peers: &[Peer], programs: &[PathBuf]) -> (Vec<Line>, Option<Failure>) {
        let figures = self.round.sizes.len() * self.figures().len();
        let forms = self.round.contest.kind.rival_forms();
        let mut rivals: Vec<_> = peers
            .iter()
            .zip(programs)
            .collect::<Vec<_>>()
            .into_iter()
            .flat_map(|(peer, program)| {
                forms.iter().map(move |&form| Rival { peer, program, form, figures: vec![Vec::new(); figures] })
            })
            .collect();
        let mut ours = vec![Vec::new(); figures];
        let mut all = 1..=self.flags.runs();
        let cut_short = all.find_map(|run| self.take_turns(run, &mut ours, &mut rivals).err());
        (self.lines(&ours, &rivals), cut_short)
    }

    /// A run of each. Rivals that fail are left out.
    fn take_turns(&self, run: u32, ours: &mut Figures<Ours>, rivals: &mut Vec<Rival<'_>>) -> Result<(), Failure> {
        self.say("Ropeway", run);
        append(ours, self.ours()?);
        let mut index = 0;
        while index < rivals.len() {
            let rival = &mut rivals[index];
            self.say(&format!("{} {}", rival.peer.name, rival.form), run);
            match self.theirs(rival)? {
                Some(figures) => {
                    append(&mut rival.figures, figures);
                    index += 1;
                }
                None => {
                    let Rival { peer, form, .. } = rivals.remove(index);
                    let said = std::fs::read_to_string(self.complaints).unwrap_or_default();
                    let said = said.lines().next().unwrap_or("it takes too long, or says too little").to_owned();
                    self.progress.note(&format!("{} ({form}) is left out: {said}", peer.name));
                }
            }
        }
        Ok(())
    }

    fn say(&self, who: &str, run: u32) {
        let Round { contest, wait, .. } = &self.round;
        self.progress.say(&format!("{}, {wait}, run {run} of {}: {who}", contest.kind, self.flags.runs()));
    }

    fn ours(&self) -> Result<Vec<Ours>, Failure> {
        let Round { contest, wait, ref sizes } = self.round;
        let plan = Plan {
            bench: Bench::Compare,
            sizes: sizes.clone(),
            modes: vec![contest.kind.mode()],
            iters: None,
            warmup: None,
            runs: 1,
            seconds: 0.0,
            pin: self.has_cores(),
            collectives: Vec::new(),
            methods: Vec::new(),
            progress: Vec::new(),
            notification: Vec::new(),
            beside_links: None,
            contest: Some(contest),
            addresses: self.flags.addresses(),
            line_rate: self.flags.rate.map(Rate::bits_per_s),
            // Programs allocate memory themselves.
            counts_allocations: self.flags.counters && !Kind::OF_KERNELS.contains(&contest.kind),
        };
        let (task, ranks) = (Task::Bench(Box::new(plan)), self.flags.ranks);
        let steps = Steps { task, ranks, wait: Some(wait), daemons: self.daemons, events: self.events };
        let mut figures = Vec::new();
        steps.follow(|told: Told<Measured>| {
            if let Told::Outcome(measured, seen) = told {
                figures.push(Ours { figure: measured.summary.median, floor: measured.floor, seen });
            }
            Ok(())
        })?;
        Ok(figures)
    }

    /// A peer's figures; `None` if it fails.
    fn theirs(&self, rival: &Rival<'_>) -> Result<Option<Vec<f64>>, Failure> {
        let Round { contest, ref sizes, .. } = self.round;
        let touch = if contest.touch { "1" } else { "0" };
        let mut args: Vec<String> =
            [&contest.kind.to_string(), rival.form, touch, &contest.batch_s.to_string()].map(str::to_owned).into();
        args.extend(sizes.iter().map(|size| size.0.to_string()));
        let (ranks, over_tcp, namespaces) = (self.flags.ranks, self.flags.nodes > 1, self.namespaces);
        let placement = Placement { ranks, over_tcp, namespaces, has_cores: self.has_cores() };
        let line = rival.peer.command_line(rival.program, &args, placement);
        let launch = Launch {
            program: Program::find("sh".as_ref(), &self.silenced(line))?,
            ranks: 1,
            wait: None,
            timeout_at: Some(Instant::now() + PATIENCE),
            input: Input::Tool,
            output: Output::Tool,
            ending: Ending::ByLaunchers,
        };
        let mut running = Running::start(&launch, self.starter, self.events)?;
        let (mut figures, of_size) = (Vec::new(), self.figures().len());
        let outcome = loop {
            match running.next() {
                Next::Line(line) => figures.extend(figures_in(&line, of_size).into_iter().flatten()),
                Next::Ended(outcome) => break outcome,
            }
        };
        match outcome {
            Outcome::Success => Ok((figures.len() == sizes.len() * of_size).then_some(figures)),
            Outcome::Interrupted(_) | Outcome::OutOfTime => Err(Failure::Job(outcome)),
            _ => Ok(None),
        }
    }

    /// Keeps what a library complains about for later.
    fn silenced(&self, line: Vec<OsString>) -> Vec<OsString> {
        let mut silenced: Vec<OsString> = vec!["-c".into(), "exec env \"$@\" 2> \"$0\"".into(), self.complaints.into()];
        silenced.extend(line);
        silenced
    }

    fn has_cores(&self) -> bool {
        self.flags.ranks as usize <= cores()
    }

    fn figures(&self) -> Vec<Figure> {
        self.round.contest.kind.figures()
    }

    fn lines(&self, ours: &Figures<Ours>, rivals: &[Rival<'_>]) -> Vec<Line> {
        let mut lines = Vec::new();
        // Rivals that had no turn in the last run have a figure less.
        let runs = rivals.iter().flat_map(|rival| &rival.figures).map(Vec::len).min().unwrap_or(0);
        let figures = self.figures();
        let all = self.round.sizes.iter().flat_map(|&size| figures.iter().map(move |figure| (size, figure)));
        for (index, what) in all.enumerate().filter(|_| runs > 0) {
            let runs_of_ours = &ours[index][..runs];
            let seen: Vec<_> = runs_of_ours.iter().map(|ours| ours.seen.clone()).collect();
            let counters = Seen::counted(&seen).filter(|_| self.flags.counters);
            let floor = Floor::of_runs(runs_of_ours.iter().filter_map(|ours| ours.floor.as_ref()));
            let ours: Vec<_> = runs_of_ours.iter().map(|ours| ours.figure).collect();
            for rival in rivals {
                let line = self.line(what, &ours, (rival, &rival.figures[index][..runs]));
                lines.push(Line { floor: floor.clone(), counters: counters.clone(), ..line });
            }
        }
        lines
    }

    /// A figure of each run, ours and a rival's.
    fn line(&self, (size, figure): (Size, &Figure), ours: &[f64], (rival, theirs): (&Rival<'_>, &[f64])) -> Line {
        let Round { contest, wait, .. } = &self.round;
        let (of, op) = match contest.kind {
            Kind::Overlap(op) => (Kind::Overlap(None), op),
            kind => (kind, kind.operation()),
        };
        let summary = Summary::in_unit(figure.unit, ours);
        let doubts = summary.doubts.and(Doubt::Oversubscribed, !self.has_cores());
        let (verdict, p) = verdict(ours, theirs, figure.metric);
        Line {
            bench: self.bench,
            of: of.to_string(),
            op,
            side: figure.side,
            compute: figure.compute,
            metric: figure.metric,
            unit: figure.unit,
            mode: contest.kind.mode(),
            setting: Setting { wait: wait.to_string(), ..self.flags.setting() },
            bytes: size.0,
            touched: contest.touch,
            summary: Summary { doubts, ..summary },
            runs: ours.len() as u32,
            peer: rival.peer.name.clone(),
            peer_mode: rival.form,
            peer_median: Summary::of(theirs).median,
            standing: Standing::of(figure, ours, theirs),
            verdict,
            p,
            oversubscribed: self.flags.setting().is_oversubscribed(),
            version: env!("CARGO_PKG_VERSION"),
            floor: None,
            counters: None,
        }
    }
}

fn append<T>(figures: &mut Figures<T>, run: Vec<T>) {
    figures.iter_mut().zip(run).for_each(|(of_size, figure)| of_size.push(figure));
}

/// `SIZE MEDIAN …`, with as many medians as a size has; other lines are talk.
fn figures_in(line: &str, count: usize) -> Option<Vec<f64>> {
    let (size, medians) = line.split_once(' ')?;
    size.parse::<u64>().ok()?;
    let medians: Vec<f64> = medians.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    (medians.len() == count).then_some(medians)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_from_talk() {
        assert_eq!(figures_in("65536 11.43", 1), Some(vec![11.43]));
        assert_eq!(figures_in("65536 -0.25 11.43", 2), Some(vec![-0.25, 11.43]));
        assert_eq!(figures_in("65536 11.43", 2), None);
        assert_eq!(figures_in("version Open MPI v4.1.4", 1), None);
        assert_eq!(figures_in("", 1), None);
    }
}
