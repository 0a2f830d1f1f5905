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
        curves.extend(floors(&rows, |row| curves.iter().position(|curve| curve.name == name(row))));
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
fn points(rows: &[&Row], value: impl Fn(&Row) -> f64, interval: impl Fn(&Row) -> Option<[f64; 2]>) -> Vec<Point> {
    let mut points: Vec<Point> = Vec::new();
    for row in rows {
        let x = row.bytes.unwrap_or_default() as f64;
        points.retain(|point| point.x != x);
        points.push(Point { x, y: value(row), interval: interval(row), doubts: row.doubts() });
    }
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    points
}

/// The same of what was measured beside ours, whose intervals and doubts are not ours.
pub(super) fn points_of_others(rows: &[&Row], value: impl Fn(&Row) -> f64) -> Vec<Point> {
    let points = points(rows, value, |_| None).into_iter();
    points.map(|point| Point { doubts: Vec::new(), ..point }).collect()
}

/// What the machine can do, of each kind there is, and with each computation if there is one. `number` is that of a row's curve.
fn floors(rows: &[&Row], number: impl Fn(&Row) -> Option<usize>) -> Vec<Curve> {
    let with_floor: Vec<_> = rows.iter().copied().filter(|row| row.floor.is_some()).collect();
    let kind = |row: &Row| (row.floor_name.clone().unwrap_or_default(), row.compute.is_some().then(|| doings(row)));
    let curve = |((name, doings), rows): ((String, Option<String>), Vec<&Row>)| Curve {
        look: Look::Floor(doings.as_ref().and_then(|_| number(rows[0]))),
        name: [Some(format!("floor: {name}")), doings].into_iter().flatten().collect::<Vec<_>>().join(", "),
        points: points_of_others(&rows, |row| row.floor.unwrap_or_default()),
    };
    groups(&with_floor, kind).into_iter().map(curve).collect()
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

/// What was done meanwhile, and who drives what is communicated if that is not as usual.
pub(super) fn meanwhile(row: &Row) -> String {
    let progress = row.progress.as_deref().filter(|&progress| progress != "independent");
    let progress = progress.map(|progress| format!("progress by the {progress}"));
    [computing(row).map(str::to_owned), progress].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What is communicated, and who sends, as far as they are said.
pub(super) fn subject(row: &Row) -> String {
    let side = row.side.as_deref().map(|side| match side {
        "send" => "sending",
        "recv" => "receiving",
        both => both,
    });
    [row.op.as_deref(), side].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The same with what was done meanwhile.
pub(super) fn doings(row: &Row) -> String {
    let words = [Some(subject(row)), computing(row).map(str::to_owned)].into_iter().flatten();
    words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ")
}

fn computing(row: &Row) -> Option<&str> {
    row.compute.as_deref().map(|compute| if compute == "sleep" { "asleep" } else { compute })
}

/// As people write it.
pub(super) fn unit(row: &Row) -> &str {
    match row.unit.as_str() {
        "us" => "µs",
        "percent" => "%",
        unit => unit,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_hides_has_a_floor_for_each_curve() {
        let row = |compute: &str, floor: f64| -> Row {
            let row = json!({"bytes": 8, "side": "recv", "compute": compute, "floor_name": "sockets and threads", "floor": floor});
            serde_json::from_value(row).unwrap()
        };
        let (busy, asleep) = (row("busy", 0.25), row("sleep", 0.75));
        let figures = figures(&[&busy, &asleep], ("d_o", Scale::Linear), &[], meanwhile);
        let Drawing::Chart(chart) = &figures[0].drawing else { panic!("it is a chart") };
        let floors: Vec<_> =
            chart.curves[2..].iter().map(|curve| (&*curve.name, curve.look, curve.points[0].y)).collect();
        let expected = [
            ("floor: sockets and threads, receiving, busy", Look::Floor(Some(0)), 0.25),
            ("floor: sockets and threads, receiving, asleep", Look::Floor(Some(1)), 0.75),
        ];
        assert_eq!(floors, expected);
    }
}
