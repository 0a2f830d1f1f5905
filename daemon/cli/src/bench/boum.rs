//! `ropeway bench boum`: the parameters of the model, and its predictions beside what was measured.

use ropeway::WaitMode;
use ropeway_bench::boum::{Algorithm, Application, Costs, Prediction, Run, Workload, model};
use ropeway_bench::{Bench, Doubt, Doubts, Measured, Mode, Plan, Setting, Size, Summary, Table};

use super::comparison::{Comparison, MS, doubts};
use super::lab::{Crew, Lab, costs, in_order};
use super::table::{Results, carrier, digits, footnote, heading, median};
use super::{Flags, Found, Ticker};
use crate::failure::Failure;
use crate::launch::Events;
use crate::steps::Seen;

pub(super) fn measure(flags: &Flags, events: &Events, progress: &Ticker) -> Result<Found, Failure> {
    let plan = flags.model_plan()?;
    let programs = flags.programs.all(flags.ranks)?;
    let lab = Lab { daemons: flags.daemons()?, events, progress, with_counters: flags.counters };
    let mut report = Report::default();
    let all = measure_all(flags, &lab, &plan, &programs, &mut report);
    Ok(Found { records: report.lines, table: report.text, counted: report.counted, cut_short: all.err() })
}

fn measure_all(
    flags: &Flags,
    lab: &Lab<'_>,
    plan: &Plan,
    programs: &[(Algorithm, usize)],
    report: &mut Report,
) -> Result<(), Failure> {
    let setting = flags.setting();
    let (few, many): (Vec<u32>, Vec<u32>) = flags.rank_counts().partition(|&ranks| ranks as usize <= setting.cores);
    let measurable = many.partition_point(|&ranks| ranks as usize <= MEASURED_FACTOR * setting.cores);
    let sent = crews(programs, &few).flat_map(|((algorithm, size), ranks)| algorithm.messages(size, ranks));
    // A rank alone has none.
    let sent = sent.filter(|messages| messages.count > 0);
    let own = sent.map(|messages| messages.bytes);
    let sizes = in_order(own.chain(plan.sizes.iter().map(|size| size.0)));
    if sizes.iter().all(|size| size.0 == 0) {
        let why = "empty messages alone say nothing of what bytes cost: add a size above 0 to --sizes";
        return Err(Failure::Usage(why.to_owned()));
    }
    for wait in flags.waits(&[WaitMode::Blocking, WaitMode::Polling]) {
        let ranks = flags.nodes.max(2);
        let setting = Setting { wait: wait.to_string(), ranks, ..setting.clone() };
        let (measured, end) = lab.parameters(Plan { sizes: sizes.clone(), ..plan.clone() }, Crew { ranks, wait });
        let (mut parameters, seen): (Vec<_>, Vec<_>) = measured.into_iter().unzip();
        for Measured { summary, .. } in &mut parameters {
            summary.doubts = summary.doubts.and(Doubt::Oversubscribed, setting.is_oversubscribed());
        }
        if let Err(end) = end {
            report.add_records(&parameters, seen, &setting);
            return Err(end);
        }
        let costs = costs(&parameters)?;
        report.add_parameters((&parameters, seen), &costs, &setting);
        let mut compared = Vec::new();
        let all = crews(programs, &few).chain(crews(programs, &many[..measurable])).try_for_each(
            |((algorithm, size), ranks)| {
                let application = Application { algorithm, size, segments: vec![1], runs: RUNS_FACTOR * plan.runs };
                let runs = lab.runs(application, Crew { ranks, wait })?;
                let setting = Setting { ranks, ..setting.clone() };
                compared.push(Compared::new((algorithm, size), &setting, &runs, &costs));
                Ok::<_, Failure>(())
            },
        );
        report.add_programs(&compared);
        all?;
    }
    report.refuse(&many, setting.cores);
    Ok(())
}

/// Each program on so many ranks.
fn crews(programs: &[(Algorithm, usize)], counts: &[u32]) -> impl Iterator<Item = ((Algorithm, usize), u32)> {
    programs.iter().flat_map(|&program| counts.iter().map(move |&ranks| (program, ranks)))
}

/// What was predicted of a program on so many ranks, and what it did.
struct Compared {
    /// What an operation costs, nanoseconds.
    t_c: Comparison,
    /// Iterations and time of the computing, seconds, from which that follows.
    computing: (u64, Summary),
    /// For each kind of messages it was written for: time of the program, and of its messages if there are any.
    times: Vec<(Mode, Comparison, Option<Comparison>)>,
    /// What early binding speeds the messages up by, without and with set-up.
    speed_ups: Option<[Comparison; 2]>,
}

impl Compared {
    fn new(program: (Algorithm, usize), setting: &Setting, runs: &[(Run, Seen)], costs: &Costs) -> Self {
        let (algorithm, size) = program;
        let of = |mode| runs.iter().map(|(run, _)| run).filter(move |run| run.mode == mode);
        let seen = |mode| runs.iter().filter(move |(run, _)| run.mode == mode).map(|(_, seen)| seen);
        let has_partners = setting.ranks > 1;
        let all: Vec<_> = runs.iter().map(|(run, _)| run).collect();
        let computing = computing(&all);
        // A prediction is as doubtful as what it was made of.
        let doubts = computing.1.doubts.union(predict(program, setting.ranks, &all, costs).doubts);
        let compare = |(metric, unit), samples: &[f64], predicted| {
            let predicted = (!setting.is_oversubscribed()).then_some(predicted);
            Comparison::new(("boum", metric, unit), program, setting.clone(), samples, predicted).doubted(doubts)
        };
        let predict = |runs: &[&Run]| predict(program, setting.ranks, runs, costs);
        let times = |mode| {
            let [total, communication] = [|run: &Run| run.total, |run: &Run| run.communication]
                .map(|figure| of(mode).map(figure).collect::<Vec<_>>());
            let predictions = of(mode).map(|run| predict(&[run]).total(mode));
            let total = compare(("execution", "s"), &total, beside(&total, predictions));
            // The same jobs are measured by both times, and counted once.
            let total = Comparison { counters: Seen::counted(seen(mode)), ..total };
            let predicted = predict(&of(mode).collect::<Vec<_>>()).communication(mode);
            let communication = || compare(("communication", "s"), &communication, predicted);
            let mode_of = |comparison| Comparison { mode: Some(mode), ..comparison };
            (mode, mode_of(total), has_partners.then(communication).map(mode_of))
        };
        let modes = [Mode::OneShot, Mode::Persistent].into_iter().filter(|&mode| of(mode).next().is_some());
        let ratio = |set_up: f64| -> Vec<f64> {
            let pairs = of(Mode::OneShot).zip(of(Mode::Persistent));
            pairs.map(|(anew, bound)| anew.communication / (bound.communication + set_up * bound.set_up)).collect()
        };
        let speed_ups = || {
            let prediction = predict(&all);
            let alone = compare(("S_c", "ratio"), &ratio(0.0), prediction.binding_speed_up());
            let with_set_up = prediction.binding_speed_up_with_set_up();
            [alone, compare(("S_c_with_set_up", "ratio"), &ratio(1.0), with_set_up)]
        };
        let t_c =
            |run: &&Run| run.computation * f64::from(setting.ranks) / (algorithm.operations(size, run.iterations) * NS);
        let t_c: Vec<f64> = all.iter().map(t_c).collect();
        let without_messages = Setting { device: "none".into(), ..setting.clone() };
        Self {
            t_c: Comparison::new(("boum", "t_c", "ns"), program, without_messages, &t_c, None),
            computing,
            times: modes.map(times).collect(),
            speed_ups: (has_partners && !ratio(0.0).is_empty()).then(speed_ups),
        }
    }

    fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        let times = self.times.iter().flat_map(|(_, total, communication)| [total].into_iter().chain(communication));
        times.chain(self.speed_ups.iter().flatten())
    }

    /// What computing costs.
    fn computing_row(&self) -> Vec<String> {
        let Self { t_c, computing: (iterations, time), .. } = self;
        let ms = Summary { median: time.median * MS, ..*time };
        let program = [t_c.application.to_string(), Size(t_c.size).to_string(), t_c.setting.ranks.to_string()];
        program.into_iter().chain([iterations.to_string(), median(&ms), median(&t_c.summary)]).collect()
    }

    /// A row for each kind of messages.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |(mode, total, communication): &(Mode, Comparison, Option<Comparison>)| {
            let Comparison { application, size, setting, .. } = total;
            let mut cells = vec![application.to_string(), mode.to_string()];
            cells.extend([Size(*size).to_string(), setting.ranks.to_string()]);
            cells.extend([total].into_iter().chain(communication).flat_map(|comparison| comparison.cells(MS)));
            let speed_ups = self.speed_ups.iter().flatten().filter(|_| *mode == Mode::Persistent);
            cells.extend(speed_ups.flat_map(|speed_up| speed_up.cells(1.0).into_iter().take(2)));
            cells
        };
        self.times.iter().map(row).collect()
    }
}

/// What the model says of a program on so many ranks, from what they computed in the same runs.
fn predict((algorithm, size): (Algorithm, usize), ranks: u32, runs: &[&Run], costs: &Costs) -> Prediction {
    let (iterations, time) = computing(runs);
    let messages = algorithm.messages(size, ranks);
    Workload { iterations, computation: time.median / iterations as f64, messages }.predict(costs)
}

/// What is predicted of the median of these runs, if that was predicted of each: a shared machine changes its speed from run to run, and what
/// a prediction is made of goes with its run.
fn beside(runs: &[f64], predictions: impl Iterator<Item = f64>) -> f64 {
    let ratios: Vec<f64> = runs.iter().zip(predictions).map(|(run, prediction)| prediction / run).collect();
    Summary::of(&ratios).median * Summary::of(runs).median
}

/// Iterations, which are the same in all runs, and time of computing.
fn computing(runs: &[&Run]) -> (u64, Summary) {
    let times: Vec<f64> = runs.iter().map(|run| run.computation).collect();
    (runs[0].iterations, Summary::of(&times))
}

/// What is printed in the end.
#[derive(Default)]
struct Report {
    text: String,
    /// JSON.
    lines: String,
    /// What the daemons have counted, if that is wanted.
    counted: String,
}

impl Report {
    fn add_records(&mut self, parameters: &[Measured], seen: Vec<Seen>, setting: &Setting) {
        let mut results = Results::new(Bench::Boum, setting.clone(), true);
        let seen = seen.into_iter().chain(std::iter::repeat(Seen::default()));
        parameters.iter().cloned().zip(seen).for_each(|(measured, seen)| results.add(measured, seen));
        self.lines += &results.json();
        self.counted += &results.counted();
    }

    fn add_parameters(&mut self, (parameters, seen): (&[Measured], Vec<Seen>), costs: &Costs, setting: &Setting) {
        let parameters = [parameters, &derived(parameters, costs)].concat();
        self.add_records(&parameters, seen, setting);
        let table = parameter_table(&parameters, costs);
        let all = parameters.iter().map(|measured| measured.summary.doubts);
        let footnote = footnote(all.fold(Doubts::default(), Doubts::union));
        self.text += &format!("{}\n{table}{footnote}\n", heading("parameters, us", setting));
    }

    fn add_programs(&mut self, compared: &[Compared]) {
        let Some(first) = compared.first().and_then(|compared| compared.comparisons().next()) else { return };
        let mut computing = Table::new(&["program", "size", "ranks", "iterations", "T_comp ms", "t_c ns"]);
        compared.iter().for_each(|compared| computing.push(compared.computing_row()));
        let about = "computing without messages, all ranks at once, in turns with the programs; t_c is the time of an operation";
        let of_computing = footnote(doubts(compared.iter().map(|compared| &compared.t_c)));
        self.text += &format!("{about}\n{computing}{of_computing}\n");
        self.lines.extend(compared.iter().map(|compared| compared.t_c.json()));
        let mut heading_cells = vec!["program", "messages", "size", "ranks"];
        heading_cells.extend(["T_p ms", "predicted", "error", "T_c ms", "predicted", "error"]);
        heading_cells.extend(["S_c", "predicted", "with set-up", "predicted"]);
        let mut table = Table::with_words(2, &heading_cells);
        compared.iter().flat_map(Compared::rows).for_each(|row| table.push(row));
        let all = || compared.iter().flat_map(Compared::comparisons);
        self.lines.extend(all().map(Comparison::json));
        self.counted.extend(all().map(Comparison::counted));
        let what = format!("programs; {}, {}", carrier(&first.setting), first.setting.wait);
        self.text += &format!("{what}\n{table}{}\n", footnote(doubts(all())));
    }

    /// What can't be predicted.
    fn refuse(&mut self, counts: &[u32], cores: usize) {
        for ranks in counts {
            self.text += &format!(
                "no prediction for {ranks} ranks: oversubscribed, on {cores} cores they would wait for each other's time slices\n"
            );
        }
    }
}

/// What follows from the parameters of each size: all overhead, and how efficient eight segments are (3.44) where an eighth was
/// measured.
fn derived(parameters: &[Measured], costs: &Costs) -> Vec<Measured> {
    let set_ups = parameters.iter().filter(|measured| measured.metric == "o_s");
    let of_size = |set_up: &Measured| {
        let bytes = set_up.bytes.unwrap_or_default();
        let one = |metric, unit, value, doubts| {
            let summary = Summary { doubts, ..Summary::of(&[value]) };
            Measured { mode: set_up.mode, bytes: Some(bytes), ..Measured::new(metric, unit, summary, set_up.runs) }
        };
        let [whole, eighth] = [bytes, bytes / 8].map(|bytes| costs.message(bytes));
        let overhead = one("o", "ns", (whole.set_up + whole.initiate) / NS, costs.doubts_about_overhead(bytes));
        let efficiency = || {
            let value = model::segmentation_efficiency(whole.bound().time(), eighth.bound().time(), 8);
            let doubts = [bytes, bytes / 8].map(|bytes| costs.doubts_about_bound(bytes));
            one("E_8", "ratio", value, doubts[0].union(doubts[1]))
        };
        let has_eighth = parameters
            .iter()
            .any(|part| part.metric == "o_s" && part.bytes.is_some_and(|other| other > 0 && other * 8 == bytes));
        [Some(overhead), has_eighth.then(efficiency)].into_iter().flatten()
    };
    set_ups.flat_map(of_size).collect()
}

/// A row for each size.
fn parameter_table(parameters: &[Measured], costs: &Costs) -> Table {
    let mut table = Table::new(&[
        "bytes", "o_s", "o_i", "o", "b ns", "bm", "R", "d_p", "d_o", "oneshot", "d_a", "oneshot", "CPU", "oneshot",
        "E_8", "S_c",
    ]);
    let sizes = in_order(parameters.iter().filter_map(|measured| measured.bytes));
    for size in sizes {
        let found = |metric: &str, mode| {
            let is_it = |measured: &&Measured| {
                (&*measured.metric, measured.mode, measured.bytes) == (metric, Some(mode), Some(size.0))
            };
            parameters.iter().find(is_it).map(|measured| measured.summary)
        };
        let shown = |summary: Option<Summary>| summary.map_or_else(|| "-".to_owned(), |summary| median(&summary));
        let message = costs.message(size.0);
        let us = |seconds: f64| digits(seconds / US);
        let mut cells = vec![size.to_string(), us(message.set_up), us(message.initiate)];
        cells.push(us(message.set_up + message.initiate));
        cells.push(shown(found("b", Mode::Persistent)));
        cells.push(us(message.bytes));
        cells.push(shown(found("R", Mode::Persistent)));
        cells.push(shown(found("d_p", Mode::Persistent)));
        let both = [Mode::Persistent, Mode::OneShot];
        cells.extend(both.map(|mode| shown(found("d_o", mode))));
        cells.extend(both.map(|mode| shown(found("d_a", mode))));
        // What is not left of the processor while messages travel.
        let taken = |summary: Summary| Summary { median: 1.0 - summary.median, ..summary };
        cells.extend(both.map(|mode| shown(found("availability", mode).map(taken))));
        cells.push(shown(found("E_8", Mode::Persistent)));
        cells.push(digits(message.binding_speed_up()));
        table.push(cells);
    }
    table
}

/// Programs run so many times as often as messages: what they take is one sample a run.
const RUNS_FACTOR: u32 = 2;
/// Programs are measured on so many ranks a core, though nothing is predicted for more than one.
const MEASURED_FACTOR: usize = 4;
const NS: f64 = 1e-9;
const US: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use ropeway_bench::boum::Figure;

    use super::*;

    #[test]
    fn a_machine_that_changes_its_speed_is_predicted_run_by_run() {
        let predicted = beside(&[1.0, 3.0, 2.0], [1.1, 3.3, 1.0].into_iter());
        assert!((predicted - 2.2).abs() < 1e-12, "{predicted}");
    }

    #[test]
    fn who_is_alone_takes_as_long_as_it_computes() {
        let figure = |metric: &str| -> Figure {
            let line = serde_json::json!({"metric": metric, "mode": "persistent", "bytes": 8, "median": 1.0});
            serde_json::from_value(line).unwrap()
        };
        let costs = Costs::of(&["o_s", "o_i", "b"].map(figure)).unwrap();
        let (device, wait) = ("shm".into(), "blocking".into());
        let setting = Setting { ranks: 1, nodes: 1, device, wait, netns: false, rate: None, cores: 2 };
        let run = Run {
            mode: Mode::Persistent,
            segments: 1,
            iterations: 1,
            total: 25e-6,
            communication: 0.0,
            computation: 20.48e-6,
            set_up: 0.0,
            global: 0.0,
            global_computation: 0.0,
        };
        let found = Compared::new((Algorithm::Fft, 1024), &setting, &[(run, Seen::default())], &costs);
        // T_p = t_c n log n
        assert_eq!(found.t_c.summary.median, 2.0);
        let [(Mode::Persistent, total, None)] = &found.times[..] else { panic!("it has no messages") };
        assert_eq!((total.summary.median, total.predicted), (25e-6, Some(20.48e-6)));
        assert!(found.speed_ups.is_none());
    }
}
