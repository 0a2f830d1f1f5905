//! Values one below the other, each with its name above it.

use super::chart::{Look, WIDTH};
use super::ruler::{Ruler, Scale};
use super::section::Cells;
use crate::bench::digits;
use crate::bench::verdict::Verdict;
use crate::svg::Svg;

/// Bars from zero, or dots around one.
#[derive(Debug)]
pub(super) struct Strips {
    pub(super) kind: Kind,
    pub(super) unit: String,
    pub(super) strips: Vec<Strip>,
}

/// What the values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Amounts.
    Bars,
    /// Ratios, with the smallest and largest seen.
    Ratios,
}

/// One of them.
#[derive(Debug)]
pub(super) struct Strip {
    pub(super) label: String,
    pub(super) value: f64,
    /// Between which values it lies.
    pub(super) spread: Option<[f64; 2]>,
    pub(super) look: Look,
    /// What a test says of a ratio, if it was tested.
    pub(super) verdict: Option<Verdict>,
    pub(super) doubts: Vec<String>,
}

impl Strips {
    /// The elements, and the height of the drawing; `None` if there is nothing to show.
    pub(super) fn draw(&self, svg: &mut Svg) -> Option<f64> {
        let scale = if self.kind == Kind::Bars { Scale::Linear } else { Scale::Log };
        let around = (self.kind == Kind::Ratios && !self.strips.is_empty()).then_some(1.0);
        let values =
            self.strips.iter().flat_map(|strip| [strip.value].into_iter().chain(strip.spread.into_iter().flatten()));
        let ruler = Ruler::new(scale, values.chain(around))?;
        let place = |value: f64| LEFT + ruler.share(value) * (RIGHT - LEFT);
        let bottom = TOP + STRIP * self.strips.len() as f64;
        for (value, label) in &ruler.ticks {
            let is_one = self.kind == Kind::Ratios && (value - 1.0).abs() < 1e-9;
            let class = if is_one { "class=\"guide\"" } else { "class=\"grid\"" };
            svg.line((place(*value), TOP), (place(*value), bottom), class);
            svg.text((place(*value), bottom + 17.0), "class=\"tick middle\"", label);
        }
        svg.text((RIGHT, bottom + 35.0), "class=\"label end\"", &self.unit);
        for (index, strip) in self.strips.iter().enumerate() {
            let top = TOP + STRIP * index as f64;
            svg.text((LEFT, top + 15.0), "class=\"name\"", &strip.label);
            svg.text((RIGHT, top + 15.0), "class=\"name end\"", &strip.judged());
            self.mark(strip, top + 26.0, place, svg);
        }
        Some(bottom + 42.0)
    }

    /// The same as a table.
    pub(super) fn cells(&self) -> Cells {
        let is_ratio = self.kind == Kind::Ratios;
        let mut heading = vec!["", &self.unit, if is_ratio { "lowest–highest" } else { "95 % interval" }];
        heading.extend(is_ratio.then_some("Ropeway is"));
        heading.push("doubts");
        let rows = self.strips.iter().map(|strip| {
            let spread = strip.spread.map(|[low, high]| format!("{}–{}", digits(low), digits(high)));
            let mut row = vec![strip.label.clone(), digits(strip.value), spread.unwrap_or_default()];
            row.extend(is_ratio.then(|| strip.verdict.map(|verdict| verdict.to_string()).unwrap_or_default()));
            row.push(strip.doubts.join(", "));
            row
        });
        let heading = heading.into_iter().map(str::to_owned).collect();
        Cells { heading, rows: rows.collect(), ..Cells::default() }
    }

    fn mark(&self, strip: &Strip, middle: f64, place: impl Fn(f64) -> f64, svg: &mut Svg) {
        svg.push(&format!("<g class=\"point {}\">", strip.look.class()));
        if self.kind == Kind::Bars {
            let class = if strip.doubts.is_empty() { "class=\"mark\"" } else { "class=\"mark hollow\"" };
            let (zero, end) = (place(0.0), place(strip.value));
            svg.rect((zero.min(end), middle - 5.0), ((end - zero).abs().max(1.0), 10.0), class);
        }
        if let Some([low, high]) = strip.spread {
            svg.line((place(low), middle), (place(high), middle), "class=\"interval\"");
            for end in [place(low), place(high)] {
                svg.line((end, middle - 4.0), (end, middle + 4.0), "class=\"interval\"");
            }
        }
        if self.kind == Kind::Ratios {
            strip.look.mark((place(strip.value), middle), !strip.doubts.is_empty(), svg);
        }
        svg.push("</g>");
    }
}

impl Strip {
    /// The value, and what is to be thought of it.
    fn judged(&self) -> String {
        let verdict = self.verdict.map(|verdict| format!(", {}", verdict.in_short()));
        format!("{}{}", digits(self.value), verdict.unwrap_or_default())
    }
}

const LEFT: f64 = 16.0;
/// Half of a long number is beyond it.
const RIGHT: f64 = WIDTH - 28.0;
const TOP: f64 = 4.0;
const STRIP: f64 = 38.0;
