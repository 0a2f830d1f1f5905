//! The model's parameters as they were measured, for messages of any size.

use ropeway_examples::Mode;
use serde::Deserialize;

use super::model::Message;
use super::workload::Messages;
use crate::Measured;
use crate::statistics::Doubts;

/// What of a record the model can use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Figure {
    metric: String,
    mode: Option<Mode>,
    bytes: Option<usize>,
    median: f64,
    #[serde(default)]
    doubts: Doubts,
}

impl From<&Measured> for Figure {
    fn from(measured: &Measured) -> Self {
        let Measured { metric, mode, bytes, summary, .. } = measured;
        Self { metric: metric.clone(), mode: *mode, bytes: *bytes, median: summary.median, doubts: summary.doubts }
    }
}

impl Figure {
    /// Whether it is one of a message, not of a program.
    pub fn is_parameter(&self) -> bool {
        matches!(&*self.metric, "o_s" | "o_i" | "b" | "d_o" | "half_rtt" | "T_c")
    }
}

/// There is nothing to predict from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no figures of {0}")]
pub struct NotMeasured(&'static str);

/// What messages cost: parameters of some sizes, and straight lines between them. Each figure keeps its own doubts.
#[derive(Clone, Debug)]
pub struct Costs {
    /// Seconds.
    initiate: Point,
    /// Seconds by size.
    set_up: Line,
    /// Seconds for all bytes of a message, by size.
    bytes: Line,
    /// Degree of overlapping by size, of persistent messages.
    d_o: Line,
    /// Seconds that a one-shot message takes, by size.
    one_shot: Line,
    /// Seconds that a message of a swap takes, by size: bound and one-shot. Empty if that was not measured.
    in_swap: [Line; 2],
}

impl Costs {
    /// From the figures of one setting, in any order; those of other metrics are left out.
    pub fn of(figures: &[Figure]) -> Result<Self, NotMeasured> {
        let in_mode = |mode, metric: &'static str, scale: f64| {
            let is_it = move |figure: &&Figure| figure.mode == Some(mode) && figure.metric == metric;
            let point = move |figure: &Figure| {
                Some(Point { bytes: figure.bytes?, value: figure.median * scale, doubts: figure.doubts })
            };
            figures.iter().filter(is_it).filter_map(point)
        };
        let of = |metric, scale| in_mode(Mode::Persistent, metric, scale);
        let some = |line: Line, metric| if line.0.is_empty() { Err(NotMeasured(metric)) } else { Ok(line) };
        // Noise is no gain.
        let of_bytes = |b: Point| Point { value: (b.value * b.bytes as f64).max(0.0), ..b };
        let times = |mode, metric| Line::through(in_mode(mode, metric, US));
        Ok(Self {
            initiate: Point::middle(of("o_i", NS)).ok_or(NotMeasured("o_i"))?,
            set_up: some(Line::through(of("o_s", NS)), "o_s")?,
            bytes: some(Line::through(of("b", NS).map(of_bytes)), "b")?.rising_from_nothing(),
            d_o: Line::through(of("d_o", 1.0)),
            one_shot: times(Mode::OneShot, "half_rtt"),
            in_swap: [Mode::Persistent, Mode::OneShot].map(|mode| times(mode, "T_c")),
        })
    }

    /// What each of these messages costs.
    pub fn each(&self, messages: &Messages) -> Message {
        if messages.in_swaps { self.in_swap(messages.bytes) } else { self.message(messages.bytes) }
    }

    /// What a message of so many bytes costs.
    pub fn message(&self, bytes: usize) -> Message {
        let for_bytes = self.bytes.time(bytes).unwrap_or(0.0);
        self.with_parts(bytes, for_bytes, self.one_shot.time(bytes))
    }

    /// What each of the two costs that are swapped.
    fn in_swap(&self, bytes: usize) -> Message {
        let [bound, one_shot] = self.in_swap.each_ref().map(|line| line.time(bytes));
        match bound {
            // Below zero where two small ones at once take less than one after the other.
            Some(bound) => self.with_parts(bytes, bound - self.initiate.value, one_shot),
            None => self.message(bytes),
        }
    }

    fn with_parts(&self, bytes: usize, for_bytes: f64, one_shot: Option<f64>) -> Message {
        let (set_up, initiate) = (self.set_up.at(bytes), self.initiate.value);
        let parts = Message { set_up, initiate, bytes: for_bytes, detour: 0.0 };
        Message { detour: one_shot.map_or(0.0, |one_shot| one_shot - parts.time()), ..parts }
    }

    /// Why what these messages cost can't be trusted: the doubts about all figures that it is made of, and no others.
    pub fn doubts(&self, messages: &Messages) -> Doubts {
        let [bound, one_shot] = &self.in_swap;
        let is_swap = messages.in_swaps && !bound.0.is_empty();
        let [for_bytes, one_shot] = if is_swap { [bound, one_shot] } else { [&self.bytes, &self.one_shot] };
        let lines = [&self.set_up, for_bytes, one_shot];
        lines.iter().map(|line| line.doubts(messages.bytes)).fold(self.initiate.doubts, Doubts::union)
    }

    /// Why the overhead of a message of so many bytes can't be trusted, `o_s + o_i`.
    pub fn doubts_about_overhead(&self, bytes: usize) -> Doubts {
        self.initiate.doubts.union(self.set_up.doubts(bytes))
    }

    /// Why it can't be trusted what a bound message of so many bytes costs.
    pub fn doubts_about_bound(&self, bytes: usize) -> Doubts {
        self.initiate.doubts.union(self.bytes.doubts(bytes))
    }

    /// Why it can't be trusted how much of them hides.
    pub fn doubts_about_d_o(&self, bytes: usize) -> Doubts {
        self.d_o.doubts(bytes)
    }

    /// How much of a message of so many bytes hides behind computation; nothing if that was not measured.
    pub fn d_o(&self, bytes: usize) -> f64 {
        if self.d_o.0.is_empty() { 0.0 } else { self.d_o.at(bytes) }
    }
}

/// What was measured of a size.
#[derive(Clone, Copy, Debug)]
struct Point {
    bytes: usize,
    value: f64,
    doubts: Doubts,
}

impl Point {
    /// The one with the median, and with no doubts but its own; of two in the middle what lies between them.
    fn middle(points: impl Iterator<Item = Self>) -> Option<Self> {
        let mut points: Vec<_> = points.collect();
        points.sort_by(|a, b| a.value.total_cmp(&b.value));
        let upper = *points.get(points.len() / 2)?;
        let lower = points[(points.len() - 1) / 2];
        Some(Self { value: (lower.value + upper.value) / 2.0, doubts: lower.doubts.union(upper.doubts), ..upper })
    }
}

/// Straight lines between points, by size. Beyond the ends it is level.
#[derive(Clone, Debug)]
struct Line(Vec<Point>);

impl Line {
    fn through(points: impl Iterator<Item = Point>) -> Self {
        let mut points: Vec<_> = points.collect();
        points.sort_by_key(|point| point.bytes);
        points.dedup_by_key(|point| point.bytes);
        Self(points)
    }

    /// The same of what is nothing where there are no bytes, whatever was measured of that.
    fn rising_from_nothing(self) -> Self {
        let nothing = Point { bytes: 0, value: 0.0, doubts: Doubts::default() };
        Self([nothing].into_iter().chain(self.0.into_iter().filter(|point| point.bytes > 0)).collect())
    }

    /// The points on either side: one of them twice if that is the size, or the size is beyond all others.
    fn around(&self, bytes: usize) -> Option<[Point; 2]> {
        let above = self.0.partition_point(|point| point.bytes < bytes);
        let next = self.0.get(above).or(self.0.last())?;
        let below = above.checked_sub(1).map(|below| &self.0[below]).filter(|_| bytes < next.bytes);
        Some([*below.unwrap_or(next), *next])
    }

    fn at(&self, bytes: usize) -> f64 {
        match self.around(bytes) {
            None => 0.0,
            Some([low, high]) if low.bytes == high.bytes => high.value,
            Some([low, high]) => {
                let share = (bytes - low.bytes) as f64 / (high.bytes - low.bytes) as f64;
                low.value + (high.value - low.value) * share
            }
        }
    }

    fn doubts(&self, bytes: usize) -> Doubts {
        self.around(bytes).map_or(Doubts::default(), |[low, high]| low.doubts.union(high.doubts))
    }

    /// Of what grows with the bytes: beyond the largest size so many times as much. `None` without points.
    fn time(&self, bytes: usize) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.at(bytes) * self.beyond(bytes))
    }

    /// How many times as large as the largest size this is; 1 if it is not larger.
    fn beyond(&self, bytes: usize) -> f64 {
        let largest = self.0.last().map_or(bytes, |point| point.bytes).max(1);
        (bytes as f64 / largest as f64).max(1.0)
    }
}

const NS: f64 = 1e-9;
const US: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::Doubt;

    fn figure(metric: &str, bytes: usize, median: f64) -> Figure {
        Figure {
            metric: metric.into(),
            mode: Some(Mode::Persistent),
            bytes: Some(bytes),
            median,
            doubts: Doubts::default(),
        }
    }

    fn measured() -> Vec<Figure> {
        let oneshot = Figure { mode: Some(Mode::OneShot), ..figure("d_o", 1000, 0.2) };
        let mut figures = vec![figure("o_i", 0, 300.0), oneshot, figure("t_y", 1000, 7.0), figure("d_o", 1000, 0.8)];
        for (bytes, o_s, b) in [(2000, 600.0, 0.2), (1000, 500.0, 0.1)] {
            figures.extend([figure("o_s", bytes, o_s), figure("b", bytes, b), figure("o_i", 0, 200.0)]);
        }
        figures
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-15, "{found} instead of {expected}");
    }

    #[test]
    fn between_sizes_lies_what_lies_between() {
        let costs = Costs::of(&measured()).unwrap();
        for (bytes, set_up, of_bytes) in [
            (0, 500e-9, 0.0),
            (500, 500e-9, 50e-9),
            (1500, 550e-9, 250e-9),
            (2000, 600e-9, 400e-9),
            (4000, 600e-9, 800e-9),
        ] {
            let message = costs.message(bytes);
            assert_near(message.set_up, set_up);
            assert_near(message.initiate, 200e-9);
            assert_near(message.bytes, of_bytes);
        }
        assert_near(costs.d_o(5), 0.8);
    }

    #[test]
    fn messages_take_what_was_measured_of_them() {
        let of = |metric, mode, us| Figure { mode: Some(mode), ..figure(metric, 1000, us) };
        let all = |figures: &[Figure]| Costs::of(&[&measured(), figures].concat()).unwrap();
        // Less than registering and freeing, too.
        for us in [0.1, 4.0] {
            assert_near(all(&[of("half_rtt", Mode::OneShot, us)]).message(1000).time(), us * 1e-6);
        }
        let swapped = Messages { bytes: 1000, count: 2, in_swaps: true };
        let costs = all(&[of("T_c", Mode::Persistent, 0.15), of("T_c", Mode::OneShot, 0.3)]);
        assert_near(costs.each(&swapped).bound().time(), 150e-9);
        assert_near(costs.each(&swapped).time(), 300e-9);
        assert_eq!(costs.each(&Messages { in_swaps: false, ..swapped }), all(&[]).message(1000));
        assert_eq!(all(&[]).each(&swapped), all(&[]).message(1000));
    }

    #[test]
    fn only_what_was_used_is_doubted() {
        let doubtful = |metric, bytes, median, doubt| Figure {
            doubts: Doubts::from(vec![doubt]),
            ..figure(metric, bytes, median)
        };
        let with = |figures: &[Figure]| Costs::of(&[&measured(), figures].concat()).unwrap();
        let doubts = |figures: &[Figure], bytes| {
            let costs = with(figures);
            let all = costs.doubts(&Messages { bytes, count: 2, in_swaps: false });
            (Vec::from(all), Vec::from(costs.doubts_about_d_o(bytes)))
        };
        assert_eq!(doubts(&[], 1500), (vec![], vec![]));
        let far = [doubtful("o_s", 4000, 700.0, Doubt::Drift), doubtful("d_o", 1500, 0.5, Doubt::Spread)];
        for (bytes, of_cost, of_d_o) in [
            (500, vec![], vec![]),
            (1200, vec![], vec![Doubt::Spread]),
            (2000, vec![], vec![Doubt::Spread]),
            (2001, vec![Doubt::Drift], vec![Doubt::Spread]),
            (9000, vec![Doubt::Drift], vec![Doubt::Spread]),
        ] {
            assert_eq!(doubts(&far, bytes), (of_cost, of_d_o), "{bytes}");
        }
        let parts = with(&[doubtful("o_s", 500, 450.0, Doubt::Drift), doubtful("b", 500, 0.1, Doubt::Spread)]);
        assert_eq!(Vec::from(parts.doubts_about_overhead(500)), [Doubt::Drift]);
        assert_eq!(Vec::from(parts.doubts_about_bound(500)), [Doubt::Spread]);
        assert!([parts.doubts_about_overhead(1000), parts.doubts_about_bound(1000)].iter().all(Doubts::is_empty));
        // One o_i of many, and not the median.
        assert_eq!(doubts(&[doubtful("o_i", 0, 900.0, Doubt::Spread)], 1000), (vec![], vec![]));
    }

    #[test]
    fn of_two_in_the_middle_both_count() {
        let third = Figure { doubts: Doubts::from(vec![Doubt::Drift]), ..figure("o_i", 0, 220.0) };
        let costs = Costs::of(&[&measured()[..], &[third]].concat()).unwrap();
        assert_near(costs.message(0).initiate, 210e-9);
        let doubts = costs.doubts(&Messages { bytes: 0, count: 2, in_swaps: false });
        assert_eq!(Vec::from(doubts), [Doubt::Drift]);
    }

    #[test]
    fn what_is_missing_is_named() {
        for missing in ["o_s", "o_i", "b"] {
            let figures: Vec<_> = measured().into_iter().filter(|figure| figure.metric != missing).collect();
            assert_eq!(Costs::of(&figures).unwrap_err(), NotMeasured(missing));
        }
        let without: Vec<_> = measured().into_iter().filter(|figure| figure.metric != "d_o").collect();
        assert_near(Costs::of(&without).unwrap().d_o(1000), 0.0);
    }
}
