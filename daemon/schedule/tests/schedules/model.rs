//! Predictions against schedules that are played through with the costs of the table: by overhead, latency, and bandwidth at
//! both ends of every message.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ropeway_schedule::check::{Execution, trace};
use ropeway_schedule::select;
use ropeway_schedule::{
    Action, Algorithm, Collective, CostTable, Counts, Order, PairCounts, Schedule, Shape, build_all,
};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// Its dependencies are done.
    Ready,
    /// The first byte of a message is there; how long the message takes is known.
    Landing(u64),
    /// The last one is.
    Arrived,
}

struct Simulation<'a> {
    schedules: &'a [Schedule],
    execution: &'a Execution,
    table: &'a CostTable,
    events: BinaryHeap<Reverse<(u64, What, u32, u32)>>,
    missing: Vec<Vec<usize>>,
    dependents: Vec<Vec<Vec<u32>>>,
    processor_free: Vec<u64>,
    out_free: Vec<u64>,
    in_free: Vec<u64>,
    end: u64,
}

const ELEMENT_BYTES: u64 = 8;

impl<'a> Simulation<'a> {
    fn new(schedules: &'a [Schedule], execution: &'a Execution, table: &'a CostTable) -> Self {
        let steps = |one: &Schedule| 0..one.steps().len() as u32;
        let mut missing: Vec<Vec<usize>> = Vec::new();
        let mut dependents = Vec::new();
        let mut events = BinaryHeap::new();
        for schedule in schedules {
            let mut mine = vec![Vec::new(); schedule.steps().len()];
            let mut open = Vec::new();
            for step in steps(schedule) {
                let is_incoming =
                    matches!(schedule.steps()[step as usize].action, Action::Recv { .. } | Action::Wait { .. });
                schedule.after(step).iter().for_each(|&other| mine[other as usize].push(step));
                // What comes in waits for its message too.
                open.push(schedule.after(step).len() + usize::from(is_incoming));
                if open[step as usize] == 0 {
                    events.push(Reverse((0, What::Ready, schedule.me(), step)));
                }
            }
            missing.push(open);
            dependents.push(mine);
        }
        let free = || vec![0; schedules.len()];
        let (processor_free, out_free, in_free) = (free(), free(), free());
        Self { schedules, execution, table, events, missing, dependents, processor_free, out_free, in_free, end: 0 }
    }

    fn run(mut self) -> f64 {
        while let Some(Reverse((now, what, me, step))) = self.events.pop() {
            match what {
                What::Ready => self.execute(now, me, step),
                What::Landing(transfer) => {
                    let into = &mut self.in_free[me as usize];
                    *into = now.max(*into) + transfer;
                    self.events.push(Reverse((*into, What::Arrived, me, step)));
                }
                What::Arrived => self.satisfy(now, me, step),
            }
        }
        self.end as f64
    }

    fn execute(&mut self, now: u64, me: u32, step: u32) {
        let (table, at) = (*self.table, me as usize);
        let bytes = |elements: u64| (elements * ELEMENT_BYTES) as f64;
        let action = self.schedules[at].steps()[step as usize].action;
        let busy = match action {
            Action::Combine { from, .. } => bytes(from.length) * table.combine_byte_ns,
            Action::Copy { from, .. } => bytes(from.length) * table.copy_byte_ns,
            _ => table.overhead_ns,
        };
        let done = now.max(self.processor_free[at]) + busy as u64;
        self.processor_free[at] = done;
        let (peer, length) = match action {
            Action::Send { peer, from } => (peer, from.length),
            Action::Signal { peer } => (peer, 0),
            _ => return self.finish(done, me, step),
        };
        let transfer = (bytes(length) * table.byte_ns) as u64;
        self.out_free[at] = done.max(self.out_free[at]) + transfer;
        let landing = self.out_free[at] - transfer + table.latency_ns as u64;
        self.events.push(Reverse((landing, What::Landing(transfer), peer, self.execution.partner(me, step))));
        self.finish(self.out_free[at], me, step);
    }

    fn finish(&mut self, now: u64, me: u32, step: u32) {
        self.end = self.end.max(now);
        for dependent in std::mem::take(&mut self.dependents[me as usize][step as usize]) {
            self.satisfy(now, me, dependent);
        }
    }

    fn satisfy(&mut self, now: u64, me: u32, step: u32) {
        let missing = &mut self.missing[me as usize][step as usize];
        *missing -= 1;
        if *missing == 0 {
            self.events.push(Reverse((now, What::Ready, me, step)));
        }
    }
}

fn collectives(size: u32, count: u64) -> Vec<Collective> {
    let order = Order::Any;
    let block = count.div_ceil(u64::from(size));
    let counts = || Counts::same(block);
    vec![
        Collective::Barrier,
        Collective::Bcast { root: 0, count },
        Collective::Reduce { root: 0, count, order },
        Collective::Allreduce { count, order },
        Collective::ReduceScatter { counts: counts(), order },
        Collective::Scan { count, order },
        Collective::Exscan { count, order },
        Collective::Gather { root: 0, counts: counts() },
        Collective::Scatter { root: 0, counts: counts() },
        Collective::Allgather { counts: counts() },
        Collective::Alltoall { counts: PairCounts::Same(block) },
    ]
}

fn simulate(shape: &Shape, algorithm: &Algorithm, table: &CostTable) -> f64 {
    let schedules = build_all(shape, algorithm).unwrap();
    let execution = trace(shape, &schedules).unwrap();
    Simulation::new(&schedules, &execution, table).run()
}

/// Shapes with at least an element for each piece that a vector is cut into.
fn shapes() -> impl Iterator<Item = (u64, Shape)> {
    let sizes = [2, 4, 8, 12, 16, 64].into_iter();
    let vectors = sizes.flat_map(|size| [64, 1 << 10, 1 << 17].map(|count| (size, count)));
    vectors
        .flat_map(|(size, count)| collectives(size, count).into_iter().map(move |one| (count, Shape::new(size, one))))
}

#[test]
fn predictions_are_near_what_happens() {
    let table = CostTable::default();
    let mut far = Vec::new();
    for (count, shape) in shapes() {
        for candidate in select(&shape, ELEMENT_BYTES, &table).candidates {
            let ratio = candidate.time_ns / simulate(&shape, &candidate.algorithm, &table);
            if !(0.5..=2.0).contains(&ratio) {
                let (name, size) = (shape.collective.name(), shape.size);
                far.push(format!("{name} of {count} among {size}, {}: {ratio:.2}", candidate.algorithm));
            }
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
}

#[test]
fn the_choice_is_near_the_best_of_all_candidates() {
    let table = CostTable::default();
    let mut worse = Vec::new();
    for (count, shape) in shapes() {
        let choice = select(&shape, ELEMENT_BYTES, &table);
        let times = choice.candidates.iter().map(|one| (simulate(&shape, &one.algorithm, &table), &one.algorithm));
        let (best, algorithm) = times.min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        let ratio = simulate(&shape, &choice.algorithm, &table) / best;
        if ratio > 1.5 {
            let (name, size) = (shape.collective.name(), shape.size);
            worse.push(format!("{name} of {count} among {size}: {} takes {ratio:.2} of {algorithm}", choice.algorithm));
        }
    }
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
