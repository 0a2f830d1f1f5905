//! Chooses the sizes that decide how messages travel, from what copying costs on this node.
//!
//! | size | the largest whose copy takes no longer than | because |
//! |---|---|---|
//! | small messages of a node | [`HAND_OVER`] | copying at once costs no more than asking the daemon to |
//! | pieces of a node | [`PIECE_TIME`] | the daemon is away from everything else for so long, and dealing a piece out costs little of it |
//! | eager messages between nodes | the handshake it saves | R = o/(b·m) ≈ 1 |
//!
//! The first two are measured when a daemon starts, once per process: its daemons are on the same node, and two answers
//! would make tests and benchmarks differ from run to run within one process. That takes a few milliseconds. The third needs a
//! connection and another thread; `ropeway calibrate` measures it and saves it to the configuration.

use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use ropeway_proto::{ElementType, Layout, Operator, Scalar, limits};
use ropeway_shm::{JobGeometry, JobSegment, Thresholds};

use crate::config::Config;

/// How long a copy of so many bytes takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyTime {
    /// So many.
    pub bytes: u64,
    /// So long.
    pub time: Duration,
}

/// What waking the daemon for a message costs whoever does it, about: one system call that has to reach another core.
pub const HAND_OVER: Duration = Duration::from_micros(1);

/// How long copying a piece may take. Dealing one out is two handovers of a cache line, so they are a few percent of it.
pub const PIECE_TIME: Duration = Duration::from_micros(8);

/// Measured sizes stay in these bounds, whatever a disturbed machine says; a configuration may leave them.
const SMALL_BYTES: [u64; 2] = [2 << 10, limits::EAGER_BYTES_LIMIT];
const PIECE_BYTES: [u64; 2] = [16 << 10, 256 << 10];
const EAGER_BYTES: [u64; 2] = [4 << 10, limits::EAGER_BYTES_LIMIT];

/// The sizes of a node where copies take so long. The times are in order of size.
pub fn node_thresholds(copies: &[CopyTime]) -> Thresholds {
    Thresholds {
        eager_bytes_max: largest_within(copies, HAND_OVER, SMALL_BYTES),
        piece_bytes: largest_within(copies, PIECE_TIME, PIECE_BYTES),
    }
}

/// The largest eager message between nodes. A message that comes before its receive costs one copy more, out of the stash;
/// asking first costs a handshake.
pub fn link_eager_bytes_max(copies: &[CopyTime], handshake: Duration) -> u64 {
    largest_within(copies, handshake, EAGER_BYTES)
}

/// The last size before copies begin to take longer.
fn largest_within(copies: &[CopyTime], time: Duration, [least, most]: [u64; 2]) -> u64 {
    let within = copies.iter().take_while(|copy| copy.time <= time).last();
    within.map_or(least, |copy| copy.bytes.clamp(least, most))
}

/// Sizes that [`node_thresholds`] and [`link_eager_bytes_max`] choose among.
pub fn sizes() -> impl Iterator<Item = u64> {
    (10..=18).map(|power| 1 << power)
}

/// Times copies between two areas of a job segment, as the daemon and its clients make them, for `budget` or a little longer.
///
/// They wander over areas that are larger than a core's own cache, since what is to be copied has been written by another
/// core. What is reported is the shortest time: whatever disturbs a copy makes it longer.
pub fn measure_copies(sizes: impl IntoIterator<Item = u64>, budget: Duration) -> io::Result<Vec<CopyTime>> {
    let begin = Instant::now();
    let mut copies: Vec<_> = sizes.into_iter().map(|bytes| CopyTime { bytes, time: Duration::MAX }).collect();
    let bytes_max = copies.iter().map(|copy| copy.bytes).max().unwrap_or(0);
    let mut ground = Ground::new(bytes_max.max(AREA_BYTES).next_multiple_of(PAGE_BYTES))?;
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || begin.elapsed() < budget {
        for copy in &mut copies {
            copy.time = copy.time.min(ground.time_of(copy.bytes)?);
        }
        rounds += 1;
    }
    Ok(copies)
}

/// How long combining a byte with another takes, in nanoseconds: sums of floating-point numbers, for `budget` or a little longer.
/// The shortest time, as of [`measure_copies`].
pub fn measure_combining(budget: Duration) -> io::Result<f64> {
    const PIECE_BYTES: u64 = 64 << 10;
    let (begin, element) = (Instant::now(), ElementType { scalar: Scalar::F64, is_located: false });
    let ground = Ground::new(AREA_BYTES)?;
    let from = ground.segment.arena(0).start;
    let into = from + ground.area_bytes;
    let mut shortest = Duration::MAX;
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || begin.elapsed() < budget {
        for at in (0..ground.area_bytes).step_by(PIECE_BYTES as usize) {
            let begin = Instant::now();
            let combined = ground.segment.fold(Operator::Sum, element, (&[into, from], &[into]), at, PIECE_BYTES / 8);
            combined.map_err(io::Error::other)?;
            shortest = shortest.min(begin.elapsed());
        }
        rounds += 1;
    }
    Ok(shortest.as_nanos() as f64 / PIECE_BYTES as f64)
}

/// Two areas to copy between.
struct Ground {
    segment: JobSegment,
    area_bytes: u64,
    /// Where the next copy begins, in both.
    at: u64,
}

impl Ground {
    fn new(area_bytes: u64) -> io::Result<Self> {
        let segment = JobSegment::create(JobGeometry { local_ranks: 1, arena_bytes_max: 2 * area_bytes })?;
        segment.reserve_arena(0, 0..2 * area_bytes)?;
        let from = segment.arena(0).start;
        let (from, to) = (Layout::contiguous(from, area_bytes), Layout::contiguous(from + area_bytes, area_bytes));
        // Not timed: it finds every page for the first time.
        segment.copy(&from, 0, &to, 0, area_bytes).map_err(io::Error::other)?;
        Ok(Self { segment, area_bytes, at: 0 })
    }

    fn time_of(&mut self, bytes: u64) -> io::Result<Duration> {
        // Enough copies for the clock.
        let times = (BATCH_BYTES / bytes.max(1)).clamp(1, 64) as u32;
        let from = self.segment.arena(0).start;
        let begin = Instant::now();
        for _ in 0..times {
            if self.at + bytes > self.area_bytes {
                self.at = 0;
            }
            let (from, to) = (from + self.at, from + self.area_bytes + self.at);
            let (from, to) = (Layout::contiguous(from, bytes), Layout::contiguous(to, bytes));
            self.segment.copy(&from, 0, &to, 0, bytes).map_err(io::Error::other)?;
            self.at += bytes.next_multiple_of(LINE_BYTES);
        }
        Ok(begin.elapsed() / times)
    }
}

/// Measures what the configuration leaves open.
pub(crate) fn complete(config: &mut Config) {
    if config.node_eager_bytes_max.is_some() && config.node_piece_bytes.is_some() {
        return;
    }
    let Thresholds { eager_bytes_max, piece_bytes } = of_this_process();
    config.node_eager_bytes_max.get_or_insert(eager_bytes_max);
    config.node_piece_bytes.get_or_insert(piece_bytes);
}

fn of_this_process() -> Thresholds {
    static MEASURED: OnceLock<Thresholds> = OnceLock::new();
    let measure = || match measure_copies(sizes(), BUDGET) {
        Ok(copies) => node_thresholds(&copies),
        Err(error) => {
            tracing::warn!(%error, "can't measure what copying costs, so the defaults are used");
            Thresholds { eager_bytes_max: limits::EAGER_BYTES_MAX, piece_bytes: limits::PIECE_BYTES }
        }
    };
    *MEASURED.get_or_init(measure)
}

/// What measuring may take when a daemon starts.
const BUDGET: Duration = Duration::from_millis(5);
/// One may be disturbed, and another.
const ROUNDS_MIN: u32 = 3;
/// More than the second-level caches of most cores, and quickly reserved.
const AREA_BYTES: u64 = 2 << 20;
const LINE_BYTES: u64 = 64;
const BATCH_BYTES: u64 = 16 << 10;
const PAGE_BYTES: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A node that copies so many bytes in a nanosecond, once a copy has begun.
    fn node(bytes_per_ns: f64) -> Vec<CopyTime> {
        let time = |bytes: u64| Duration::from_nanos(20 + (bytes as f64 / bytes_per_ns) as u64);
        sizes().map(|bytes| CopyTime { bytes, time: time(bytes) }).collect()
    }

    #[test]
    fn a_usual_node_gets_the_defaults() {
        let usual = node(10.0);
        let expected = Thresholds { eager_bytes_max: limits::EAGER_BYTES_MAX, piece_bytes: limits::PIECE_BYTES };
        assert_eq!(node_thresholds(&usual), expected);
        assert_eq!(link_eager_bytes_max(&usual, Duration::from_micros(4)), 32 << 10);
    }

    #[test]
    fn a_size_ends_where_copies_begin_to_take_longer() {
        let copy = |bytes, ns| CopyTime { bytes, time: Duration::from_nanos(ns) };
        let disturbed = [copy(2048, 100), copy(4096, 200), copy(8192, 5000), copy(16384, 900)];
        assert_eq!(node_thresholds(&disturbed).eager_bytes_max, 4096);
    }

    proptest! {
        #[test]
        fn sizes_are_bounded_and_grow_with_speed(slow in 0.001f64..1000.0, factor in 1.0f64..1000.0, ns in 0u64..1 << 40) {
            let (slow, fast) = (node(slow), node(slow * factor));
            let (less, more) = (node_thresholds(&slow), node_thresholds(&fast));
            prop_assert!(less.eager_bytes_max <= more.eager_bytes_max && less.piece_bytes <= more.piece_bytes);
            let handshake = Duration::from_nanos(ns);
            prop_assert!(link_eager_bytes_max(&slow, handshake) <= link_eager_bytes_max(&fast, handshake));
            prop_assert!(link_eager_bytes_max(&slow, handshake) <= link_eager_bytes_max(&slow, 2 * handshake));
            for Thresholds { eager_bytes_max, piece_bytes } in [less, more] {
                let config = Config {
                    link_eager_bytes_max: link_eager_bytes_max(&slow, handshake),
                    node_eager_bytes_max: Some(eager_bytes_max),
                    node_piece_bytes: Some(piece_bytes),
                    ..Config::default()
                };
                prop_assert!(config.check().is_ok());
            }
        }
    }

    #[test]
    fn without_a_measurement_sizes_are_the_smallest() {
        assert_eq!(node_thresholds(&[]), Thresholds { eager_bytes_max: 2 << 10, piece_bytes: 16 << 10 });
    }

    #[test]
    fn every_size_is_measured() {
        let copies = measure_copies(sizes(), Duration::ZERO).unwrap();
        assert!(copies.iter().map(|copy| copy.bytes).eq(sizes()));
        assert!(copies.iter().all(|copy| copy.time < Duration::MAX));
    }

    #[test]
    fn combining_takes_time() {
        assert!(measure_combining(Duration::ZERO).unwrap() > 0.0);
    }

    #[test]
    fn sizes_larger_than_the_area_are_measured_too() {
        let [copy] = measure_copies([AREA_BYTES + 1], Duration::ZERO).unwrap()[..] else {
            panic!("one size, one time")
        };
        assert!(copy.time > Duration::ZERO && copy.time < Duration::MAX);
    }

    #[test]
    fn what_a_configuration_says_is_not_measured() {
        let mut config = Config { node_eager_bytes_max: Some(77), ..Config::default() };
        complete(&mut config);
        assert_eq!(config.node_eager_bytes_max, Some(77));
        assert_eq!(config.node_piece_bytes, Some(of_this_process().piece_bytes));
        assert_eq!(config.thresholds(), Thresholds { eager_bytes_max: 77, ..of_this_process() });
    }
}
