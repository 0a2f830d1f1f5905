//! How fast messages are.

use super::super::curves::{figures, mode};
use super::super::peers::{add_curves, best_forms};
use super::super::records::{Records, Row, groups};
use super::super::ruler::Scale;
use super::super::section::{Figure, Section};
use super::missing;

pub(super) fn latency(records: &Records) -> Section {
    let rows = records.of("latency", "half_rtt");
    let figures = figures(&rows, ("half a round trip, µs", Scale::Log), &[], mode);
    Section {
        id: "latency",
        title: "How long a message takes",
        meaning: "Half the time of a message and its answer, of the same size; lower is better. Where the persistent curve lies below the \
                  one-shot curve, bind messages that are sent again and again (send_init, recv_init); where it touches the floor, \
                  the rest is the machine's.",
        missing: missing_if(records, &figures, "the latency", "latency"),
        figures: with_peers(figures, &rows, records, "latency"),
        ..Section::default()
    }
}

pub(super) fn bandwidth(records: &Records) -> Section {
    let rows = records.of("bandwidth", "bandwidth");
    let name = |row: &Row| match row.side.as_deref() {
        Some("both") => format!("{}, both ways", mode(row)),
        _ => mode(row),
    };
    let figures = figures(&rows, ("bandwidth, MB/s", Scale::Log), &[], name);
    Section {
        id: "bandwidth",
        title: "How much gets through",
        meaning: "Bytes a second of windows of 64 messages; higher is better. Where the curve has flattened, larger messages gain nothing; \
                  below that, put small messages together.",
        missing: missing_if(records, &figures, "the bandwidth", "bandwidth"),
        figures: with_peers(figures, &rows, records, "bandwidth"),
        ..Section::default()
    }
}

fn missing_if(records: &Records, figures: &[Figure], what: &str, bench: &str) -> Vec<String> {
    if figures.is_empty() { vec![missing(records, what, bench)] } else { Vec::new() }
}

/// Adds what others reach in the same setting.
fn with_peers(mut figures: Vec<Figure>, rows: &[&Row], records: &Records, of: &str) -> Vec<Figure> {
    let best = best_forms(records, |what| what == of);
    let settings = groups(rows, Row::setting);
    for (figure, (setting, _)) in figures.iter_mut().zip(&settings) {
        let there: Vec<_> = best.iter().copied().filter(|row| row.setting() == *setting).collect();
        add_curves(figure, &there, |row| row.peer.clone());
    }
    figures
}
