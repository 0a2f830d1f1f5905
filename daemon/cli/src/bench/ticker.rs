//! What is being measured, shown while it is.

use std::fmt::Write;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use crate::failure::tell;

/// A line on the terminal: what is done, and of a suite how much of it, and how long it still takes.
pub(crate) struct Ticker {
    bar: ProgressBar,
    part: Option<Part>,
}

/// Where a suite is.
struct Part {
    name: String,
    begin: Instant,
    before: Duration,
    budget: Duration,
}

impl Ticker {
    /// Of a benchmark, whose end nobody knows.
    pub(crate) fn of_one(quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
        bar.enable_steady_tick(TICK);
        Self { bar, part: None }
    }

    /// Of several, which together should take so long, and are given up after the limit.
    pub(super) fn of_suite(quiet: bool, total: Duration, limit: Duration) -> Self {
        if quiet {
            return Self { bar: ProgressBar::hidden(), part: None };
        }
        let style = ProgressStyle::with_template("[{bar:24}] {left}  {wide_msg}").expect("the template is valid");
        let style = style.progress_chars("=> ").with_key("left", move |state: &ProgressState, line: &mut dyn Write| {
            let all = Duration::from_millis(state.len().unwrap_or_default());
            let left_s = left_s(Duration::from_millis(state.pos()), all, state.elapsed())
                .min(limit.saturating_sub(state.elapsed()).as_secs());
            // The line is text in memory.
            let _ = write!(line, "{}:{:02} left", left_s / 60, left_s % 60);
        });
        let bar = ProgressBar::new(total.as_millis() as u64).with_style(style);
        bar.enable_steady_tick(TICK);
        Self { bar, part: None }
    }

    /// The next part of a suite begins; those before it were to take `before`.
    pub(super) fn begin(&mut self, name: &str, before: Duration, budget: Duration) {
        self.part = Some(Part { name: name.to_owned(), begin: Instant::now(), before, budget });
        self.say("");
    }

    /// What is measured now.
    pub(crate) fn say(&self, what: &str) {
        let Some(part) = &self.part else { return self.bar.set_message(what.to_owned()) };
        let done = part.before + part.begin.elapsed().min(part.budget);
        self.bar.set_position(done.as_millis() as u64);
        self.bar.set_message(format!("{}  {what}", part.name));
    }

    /// Says something that stays.
    pub(super) fn note(&self, text: &str) {
        self.bar.suspend(|| tell(&format!("ropeway: {text}")));
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// If it goes on as slowly as until now: so much of all should be done by now, but it took the time that has elapsed.
fn left_s(done: Duration, all: Duration, elapsed: Duration) -> u64 {
    let slowness = elapsed.as_secs_f64() / done.as_secs_f64().max(1.0);
    (all.saturating_sub(done).as_secs_f64() * slowness.max(1.0)).ceil() as u64
}

const TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_slow_stays_slow() {
        let left =
            |done, elapsed| left_s(Duration::from_secs(done), Duration::from_secs(100), Duration::from_secs(elapsed));
        assert_eq!(left(0, 0), 100);
        assert_eq!(left(40, 40), 60);
        assert_eq!(left(40, 80), 120);
        // What was faster than it should be need not stay so.
        assert_eq!(left(40, 20), 60);
        assert_eq!(left(110, 120), 0);
    }
}
