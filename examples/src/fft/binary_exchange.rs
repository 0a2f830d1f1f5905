//! A transform by exchanges of whole blocks between pairs of ranks: radix 2, decimation in frequency.
//!
//! ```text
//!   global steps, log p                             local steps, log n − log p
//!   rank 0 ─┬──── a + b ────┬─ …                    the same butterflies within a rank's block of n/p points
//!   rank 1 ─┼─┬── a + b ────┴─ …
//!   rank 2 ─┴─┼── (a − b)·ω ┬─ …                    ω = e^(−2πi·k/N) at place k of half a group of N points
//!   rank 3 ───┴── (a − b)·ω ┴─ …
//! ```
//!
//! In a global step a rank and its partner exchange all their points, cut in segments: while one is combined, the next one
//! travels. The result is in bit-reversed order. J. W. Cooley and J. W. Tukey, 1965; with segments R. Dimitrov,
//! *Overlapping of Communication and Computation and Early Binding*, 2001, figure 3.9.

use std::convert::Infallible;
use std::f64::consts::TAU;
use std::ops::Range;
use std::time::{Duration, Instant};

use ropeway::{Communicator, Error, RecvRequest, SendRequest};
use rustfft::num_complex::Complex32;

use crate::block;

/// The butterflies of a block of points that one rank has.
#[derive(Clone, Debug)]
struct Butterflies {
    /// Of each step, ω for all places.
    steps: Vec<Vec<Complex32>>,
}

impl Butterflies {
    /// Those of a block of so many points, a power of two.
    fn new(points: usize) -> Self {
        let group = |step: u32| points >> step;
        Self { steps: (0..points.ilog2()).map(|step| twiddles(group(step), 0..group(step) / 2)).collect() }
    }

    /// Does all steps, of which there are as many as the logarithm of the points.
    fn run(&self, points: &mut [[f32; 2]]) {
        for twiddles in &self.steps {
            for group in points.chunks_exact_mut(2 * twiddles.len()) {
                let (lower, upper) = group.split_at_mut(twiddles.len());
                for ((a, b), twiddle) in lower.iter_mut().zip(upper).zip(twiddles) {
                    (*a, *b) = (sum(*a, *b), turned_difference(*a, *b, *twiddle));
                }
            }
        }
    }
}

/// A transform that is prepared once: requests, twiddle factors, memory.
#[derive(Debug)]
pub struct BinaryExchange {
    global: Vec<GlobalStep>,
    local: Butterflies,
    points: Vec<[f32; 2]>,
}

/// The two phases of a transform.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// Exchanges, and the butterflies between ranks.
    pub global: Duration,
    /// The butterflies within a rank.
    pub local: Duration,
}

/// A step between this rank and its partner.
#[derive(Debug)]
struct GlobalStep {
    /// ω for the places of the upper one of the two; the lower one needs none.
    twiddles: Option<Vec<Complex32>>,
    segments: Vec<Segment>,
}

/// What is done with each segment that has arrived: its number, itself, and the twiddle factors of its step.
type Combine<'a> = dyn FnMut(usize, &Segment, Option<&[Complex32]>) + 'a;

/// A part of the points: this rank's own in the buffer that is sent, the partner's in the one that is received.
#[derive(Debug)]
struct Segment {
    places: Range<usize>,
    send: SendRequest<[f32; 2]>,
    recv: RecvRequest<[f32; 2]>,
}

impl BinaryExchange {
    /// Prepares a transform of so many points, each exchange cut in so many segments.
    ///
    /// # Panics
    /// Unless points and ranks are powers of two, and there are two points for each rank and one for each segment.
    pub fn new(world: &Communicator, points: usize, segments: u32) -> Result<Self, Error> {
        let ranks = world.size() as usize;
        assert!(points.is_power_of_two() && ranks.is_power_of_two(), "binary exchange goes by powers of two");
        let own = points / ranks;
        assert!(own >= 2.max(segments as usize), "{own} points a rank are too few for {segments} segments");
        let step = |step| GlobalStep::new(world, (points >> step, own), ranks >> (step + 1), segments);
        Ok(Self {
            global: (0..ranks.ilog2()).map(step).collect::<Result<_, _>>()?,
            local: Butterflies::new(own),
            points: vec![[0.0; 2]; own],
        })
    }

    /// Takes this rank's block of points.
    pub fn load(&mut self, points: &[Complex32]) {
        let pairs = points.iter().map(|point| [point.re, point.im]);
        match self.global.first_mut() {
            None => self.points.iter_mut().zip(pairs).for_each(|(place, pair)| *place = pair),
            Some(step) => {
                let places = step.segments.iter_mut().flat_map(|segment| segment.send.buffer_mut());
                places.zip(pairs).for_each(|(place, pair)| *place = pair);
            }
        }
    }

    /// Transforms what was loaded, together with the other ranks.
    pub fn run(&mut self) -> Result<Phases, Error> {
        self.phases(|step, combine| step.run(combine))
    }

    /// The same exchanges without computing; how long they take. What was loaded is gone afterwards.
    pub fn exchange_only(&mut self) -> Result<Duration, Error> {
        let begin = Instant::now();
        for step in &mut self.global {
            step.run(&mut |_, _, _| ())?;
        }
        Ok(begin.elapsed())
    }

    /// The same computing without exchanges, with what they have left; how long it takes.
    pub fn compute_only(&mut self) -> Phases {
        let computed = self.phases(|step, combine| {
            step.combine_all(combine);
            Ok::<_, Infallible>(())
        });
        match computed {
            Ok(phases) => phases,
            Err(never) => match never {},
        }
    }

    fn phases<E>(&mut self, step_by: impl Fn(&mut GlobalStep, &mut Combine<'_>) -> Result<(), E>) -> Result<Phases, E> {
        let begin = Instant::now();
        let mut steps = &mut self.global[..];
        while let Some((step, next)) = steps.split_first_mut() {
            step_by(step, &mut |index, segment, twiddles| {
                let result = match next.first_mut() {
                    Some(next) => next.segments[index].send.buffer_mut(),
                    None => &mut self.points[segment.places.clone()],
                };
                segment.combine(twiddles, result);
            })?;
            steps = next;
        }
        let global = begin.elapsed();
        self.local.run(&mut self.points);
        Ok(Phases { global, local: begin.elapsed() - global })
    }

    /// This rank's block of the result, which is in bit-reversed order.
    pub fn points(&self) -> &[[f32; 2]] {
        &self.points
    }
}

impl GlobalStep {
    /// Of groups of `group` points, of which each rank has `own`, with a partner so many ranks away.
    fn new(world: &Communicator, (group, own): (usize, usize), distance: usize, segments: u32) -> Result<Self, Error> {
        let rank = world.rank() as usize;
        let partner = (rank ^ distance) as u32;
        let first = rank % distance * own;
        let segment = |segment| {
            let places = block(own, segment, segments);
            let send = world.send_init(world.alloc(places.len())?, partner, EXCHANGE)?;
            let recv = world.recv_init(world.alloc(places.len())?, partner, EXCHANGE)?;
            Ok(Segment { places, send, recv })
        };
        Ok(Self {
            twiddles: (rank & distance != 0).then(|| twiddles(group, first..first + own)),
            segments: (0..segments).map(segment).collect::<Result<_, Error>>()?,
        })
    }

    /// One segment travels while the one before is combined.
    fn run(&mut self, combine: &mut Combine<'_>) -> Result<(), Error> {
        self.segments[0].start()?;
        for index in 0..self.segments.len() {
            if let Some(next) = self.segments.get_mut(index + 1) {
                next.start()?;
            }
            self.segments[index].wait()?;
            combine(index, &self.segments[index], self.twiddles.as_deref());
        }
        Ok(())
    }

    /// No segment travels.
    fn combine_all(&self, combine: &mut Combine<'_>) {
        self.segments.iter().enumerate().for_each(|(index, segment)| combine(index, segment, self.twiddles.as_deref()));
    }
}

impl Segment {
    fn start(&mut self) -> Result<(), Error> {
        let _found_again_by_wait = (self.recv.start()?, self.send.start()?);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.recv.active().expect(STARTED).wait()?;
        self.send.active().expect(STARTED).wait()?;
        Ok(())
    }

    fn combine(&self, twiddles: Option<&[Complex32]>, result: &mut [[f32; 2]]) {
        let pairs = self.send.buffer().iter().zip(self.recv.buffer());
        match twiddles {
            None => result.iter_mut().zip(pairs).for_each(|(place, (own, other))| *place = sum(*own, *other)),
            Some(twiddles) => {
                let pairs = pairs.zip(&twiddles[self.places.clone()]);
                let turn = |((own, other), twiddle): ((&[f32; 2], &[f32; 2]), &Complex32)| {
                    turned_difference(*other, *own, *twiddle)
                };
                result.iter_mut().zip(pairs).for_each(|(place, pair)| *place = turn(pair));
            }
        }
    }
}

fn sum(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [a[0] + b[0], a[1] + b[1]]
}

fn turned_difference(a: [f32; 2], b: [f32; 2], twiddle: Complex32) -> [f32; 2] {
    let turned = Complex32 { re: a[0] - b[0], im: a[1] - b[1] } * twiddle;
    [turned.re, turned.im]
}

/// ω of a group of so many points, for some places of its half.
fn twiddles(group: usize, places: Range<usize>) -> Vec<Complex32> {
    let twiddle = |place| {
        let (sin, cos) = (-TAU * place as f64 / group as f64).sin_cos();
        Complex32 { re: cos as f32, im: sin as f32 }
    };
    places.map(twiddle).collect()
}

/// What is in bit-reversed order, in order. There have to be a power of two of them.
pub fn in_order(points: &[[f32; 2]]) -> Vec<[f32; 2]> {
    let bits = points.len().ilog2();
    let reversed = |place: usize| place.reverse_bits().checked_shr(usize::BITS - bits).unwrap_or(0);
    (0..points.len()).map(|place| points[reversed(place)]).collect()
}

const EXCHANGE: i32 = 1;
const STARTED: &str = "it is waited for once each time it was started";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fft::{relative_error, signal, transform_serially};

    #[test]
    fn butterflies_are_the_whole_transform_of_one_rank() {
        for count in [1, 2, 8, 1 << 12] {
            let points = signal(3, 0..count);
            let butterflies = Butterflies::new(count);
            let mut transformed: Vec<_> = points.iter().map(|point| [point.re, point.im]).collect();
            butterflies.run(&mut transformed);
            assert!(relative_error(&in_order(&transformed), &transform_serially(&points)) < 1e-6);
        }
    }

    #[test]
    fn bits_are_reversed() {
        let places: Vec<_> = (0..8).map(|place| [place as f32, 0.0]).collect();
        let order: Vec<_> = in_order(&places).iter().map(|[place, _]| *place as usize).collect();
        assert_eq!(order, [0, 4, 2, 6, 1, 5, 3, 7]);
    }
}
