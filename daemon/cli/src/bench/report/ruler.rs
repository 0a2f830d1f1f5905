//! An axis: where a value is on it, and which values are written beside it.

use ropeway_bench::Size;

/// How values are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// Differences show. Zero is always there.
    Linear,
    /// Ratios show. Only what is above zero is on it.
    Log,
    /// Ratios show; the values are written as sizes.
    Sizes,
    /// Ratios show; the values that are there are written.
    Counts,
}

/// An axis from its smallest value to its largest.
#[derive(Debug)]
pub(super) struct Ruler {
    scale: Scale,
    low: f64,
    high: f64,
    /// Values and how they are written.
    pub(super) ticks: Vec<(f64, String)>,
}

impl Ruler {
    /// An axis on which all of these values are; `None` if there are none that could be.
    pub(super) fn new(scale: Scale, values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().filter(|&value| scale.has(value)).collect();
        values.sort_unstable_by(f64::total_cmp);
        values.dedup();
        let (&low, &high) = (values.first()?, values.last()?);
        Some(match scale {
            Scale::Linear => Self::linear(low.min(0.0), high.max(0.0)),
            Scale::Log => Self::log(low / 1.15, high * 1.15),
            Scale::Sizes => Self::of_values(scale, &values, |value| Size(value as usize).to_string()),
            Scale::Counts => Self::of_values(scale, &values, |value| value.to_string()),
        })
    }

    /// The share of the axis that is before a value.
    pub(super) fn share(&self, value: f64) -> f64 {
        let place = |value: f64| if self.scale == Scale::Linear { value } else { value.log2() };
        (place(value) - place(self.low)) / (place(self.high) - place(self.low))
    }

    /// The smallest and the largest value.
    pub(super) fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Whether a value is between the ends.
    pub(super) fn contains(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// Whether a value can be shown.
    pub(super) fn has(&self, value: f64) -> bool {
        self.scale.has(value)
    }

    fn linear(low: f64, high: f64) -> Self {
        let step = round_step((high - low).max(f64::MIN_POSITIVE) / LINEAR_STEPS);
        let (first, last) = ((low / step).floor(), (high / step).ceil().max(1.0));
        let ticks = (0..=(last - first) as u32).map(|index| (first + f64::from(index)) * step);
        let ticks = ticks.map(|value| (value, written(value, step))).collect();
        Self { scale: Scale::Linear, low: first * step, high: last * step, ticks }
    }

    fn log(low: f64, high: f64) -> Self {
        let decades = (high / low).log10();
        let heads: &[f64] = if decades > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let exponents = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let values = exponents.flat_map(|exponent| heads.iter().map(move |head| head * 10f64.powi(exponent)));
        let is_inside = |value: &f64| (low..=high).contains(value);
        let mut ticks: Vec<_> = values.filter(is_inside).map(|value| (value, written(value, value))).collect();
        if ticks.len() < 2 {
            // Less than a factor of 2.5: as on a linear axis.
            let step = round_step((high - low) / LINEAR_STEPS);
            let count = ((high - low) / step) as u32 + 1;
            let values = (0..=count).map(|index| ((low / step).ceil() + f64::from(index)) * step);
            ticks = values.filter(is_inside).map(|value| (value, written(value, step))).collect();
        }
        Self { scale: Scale::Log, low, high, ticks }
    }

    fn of_values(scale: Scale, values: &[f64], write: impl Fn(f64) -> String) -> Self {
        let (low, high) = (values[0] / MARGIN, values[values.len() - 1] * MARGIN);
        let mut ruler = Self { scale, low, high, ticks: Vec::new() };
        let mut free_from = 0.0;
        for &value in values {
            let share = ruler.share(value);
            if share >= free_from {
                ruler.ticks.push((value, write(value)));
                free_from = share + LABEL_SHARE;
            }
        }
        ruler
    }
}

impl Scale {
    fn has(self, value: f64) -> bool {
        value.is_finite() && (self == Self::Linear || value > 0.0)
    }
}

/// 1, 2 or 5 times a power of ten, not less than this.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let heads = [1.0, 2.0, 5.0, 10.0];
    heads.map(|head| head * power).into_iter().find(|&round| round >= step * 0.999).unwrap_or(10.0 * power)
}

/// With as many digits behind the point as the step needs.
fn written(value: f64, step: f64) -> String {
    let decimals = (-step.abs().log10().floor()).max(0.0) as usize;
    // Without a minus sign before zero.
    format!("{:.decimals$}", value + 0.0)
}

const LINEAR_STEPS: f64 = 5.0;
/// Room at both ends for marks.
const MARGIN: f64 = 1.4;
/// What a label takes of the axis.
const LABEL_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks.iter().map(|(_, label)| label.as_str()).collect()
    }

    #[test]
    fn axes_have_round_values() {
        let ruler = Ruler::new(Scale::Linear, [0.93, -0.13]).unwrap();
        assert_eq!(labels(&ruler), ["-0.5", "0.0", "0.5", "1.0"]);
        let ruler = Ruler::new(Scale::Log, [0.2, 400.0]).unwrap();
        assert_eq!(labels(&ruler), ["1", "10", "100"]);
        let ruler = Ruler::new(Scale::Log, [0.95, 1.1]).unwrap();
        assert_eq!(labels(&ruler), ["0.9", "1.0", "1.1", "1.2"]);
        let ruler = Ruler::new(Scale::Sizes, [8.0, 9.0, 1024.0, 65536.0]).unwrap();
        assert_eq!(labels(&ruler), ["8", "1K", "64K"]);
    }

    #[test]
    fn every_value_has_its_place() {
        let ruler = Ruler::new(Scale::Log, [1.0, 100.0]).unwrap();
        assert!((ruler.share(10.0) - 0.5).abs() < 1e-9);
        assert!(ruler.share(1.0) > 0.0 && ruler.share(100.0) < 1.0);
        let ruler = Ruler::new(Scale::Linear, [0.0]).unwrap();
        assert!(ruler.share(0.0).is_finite());
    }

    #[test]
    fn what_can_not_be_shown_makes_no_axis() {
        assert!(Ruler::new(Scale::Log, [0.0, -1.0, f64::NAN, f64::INFINITY]).is_none());
        assert!(Ruler::new(Scale::Linear, []).is_none());
        assert!(!Ruler::new(Scale::Log, [0.0, 3.0]).unwrap().has(0.0));
    }
}
