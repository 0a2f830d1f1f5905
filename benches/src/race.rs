//! Contestants that take turns.

use ropeway::Session;
use ropeway_examples::Mode;

use crate::notification::Notification;
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

    /// The same, waiting in a way of its own.
    pub(crate) fn waiting(self, session: &Session, notification: Notification) -> Self {
        let waiting = |contestant| -> Box<dyn Contestant> {
            Box::new(Waiting { session: session.clone(), notification, contestant })
        };
        Self { contestant: self.contestant.map(waiting), ..self }
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

/// Has each kind of messages, waited for in each way, and the floor take turns, size by size, and tells the tool what came of it:
/// alone and, if that was asked for, beside links of the node's daemon.
pub(crate) fn race_modes(
    (session, pair): (&Session, Option<&Pair>),
    console: &mut Console,
    plan: &Plan,
    metric: &Metric,
    contestant: impl Fn(&Pair, Mode, usize) -> Result<Box<dyn Contestant>, BenchError>,
    floor: impl Fn(&Pair, usize) -> Result<Box<dyn Contestant>, BenchError>,
) -> Result<(), BenchError> {
    let places = Place::all(plan);
    for &size in &plan.sizes {
        let mut entrants = Vec::new();
        for &place in &places {
            for kind in Kind::all(plan) {
                let make = |pair: &Pair| contestant(pair, kind.mode, size.0);
                let entrant = Entrant::new(place.label(&kind.label(plan)), pair, make)?;
                entrants.push(entrant.waiting(session, kind.notification));
            }
            entrants.push(Entrant::new(place.label("floor"), pair, |pair| floor(pair, size.0))?);
        }
        let series = take_turns(console, plan.runs, &mut entrants)?;
        let places: Vec<_> = places.iter().zip(series.chunks(series.len() / places.len())).collect();
        for (index, kind) in Kind::all(plan).enumerate() {
            let mut tell = |place: Place, metric: &Metric, series: &Series, floor: &Series| {
                let Some(summary) = series.summary() else { return Ok(()) };
                let measured = Measured {
                    mode: Some(kind.mode),
                    notification: Some(kind.notification),
                    bytes: Some(size.0),
                    idle_links: place.idle_links,
                    floor: series.above(floor, metric.floor),
                    ..Measured::new(metric.name, metric.unit, summary, plan.runs)
                };
                console.outcome(&place.label(&kind.label(plan)), measured)
            };
            for (place, series) in &places {
                tell(**place, metric, &series[index], series.last().expect("the floor is always there"))?;
            }
            if let [(_, alone), (beside, series)] = places[..] {
                let slowdown = |index: usize| series[index].relative_to(&alone[index]);
                let metric = Metric { name: "slowdown", unit: "ratio", floor: metric.floor };
                tell(*beside, &metric, &slowdown(index), &slowdown(series.len() - 1))?;
            }
        }
    }
    Ok(())
}

/// A kind of messages, and how they are waited for.
#[derive(Clone, Copy)]
struct Kind {
    notification: Notification,
    mode: Mode,
}

impl Kind {
    fn all(plan: &Plan) -> impl Iterator<Item = Self> {
        let kinds = |&notification| plan.modes.iter().map(move |&mode| Self { notification, mode });
        plan.notification.iter().flat_map(kinds)
    }

    fn label(self, plan: &Plan) -> String {
        waited_for(plan, &self.mode.to_string(), self.notification)
    }
}

/// A label, and how ranks wait if that is compared.
pub(crate) fn waited_for(plan: &Plan, label: &str, notification: Notification) -> String {
    if plan.notification.len() > 1 { format!("{label}, {notification}") } else { label.to_owned() }
}

/// A contestant that waits in a way of its own.
struct Waiting {
    session: Session,
    notification: Notification,
    contestant: Box<dyn Contestant>,
}

impl Contestant for Waiting {
    fn measure(&mut self) -> Result<Vec<f64>, BenchError> {
        self.session.set_wait_mode(self.notification.0);
        self.contestant.measure()
    }
}

/// What is around a contestant: nothing, or a busy link and so many idle ones, which the tool makes when a step begins.
#[derive(Clone, Copy)]
struct Place {
    idle_links: Option<u32>,
}

impl Place {
    fn all(plan: &Plan) -> Vec<Self> {
        let alone = Self { idle_links: None };
        let beside = plan.beside_links.map(|_| Self { idle_links: plan.beside_links });
        [alone].into_iter().chain(beside).collect()
    }

    fn label(self, what: &str) -> String {
        if self.idle_links.is_some() { what.to_owned() + BESIDE_LINKS } else { what.to_owned() }
    }
}

/// Whether a step is to take place beside links, by its label.
pub fn is_beside_links(label: &str) -> bool {
    label.ends_with(BESIDE_LINKS)
}

const BESIDE_LINKS: &str = ", beside links";

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

    /// Run by run, how many times as much as another one: they were neighbours in time.
    fn relative_to(&self, other: &Self) -> Self {
        let ratios: Vec<f64> = self.medians.iter().zip(&other.medians).map(|(ours, theirs)| ours / theirs).collect();
        Self { samples: ratios.clone(), medians: ratios }
    }

    /// How this series stands above the floor.
    pub(crate) fn above(&self, floor: &Self, name: &str) -> Option<Floor> {
        let ratios = self.relative_to(floor).medians;
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
