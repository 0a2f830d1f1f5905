//! What waiting costs: all ranks are blocked in `wait`, and nothing happens.

use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use ropeway::{Communicator, Error, RecvRequest, SendRequest, Session, start_all};
use ropeway_examples::Mode;

use crate::statistics::Summary;
use crate::{BenchError, Console, Measured, Plan, gather};

pub(crate) fn run(session: &Session, console: &mut Console, plan: &Plan) -> Result<(), BenchError> {
    let world = session.world();
    let mut recv = world.recv_init(world.alloc::<u8>(1)?, 0, WAKE)?;
    // Rank 0 wakes all, itself too: so it can be blocked like the others.
    let wakes = if world.rank() == 0 { 0..world.size() } else { 0..0 };
    let mut sends =
        wakes.map(|rank| world.send_init(world.alloc::<u8>(1)?, rank, WAKE)).collect::<Result<Vec<_>, Error>>()?;
    let mut percents = Vec::new();
    for _ in 0..plan.runs {
        // Who is still being started takes the cores from those that fall asleep.
        world.barrier()?;
        percents.extend(wait(console, &world, &mut recv, &mut sends, Duration::from_secs_f64(plan.seconds))?);
    }
    if !percents.is_empty() {
        let summary = Summary::of(&percents);
        let measured =
            Measured { mode: Some(Mode::Persistent), ..Measured::new("client_cpu", "percent", summary, plan.runs) };
        console.outcome(LABEL, measured)?;
    }
    Ok(())
}

/// CPU time this process has used.
pub fn cpu_time() -> io::Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let duration = |time: nix::sys::time::TimeVal| Duration::new(time.tv_sec() as u64, time.tv_usec() as u32 * 1000);
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

/// The same without this thread. By clocks that are exact at any moment: of what a thread that has just woken has run, `getrusage` knows no more
/// than at the last tick, and the rest would count as the others'.
fn cpu_time_of_others() -> io::Result<Duration> {
    let this = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?);
    let all = Duration::from(clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)?);
    Ok(all.saturating_sub(this))
}

/// How many percent of a core all ranks used while a thread of each was blocked in `wait`: for rank 0.
///
/// Falling asleep and waking up are not what idling costs, nor is looking at the clocks, so only the time between counts, of all
/// threads but the one that looks.
fn wait(
    console: &Console,
    world: &Communicator,
    recv: &mut RecvRequest<u8>,
    sends: &mut [SendRequest<u8>],
    time: Duration,
) -> Result<Option<f64>, BenchError> {
    thread::scope(|scope| {
        let (started, has_started) = mpsc::channel();
        let waiter = scope.spawn(move || {
            let active = recv.start()?;
            // If nobody listens any more, it is over anyway.
            let _ = started.send(());
            active.wait()
        });
        // What starting asks of daemons is not to be counted, however long a busy machine keeps a rank from it. Nor is what gathering does the
        // first time: those who have looked gather while rank 0 still looks.
        let _ = has_started.recv();
        gather(world, [])?;
        thread::sleep(SETTLING);
        let percent = console.lone_step(LABEL, || {
            let (begin, before) = (Instant::now(), cpu_time_of_others()?);
            thread::sleep(time);
            let used = cpu_time_of_others()?.saturating_sub(before);
            Ok::<_, BenchError>(used.as_secs_f64() / begin.elapsed().as_secs_f64() * 100.0)
        })?;
        // Nobody is woken before all have looked.
        let all = gather(world, [percent])?;
        start_all(sends)?.wait_all()?;
        waiter.join().expect("the waiter does not panic")?;
        Ok(all.map(|all| all.iter().map(|[percent]| percent).sum()))
    })
}

const LABEL: &str = "idle";
const WAKE: i32 = 1;
/// Long enough for everybody to fall asleep.
const SETTLING: Duration = Duration::from_millis(200);
