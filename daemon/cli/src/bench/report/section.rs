//! Parts of the page: a sentence, figures, tables, and what is missing.

use super::chart::{Chart, Look, WIDTH};
use super::strips::Strips;
use crate::bench::digits;
use crate::svg::{Svg, escape, px};

/// A question and its answer.
#[derive(Debug, Default)]
pub(super) struct Section {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// What the figures mean, and what to do about them.
    pub(super) meaning: &'static str,
    pub(super) figures: Vec<Figure>,
    pub(super) tables: Vec<Cells>,
    /// What there would be with other records.
    pub(super) missing: Vec<String>,
}

/// A drawing with its words.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    /// What is to be known besides; may be empty.
    pub(super) note: String,
    pub(super) drawing: Drawing,
}

/// Kinds of drawings.
#[derive(Debug)]
pub(super) enum Drawing {
    /// Curves over two axes.
    Chart(Chart),
    /// Values one below the other.
    Strips(Strips),
}

/// A table.
#[derive(Debug, Default)]
pub(super) struct Cells {
    pub(super) title: String,
    pub(super) heading: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
    /// Why figures that are marked with ~ can't be trusted, as often as there is a reason.
    pub(super) doubts: Vec<String>,
}

impl Section {
    /// The section as HTML, its figures numbered by its name.
    pub(super) fn html(&self) -> String {
        let Self { id, title, meaning, .. } = self;
        let figures = (1..).zip(&self.figures).map(|(number, figure)| figure.html(&format!("{id}-{number}")));
        let figures: String = figures.collect();
        let mut html = format!("<section id=\"{id}\">\n<h2>{title}</h2>\n");
        // Without figures there is nothing to explain.
        if !(figures.is_empty() && self.tables.is_empty()) {
            html += &format!("<p class=\"meaning\">{}</p>\n", escape(meaning));
        }
        if !figures.is_empty() {
            html += &format!("<div class=\"figures\">\n{figures}</div>\n");
        }
        html.extend(self.tables.iter().map(Cells::html));
        html.extend(self.missing.iter().map(|missing| format!("<p class=\"missing\">{}</p>\n", escape(missing))));
        html + "</section>\n"
    }
}

impl Figure {
    fn html(&self, id: &str) -> String {
        let mut elements = Svg::default();
        let drawn = match &self.drawing {
            Drawing::Chart(chart) => chart.draw(&mut elements),
            Drawing::Strips(strips) => strips.draw(&mut elements),
        };
        let Some(height) = drawn else { return String::new() };
        let (title, described) = (escape(&self.title), escape(&self.drawing.description()));
        let mut html = format!("<figure>\n<figcaption><b>{title}</b> {}</figcaption>\n", escape(&self.note));
        html += &format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
             <title id=\"{id}-title\">{title}</title>\n<desc id=\"{id}-desc\">{described}</desc>\n{}</svg>\n",
            px(height),
            elements.into_markup()
        );
        html += &self.drawing.legend();
        html += &self.drawing.doubts();
        html + &format!("<details><summary>Numbers</summary>\n{}</details>\n</figure>\n", self.drawing.cells().html())
    }
}

impl Drawing {
    /// What there is to see, for who does not see it.
    fn description(&self) -> String {
        match self {
            Self::Chart(Chart { x, y, curves, .. }) => {
                let names: Vec<_> = curves.iter().map(|curve| curve.name.as_str()).collect();
                format!("{} over {}, of {}. The numbers are in the table below.", y.label, x.label, names.join("; "))
            }
            Self::Strips(Strips { unit, strips, .. }) => {
                let values = strips.iter().map(|strip| format!("{}: {}", strip.label, digits(strip.value)));
                format!("In {unit}: {}.", values.collect::<Vec<_>>().join("; "))
            }
        }
    }

    fn legend(&self) -> String {
        let Self::Chart(chart) = self else { return String::new() };
        let entry = |(name, look): (&str, Look)| format!("<li>{}{}</li>\n", look.sample(), escape(name));
        let entries: String = chart.curves.iter().map(|curve| entry((&curve.name, curve.look))).collect();
        format!("<ul class=\"legend\">\n{entries}</ul>\n")
    }

    /// A footnote about hollow marks, if there are any.
    fn doubts(&self) -> String {
        let of_points = |chart: &Chart| {
            chart.curves.iter().flat_map(|curve| &curve.points).flat_map(|point| point.doubts.clone()).collect()
        };
        let doubts = match self {
            Self::Chart(chart) => of_points(chart),
            Self::Strips(strips) => strips.strips.iter().flat_map(|strip| strip.doubts.clone()).collect(),
        };
        footnote("Hollow marks", doubts)
    }

    fn cells(&self) -> Cells {
        match self {
            Self::Chart(chart) => chart.cells(),
            Self::Strips(strips) => strips.cells(),
        }
    }
}

impl Cells {
    /// In a box of its own, which scrolls where the page is narrow.
    pub(super) fn html(&self) -> String {
        let row = |cells: &[String], tag: &str| {
            let cells: String = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = self.rows.iter().map(|cells| row(cells, "td")).collect();
        let heading = row(&self.heading, "th");
        let title = if self.title.is_empty() { String::new() } else { format!("<h3>{}</h3>\n", escape(&self.title)) };
        format!(
            "{title}<div class=\"scroll\" tabindex=\"0\"><table>\n<thead>{heading}</thead>\n<tbody>\n{rows}</tbody></table></div>\n{}",
            footnote("Figures with ~", self.doubts.clone())
        )
    }
}

/// Why what looks like this is in doubt; nothing if there are no doubts.
fn footnote(what: &str, mut doubts: Vec<String>) -> String {
    if doubts.is_empty() {
        return String::new();
    }
    doubts.sort_unstable();
    doubts.dedup();
    format!(
        "<p class=\"doubts\">{what} are not to be trusted: {}. <a href=\"#reading\">What to do</a></p>\n",
        escape(&doubts.join(", "))
    )
}
