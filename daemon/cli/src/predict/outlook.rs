//! What the model says about a program.

use ropeway_bench::boum::{Costs, Messages, Prediction, Workload, model};
use ropeway_bench::{Doubts, Mode, Size, Table, significant};
use serde::Serialize;

use crate::bench::{digits, footnote};

/// Times of all iterations in seconds, and what is gained.
#[derive(Debug, Serialize)]
pub(super) struct Outlook {
    iterations: u64,
    computation: f64,
    communication_oneshot: f64,
    communication_persistent: f64,
    set_up: f64,
    total_oneshot: f64,
    total_persistent: f64,
    total_overlapped: f64,
    #[serde(rename = "S_c")]
    binding_speed_up: f64,
    #[serde(rename = "S")]
    program_speed_up: f64,
    overlap_speed_up: f64,
    d_o: f64,
    messages: Vec<Cut>,
    /// Of the parameters that went into it.
    #[serde(skip_serializing_if = "Doubts::is_empty")]
    doubts: Doubts,
}

/// Messages of a size, cut in segments that travel while others are computed.
#[derive(Debug, PartialEq, Serialize)]
struct Cut {
    bytes: usize,
    count: u64,
    /// What early binding speeds these messages up by, set-up included.
    #[serde(rename = "S_c")]
    binding_speed_up: f64,
    /// By the formula, at most as many as there are bytes.
    s_best: f64,
    /// Those of 1, 2, 4 … 64 that take least, and a step with so many in seconds.
    segments: u32,
    step: f64,
    /// A step with one segment.
    step_whole: f64,
}

impl Outlook {
    pub(super) fn of(workload: &Workload, costs: &Costs) -> Self {
        let found = workload.predict(costs);
        let Prediction { computation, oneshot, persistent, set_up, d_o, doubts, doubts_about_d_o } = found;
        let messages: Vec<_> = workload.messages.iter().map(|messages| Cut::of(workload, costs, *messages)).collect();
        let of_pieces = messages.iter().map(|cut| cut.doubts(costs)).fold(Doubts::default(), Doubts::union);
        let total_persistent = computation + persistent;
        Self {
            iterations: workload.iterations,
            computation: significant(computation),
            communication_oneshot: significant(oneshot),
            communication_persistent: significant(persistent),
            set_up: significant(set_up),
            total_oneshot: significant(found.total(Mode::OneShot)),
            total_persistent: significant(total_persistent),
            total_overlapped: significant(found.overlapped()),
            binding_speed_up: significant(found.binding_speed_up_with_set_up()),
            program_speed_up: significant(found.program_speed_up()),
            overlap_speed_up: significant(total_persistent / found.overlapped()),
            d_o: significant(d_o),
            messages,
            doubts: doubts.union(doubts_about_d_o).union(of_pieces),
        }
    }

    pub(super) fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers can be written") + "\n"
    }

    pub(super) fn text(&self) -> String {
        let mut table = Table::new(&["messages", "total s", "communication s", "speed-up"]);
        let row = |what: &str, total: f64, speed_up: f64| {
            vec![what.to_owned(), digits(total), digits(total - self.computation), digits(speed_up)]
        };
        table.push(row("set up each time", self.total_oneshot, 1.0));
        table.push(row("bound once", self.total_persistent, self.program_speed_up));
        let both = self.total_oneshot / self.total_overlapped;
        table.push(row("bound, and computing meanwhile", self.total_overlapped, both));
        format!(
            "{} iterations, {} s of computation\n\n{table}\n\
             Early binding makes messages {} times as fast, set-up of {} ms included.\n{}\n\n{}{}",
            self.iterations,
            digits(self.computation),
            digits(self.binding_speed_up),
            digits(self.set_up * 1e3),
            self.hiding(),
            self.cuts(),
            footnote(self.doubts),
        )
    }

    /// What to do about it.
    fn hiding(&self) -> String {
        let percent = (self.d_o * 100.0).round().min(100.0);
        if percent > 0.0 {
            format!("Of bound messages {percent} % hides behind computation: start them early, and wait late.")
        } else {
            "Of bound messages nothing hides behind computation here: wait for them before you compute.".to_owned()
        }
    }

    fn cuts(&self) -> String {
        let mut table = Table::new(&["bytes", "count", "S_c", "best segments", "by (3.51)", "step us", "whole us"]);
        for cut in &self.messages {
            let &Cut { bytes, count, binding_speed_up, s_best, segments, step, step_whole } = cut;
            let mut cells = vec![Size(bytes).to_string(), count.to_string(), digits(binding_speed_up)];
            cells.extend([segments.to_string(), digits(s_best), digits(step * US), digits(step_whole * US)]);
            table.push(cells);
        }
        format!("{table}")
    }
}

impl Cut {
    /// Each message comes with its share of the computation, by the time it takes.
    fn of(workload: &Workload, costs: &Costs, Messages { bytes, count, .. }: Messages) -> Self {
        let message = costs.message(bytes).bound();
        let time_of = |messages: &Messages| messages.count as f64 * costs.message(messages.bytes).bound().time();
        let share = message.time() / workload.messages.iter().map(time_of).sum::<f64>();
        let step = |segments: u32| {
            let piece = bytes / segments as usize;
            let time = costs.message(piece).bound().time();
            model::step(workload.computation * share, time, segments, costs.d_o(piece))
        };
        let powers = std::iter::successors(Some(SEGMENTS.0), |segments| Some(2 * segments));
        let possible = powers.take_while(|&segments| segments <= SEGMENTS.1 && segments as usize <= bytes.max(1));
        let segments = possible.min_by(|&a, &b| step(a).total_cmp(&step(b))).unwrap_or(1);
        Self {
            bytes,
            count,
            binding_speed_up: significant(costs.message(bytes).binding_speed_up_of(workload.iterations)),
            s_best: significant(message.best_segments(costs.d_o(bytes)).min(bytes.max(1) as f64)),
            segments,
            step: significant(step(segments)),
            step_whole: significant(step(1)),
        }
    }

    /// About the pieces that it is best cut in.
    fn doubts(&self, costs: &Costs) -> Doubts {
        let bytes = self.bytes / self.segments as usize;
        let piece = Messages { bytes, count: 1, in_swaps: false };
        costs.doubts(&piece).union(costs.doubts_about_d_o(bytes))
    }
}

/// Microseconds in a second.
const US: f64 = 1e6;
/// From so many to so many.
pub(super) const SEGMENTS: (u32, u32) = (1, 64);
