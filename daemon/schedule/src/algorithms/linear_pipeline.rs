//! Segments along a chain of ranks: while one is under way, the next follows.
//!
//! (hops − 1 + s) rounds of a vector's s-th part: for few participants and long vectors. A reduction has two chains, from
//! both ends to the root, so that rank order is kept whatever the root; if the order of grouping is fixed, one chain from rank 0
//! to the last, and from there to the root. Source: seed 000 (reductions), §2.5.

use super::{Generator, Kind, Question};
use crate::builder::{Accumulator, Builder};
use crate::cost::Cost;
use crate::counts::Counts;
use crate::error::Unsuitable;
use crate::shape::{Collective, Order, Shape};
use crate::step::Side;

pub(super) static KIND: Kind = Kind {
    name: "linear-pipeline",
    takes: "1 to 4096 segments",
    usual: &[8],
    make: |parameters| match *parameters {
        [segments] if segments > 0 => Some(Box::new(LinearPipeline { segments })),
        _ => None,
    },
    tries: |question| vec![vec![segments(question, question.shape.size.saturating_sub(1))]],
};

struct LinearPipeline {
    segments: u32,
}

impl Generator for LinearPipeline {
    fn suits(&self, shape: &Shape) -> Result<(), Unsuitable> {
        match shape.collective {
            Collective::Bcast { .. }
            | Collective::Reduce { .. }
            | Collective::Allreduce { .. }
            | Collective::Scan { .. } => Ok(()),
            _ => Err(Unsuitable::Operation),
        }
    }

    fn build(&self, b: &mut Builder) {
        match b.shape.collective {
            Collective::Bcast { root, count } => {
                let (input, output) = (b.input(0, count), b.output(0, count));
                let node = (b.me + b.size - root) % b.size;
                self.each(count, |offset, length| {
                    let source = if b.me == root { input } else { output }.part(offset, length);
                    if node > 0 {
                        b.recv((b.me + b.size - 1) % b.size, source);
                    }
                    if node + 1 < b.size {
                        b.send((b.me + 1) % b.size, source);
                    }
                });
                if b.me == root {
                    b.copy(input, output);
                }
            }
            Collective::Reduce { root, count, order: Order::Fixed } => self.reduce_upwards(b, root, count),
            Collective::Reduce { root, count, .. } => self.reduce(b, root, count),
            Collective::Allreduce { count, .. } => self.allreduce(b, count),
            Collective::Scan { count, .. } => self.scan(b, count),
            _ => unreachable!("other operations do not suit"),
        }
    }

    fn cost(&self, shape: &Shape) -> Cost {
        let others = shape.size - 1;
        // A participant in the middle handles two messages a segment; latencies overlap.
        let along = |hops: u32, count: u64| {
            let segments = f64::from(self.segments).min(count.max(1) as f64);
            let moved = (f64::from(hops.max(1) - 1) + segments) * count as f64 / segments;
            Cost::rounds(hops).further(2.0 * (segments - 1.0)).moved(moved)
        };
        let with_operands = |cost: Cost| cost.combined(cost.moved);
        match shape.collective {
            Collective::Bcast { count, .. } => along(others, count),
            Collective::Reduce { root, count, order } => {
                let hops = match order {
                    Order::Fixed => others + u32::from(root != others),
                    _ => root.max(others - root),
                };
                with_operands(along(hops, count))
            }
            Collective::Allreduce { count, .. } => {
                // Segments on their way up and down meet in the middle.
                let once = along(others, count);
                let ends_only = shape.size == 2;
                let back = if ends_only { Cost::rounds(1).moved(once.moved - count as f64) } else { once };
                with_operands(once) + back
            }
            Collective::Scan { count, .. } => with_operands(along(others, count)),
            _ => Cost::default(),
        }
    }
}

impl LinearPipeline {
    fn each(&self, count: u64, mut segment: impl FnMut(u64, u64)) {
        let segments = Counts::even(count, self.segments);
        (0..self.segments).for_each(|index| segment(segments.offset(index), segments.count(index)));
    }

    /// Two chains meet at the root.
    fn reduce(&self, b: &mut Builder, root: u32, count: u64) {
        let me = b.me;
        let is_end = me != root && (me == 0 || me + 1 == b.size);
        let operand = b.input(0, count);
        let home = match (me == root, is_end) {
            (true, _) => b.output(0, count),
            (false, true) => operand,
            (false, false) => b.scratch(count),
        };
        let whole = Accumulator::new(operand, home);
        self.each(count, |offset, length| {
            let mut sum = whole.part(offset, length);
            if me <= root && me > 0 {
                sum.recv(b, me - 1, Side::Left);
            }
            if me >= root && me + 1 < b.size {
                sum.recv(b, me + 1, Side::Right);
            }
            match me.cmp(&root) {
                std::cmp::Ordering::Less => {
                    b.send(me + 1, sum.value());
                }
                std::cmp::Ordering::Greater => {
                    b.send(me - 1, sum.value());
                }
                std::cmp::Ordering::Equal => sum.settle(b),
            }
        });
    }

    /// One chain from rank 0 to the last, folded from the left.
    fn reduce_upwards(&self, b: &mut Builder, root: u32, count: u64) {
        let last = b.size - 1;
        let (me, operand) = (b.me, b.input(0, count));
        let home = match (me == last && root == last, me == 0) {
            (true, _) => b.output(0, count),
            (false, true) => operand,
            (false, false) => b.scratch(count),
        };
        let whole = Accumulator::new(operand, home);
        self.each(count, |offset, length| {
            let mut sum = whole.part(offset, length);
            if me > 0 {
                sum.recv(b, me - 1, Side::Left);
            }
            if me < last {
                b.send(me + 1, sum.value());
            } else if root == last {
                sum.settle(b);
            } else {
                b.send(root, sum.value());
            }
        });
        if me == root && root != last {
            let output = b.output(0, count);
            self.each(count, |offset, length| {
                b.recv(last, output.part(offset, length));
            });
        }
    }

    /// Up the chain and down again.
    fn allreduce(&self, b: &mut Builder, count: u64) {
        let (me, last) = (b.me, b.size - 1);
        let whole = Accumulator::new(b.input(0, count), b.output(0, count));
        self.each(count, |offset, length| {
            let mut sum = whole.part(offset, length);
            if me > 0 {
                sum.recv(b, me - 1, Side::Left);
            }
            if me < last {
                b.send(me + 1, sum.value());
                b.recv(me + 1, sum.home());
            } else {
                sum.settle(b);
            }
            if me > 0 {
                b.send(me - 1, sum.home());
            }
        });
    }

    fn scan(&self, b: &mut Builder, count: u64) {
        let whole = Accumulator::new(b.input(0, count), b.output(0, count));
        self.each(count, |offset, length| {
            let mut sum = whole.part(offset, length);
            if b.me > 0 {
                sum.recv(b, b.me - 1, Side::Left);
            }
            if b.me + 1 < b.size {
                b.send(b.me + 1, sum.value());
            }
            sum.settle(b);
        });
    }
}

/// Into how many segments a vector is best cut that travels so many hops.
pub(super) fn segments(question: &Question, hops: u32) -> u32 {
    let (count, combines) = match question.shape.collective {
        Collective::Bcast { count, .. } => (count, false),
        Collective::Reduce { count, .. } | Collective::Allreduce { count, .. } | Collective::Scan { count, .. } => {
            (count, true)
        }
        _ => return 1,
    };
    question.table.segments(hops, count, question.element_bytes, combines)
}
