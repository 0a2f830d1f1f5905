//! Curves over two axes.

use ropeway_bench::Size;

use super::ruler::{Ruler, Scale};
use super::section::Cells;
use crate::bench::digits;
use crate::svg::{Place, Svg, escape, px};

/// Curves, and what they are to be compared with.
#[derive(Debug)]
pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) curves: Vec<Curve>,
    /// Values of the vertical axis that mean something, and what.
    pub(super) guides: Vec<(f64, &'static str)>,
    /// A value of the horizontal axis that means something, and what.
    pub(super) best: Option<(f64, &'static str)>,
    /// A line where both axes are equal, and how far around it counts as near: 0.1 is a tenth.
    pub(super) around_equal: Option<f64>,
}

/// What an axis shows, with its unit.
#[derive(Debug)]
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
}

/// Points that belong together.
#[derive(Debug)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) look: Look,
    pub(super) points: Vec<Point>,
}

/// Colour, mark and stroke. Colours alone would not be told apart by everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// One of [`Look::COUNT`].
    Marked(usize),
    /// Marks without a curve.
    Lone(usize),
    /// What the machine can do; if only one of the curves is to be compared with it, which.
    Floor(Option<usize>),
}

/// A figure.
#[derive(Clone, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// The 95 % confidence interval.
    pub(super) interval: Option<[f64; 2]>,
    /// Why it can't be trusted.
    pub(super) doubts: Vec<String>,
}

impl Chart {
    /// The elements, and the height of the drawing, which is [`WIDTH`] wide; `None` if there is nothing to show.
    pub(super) fn draw(&self, svg: &mut Svg) -> Option<f64> {
        let frame = self.frame()?;
        self.draw_axes(&frame, svg);
        if let Some(near) = self.around_equal {
            frame.draw_equal(near, svg);
        }
        for curve in &self.curves {
            curve.draw(&frame, (&self.x, &self.y), svg);
        }
        // Over the curves, so that they can be read.
        for &(value, label) in &self.guides {
            svg.text((RIGHT, frame.height(value) - 5.0), "class=\"tick end\"", label);
        }
        Some(HEIGHT)
    }

    /// Axes with room for everything; both the same if they are to be compared.
    fn frame(&self) -> Option<Frame> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        let widths: Vec<f64> = points().map(|point| point.x).collect();
        let guided = self.guides.iter().map(|&(value, _)| value);
        let heights: Vec<f64> = points().flat_map(Point::heights).chain(guided).collect();
        let ruler = |axis: &Axis, values: &[f64]| Ruler::new(axis.scale, values.iter().copied());
        Some(match self.around_equal {
            None => Frame { x: ruler(&self.x, &widths)?, y: ruler(&self.y, &heights)? },
            Some(_) => {
                let both = [widths, heights].concat();
                Frame { x: ruler(&self.x, &both)?, y: ruler(&self.y, &both)? }
            }
        })
    }

    /// The same as a table.
    pub(super) fn cells(&self) -> Cells {
        let heading = ["", &self.x.label, &self.y.label, "95 % interval", "doubts"];
        let row = |curve: &Curve, point: &Point| {
            let interval = point.interval.map(|[low, high]| format!("{}–{}", digits(low), digits(high)));
            let (x, y) = (self.x.value(point.x), self.y.value(point.y));
            vec![curve.name.clone(), x, y, interval.unwrap_or_default(), point.doubts.join(", ")]
        };
        let rows = self.curves.iter().flat_map(|curve| curve.points.iter().map(move |point| row(curve, point)));
        Cells { heading: heading.map(str::to_owned).into(), rows: rows.collect(), ..Cells::default() }
    }

    fn draw_axes(&self, frame: &Frame, svg: &mut Svg) {
        for (value, label) in &frame.y.ticks {
            let y = frame.height(*value);
            svg.line((LEFT, y), (RIGHT, y), "class=\"grid\"");
            svg.text((LEFT - 6.0, y + 4.0), "class=\"tick end\"", label);
        }
        for (value, label) in &frame.x.ticks {
            let x = frame.width(*value);
            svg.line((x, BOTTOM), (x, BOTTOM + 4.0), "class=\"axis\"");
            svg.text((x, BOTTOM + 18.0), "class=\"tick middle\"", label);
        }
        svg.line((LEFT, BOTTOM), (RIGHT, BOTTOM), "class=\"axis\"");
        svg.text((4.0, 14.0), "class=\"label\"", &self.y.label);
        svg.text((RIGHT, BOTTOM + 36.0), "class=\"label end\"", &self.x.label);
        for &(value, _) in &self.guides {
            svg.line((LEFT, frame.height(value)), (RIGHT, frame.height(value)), "class=\"guide\"");
        }
        if let Some((value, label)) = &self.best
            && frame.x.contains(*value)
        {
            let x = frame.width(*value);
            svg.line((x, TOP), (x, BOTTOM), "class=\"guide\"");
            let side =
                if x > (LEFT + RIGHT) / 2.0 { (x - 5.0, "class=\"tick end\"") } else { (x + 5.0, "class=\"tick\"") };
            svg.text((side.0, TOP + 10.0), side.1, label);
        }
    }
}

impl Curve {
    fn draw(&self, frame: &Frame, (x, y): (&Axis, &Axis), svg: &mut Svg) {
        let shown: Vec<_> = self.points.iter().filter(|point| frame.has(point)).collect();
        let places: Vec<Place> = shown.iter().map(|point| frame.place(point)).collect();
        if places.len() > 1 && !matches!(self.look, Look::Lone(_)) {
            svg.polyline(&places, &format!("class=\"curve {}\"", self.look.class()));
        }
        for (point, place) in shown.into_iter().zip(places) {
            svg.push(&format!("<g class=\"point {}\">", self.look.class()));
            if let Some([low, high]) = point.interval.filter(|ends| ends.iter().all(|&end| frame.y.has(end))) {
                let (low, high) = (frame.height(low), frame.height(high));
                svg.line((place.0, low), (place.0, high), "class=\"interval\"");
                for end in [low, high] {
                    svg.line((place.0 - 4.0, end), (place.0 + 4.0, end), "class=\"interval\"");
                }
            }
            self.look.mark(place, !point.doubts.is_empty(), svg);
            svg.push(&format!("<title>{}</title></g>", escape(&self.tip(point, (x, y)))));
        }
    }

    /// What is shown to who points at it.
    fn tip(&self, point: &Point, (x, y): (&Axis, &Axis)) -> String {
        let doubts =
            if point.doubts.is_empty() { String::new() } else { format!("; in doubt: {}", point.doubts.join(", ")) };
        let (x, y) = (format!("{}: {}", x.label, x.value(point.x)), format!("{}: {}", y.label, y.value(point.y)));
        format!("{}; {x}; {y}{doubts}", self.name)
    }
}

impl Axis {
    fn value(&self, value: f64) -> String {
        match self.scale {
            Scale::Sizes => Size(value as usize).to_string(),
            Scale::Counts => value.to_string(),
            Scale::Linear | Scale::Log => digits(value),
        }
    }
}

impl Point {
    fn heights(&self) -> impl Iterator<Item = f64> + use<> {
        [self.y].into_iter().chain(self.interval.into_iter().flatten())
    }
}

impl Look {
    /// So many can be told apart.
    pub(super) const COUNT: usize = 8;

    pub(super) fn class(self) -> String {
        match self {
            Self::Marked(number) | Self::Lone(number) => format!("hue{}", number % Self::COUNT),
            Self::Floor(None) => "floor".to_owned(),
            Self::Floor(Some(number)) => format!("{} floor", Self::Marked(number).class()),
        }
    }

    /// Draws the mark; hollow if it is in doubt.
    pub(super) fn mark(self, (x, y): Place, in_doubt: bool, svg: &mut Svg) {
        let shape = match self {
            Self::Marked(number) | Self::Lone(number) => MARKS[number % Self::COUNT],
            Self::Floor(_) => {
                return svg.push(&format!("<circle cx=\"{}\" cy=\"{}\" r=\"2\" class=\"mark\"/>", px(x), px(y)));
            }
        };
        let class = if in_doubt { "mark hollow" } else { "mark" };
        svg.push(&format!("<path d=\"{shape}\" transform=\"translate({} {})\" class=\"{class}\"/>", px(x), px(y)));
    }

    /// A short piece of the curve, for a legend.
    pub(super) fn sample(self) -> String {
        let mut svg = Svg::default();
        svg.push(&format!("<svg class=\"sample {}\" viewBox=\"0 0 32 14\" aria-hidden=\"true\">", self.class()));
        if !matches!(self, Self::Lone(_)) {
            svg.polyline(&[(1.0, 7.0), (31.0, 7.0)], &format!("class=\"curve {}\"", self.class()));
        }
        self.mark((16.0, 7.0), false, &mut svg);
        svg.push("</svg>");
        svg.into_markup()
    }
}

/// Both axes of a drawing.
struct Frame {
    x: Ruler,
    y: Ruler,
}

impl Frame {
    fn width(&self, value: f64) -> f64 {
        LEFT + self.x.share(value) * (RIGHT - LEFT)
    }

    fn height(&self, value: f64) -> f64 {
        BOTTOM - self.y.share(value) * (BOTTOM - TOP)
    }

    fn has(&self, point: &Point) -> bool {
        self.x.has(point.x) && self.y.has(point.y)
    }

    fn place(&self, point: &Point) -> Place {
        (self.width(point.x), self.height(point.y))
    }

    /// Where both axes have the same value, and the share of it around it. Both axes are alike.
    fn draw_equal(&self, near: f64, svg: &mut Svg) {
        let (low, high) = self.x.ends();
        let (more, less) = (1.0 + near, 1.0 - near);
        let band =
            [(low, low), (low, low * more), (high / more, high), (high, high), (high, high * less), (low / less, low)];
        svg.polyline(&band.map(|(x, y)| (self.width(x), self.height(y))), "class=\"band\"");
        svg.line((LEFT, BOTTOM), (RIGHT, TOP), "class=\"guide\"");
    }
}

/// Around (0, 0).
const MARKS: [&str; Look::COUNT] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
    "M-3.7 -3.7h7.4v7.4h-7.4z",
    "M0 -5L5 4H-5z",
    "M0 -5.2L5.2 0L0 5.2L-5.2 0z",
    "M0 5L5 -4H-5z",
    "M-5 -1.7h3.3v-3.3h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3z",
    "M-5 -2.6h10v5.2h-10z",
    "M-2.6 -5h5.2v10h-5.2z",
];
/// Of every drawing. Narrow, so that its words can still be read on a telephone.
pub(super) const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 310.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 12.0;
const TOP: f64 = 30.0;
const BOTTOM: f64 = HEIGHT - 46.0;
