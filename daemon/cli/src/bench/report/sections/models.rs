//! Predictions beside measurements.

use super::super::chart::{Axis, Chart, Curve, Look, Point};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Cells, Drawing, Figure, Section};
use super::missing;
use crate::bench::digits;

pub(super) fn boum(records: &Records) -> Section {
    let rows: Vec<_> = records.rows.iter().filter(|row| row.bench == "boum" && row.predicted.is_some()).collect();
    let figures: Vec<_> = groups(&rows, |row| (row.metric.clone(), row.unit.clone()))
        .into_iter()
        .map(|((metric, unit), rows)| scatter(&metric, &unit, &rows))
        .collect();
    Section {
        id: "boum",
        title: "Whether the model predicts programs",
        meaning: "Each mark is a run of a program: predicted by BOUM from figures like those above, and measured. Within the band the error is at \
                  most 10 %: there the model can be asked what a program would gain (ropeway predict). Far off the line, measure instead.",
        missing: if figures.is_empty() { vec![missing("predictions", "boum")] } else { Vec::new() },
        tables: if rows.is_empty() { Vec::new() } else { vec![table(&rows)] },
        figures,
    }
}

fn scatter(metric: &str, unit: &str, rows: &[&Row]) -> Figure {
    let point = |row: &&Row| Point {
        x: row.predicted.unwrap_or_default(),
        y: row.median,
        interval: row.ci95,
        doubts: row.doubts(),
    };
    let curve = |(number, (name, rows)): (usize, (String, Vec<&Row>))| {
        let points = rows.iter().map(point).collect();
        Curve { name, look: Look::Lone(number), points }
    };
    let curves = groups(rows, |row| row.op.clone().unwrap_or_default()).into_iter().enumerate().map(curve).collect();
    let axis = |what: &str| Axis { label: format!("{what}, {unit}"), scale: Scale::Log };
    let (x, y) = (axis("predicted"), axis("measured"));
    let chart = Chart { x, y, curves, guides: Vec::new(), best: None, around_equal: Some(0.1) };
    Figure {
        title: metric.to_owned(),
        note: "On the line the prediction is right.".into(),
        drawing: Drawing::Chart(chart),
    }
}

fn table(rows: &[&Row]) -> Cells {
    let row = |row: &&Row| {
        let predicted = row.predicted.unwrap_or_default();
        let error = format!("{:+.1} %", (predicted / row.median - 1.0) * 100.0);
        let words = [row.op.clone().unwrap_or_default(), row.metric.clone(), row.setting()];
        words
            .into_iter()
            .chain([digits(predicted), digits(row.median), row.unit.clone(), error, row.doubts().join(", ")])
            .collect()
    };
    let heading = ["program", "what", "where", "predicted", "measured", "unit", "error", "doubts"];
    Cells {
        title: "Predicted and measured".into(),
        heading: heading.map(str::to_owned).into(),
        rows: rows.iter().map(row).collect(),
    }
}

pub(super) fn segments(records: &Records) -> Section {
    let rows = records.of("segments", "global_phase");
    let figures: Vec<_> =
        groups(&rows, Row::setting).into_iter().map(|(setting, rows)| pieces(&setting, &rows)).collect();
    Section {
        id: "segments",
        title: "Into how many segments to cut a message",
        meaning: "The communicating phase of an FFT whose messages travel in segments, so that one is computed with while the next is under \
                  way. Take the number of segments where the curve is lowest; the model's best number (s_best) tells where to begin to look.",
        missing: if figures.is_empty() { vec![missing("the segment curve", "segments")] } else { Vec::new() },
        figures,
        ..Section::default()
    }
}

fn pieces(setting: &str, rows: &[&Row]) -> Figure {
    let points = |value: &dyn Fn(&Row) -> Option<f64>,
                  interval: &dyn Fn(&Row) -> Option<[f64; 2]>,
                  doubts: &dyn Fn(&Row) -> Vec<String>| {
        let point = |row: &&Row| {
            let (x, y) = (f64::from(row.segments?), value(row)?);
            Some(Point { x, y, interval: interval(row), doubts: doubts(row) })
        };
        let mut points: Vec<_> = rows.iter().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        points
    };
    let measured = points(&|row| Some(row.median), &|row| row.ci95, &Row::doubts);
    let predicted = points(&|row| row.predicted, &|_| None, &|_| Vec::new());
    let chart = Chart {
        x: Axis { label: "segments".into(), scale: Scale::Counts },
        y: Axis { label: format!("time of the phase, {}", rows[0].unit), scale: Scale::Linear },
        curves: vec![
            Curve { name: "measured".into(), look: Look::Marked(0), points: measured },
            Curve { name: "predicted".into(), look: Look::Marked(1), points: predicted },
        ],
        guides: Vec::new(),
        best: rows.iter().find_map(|row| row.s_best).map(|best| (best, format!("s_best = {}", digits(best)))),
        around_equal: None,
    };
    Figure { title: setting.to_owned(), note: String::new(), drawing: Drawing::Chart(chart) }
}
