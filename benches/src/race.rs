//! Contestants that take turns.

use ropeway_examples::Mode;

use crate::pair::Pair;
use crate::record::{Floor, Ratio};
use crate::statistics::{Summary, significant};
use crate::{BenchError, Console, Measured, Plan};

/// One way of doing a thing.
pub(crate) trait Contestant {
    /// Does one run. The rank that keeps the time returns the samples, the others none.
    fn measure(&mut self) -> Result<Vec<f64>, BenchError>;
}

/// A contestant and its name. Ranks that only look on have the name alone.
pub(crate) struct Entrant {
    label: String,
    contestant: Option<Box<dyn Contestant>>,
}

impl Entrant {
    /// `pair` is `None` in ranks that only look on.
    pub(crate) fn new(
        label: impl Into<String>,
        pair: Option<&Pair>,
        make: impl FnOnce(&Pair) -> Result<Box<dyn Contestant>, BenchError>,
    ) -> Result<Self, BenchError> {
        Ok(Self { label: label.into(), contestant: pair.map(make).transpose()? })
    }

    /// One that all ranks have a part in.
    pub(crate) fn of_all(label: impl Into<String>, contestant: Box<dyn Contestant>) -> Self {
        Self { label: label.into(), contestant: Some(contestant) }
    }
}

/// All samples of a contestant, and the median of each run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    samples: Vec<f64>,
    medians: Vec<f64>,
}

/// Has all contestants do so many runs, in turns.
pub(crate) fn take_turns(
    console: &mut Console,
    runs: u32,
    entrants: &mut [Entrant],
) -> Result<Vec<Series>, BenchError> {
    let mut series = vec![Series::default(); entrants.len()];
    for _ in 0..runs {
        for (entrant, series) in entrants.iter_mut().zip(&mut series) {
            let Entrant { label, contestant } = entrant;
            let run = || contestant.as_mut().map_or_else(|| Ok(Vec::new()), |contestant| contestant.measure());
            series.add(&console.step(label, run)?);
        }
    }
    Ok(series)
}

/// What is measured of messages of each size, and the floor under it.
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) floor: &'static str,
}

/// Has each kind of messages and the floor take turns, size by size, and tells the tool what came of it.
pub(crate) fn race_modes(
    console: &mut Console,
    plan: &Plan,
    pair: Option<&Pair>,
    metric: &Metric,
    contestant: impl Fn(&Pair, Mode, usize) -> Result<Box<dyn Contestant>, BenchError>,
    floor: impl Fn(&Pair, usize) -> Result<Box<dyn Contestant>, BenchError>,
) -> Result<(), BenchError> {
    for &size in &plan.sizes {
        let mut entrants = Vec::new();
        for &mode in &plan.modes {
            entrants.push(Entrant::new(mode.to_string(), pair, |pair| contestant(pair, mode, size.0))?);
        }
        entrants.push(Entrant::new("floor", pair, |pair| floor(pair, size.0))?);
        let series = take_turns(console, plan.runs, &mut entrants)?;
        let (floor, of_modes) = series.split_last().expect("the floor is always there");
        for (&mode, series) in plan.modes.iter().zip(of_modes) {
            let Some(summary) = series.summary() else { continue };
            let measured = Measured {
                mode: Some(mode),
                bytes: Some(size.0),
                floor: series.above(floor, metric.floor),
                ..Measured::new(metric.name, metric.unit, summary, plan.runs)
            };
            console.outcome(&mode.to_string(), measured)?;
        }
    }
    Ok(())
}

impl Series {
    fn add(&mut self, samples: &[f64]) {
        if !samples.is_empty() {
            self.medians.push(Summary::of(samples).median);
            self.samples.extend(samples);
        }
    }

    /// `None` in ranks that don't keep the time.
    pub(crate) fn summary(&self) -> Option<Summary> {
        (!self.samples.is_empty()).then(|| Summary::of(&self.samples))
    }

    /// The median of each run, in the order of the runs; empty in ranks that don't keep the time.
    pub(crate) fn medians(&self) -> &[f64] {
        &self.medians
    }

    /// The same in a unit that is `factor` times smaller.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let scaled = |figures: &[f64]| figures.iter().map(|figure| figure * factor).collect();
        Self { samples: scaled(&self.samples), medians: scaled(&self.medians) }
    }

    /// How this series stands above the floor: ratios of runs that were neighbours in time.
    pub(crate) fn above(&self, floor: &Self, name: &str) -> Option<Floor> {
        let ratios: Vec<f64> = self.medians.iter().zip(&floor.medians).map(|(ours, floor)| ours / floor).collect();
        let median = floor.summary()?.median;
        let ratio = (!ratios.is_empty()).then(|| Ratio::of(&ratios))?;
        Some(Floor { name: name.to_owned(), median: significant(median), ratio: Some(ratio) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_compare_neighbouring_runs() {
        let (mut ours, mut floor) = (Series::default(), Series::default());
        for (slow, fast) in [(2.0, 1.0), (30.0, 10.0), (400.0, 100.0)] {
            ours.add(&[slow, slow, 1e9]);
            floor.add(&[fast]);
        }
        let above = ours.above(&floor, "tcp").unwrap();
        assert_eq!((above.median, above.ratio), (10.0, Some(Ratio { median: 3.0, min: 2.0, max: 4.0 })));
        assert_eq!(Series::default().summary(), None);
        assert_eq!(ours.above(&Series::default(), "tcp"), None);
    }
}
