//! Eager against rendezvous between two nodes of this machine, size by size, in turns: what `link_eager_bytes_max` decides.
//!
//! Two pairs of daemons differ in that setting alone: one pushes all messages, the other none. Neither has wires. Messages come
//! *armed*, a ping-pong whose receivers have started before, or *late*: the receiver computes while the message is sent, starts
//! then, and only its own time counts.

#[path = "../../daemon/tests/common/mod.rs"]
mod cluster;

use std::hint;
use std::thread;
use std::time::{Duration, Instant};

use cluster::{Cluster, config};
use ropeway::{Communicator, Error, Session};
use ropeway_bench::{Size, Summary, Table};
use ropeway_daemon::Config;
use ropeway_proto::limits::EAGER_BYTES_LIMIT;

fn main() -> Result<(), Error> {
    let [eager, rendezvous] = [EAGER_BYTES_LIMIT, 0].map(Nodes::start);
    let mut table = Table::new(&["bytes", "armed: eager", "rendezvous", "ratio", "late: eager", "rendezvous", "ratio"]);
    for bytes in SIZES {
        let mut row = vec![Size(bytes).to_string()];
        for measure in [armed, late] {
            let turn = |_| Ok([eager.time_us(measure, bytes)?, rendezvous.time_us(measure, bytes)?]);
            let turns = (0..TURNS).map(turn).collect::<Result<Vec<_>, Error>>()?;
            // The least: what disturbs a turn makes it longer.
            let least = |side: usize| turns.iter().map(|turn| turn[side]).fold(f64::INFINITY, f64::min);
            let figures = [least(0), least(1), least(0) / least(1)];
            row.extend(figures.map(|figure| format!("{figure:.2}")));
        }
        table.push(row);
    }
    print!("microseconds, the least of {TURNS} turns' medians\n{table}");
    Ok(())
}

/// Two nodes with a rank each.
struct Nodes {
    ranks: [Session; 2],
    _cluster: Cluster,
}

impl Nodes {
    fn start(link_eager_bytes_max: u64) -> Self {
        let config = Config { link_eager_bytes_max, has_wires: false, ..config() };
        let cluster = Cluster::start_with(2, vec![config.clone(), config]);
        Self { ranks: [0, 1].map(|rank| cluster.attach(rank)), _cluster: cluster }
    }

    /// What rank 0 has measured.
    fn time_us(
        &self,
        measure: fn(&Communicator, usize) -> Result<Duration, Error>,
        bytes: usize,
    ) -> Result<f64, Error> {
        let [time, _] = thread::scope(|scope| {
            let ranks = self.ranks.each_ref().map(|session| scope.spawn(|| measure(&session.world(), bytes)));
            ranks.map(|rank| rank.join().expect("a rank that measures does not panic"))
        });
        Ok(time?.as_secs_f64() * 1e6)
    }
}

/// Half a round trip of messages whose receivers are ready.
fn armed(world: &Communicator, bytes: usize) -> Result<Duration, Error> {
    let (leads, peer) = (world.rank() == 0, 1 - world.rank());
    let mut send = world.send_init(world.alloc::<u8>(bytes)?, peer, DATA)?;
    let mut recv = world.recv_init(world.alloc::<u8>(bytes)?, peer, DATA)?;
    let mut times = Vec::new();
    let _ = recv.start()?;
    for left in (0..TRIPS).rev() {
        let begin = Instant::now();
        if leads {
            send.start()?.wait()?;
        }
        if let Some(receiving) = recv.active() {
            receiving.wait()?;
        }
        times.push(begin.elapsed().as_secs_f64() / 2.0);
        if left > 0 {
            // Before the message that invites the next one.
            let _ = recv.start()?;
        }
        if !leads {
            send.start()?.wait()?;
        }
    }
    Ok(Duration::from_secs_f64(Summary::of(&times).median))
}

/// What rank 0 waits for a message that rank 1 has sent while it computed.
fn late(world: &Communicator, bytes: usize) -> Result<Duration, Error> {
    if world.rank() == 1 {
        let mut send = world.send_init(world.alloc::<u8>(bytes)?, 0, DATA)?;
        for _ in 0..ROUNDS {
            world.recv(&mut [0u8], 0, GO)?;
            send.start()?.wait()?;
        }
        return Ok(Duration::ZERO);
    }
    let mut recv = world.recv_init(world.alloc::<u8>(bytes)?, 1, DATA)?;
    let mut round = || {
        world.send(&[0u8], 1, GO)?;
        let computing = Instant::now();
        while computing.elapsed() < COMPUTATION {
            hint::spin_loop();
        }
        let begin = Instant::now();
        recv.start()?.wait()?;
        Ok(begin.elapsed().as_secs_f64())
    };
    let times = (0..ROUNDS).map(|_| round()).collect::<Result<Vec<_>, Error>>()?;
    Ok(Duration::from_secs_f64(Summary::of(&times).median))
}

const SIZES: [usize; 6] = [2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
const TURNS: u32 = 15;
const TRIPS: u32 = 200;
const ROUNDS: u32 = 100;
/// Longer than a message takes.
const COMPUTATION: Duration = Duration::from_micros(200);
const DATA: i32 = 1;
const GO: i32 = 2;
