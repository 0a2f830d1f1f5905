//! What a program does, and what the model says about it.

use ropeway_examples::Mode;

use super::costs::Costs;
use super::model::{overlapped, speed_up};
use crate::statistics::Doubts;

/// What one rank of a program does.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// How often it does it.
    pub iterations: u64,
    /// What it computes in an iteration, seconds.
    pub computation: f64,
    /// What it sends and receives in an iteration.
    pub messages: Vec<Messages>,
}

/// Messages of a size. In the model a message sent and one received are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Messages {
    /// Of each.
    pub bytes: usize,
    /// How many there are in an iteration, each with a request of its own.
    pub count: u64,
    /// One that is sent and one that is received at once, copied from an array of the program and to one.
    pub in_swaps: bool,
}

/// Times of all iterations in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Computation alone.
    pub computation: f64,
    /// Communication with messages that are set up each time.
    pub oneshot: f64,
    /// Communication with messages that are bound once, set-up included.
    pub persistent: f64,
    /// The part of that before the first iteration.
    pub set_up: f64,
    /// How much of the bound communication could hide behind computation.
    pub d_o: f64,
    /// Why all that can't be trusted, but for `d_o`.
    pub doubts: Doubts,
    /// Why `d_o` can't, and what follows from it.
    pub doubts_about_d_o: Doubts,
}

impl Workload {
    /// Time of computation and of communication, `T_p = F(W)·t_c + Σ (o + b·m)` (3.5), each request bound once as in (3.21).
    pub fn predict(&self, costs: &Costs) -> Prediction {
        let iterations = self.iterations as f64;
        let sum = |time: &dyn Fn(&Messages) -> f64| -> f64 {
            self.messages.iter().map(|messages| messages.count as f64 * time(messages)).sum()
        };
        let set_up = sum(&|messages| costs.each(messages).set_up);
        let oneshot = sum(&|messages| costs.each(messages).time());
        let bound = sum(&|messages| costs.each(messages).bound().time());
        let hidden = sum(&|messages| costs.d_o(messages.bytes) * costs.each(messages).bound().time());
        let doubts = |of: &dyn Fn(&Messages) -> Doubts| {
            let sent = self.messages.iter().filter(|messages| messages.count > 0);
            sent.map(of).fold(Doubts::default(), Doubts::union)
        };
        Prediction {
            doubts: doubts(&|messages| costs.doubts(messages)),
            doubts_about_d_o: doubts(&|messages| costs.doubts_about_d_o(messages.bytes)),
            computation: iterations * self.computation,
            oneshot: iterations * oneshot,
            persistent: set_up + iterations * bound,
            set_up,
            d_o: if bound > 0.0 { hidden / bound } else { 0.0 },
        }
    }
}

impl Prediction {
    /// Communication after binding.
    pub fn communication(&self, mode: Mode) -> f64 {
        match mode {
            Mode::OneShot => self.oneshot,
            Mode::Persistent => self.persistent - self.set_up,
        }
    }

    /// Time of the program after binding.
    pub fn total(&self, mode: Mode) -> f64 {
        self.computation + self.communication(mode)
    }

    /// What binding speeds communication up by when it is done (3.16); 1 if nothing is communicated.
    pub fn binding_speed_up(&self) -> f64 {
        self.speed_up_to(self.communication(Mode::Persistent))
    }

    /// What it speeds communication up by, set-up included (3.22); 1 if nothing is communicated.
    pub fn binding_speed_up_with_set_up(&self) -> f64 {
        self.speed_up_to(self.persistent)
    }

    /// What it speeds the program up by, set-up included (3.6).
    pub fn program_speed_up(&self) -> f64 {
        let share = if self.oneshot > 0.0 { self.oneshot / (self.computation + self.oneshot) } else { 0.0 };
        speed_up(share, self.binding_speed_up_with_set_up())
    }

    fn speed_up_to(&self, bound: f64) -> f64 {
        if self.oneshot > 0.0 { self.oneshot / bound } else { 1.0 }
    }

    /// Time of the program, with set-up, if all bound communication goes on while it computes (3.33).
    pub fn overlapped(&self) -> f64 {
        self.set_up + overlapped(self.computation, self.communication(Mode::Persistent), self.d_o)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boum::costs::Figure;

    fn costs() -> Costs {
        let figure = |metric: &str, bytes, median: f64| -> Figure {
            let line = serde_json::json!({"metric": metric, "mode": "persistent", "bytes": bytes, "median": median});
            serde_json::from_value(line).unwrap()
        };
        let figures = [("o_s", 1000, 500.0), ("o_i", 0, 100.0), ("b", 1000, 0.4), ("d_o", 1000, 0.5)];
        Costs::of(&figures.map(|(metric, bytes, median)| figure(metric, bytes, median))).unwrap()
    }

    fn assert_near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9 * expected, "{found} instead of {expected}");
    }

    #[test]
    fn a_program_is_the_sum_of_its_parts() {
        let workload = Workload {
            iterations: 10,
            computation: 2e-6,
            messages: vec![Messages { bytes: 1000, count: 2, in_swaps: false }],
        };
        let found = workload.predict(&costs());
        assert_near(found.computation, 20e-6);
        assert_near(found.oneshot, 20e-6);
        assert_near(found.set_up, 1e-6);
        assert_near(found.persistent, 11e-6);
        assert_near(found.binding_speed_up(), 2.0);
        assert_near(found.binding_speed_up_with_set_up(), costs().message(1000).binding_speed_up_of(10));
        assert_near(found.program_speed_up(), 40.0 / 31.0);
        assert_near(found.overlapped(), 1e-6 + 25e-6);
        assert_near(found.total(Mode::OneShot), 40e-6);
    }

    #[test]
    fn without_messages_there_is_nothing_to_gain() {
        for messages in [Vec::new(), vec![Messages { bytes: 1000, count: 0, in_swaps: false }]] {
            let found = Workload { iterations: 3, computation: 1.0, messages }.predict(&costs());
            assert_eq!((found.total(Mode::OneShot), found.overlapped(), found.d_o), (3.0, 3.0, 0.0));
            let speed_ups = [found.binding_speed_up(), found.binding_speed_up_with_set_up(), found.program_speed_up()];
            assert_eq!(speed_ups, [1.0; 3]);
        }
    }
}
