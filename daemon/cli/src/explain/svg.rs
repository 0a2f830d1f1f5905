//! The pattern as a drawing: participants side by side, rounds from top to bottom, a line for each message.

use ropeway_schedule::Action;

use super::Explanation;
use crate::failure::Failure;
use crate::svg::{Svg, escape};

pub(super) fn draw(explanation: &Explanation) -> Result<String, Failure> {
    let proof = &explanation.proof;
    if proof.messages + proof.signals > LINES_MAX {
        let lines = proof.messages + proof.signals;
        return Err(Failure::Usage(format!(
            "{lines} messages are too many to draw, at most {LINES_MAX}: take fewer participants or segments"
        )));
    }
    let shape = explanation.shape();
    let title = format!("{} among {}: {}", shape.collective.name(), shape.size, explanation.shown.algorithm);
    // Of few participants the title is wider than what they do.
    let width = (f64::from(shape.size + 1) * COLUMN).max(title.chars().count() as f64 * CHARACTER + 2.0 * BESIDE_TITLE);
    let height = f64::from(proof.depth) * ROW + 3.0 * MARGIN;
    let x = |participant: u32| f64::from(participant + 1) * COLUMN;
    let y = |round: u32| 2.0 * MARGIN + f64::from(round) * ROW;
    let mut svg = Svg::default();
    svg.push(&format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n<title>{title}</title>\n\
         <defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" orient=\"auto\">\
         <path d=\"M0 0 8 4 0 8z\" fill=\"#1f5f8b\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>",
        title = escape(&title)
    ));
    svg.text((BESIDE_TITLE, 16.0), "", &title);
    for participant in 0..shape.size {
        let (x, first, last) = (x(participant), y(0), y(proof.depth));
        svg.text((x, first - 6.0), "text-anchor=\"middle\"", &participant.to_string());
        svg.line((x, first), (x, last), "stroke=\"#ccc\"");
    }
    for round in 1..=proof.depth {
        svg.text((6.0, y(round) - ROW / 2.0 + 4.0), "fill=\"#888\"", &round.to_string());
    }
    for schedule in &explanation.schedules {
        for (index, step) in (0..).zip(schedule.steps()) {
            // A message is drawn in the round in which it comes.
            let (Action::Send { peer, .. } | Action::Signal { peer }) = step.action else { continue };
            let round = explanation.execution.level(peer, explanation.execution.partner(schedule.me(), index));
            let from = (x(schedule.me()), y(round.saturating_sub(1)));
            svg.line(from, (x(peer), y(round)), "stroke=\"#1f5f8b\" marker-end=\"url(#head)\"");
        }
    }
    svg.push("</svg>");
    Ok(svg.into_markup())
}

/// More would be a black square.
const LINES_MAX: u64 = 20_000;
const COLUMN: f64 = 36.0;
const ROW: f64 = 56.0;
const MARGIN: f64 = 20.0;
/// What is left free before and after the title.
const BESIDE_TITLE: f64 = 8.0;
/// As wide as a letter of the title is on average, and a little wider.
const CHARACTER: f64 = 7.0;
