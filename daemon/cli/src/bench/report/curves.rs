//! From rows to curves over message sizes.

use super::chart::{Axis, Chart, Curve, Look, Point};
use super::records::{Row, groups};
use super::ruler::Scale;
use super::section::{Drawing, Figure};

/// A figure for each setting that rows come from, with a curve for each name they get. What has no size is left out.
pub(super) fn figures(
    rows: &[&Row],
    y: (&str, Scale),
    guides: &[(f64, &'static str)],
    name: impl Fn(&Row) -> String,
) -> Vec<Figure> {
    let figure = |(setting, rows): (String, Vec<&Row>)| {
        let mut curves = curves(&rows, &name);
        curves.extend(floors(&rows));
        Figure { title: setting, note: String::new(), drawing: Drawing::Chart(over_sizes(curves, y, guides)) }
    };
    let with_bytes: Vec<_> = rows.iter().copied().filter(|row| row.bytes.is_some()).collect();
    groups(&with_bytes, Row::setting).into_iter().map(figure).collect()
}

/// A curve for each name.
pub(super) fn curves(rows: &[&Row], name: impl Fn(&Row) -> String) -> Vec<Curve> {
    let named = groups(rows, name).into_iter().enumerate();
    let curve = |(number, (name, rows)): (usize, (String, Vec<&Row>))| Curve {
        name,
        look: Look::Marked(number),
        points: points(&rows, |row| row.median, |row| row.ci95),
    };
    named.map(curve).collect()
}

/// Over the bytes of each row, in their order; of rows with the same bytes the last counts.
pub(super) fn points(
    rows: &[&Row],
    value: impl Fn(&Row) -> f64,
    interval: impl Fn(&Row) -> Option<[f64; 2]>,
) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for row in rows {
        let x = row.bytes.unwrap_or_default() as f64;
        points.retain(|point| point.x != x);
        points.push(Point { x, y: value(row), interval: interval(row), doubts: row.doubts() });
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// What the machine can do, of each kind there is.
fn floors(rows: &[&Row]) -> Vec<Curve> {
    let with_floor: Vec<_> = rows.iter().copied().filter(|row| row.floor.is_some()).collect();
    let named = groups(&with_floor, |row| row.floor_name.clone().unwrap_or_default());
    let curve = |(name, rows): (String, Vec<&Row>)| Curve {
        name: format!("floor: {name}"),
        look: Look::Floor,
        points: points(&rows, |row| row.floor.unwrap_or_default(), |_| None)
            .into_iter()
            .map(|point| Point { doubts: Vec::new(), ..point })
            .collect(),
    };
    named.into_iter().map(curve).collect()
}

/// A chart over message sizes.
pub(super) fn over_sizes(curves: Vec<Curve>, (label, scale): (&str, Scale), guides: &[(f64, &'static str)]) -> Chart {
    Chart {
        x: Axis { label: "bytes".into(), scale: Scale::Sizes },
        y: Axis { label: label.into(), scale },
        curves,
        guides: guides.to_vec(),
        best: None,
        around_equal: None,
    }
}

/// Kind of messages.
pub(super) fn mode(row: &Row) -> String {
    match row.mode.as_deref() {
        Some("oneshot") => "one-shot".to_owned(),
        Some(mode) => mode.to_owned(),
        None => row.metric.clone(),
    }
}

/// What is communicated, who sends, what was done meanwhile, and who drives it if that is not as usual.
pub(super) fn circumstances(row: &Row) -> String {
    let progress = row.progress.as_deref().filter(|&progress| progress != "independent");
    let progress = progress.map(|progress| format!("progress by the {progress}"));
    [Some(doings(row)), progress].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What is communicated, who sends and what was done meanwhile, as far as they are said.
pub(super) fn doings(row: &Row) -> String {
    let side = row.side.as_deref().map(|side| match side {
        "send" => "sending",
        "recv" => "receiving",
        both => both,
    });
    let compute = row.compute.as_deref().map(|compute| if compute == "sleep" { "asleep" } else { compute });
    [row.op.as_deref(), side, compute].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// As people write it.
pub(super) fn unit(row: &Row) -> &str {
    match row.unit.as_str() {
        "us" => "µs",
        "percent" => "%",
        unit => unit,
    }
}
