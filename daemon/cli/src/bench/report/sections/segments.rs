//! Into how many segments messages should be cut.

use ropeway_bench::Size;

use super::super::chart::{Axis, Chart, Curve, Look, Point};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Drawing, Figure, Section};
use super::missing;

pub(super) fn section(records: &Records) -> Section {
    let rows: Vec<_> = records.of("segments", "global_phase").into_iter().map(Row::in_ms).collect();
    let programs = groups(&rows.iter().collect::<Vec<_>>(), |row| (row.setting(), row.size));
    let figures: Vec<_> = programs.iter().map(|((setting, points), rows)| figure(setting, *points, rows)).collect();
    Section {
        id: "segments",
        title: "Into how many segments to cut a message",
        meaning: "The communicating phase of an FFT whose messages travel in segments, so that one is computed with while the next is under \
                  way. Take the number of segments where the curve is lowest; the model's best number (s_best) tells where to begin to look.",
        missing: if figures.is_empty() { vec![missing(records, "the segment curve", "segments")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

fn figure(setting: &str, points: Option<usize>, rows: &[&Row]) -> Figure {
    let x = |row: &Row| row.segments.map(f64::from);
    let measured = |row: &&Row| Some(Point { x: x(row)?, y: row.median, interval: row.ci95, doubts: row.doubts() });
    let predicted = |row: &&Row| Some(Point { x: x(row)?, y: row.predicted?, interval: None, doubts: Vec::new() });
    let curves = [
        Curve { name: "measured".into(), look: Look::Marked(0), points: rows.iter().filter_map(measured).collect() },
        Curve { name: "predicted".into(), look: Look::Marked(1), points: rows.iter().filter_map(predicted).collect() },
    ];
    let best = rows.iter().find_map(|row| row.s_best);
    let chart = Chart {
        x: Axis { label: "segments".into(), scale: Scale::Counts },
        y: Axis { label: "time of the phase, ms".into(), scale: Scale::Linear },
        curves: curves.into_iter().filter(|curve| !curve.points.is_empty()).collect(),
        guides: Vec::new(),
        best: best.map(|best| (best, "s_best")),
        around_equal: None,
    };
    let points = points.map(|points| format!(", {} points", Size(points))).unwrap_or_default();
    let note = best.map(|best| format!("The model's best number is {best:.0}.")).unwrap_or_default();
    Figure { title: format!("{setting}{points}"), note, drawing: Drawing::Chart(chart) }
}
