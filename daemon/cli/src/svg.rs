//! Drawings: SVG elements as text.

use std::fmt::Write;

/// A place on a drawing, in its units, from the left and from the top.
pub(crate) type Place = (f64, f64);

/// Elements, in the order in which they are drawn.
#[derive(Debug, Default)]
pub(crate) struct Svg(String);

impl Svg {
    /// Whatever has no method of its own; `markup` is complete.
    pub(crate) fn push(&mut self, markup: &str) {
        self.0 += markup;
        self.0.push('\n');
    }

    pub(crate) fn line(&mut self, from: Place, to: Place, attributes: &str) {
        let (from, to) = ((px(from.0), px(from.1)), (px(to.0), px(to.1)));
        self.push(&format!("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {attributes}/>", from.0, from.1, to.0, to.1));
    }

    /// Lines from each place to the next.
    pub(crate) fn polyline(&mut self, places: &[Place], attributes: &str) {
        let mut points = String::new();
        for place in places {
            // Text in memory takes everything.
            let _ = write!(points, "{},{} ", px(place.0), px(place.1));
        }
        self.push(&format!("<polyline points=\"{}\" {attributes}/>", points.trim_end()));
    }

    pub(crate) fn text(&mut self, at: Place, attributes: &str, words: &str) {
        let words = escape(words);
        self.push(&format!("<text x=\"{}\" y=\"{}\" {attributes}>{words}</text>", px(at.0), px(at.1)));
    }

    pub(crate) fn rect(&mut self, corner: Place, (width, height): (f64, f64), attributes: &str) {
        let (x, y, width, height) = (px(corner.0), px(corner.1), px(width), px(height));
        self.push(&format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {attributes}/>"));
    }

    pub(crate) fn into_markup(self) -> String {
        self.0
    }
}

/// A tenth of a unit is enough.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Text that is none of the markup.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_well_formed_whatever_the_words() {
        let mut svg = Svg::default();
        svg.text((1.0, 2.25), "class=\"tick\"", "a < b & 'c'");
        svg.polyline(&[(0.0, 0.0), (10.06, 5.0)], "class=\"curve\"");
        assert_eq!(
            svg.into_markup(),
            "<text x=\"1\" y=\"2.2\" class=\"tick\">a &lt; b &amp; &#39;c&#39;</text>\n\
             <polyline points=\"0,0 10.1,5\" class=\"curve\"/>\n"
        );
    }
}
