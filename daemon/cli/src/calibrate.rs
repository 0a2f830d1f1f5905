//! `ropeway calibrate`: what this machine can do, and the sizes and costs that follow from it.

mod costs;
mod save;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use ropeway_bench::Table;
use ropeway_bench::floors::{self, Waiting};
use ropeway_daemon::calibration::{self, CopyTime, HAND_OVER, PIECE_TIME};
use ropeway_daemon::config::{LINK_EAGER_BYTES_MAX, NODE_EAGER_BYTES_MAX, NODE_PIECE_BYTES, USUAL_PATH};
use ropeway_proto::costs::Costs;
use serde::Serialize;

use self::save::Saving;
use crate::bench::digits;
use crate::failure::{Failure, print, tell};

/// Measures what this machine can do, the sizes that decide how messages travel, and the costs by which algorithms of
/// collectives are chosen.
///
/// Costs are those between two daemons on this machine, joined by TCP; a real network's can be written into the file by hand.
///
/// The daemon measures two of the three sizes by itself when it starts; saved ones are used as they are, also by the daemons that
/// `run`, `demo`, `bench` and `predict` bring. Needs no daemon, and is best run while the machine has nothing else to do.
#[derive(Args)]
#[command(after_help = "\
Examples:
  ropeway calibrate
  ropeway calibrate --quick --json
  sudo ropeway calibrate --save
  ropeway calibrate --save ropewayd.toml && ropeway daemon --config ropewayd.toml")]
pub(crate) struct Flags {
    /// Write the sizes and costs into a configuration file, where everything else stays as it is [default FILE: the daemon's,
    /// /etc/ropeway/ropewayd.toml].
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = USUAL_PATH)]
    save: Option<PathBuf>,
    /// Take a fraction of a second instead of several; the figures are less certain.
    #[arg(long)]
    quick: bool,
    /// One JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Say nothing while it runs.
    #[arg(short, long)]
    quiet: bool,
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    // What can't be saved is said before anybody has waited.
    let saving = flags.save.as_deref().map(Saving::prepare).transpose()?;
    let progress = if flags.quiet { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let time = if flags.quick { Duration::from_millis(20) } else { Duration::from_millis(500) };
    let measured = Measured::new(time, |what| {
        // No thread that draws meanwhile: it would take part in what is measured.
        progress.set_message(format!("measuring {what}"));
        progress.tick();
    });
    progress.finish_and_clear();
    let measured = measured?;
    let sizes = measured.sizes();
    if flags.json {
        let record = Record { floors: &measured.floors, thresholds: &sizes, costs: measured.costs() };
        print(&(serde_json::to_string(&record).expect("records are plain structures") + "\n"))?;
    } else {
        let sizes = sizes.table(measured.handshake());
        print(&format!("{}\n{sizes}\n{}", measured.table(), measured.costs_table()))?;
    }
    if let Some(saving) = saving {
        let path = saving.save(&sizes.settings(), &measured.costs.to_ns())?;
        tell(&format!(
            "saved to {}; daemons read it when they start, also those of run, demo, bench and predict",
            path.display()
        ));
    }
    Ok(())
}

/// What the machine can do without us.
#[derive(Clone, Copy, Debug, Serialize)]
struct Floors {
    cache_line_ns: f64,
    copy_4k_bytes_per_s: f64,
    copy_64k_bytes_per_s: f64,
    copy_1m_bytes_per_s: f64,
    copy_4m_bytes_per_s: f64,
    combine_64k_bytes_per_s: f64,
    loopback_busy_ns: f64,
    loopback_blocking_ns: f64,
    loopback_bytes_per_s: f64,
    wake_up_ns: f64,
    system_call_ns: f64,
    clock_ns: f64,
}

struct Measured {
    floors: Floors,
    copies: Vec<CopyTime>,
    costs: Costs,
}

/// The sizes that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Sizes {
    node_eager_bytes_max: u64,
    node_piece_bytes: u64,
    link_eager_bytes_max: u64,
}

#[derive(Serialize)]
struct Record<'a> {
    floors: &'a Floors,
    thresholds: &'a Sizes,
    costs: BTreeMap<&'static str, f64>,
}

impl Measured {
    /// Each floor takes about so long.
    fn new(time: Duration, tell: impl Fn(&str)) -> Result<Self, Failure> {
        tell("copies");
        let copies = calibration::measure_copies(calibration::sizes(), time).map_err(Failure::other)?;
        let large = calibration::measure_copies(LARGE, time).map_err(Failure::other)?;
        let bytes_per_s = |bytes| {
            let copy = copies.iter().chain(&large).find(|copy| copy.bytes == bytes).expect("its size is measured");
            bytes as f64 / copy.time.as_secs_f64().max(1e-9)
        };
        tell("handing over a cache line");
        let cache_line_ns = floors::cache_line_ns(time);
        tell("loopback TCP");
        let loopback_busy_ns = floors::loopback_ns(Waiting::Busy, time).map_err(Failure::other)?;
        let loopback_blocking_ns = floors::loopback_ns(Waiting::Blocking, time).map_err(Failure::other)?;
        let loopback_bytes_per_s = floors::loopback_bytes_per_s(time).map_err(Failure::other)?;
        tell("wake-ups");
        let wake_up_ns = floors::wake_up_ns(time).map_err(Failure::other)?;
        tell("messages between daemons");
        let costs = costs::measure(time, 1e9 / bytes_per_s(1 << 20))?;
        let [.., combine_byte_ns, _] = costs.to_ns();
        tell("system calls");
        let floors = Floors {
            cache_line_ns,
            copy_4k_bytes_per_s: bytes_per_s(4 << 10),
            copy_64k_bytes_per_s: bytes_per_s(64 << 10),
            copy_1m_bytes_per_s: bytes_per_s(1 << 20),
            copy_4m_bytes_per_s: bytes_per_s(4 << 20),
            combine_64k_bytes_per_s: 1e9 / combine_byte_ns,
            loopback_busy_ns,
            loopback_blocking_ns,
            loopback_bytes_per_s,
            wake_up_ns,
            system_call_ns: floors::system_call_ns(time / 4),
            clock_ns: floors::clock_ns(time / 4),
        };
        Ok(Self { floors, copies, costs })
    }

    /// What asking first costs a message: half a round trip between daemons that have work, and so do not sleep.
    fn handshake(&self) -> Duration {
        Duration::from_nanos(self.floors.loopback_busy_ns as u64)
    }

    fn sizes(&self) -> Sizes {
        let node = calibration::node_thresholds(&self.copies);
        Sizes {
            node_eager_bytes_max: node.eager_bytes_max,
            node_piece_bytes: node.piece_bytes,
            link_eager_bytes_max: calibration::link_eager_bytes_max(&self.copies, self.handshake()),
        }
    }

    /// By name, in nanoseconds.
    fn costs(&self) -> BTreeMap<&'static str, f64> {
        Costs::NAMES.into_iter().zip(self.costs.to_ns()).collect()
    }

    fn costs_table(&self) -> Table {
        let mut table = Table::with_words(3, &["cost", "ns", "of"]);
        let whats = [
            "a message, to the processor at each of its ends",
            "a message under way, beyond that",
            "a further byte of a message",
            "combining a byte with another",
            "copying a byte",
        ];
        for ((name, ns), what) in Costs::NAMES.into_iter().zip(self.costs.to_ns()).zip(whats) {
            table.push(vec![name.to_owned(), digits(ns), what.to_owned()]);
        }
        table
    }

    fn table(&self) -> Table {
        let floors = &self.floors;
        let mut table = Table::with_words(1, &["floor", "median", "unit"]);
        let mut row = |what: &str, figure: f64, unit: &str| table.push(vec![what.into(), digits(figure), unit.into()]);
        row("cache line from core to core", floors.cache_line_ns, "ns");
        row("copy of 4 KiB (shortest)", floors.copy_4k_bytes_per_s / 1e9, "GB/s");
        row("copy of 64 KiB (shortest)", floors.copy_64k_bytes_per_s / 1e9, "GB/s");
        row("copy of 1 MiB (shortest)", floors.copy_1m_bytes_per_s / 1e9, "GB/s");
        row("copy of 4 MiB (shortest)", floors.copy_4m_bytes_per_s / 1e9, "GB/s");
        row("sum of 64 KiB of f64 and as many (shortest)", floors.combine_64k_bytes_per_s / 1e9, "GB/s");
        row("loopback TCP, half a round trip, looking", floors.loopback_busy_ns / 1e3, "us");
        row("loopback TCP, half a round trip, sleeping", floors.loopback_blocking_ns / 1e3, "us");
        row("loopback TCP, one way", floors.loopback_bytes_per_s / 1e9, "GB/s");
        row("futex wake-up", floors.wake_up_ns / 1e3, "us");
        row("system call", floors.system_call_ns, "ns");
        row("reading the clock", floors.clock_ns, "ns");
        table
    }
}

impl Sizes {
    fn settings(&self) -> [(&'static str, u64); 3] {
        [
            (NODE_EAGER_BYTES_MAX, self.node_eager_bytes_max),
            (NODE_PIECE_BYTES, self.node_piece_bytes),
            (LINK_EAGER_BYTES_MAX, self.link_eager_bytes_max),
        ]
    }

    fn table(&self, handshake: Duration) -> Table {
        let mut table = Table::with_words(3, &["threshold", "bytes", "because"]);
        let reasons = [
            format!("copying so much takes at most {HAND_OVER:?}, about what asking the daemon costs"),
            format!("copying so much takes at most {PIECE_TIME:?}: nobody waits longer for a turn"),
            format!(
                "copying so much out of the stash takes at most {handshake:.1?}, what asking first costs (R = 1); registered messages go without asking up to 48K"
            ),
        ];
        for ((name, bytes), reason) in self.settings().into_iter().zip(reasons) {
            table.push(vec![name.to_owned(), bytes.to_string(), reason]);
        }
        table
    }
}

const LARGE: [u64; 2] = [1 << 20, 4 << 20];
