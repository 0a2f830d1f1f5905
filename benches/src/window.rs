//! Windows of messages from one rank of a pair to the other, or both ways at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use ropeway_examples::Mode;

use crate::allocations::measured;
use crate::mid_page::MidPage;
use crate::pair::Pair;
use crate::pattern;
use crate::plan::Effort;
use crate::record::Side;
use crate::streams::{OneShot, Persistent};
use crate::{BenchError, Plan, cpu_time};

/// What is sent.
#[derive(Clone, Copy)]
pub(crate) struct Course {
    pub(crate) bytes: usize,
    /// Who sends, seen from the leader.
    pub(crate) side: Side,
    /// Messages in a window.
    pub(crate) window: usize,
    /// Windows with messages of their own.
    pub(crate) windows: usize,
    /// How often a batch goes through these windows, each time with new stamps in the same messages.
    pub(crate) rounds: usize,
}

impl Course {
    /// Windows of 64 messages, unless they are so large that a window would need too much memory.
    pub(crate) fn one_window(bytes: usize, side: Side) -> Self {
        Self { bytes, side, window: messages_in(WINDOW_BYTES, bytes).clamp(1, WINDOW), windows: 1, rounds: 1 }
    }

    /// Messages of a round in one direction.
    pub(crate) fn messages(self) -> usize {
        self.window * self.windows
    }

    pub(crate) fn sends(self, pair: &Pair) -> usize {
        if self.side == Side::Both || (self.side == Side::Send) == pair.leads { self.messages() } else { 0 }
    }

    pub(crate) fn recvs(self, pair: &Pair) -> usize {
        if self.side == Side::Both || (self.side == Side::Recv) == pair.leads { self.messages() } else { 0 }
    }

    /// Bytes of a batch in both directions.
    pub(crate) fn batch_bytes(self) -> usize {
        let directions = if self.side == Side::Both { 2 } else { 1 };
        directions * self.rounds * self.messages() * self.bytes
    }
}

/// How many messages fit in so much memory.
pub(crate) fn messages_in(memory_bytes: usize, bytes: usize) -> usize {
    memory_bytes / bytes.max(1)
}

/// One side's part of a batch. What ends has been started in the same order.
pub(crate) trait Stream {
    /// For messages about it.
    const NAME: &'static str;
    /// Hands out the messages to be sent.
    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8]));
    /// Says that the messages of a round may come.
    fn arm(&mut self) -> Result<(), BenchError>;
    /// Sends the messages of this window, and returns when all of its messages have come and gone.
    fn transfer(&mut self, window: usize) -> Result<(), BenchError>;
    /// Returns when the other side has called it too.
    fn meet(&mut self) -> Result<(), BenchError>;
    /// Hands out the messages that were received.
    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8]));
}

/// What a batch has cost this side.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// From the first start until the last byte was acknowledged.
    pub(crate) elapsed: Duration,
    /// CPU time of this process, also for saying that messages may come.
    pub(crate) cpu: Duration,
}

/// Batches over something.
pub(crate) trait Batches {
    /// One batch with data of its own, which is checked afterwards.
    fn batch(&mut self) -> Result<Cost, BenchError>;
}

/// Batches of messages of this kind.
pub(crate) fn of_messages(pair: &Pair, mode: Mode, course: Course) -> Result<Box<dyn Batches>, BenchError> {
    Ok(match mode {
        Mode::Persistent => Box::new(Windows::new(pair, Persistent::new(pair, course)?, course)),
        Mode::OneShot => Box::new(Windows::new(pair, OneShot::new(pair, course)?, course)),
    })
}

/// Batches over a bare connection.
pub(crate) fn of_tcp(pair: &Pair, course: Course, plan: &Plan) -> Result<Box<dyn Batches>, BenchError> {
    Ok(Box::new(Windows::new(pair, Tcp::new(pair, course, plan)?, course)))
}

/// Batches that don't count. Seconds that one takes, with everything that does not count: the data is written and checked
/// too.
pub(crate) fn warm_up(batches: &mut dyn Batches, effort: Effort) -> Result<f64, BenchError> {
    let begin = Instant::now();
    for _ in 0..effort.warmup {
        batches.batch()?;
    }
    Ok(begin.elapsed().as_secs_f64() / effort.warmup as f64)
}

struct Windows<S> {
    stream: S,
    course: Course,
    marks: Marks,
}

impl<S: Stream> Windows<S> {
    fn new(pair: &Pair, stream: S, course: Course) -> Self {
        Self { stream, course, marks: Marks::new(pair.leads) }
    }

    fn transfer(&mut self) -> Result<Cost, BenchError> {
        let before = cpu_time()?;
        measured(|| self.stream.arm())?;
        self.stream.meet()?;
        let begin = Instant::now();
        for round in 0..self.course.rounds {
            if round > 0 {
                self.begin_round()?;
            }
            for window in 0..self.course.windows {
                measured(|| self.stream.transfer(window))?;
                self.stream.meet()?;
            }
        }
        let elapsed = begin.elapsed();
        Ok(Cost { elapsed, cpu: cpu_time()? - before })
    }

    /// The same messages again, as programs send them: this is part of what is measured.
    fn begin_round(&mut self) -> Result<(), BenchError> {
        self.marks.renew(&mut self.stream, self.course)?;
        measured(|| self.stream.arm())?;
        self.stream.meet()
    }
}

impl<S: Stream> Batches for Windows<S> {
    fn batch(&mut self) -> Result<Cost, BenchError> {
        self.marks.write(&mut self.stream, self.course);
        let cost = self.transfer()?;
        self.marks.check(&mut self.stream, self.course)?;
        Ok(cost)
    }
}

/// Stamps and patterns of the messages: none looks like another of the same pair.
pub(crate) struct Marks {
    leads: bool,
    /// Number of the round's first message, the same on both sides.
    first: u64,
    /// That of the batch's first round, from which patterns grow.
    first_of_batch: u64,
    next: u64,
}

impl Marks {
    pub(crate) fn new(leads: bool) -> Self {
        Self { leads, first: 0, first_of_batch: 0, next: 0 }
    }

    /// Marks the messages of a new batch.
    pub(crate) fn write<S: Stream>(&mut self, stream: &mut S, course: Course) {
        self.number(course);
        self.first_of_batch = self.first;
        let (first, sender) = (self.first, self.leads);
        stream.outgoing(&mut |index, message| {
            let number = first + index as u64;
            pattern::stamp(message, number);
            pattern::fill(message, 2 * number + u64::from(sender));
        });
    }

    /// Checks the stamps of a round, and stamps the messages of the next one.
    pub(crate) fn renew<S: Stream>(&mut self, stream: &mut S, course: Course) -> Result<(), BenchError> {
        let (last, mut all_right) = (self.first, true);
        stream.incoming(&mut |index, message| all_right &= pattern::has_stamp(message, last + index as u64));
        self.number(course);
        let first = self.first;
        stream.outgoing(&mut |index, message| pattern::stamp(message, first + index as u64));
        if all_right { Ok(()) } else { Err(wrong_data::<S>(course, 0)) }
    }

    /// Numbers the messages of a new round.
    fn number(&mut self, course: Course) {
        self.first = self.next;
        self.next += course.messages() as u64;
    }

    /// Checks the messages of the batch's last round.
    pub(crate) fn check<S: Stream>(&self, stream: &mut S, course: Course) -> Result<(), BenchError> {
        let (first, grown, sender) = (self.first, self.first_of_batch, !self.leads);
        let mut wrong = None;
        stream.incoming(&mut |index, message| {
            let stamp = (!pattern::has_stamp(message, first + index as u64)).then_some(0);
            let seed = 2 * (grown + index as u64) + u64::from(sender);
            wrong = wrong.or(stamp).or_else(|| pattern::first_wrong(message, seed));
        });
        wrong.map_or(Ok(()), |byte| Err(wrong_data::<S>(course, byte)))
    }
}

fn wrong_data<S: Stream>(course: Course, byte: usize) -> BenchError {
    BenchError::WrongData { contestant: S::NAME.to_owned(), bytes: course.bytes, byte }
}

/// The floor between nodes: read and write the same messages over a bare connection.
struct Tcp {
    stream: TcpStream,
    window: usize,
    outgoing: Vec<MidPage<u8>>,
    incoming: Vec<MidPage<u8>>,
}

impl Tcp {
    fn new(pair: &Pair, course: Course, plan: &Plan) -> Result<Self, BenchError> {
        let messages = |count| (0..count).map(|_| MidPage::new(0, course.bytes)).collect();
        Ok(Self {
            stream: pair.connect(&plan.addresses)?,
            window: course.window,
            outgoing: messages(course.sends(pair)),
            incoming: messages(course.recvs(pair)),
        })
    }
}

impl Stream for Tcp {
    const NAME: &'static str = "tcp stream";

    fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
        self.outgoing.iter_mut().enumerate().for_each(|(index, message)| each(index, message));
    }

    fn arm(&mut self) -> Result<(), BenchError> {
        Ok(())
    }

    fn transfer(&mut self, window: usize) -> Result<(), BenchError> {
        let begin = window * self.window;
        let (outgoing, incoming) = (self.outgoing.iter(), self.incoming.iter_mut());
        outgoing.skip(begin).take(self.window).try_for_each(|message| self.stream.write_all(message))?;
        Ok(incoming.skip(begin).take(self.window).try_for_each(|message| self.stream.read_exact(message))?)
    }

    fn meet(&mut self) -> Result<(), BenchError> {
        self.stream.write_all(&[0])?;
        Ok(self.stream.read_exact(&mut [0])?)
    }

    fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
        self.incoming.iter().enumerate().for_each(|(index, message)| each(index, message));
    }
}

/// Messages in a window.
pub(crate) const WINDOW: usize = 64;
/// Memory for the messages of a window: 64 of 4 MiB.
const WINDOW_BYTES: usize = 256 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// What was sent is what was received.
    struct Echo(Vec<Vec<u8>>);

    impl Stream for Echo {
        const NAME: &'static str = "echo";

        fn outgoing(&mut self, each: &mut dyn FnMut(usize, &mut [u8])) {
            self.0.iter_mut().enumerate().for_each(|(index, message)| each(index, message));
        }

        fn arm(&mut self) -> Result<(), BenchError> {
            Ok(())
        }

        fn transfer(&mut self, _: usize) -> Result<(), BenchError> {
            Ok(())
        }

        fn meet(&mut self) -> Result<(), BenchError> {
            Ok(())
        }

        fn incoming(&mut self, each: &mut dyn FnMut(usize, &[u8])) {
            self.0.iter().enumerate().for_each(|(index, message)| each(index, message));
        }
    }

    #[test]
    fn messages_that_are_wrong_lost_or_old_are_noticed() {
        let course = Course { bytes: 24, side: Side::Send, window: 2, windows: 2, rounds: 2 };
        let (mut sender, mut receiver) = (Marks::new(true), Marks::new(false));
        let (mut echo, mut nothing) = (Echo(vec![vec![0; 24]; 4]), Echo(Vec::new()));
        let mut exchange = |spoil: &dyn Fn(&mut Vec<Vec<u8>>)| {
            receiver.write(&mut nothing, course);
            sender.write(&mut echo, course);
            spoil(&mut echo.0);
            receiver.check(&mut echo, course).map_err(|error| error.to_string())
        };
        let before = std::cell::RefCell::new(Vec::new());
        assert_eq!(exchange(&|messages| *before.borrow_mut() = messages.clone()), Ok(()));
        assert_eq!(exchange(&|_| ()), Ok(()));
        let wrong = |byte| Err(format!("wrong data: byte {byte} of a message of 24 bytes, echo"));
        assert_eq!(exchange(&|messages| messages[3][17] ^= 1), wrong(16));
        assert_eq!(exchange(&|messages| messages.swap(0, 1)), wrong(0));
        assert_eq!(exchange(&|messages| *messages = before.borrow().clone()), wrong(0));
    }

    #[test]
    fn messages_that_are_sent_again_are_new_ones() {
        let course = Course { bytes: 24, side: Side::Send, window: 2, windows: 1, rounds: 3 };
        let (mut sender, mut receiver) = (Marks::new(true), Marks::new(false));
        let (mut echo, mut nothing) = (Echo(vec![vec![0; 24]; 2]), Echo(Vec::new()));
        receiver.write(&mut nothing, course);
        sender.write(&mut echo, course);
        let mut old = Vec::new();
        for _ in 1..course.rounds {
            old = echo.0.clone();
            // Whatever is stamped there comes here, so both ends are stamped at once.
            receiver.renew(&mut echo, course).unwrap();
            assert_ne!(echo.0, old);
        }
        receiver.check(&mut echo, course).unwrap();
        echo.0 = old;
        assert!(receiver.renew(&mut echo, course).is_err());
    }

    #[test]
    fn large_messages_come_in_small_windows() {
        let window = |bytes| Course::one_window(bytes, Side::Send).window;
        assert_eq!([1, 1 << 20, 4 << 20, 8 << 20, 1 << 30].map(window), [64, 64, 64, 32, 1]);
        let course = Course { windows: 3, ..Course::one_window(100, Side::Both) };
        assert_eq!((course.messages(), course.batch_bytes()), (192, 38_400));
        assert_eq!(messages_in(10, 0), 10);
    }
}
