//! What nodes do for collectives between them: made when a collective is registered, once for each shape.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use ropeway_proto::collective::{CollectiveKind, CollectiveShape};
use ropeway_schedule::{
    Algorithm, Collective, CostTable, Counts, Order, PairCounts, ParseAlgorithmError, Schedule, Shape, build, select,
};

/// Schedules that collectives of a job use.
pub(crate) struct Schedules {
    made: HashMap<(CollectiveShape, u16), Weak<Schedule>>,
    /// Who asks for it to see what memory it takes asks again when there is some.
    last: Option<Arc<Schedule>>,
    /// The same on all nodes of the job.
    costs: CostTable,
    /// How many were made since somebody asked.
    built: u64,
}

/// Forgotten shapes are swept out when there are so many.
const SWEEP_AT: usize = 64;

impl Schedules {
    pub(crate) fn new(costs: CostTable) -> Self {
        Self { made: HashMap::new(), last: None, costs, built: 0 }
    }

    /// What participant `me` does for `between`. `None` if no node can do that.
    pub(crate) fn get(&mut self, between: &CollectiveShape, me: u16) -> Option<Arc<Schedule>> {
        let key = (between.clone(), me);
        if let Some(schedule) = self.made.get(&key).and_then(Weak::upgrade) {
            return Some(schedule);
        }
        let shape = shape(between);
        let algorithm = self.choose(between).ok()?;
        let schedule = Arc::new(build(&shape, &algorithm, me.into()).ok()?);
        tracing::debug!(%algorithm, operation = shape.collective.name(), "a schedule was made");
        if self.made.len() >= SWEEP_AT {
            self.made.retain(|_, schedule| schedule.strong_count() > 0);
        }
        self.made.insert(key, Arc::downgrade(&schedule));
        self.last = Some(Arc::clone(&schedule));
        self.built += 1;
        Some(schedule)
    }

    /// How nodes do `between`. See [`choose`].
    pub(crate) fn choose(&self, between: &CollectiveShape) -> Result<Algorithm, String> {
        choose(between, &self.costs)
    }

    /// Whether nodes can do `between` as the members of the `whole` collective want it. See [`check`].
    pub(crate) fn check(&self, whole: &CollectiveShape, between: &CollectiveShape) -> Result<(), String> {
        check(shape(whole).collective.name(), between, &self.costs)
    }

    /// How many were made since this was asked last.
    pub(crate) fn take_built(&mut self) -> u64 {
        std::mem::take(&mut self.built)
    }
}

/// How nodes do `between`: as its members want it, or as is predicted to be fastest.
///
/// # Errors
/// If that can't be done, why.
pub fn choose(between: &CollectiveShape, costs: &CostTable) -> Result<Algorithm, String> {
    let shape = shape(between);
    shape.check().map_err(|error| error.to_string())?;
    let Some(name) = &between.algorithm else {
        return Ok(select(&shape, between.element_bytes.into(), costs).algorithm);
    };
    let algorithm: Algorithm = name.parse().map_err(|error: ParseAlgorithmError| error.to_string())?;
    algorithm.check(&shape).map_err(|error| error.to_string())?;
    Ok(algorithm)
}

/// Whether nodes can do `between` as the members of the whole collective want it, which has this name.
///
/// # Errors
/// Why not, in words that also say what the whole is.
pub fn check(whole: &str, between: &CollectiveShape, costs: &CostTable) -> Result<(), String> {
    let name = shape(between).collective.name();
    choose(between, costs).map(drop).map_err(|error| match name == whole {
        true => error,
        false => format!("{error}; between nodes this {whole} goes by {name}"),
    })
}

/// What happens between nodes in the words of schedules.
pub fn shape(between: &CollectiveShape) -> Shape {
    let (root, size) = (between.root, between.size());
    let count = between.counts.first().copied().unwrap_or(0);
    let counts = || Counts::each(&between.counts);
    // Daemons combine by predefined operators alone, which commute.
    let order = if between.is_reproducible { Order::Fixed } else { Order::Any };
    let collective = match between.kind {
        CollectiveKind::Barrier => Collective::Barrier,
        CollectiveKind::Bcast => return Shape::new(size, Collective::Bcast { root, count }).in_place(),
        CollectiveKind::Reduce => Collective::Reduce { root, count, order },
        CollectiveKind::Allreduce => Collective::Allreduce { count, order },
        CollectiveKind::ReduceScatter => Collective::ReduceScatter { counts: counts(), order },
        CollectiveKind::Scan => Collective::Scan { count, order },
        CollectiveKind::Exscan => Collective::Exscan { count, order },
        CollectiveKind::Gather => Collective::Gather { root, counts: counts() },
        CollectiveKind::Scatter => Collective::Scatter { root, counts: counts() },
        CollectiveKind::Allgather => Collective::Allgather { counts: counts() },
        CollectiveKind::Alltoall => Collective::Alltoall { counts: PairCounts::each(&between.counts) },
    };
    Shape::new(size, collective)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(kind: CollectiveKind, counts: &[u64]) -> CollectiveShape {
        let members = vec![0, 1, 2];
        let (combination, is_reproducible) = (None, false);
        CollectiveShape {
            kind,
            members,
            root: 1,
            combination,
            element_bytes: 8,
            counts: counts.to_vec(),
            is_reproducible,
            algorithm: None,
        }
    }

    #[test]
    fn a_schedule_is_made_once() {
        let mut schedules = Schedules::new(CostTable::default());
        let bcast = between(CollectiveKind::Bcast, &[100]);
        let first = schedules.get(&bcast, 0).unwrap();
        let second = schedules.get(&bcast, 0).unwrap();
        assert_eq!(schedules.take_built(), 1);
        assert!(schedules.get(&bcast, 1).is_some());
        assert_eq!(schedules.take_built(), 1, "another participant does something else");
        drop((first, second));
        assert!(schedules.get(&bcast, 0).is_some());
        assert_eq!(schedules.take_built(), 1, "nobody used it any more");
    }

    #[test]
    fn what_members_want_is_done_or_refused() {
        let schedules = Schedules::new(CostTable::default());
        let by = |kind, counts: &[u64], name: &str| {
            let algorithm = Some(name.to_owned());
            schedules.choose(&CollectiveShape { algorithm, ..between(kind, counts) }).map(|chosen| chosen.to_string())
        };
        assert_eq!(by(CollectiveKind::Bcast, &[100], "k-nomial:4"), Ok("k-nomial:4".into()));
        let refused = by(CollectiveKind::Bcast, &[100], "rng").unwrap_err();
        assert!(refused.starts_with("no algorithm is called rng"), "{refused}");
        let refused = by(CollectiveKind::Barrier, &[], "ring").unwrap_err();
        assert!(refused.contains("ring") && refused.contains("barrier"), "{refused}");
        assert_eq!(by(CollectiveKind::Alltoall, &[5; 9], "bruck"), Ok("bruck:1".into()));
        let refused = by(CollectiveKind::Alltoall, &[5, 5, 5, 5, 5, 5, 5, 5, 6], "bruck").unwrap_err();
        assert!(refused.contains("it needs blocks of one length"), "{refused}");
    }

    #[test]
    fn buffers_are_as_long_as_members_say() {
        let cases = [
            (CollectiveKind::Barrier, vec![]),
            (CollectiveKind::Bcast, vec![7]),
            (CollectiveKind::Gather, vec![1, 0, 3]),
            (CollectiveKind::Scatter, vec![1, 0, 3]),
            (CollectiveKind::Allgather, vec![1, 0, 3]),
            (CollectiveKind::Alltoall, vec![1, 0, 3, 4, 5, 6, 7, 8, 9]),
        ];
        for (kind, counts) in cases {
            let between = between(kind, &counts);
            for me in 0..3 {
                let shape = shape(&between);
                let expected = (shape.input_elements(me), shape.output_elements(me));
                assert_eq!(between.elements(me), expected, "{kind:?}");
            }
        }
    }
}
