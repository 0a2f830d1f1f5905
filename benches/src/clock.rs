//! The clock that all processes of a machine share, in whatever namespaces they are.

use std::time::Duration;
use std::{hint, io, thread};

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of that clock.
pub(crate) fn now_ns() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// From one moment to another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

impl Span {
    /// Until now.
    pub(crate) fn since(begin_ns: u64) -> io::Result<Self> {
        Ok(Self { begin_ns, end_ns: now_ns()? })
    }

    pub(crate) fn us(self) -> f64 {
        (self.end_ns - self.begin_ns) as f64 / 1e3
    }
}

/// Waits for a moment; when that was over, which is later if somebody else had the core.
///
/// Sleeping is not exact and spinning keeps others from their cores, so this sleeps, then yields, and spins the last bit only.
pub(crate) fn wait_until(moment_ns: u64) -> io::Result<u64> {
    loop {
        let now = now_ns()?;
        match moment_ns.saturating_sub(now) {
            0 => return Ok(now),
            left if left > 2 * YIELD_NS => thread::sleep(Duration::from_nanos(left - YIELD_NS)),
            left if left > SPIN_NS => thread::yield_now(),
            _ => hint::spin_loop(),
        }
    }
}

/// Waits for a moment that is so near that what the thread does next is better left in its caches.
pub(crate) fn spin_until(moment_ns: u64) -> io::Result<()> {
    while now_ns()? < moment_ns {
        hint::spin_loop();
    }
    Ok(())
}

/// Longer than a timer is late, and it takes to be woken up by it.
const YIELD_NS: u64 = 250_000;
/// Longer than a yield that nobody takes up.
const SPIN_NS: u64 = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_early() {
        for ahead_ns in [0, 500, 50_000, 500_000] {
            let moment = now_ns().unwrap() + ahead_ns;
            let over = wait_until(moment).unwrap();
            assert!(moment <= over && over <= now_ns().unwrap());
        }
        assert!(wait_until(0).unwrap() > 0);
        let moment = now_ns().unwrap() + 5_000;
        spin_until(moment).unwrap();
        assert!(moment <= now_ns().unwrap());
    }
}
