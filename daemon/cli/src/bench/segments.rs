//! `ropeway bench segments`: in how many pieces messages should travel, measured and predicted.

use ropeway_bench::boum::{Algorithm, Application, Costs, Run, model};
use ropeway_bench::{Plan, Size, Summary, Table, significant};

use super::comparison::{Comparison, MS, doubts};
use super::lab::{Crew, Lab, costs, in_order};
use super::table::{digits, footnote, heading};
use super::{Flags, Found, Ticker};
use crate::failure::Failure;
use crate::launch::Events;
use crate::steps::Seen;

pub(super) fn measure(flags: &Flags, events: &Events, progress: &Ticker) -> Result<Found, Failure> {
    let plan = flags.model_plan()?;
    let segments = flags.programs.segments();
    let most = segments.iter().copied().max().unwrap_or(1);
    let all_points = flags.programs.points(flags.ranks, most)?;
    let lab = Lab { daemons: flags.daemons()?, events, progress, with_counters: flags.counters };
    let (mut measured, mut cut_short) = (Vec::new(), None);
    for points in all_points {
        match measure_one(flags, &lab, &plan, points, &segments) {
            Ok(lines) => measured.push(lines),
            Err(failure) => {
                cut_short = Some(failure);
                break;
            }
        }
    }
    Ok(found(flags, &measured, cut_short))
}

fn measure_one(
    flags: &Flags,
    lab: &Lab<'_>,
    plan: &Plan,
    points: usize,
    segments: &[u32],
) -> Result<Vec<Comparison>, Failure> {
    let (setting, crew) = (flags.setting(), Crew { ranks: flags.ranks, wait: flags.wait() });
    let message = Algorithm::Fft.messages(points, flags.ranks)[0].bytes;
    let costs = if setting.is_oversubscribed() {
        None
    } else {
        let sizes = in_order(segments.iter().map(|&segments| message / segments as usize).chain([message]));
        let (measured, end) = lab.parameters(Plan { sizes, ..plan.clone() }, crew);
        end?;
        Some(costs(measured.iter().map(|(measured, _)| measured))?)
    };
    let runs = plan.runs;
    let application = Application { algorithm: Algorithm::Fft, size: points, segments: segments.to_vec(), runs };
    let runs = lab.runs(application, crew)?;
    let line = |&segments: &u32| {
        let own = || runs.iter().filter(|(run, _)| run.segments == segments);
        let times = |figure: fn(&Run) -> f64| own().map(|(run, _)| figure(run)).collect::<Vec<_>>();
        let computation = Summary::of(&times(|run| run.global_computation)).median;
        let curve = costs.as_ref().map(|costs| Curve { computation, costs, ranks: flags.ranks, message });
        let predicted = curve.as_ref().map(|curve| curve.global_phase(segments));
        let metric = ("segments", "global_phase", "s");
        Comparison {
            segments: Some(segments),
            counters: Seen::counted(own().map(|(_, seen)| seen)),
            s_best: curve.as_ref().map(|curve| significant(curve.best_segments())),
            e_s: curve.as_ref().map(|curve| significant(curve.efficiency(segments))),
            ..Comparison::new(metric, (Algorithm::Fft, points), setting.clone(), &times(|run| run.global), predicted)
        }
    };
    Ok(segments.iter().map(line).collect())
}

/// What the model says about a transform.
struct Curve<'a> {
    /// Of all global steps together, without their messages, seconds.
    computation: f64,
    costs: &'a Costs,
    ranks: u32,
    /// Bytes of a message before it is cut.
    message: usize,
}

impl Curve<'_> {
    fn segment(&self, segments: u32) -> (f64, f64) {
        let bytes = self.message / segments as usize;
        (self.costs.message(bytes).bound().time(), self.costs.d_o(bytes))
    }

    /// log p steps, each by (3.43).
    fn global_phase(&self, segments: u32) -> f64 {
        let (time, d_o) = self.segment(segments);
        let steps = f64::from(self.ranks.ilog2());
        steps * model::step(self.computation / steps, time, segments, d_o)
    }

    /// By (3.51), at most as many as there are bytes.
    fn best_segments(&self) -> f64 {
        let d_o = self.costs.d_o(self.message);
        self.costs.message(self.message).bound().best_segments(d_o).min(self.message as f64)
    }

    /// By (3.44).
    fn efficiency(&self, segments: u32) -> f64 {
        model::segmentation_efficiency(self.segment(1).0, self.segment(segments).0, segments)
    }
}

fn found(flags: &Flags, measured: &[Vec<Comparison>], cut_short: Option<Failure>) -> Found {
    let tables: String = measured.iter().map(|lines| table(flags, lines)).collect();
    let footnote = footnote(doubts(measured.iter().flatten()));
    let records = measured.iter().flatten().map(Comparison::json).collect();
    let counted = measured.iter().flatten().map(Comparison::counted).collect();
    Found { records, table: tables + &footnote, counted, cut_short }
}

fn table(flags: &Flags, lines: &[Comparison]) -> String {
    let Some(Comparison { size, setting, s_best, .. }) = lines.first() else { return String::new() };
    let mut table = Table::new(&["segments", "bytes", "measured", "predicted", "error", "E_s", ""]);
    let fastest = lines.iter().map(|line| line.summary.median).fold(f64::INFINITY, f64::min);
    for line in lines {
        let segments = line.segments.unwrap_or(1);
        let bytes = Size(size * 8 / (flags.ranks * segments) as usize).to_string();
        let mut cells = vec![segments.to_string(), bytes];
        cells.extend(line.cells(MS));
        cells.push(line.e_s.map_or_else(|| "-".to_owned(), digits));
        cells.extend((line.summary.median == fastest).then(|| "fastest".to_owned()));
        table.push(cells);
    }
    let best = match s_best {
        Some(best) => format!("best number of segments by the model (3.51): {}\n", digits(*best)),
        None => format!(
            "no prediction: oversubscribed, {} ranks on {} cores wait for each other's time slices\n",
            setting.ranks, setting.cores
        ),
    };
    format!(
        "{}\n{table}{best}",
        heading(&format!("global phase of a transform of {} points, ms", Size(*size)), setting)
    )
}
