//! A prediction beside what was measured.

use ropeway_bench::boum::Algorithm;
use ropeway_bench::{Doubt, Doubts, Mode, Setting, Size, Summary, significant};
use serde::Serialize;

use super::table::{counted, digits};
use crate::steps::Counters;

/// One line of `--json`.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Comparison {
    pub(super) bench: &'static str,
    pub(super) metric: &'static str,
    pub(super) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mode: Option<Mode>,
    pub(super) application: Algorithm,
    pub(super) size: usize,
    #[serde(flatten)]
    pub(super) setting: Setting,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) segments: Option<u32>,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) runs: usize,
    pub(super) oversubscribed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) predicted: Option<f64>,
    /// Of the prediction, relative to what was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<f64>,
    /// Predicted to be the best number of segments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) s_best: Option<f64>,
    /// Segmentation efficiency, by the model.
    #[serde(rename = "E_s", skip_serializing_if = "Option::is_none")]
    pub(super) e_s: Option<f64>,
    pub(super) version: &'static str,
    /// What our daemons have counted in all runs, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) counters: Option<Counters>,
}

impl Comparison {
    /// Of a metric of a program, one sample a run.
    pub(super) fn new(
        (bench, metric, unit): (&'static str, &'static str, &'static str),
        (application, size): (Algorithm, usize),
        setting: Setting,
        samples: &[f64],
        predicted: Option<f64>,
    ) -> Self {
        let summary = Summary::of(samples);
        let oversubscribed = setting.is_oversubscribed();
        let doubts = summary.doubts.and(Doubt::Oversubscribed, oversubscribed);
        Self {
            bench,
            metric,
            unit,
            mode: None,
            application,
            size,
            setting,
            segments: None,
            summary: Summary { doubts, ..summary },
            runs: samples.len(),
            oversubscribed,
            predicted: predicted.map(significant),
            error: predicted.map(|predicted| significant(predicted / summary.median - 1.0)),
            s_best: None,
            e_s: None,
            version: env!("CARGO_PKG_VERSION"),
            counters: None,
        }
    }

    /// With doubts about what the prediction was made of.
    pub(super) fn doubted(self, doubts: Doubts) -> Self {
        Self { summary: Summary { doubts: self.summary.doubts.union(doubts), ..self.summary }, ..self }
    }

    /// Measured, predicted, and the error in percent; shown in a unit so many times smaller.
    pub(super) fn cells(&self, factor: f64) -> [String; 3] {
        let mark = if self.summary.doubts.is_empty() { "" } else { "~" };
        let measured = format!("{mark}{}", digits(self.summary.median * factor));
        let predicted = self.predicted.map_or_else(|| "-".to_owned(), |predicted| digits(predicted * factor));
        let error = self.error.map_or_else(|| "-".to_owned(), |error| format!("{:+.1}%", error * 100.0));
        [measured, predicted, error]
    }

    /// A line of what the daemons have counted; none if nobody asked.
    pub(super) fn counted(&self) -> String {
        let Self { application, mode, size, setting, segments, .. } = self;
        let mode = mode.map(|mode| format!("{mode}, ")).unwrap_or_default();
        let segments = segments.map(|segments| format!(", {segments} segments")).unwrap_or_default();
        let what = format!("{application}, {mode}{}, {} ranks, {}{segments}", Size(*size), setting.ranks, setting.wait);
        counted(&what, self.counters.as_ref())
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("lines are plain structures") + "\n"
    }
}

/// All doubts about these.
pub(super) fn doubts<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Doubts {
    comparisons.into_iter().map(|line| line.summary.doubts).fold(Doubts::default(), Doubts::union)
}

/// Seconds in milliseconds.
pub(super) const MS: f64 = 1e3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_relative_to_what_was_measured() {
        let setting = Setting {
            ranks: 2,
            nodes: 1,
            device: "shm".into(),
            wait: "polling".into(),
            netns: false,
            rate: None,
            cores: 2,
        };
        let of = |predicted| {
            let metric = ("boum", "execution", "s");
            Comparison::new(metric, (Algorithm::Cg, 64), setting.clone(), &[0.004; 3], predicted)
        };
        assert_eq!(of(Some(0.005)).cells(MS), ["4.000", "5.000", "+25.0%"]);
        assert_eq!(of(None).cells(MS), ["4.000", "-", "-"]);
        let json: serde_json::Value = serde_json::from_str(&of(Some(0.002)).json()).unwrap();
        assert_eq!((&json["error"], &json["application"]), (&(-0.5).into(), &"cg".into()));
        assert_eq!(json.get("segments"), None);
    }
}
