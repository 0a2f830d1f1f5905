//! Every setting of the daemon: name, unit, default, meaning.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ropeway_proto::costs::{CostOutOfRange, Costs};
use ropeway_proto::hello::{ClusterKey, VersionRange};
use ropeway_proto::limits;
use ropeway_schedule::CostTable;
use ropeway_shm::{JobGeometry, PAGE_BYTES, Thresholds};
use serde::Deserialize;

/// What a daemon is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the control socket; `None` when only [`Daemon::connect`](crate::Daemon::connect) is used.
    pub socket: Option<PathBuf>,
    /// Where to listen for links of other daemons; `None` for a node on its own. Loopback only, or see
    /// [`network_is_private`](Self::network_is_private).
    pub listen: Option<SocketAddr>,
    /// Listen on an address that is not loopback, and dial such. Links are not encrypted, so this is only for a network that no other
    /// program can reach, such as one between namespaces that exist for a benchmark. Not a setting of the
    /// configuration file: no real network is private enough.
    pub network_is_private: bool,
    /// The cluster's secret; links to daemons with another one are refused.
    pub key: ClusterKey,
    /// Address space of one rank's registered buffers.
    pub arena_bytes_max: u64,
    /// Registered memory of all of a job's ranks on this node.
    pub job_memory_bytes_max: u64,
    /// A link that has been silent for so long is lost.
    pub link_timeout: Duration,
    /// Messages to other nodes up to this size are pushed at once, without asking.
    pub link_eager_bytes_max: u64,
    /// Whether small messages to other nodes go over connections that ranks work themselves. Not a setting of the
    /// configuration file: only tests want the other way.
    pub has_wires: bool,
    /// Messages within this node up to this size are copied at once, inside `start` and `wait`. `None`: measured at start.
    pub node_eager_bytes_max: Option<u64>,
    /// Piece in which larger messages within this node are copied. `None`: measured at start.
    pub node_piece_bytes: Option<u64>,
    /// How long the daemon keeps looking for work, yielding the core, before it sleeps.
    pub idle_yield: Duration,
    /// Cores to stay on while no rank of this node computes; none means anywhere. Not a setting of the configuration file: only nodes
    /// that share a machine have cores of their own.
    pub cores: Vec<usize>,
    /// What messages to other nodes cost: by it all nodes of a job choose algorithms, if this is the job's first node.
    pub costs: Costs,
    /// Versions to offer. Only tests offer others than this build speaks.
    pub versions: VersionRange,
}

impl Default for Config {
    fn default() -> Self {
        let job_memory_bytes_max = memory_total().unwrap_or(4 << 30) / 2;
        Self {
            socket: None,
            listen: None,
            network_is_private: false,
            key: ClusterKey([0; 32]),
            arena_bytes_max: job_memory_bytes_max.min(16 << 30).next_multiple_of(1 << 20),
            job_memory_bytes_max,
            link_timeout: Duration::from_secs(3),
            link_eager_bytes_max: limits::EAGER_BYTES_MAX,
            has_wires: true,
            node_eager_bytes_max: None,
            node_piece_bytes: None,
            idle_yield: Duration::from_micros(50),
            cores: Vec::new(),
            costs: default_costs(),
            versions: VersionRange::CURRENT,
        }
    }
}

/// The configuration of the machine's daemon.
pub const USUAL_PATH: &str = "/etc/ropeway/ropewayd.toml";

/// The configuration file that is named, or else the machine's, if it is there for us to read.
pub fn path(named: Option<&Path>) -> Option<PathBuf> {
    path_or(named, Path::new(USUAL_PATH))
}

fn path_or(named: Option<&Path>, usual: &Path) -> Option<PathBuf> {
    named.or_else(|| fs::File::open(usual).is_ok().then_some(usual)).map(Path::to_owned)
}

impl Config {
    /// What the configuration file says that is named, or else the machine's, if it is there; the defaults if there is none.
    pub fn read(named: Option<&Path>) -> Result<Self, ConfigError> {
        path(named).map_or_else(|| Ok(Self::default()), |path| Self::from_file(&path))
    }

    /// A daemon that other daemons on this machine can reach, on a port of the kernel's choice.
    pub fn on_loopback(key: ClusterKey) -> Self {
        Self { listen: Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0)), key, ..Self::default() }
    }

    /// A daemon on a network that nobody else can reach, on a port of the kernel's choice.
    pub fn on_private_network(address: IpAddr, key: ClusterKey) -> Self {
        Self { listen: Some(SocketAddr::new(address, 0)), network_is_private: true, key, ..Self::default() }
    }

    /// The defaults, changed by what a configuration file says.
    pub fn from_file(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        let defaults = Self::default();
        let config = Self {
            socket: file.socket,
            link_timeout: file.link_timeout_ms.map_or(defaults.link_timeout, Duration::from_millis),
            job_memory_bytes_max: file.job_memory_bytes_max.unwrap_or(defaults.job_memory_bytes_max),
            arena_bytes_max: file.arena_bytes_max.unwrap_or(defaults.arena_bytes_max),
            idle_yield: file.idle_yield_us.map_or(defaults.idle_yield, Duration::from_micros),
            link_eager_bytes_max: file.link_eager_bytes_max.unwrap_or(defaults.link_eager_bytes_max),
            node_eager_bytes_max: file.node_eager_bytes_max,
            node_piece_bytes: file.node_piece_bytes,
            costs: file
                .costs
                .complete(defaults.costs)
                .map_err(|source| ConfigError::Cost { path: path.to_owned(), source })?,
            ..defaults
        };
        config.check().map_err(|source| ConfigError::OutOfRange { path: path.to_owned(), source })?;
        Ok(config)
    }

    /// The same with the sizes, costs and limits of memory of another, and nothing else of it: with what `ropeway calibrate` has
    /// measured, and what a job may have.
    #[must_use]
    pub fn configured_as(self, other: &Self) -> Self {
        Self {
            arena_bytes_max: other.arena_bytes_max,
            job_memory_bytes_max: other.job_memory_bytes_max,
            link_eager_bytes_max: other.link_eager_bytes_max,
            node_eager_bytes_max: other.node_eager_bytes_max,
            node_piece_bytes: other.node_piece_bytes,
            costs: other.costs,
            ..self
        }
    }

    /// Whether any of these sizes and costs is not the default.
    pub fn is_calibrated(&self) -> bool {
        let of = |config: &Self| {
            let sizes = (config.link_eager_bytes_max, config.node_eager_bytes_max, config.node_piece_bytes);
            (sizes, config.costs)
        };
        of(self) != of(&Self::default())
    }

    /// Whether the sizes and times are possible ones.
    pub fn check(&self) -> Result<(), OutOfRange> {
        let eager = 0..=limits::EAGER_BYTES_LIMIT;
        let pieces = limits::PIECE_BYTES_MIN..=limits::PIECE_BYTES_LIMIT;
        let settings = [
            (LINK_EAGER_BYTES_MAX, Some(self.link_eager_bytes_max), &eager),
            (NODE_EAGER_BYTES_MAX, self.node_eager_bytes_max, &eager),
            (NODE_PIECE_BYTES, self.node_piece_bytes, &pieces),
        ];
        for (name, value, range) in settings {
            if let Some(value) = value.filter(|value| !range.contains(value)) {
                return Err(OutOfRange { name, value, least: *range.start(), most: *range.end(), unit: "bytes" });
            }
        }
        let (name, value) = ("link_timeout_ms", self.link_timeout.as_millis().try_into().unwrap_or(u64::MAX));
        let (least, most) = LINK_TIMEOUT_MS.into_inner();
        if !LINK_TIMEOUT_MS.contains(&value) {
            return Err(OutOfRange { name, value, least, most, unit: "milliseconds" });
        }
        let (name, value) = ("arena_bytes_max", self.arena_bytes_max);
        let (least, most) = (PAGE_BYTES, JobGeometry::arena_bytes_limit(1));
        if !(least..=most).contains(&value) || !value.is_multiple_of(PAGE_BYTES) {
            return Err(OutOfRange { name, value, least, most, unit: "bytes, in multiples of 4096," });
        }
        Ok(())
    }

    /// Whether links may use this address: they are not encrypted.
    pub(crate) fn may_link(&self, address: SocketAddr) -> bool {
        address.ip().is_loopback() || self.network_is_private
    }

    /// Why a job can't have so many ranks on this node, if it can't.
    pub(crate) fn why_not_ranks(&self, local_ranks: u32) -> Option<String> {
        let (arena, limit) = (self.arena_bytes_max, JobGeometry::arena_bytes_limit(local_ranks));
        (arena > limit).then(|| {
            format!(
                "{local_ranks} ranks on a node, each with arena_bytes_max = {arena}, are more than can be addressed: start fewer, or set \
                 arena_bytes_max in the daemon's configuration to {limit} at most"
            )
        })
    }

    /// Sizes that decide how messages between ranks of this node travel.
    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds {
            eager_bytes_max: self.node_eager_bytes_max.unwrap_or(limits::EAGER_BYTES_MAX),
            piece_bytes: self.node_piece_bytes.unwrap_or(limits::PIECE_BYTES),
        }
    }
}

/// The configuration file, `ropewayd.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    socket: Option<PathBuf>,
    link_timeout_ms: Option<u64>,
    job_memory_bytes_max: Option<u64>,
    arena_bytes_max: Option<u64>,
    idle_yield_us: Option<u64>,
    link_eager_bytes_max: Option<u64>,
    node_eager_bytes_max: Option<u64>,
    node_piece_bytes: Option<u64>,
    #[serde(default)]
    costs: FileCosts,
}

/// Its section `costs`. What is left out is the default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileCosts {
    overhead_ns: Option<f64>,
    latency_ns: Option<f64>,
    byte_ns: Option<f64>,
    combine_byte_ns: Option<f64>,
    copy_byte_ns: Option<f64>,
}

impl FileCosts {
    fn complete(self, defaults: Costs) -> Result<Costs, CostOutOfRange> {
        let mut ns = defaults.to_ns();
        let file = [self.overhead_ns, self.latency_ns, self.byte_ns, self.combine_byte_ns, self.copy_byte_ns];
        ns.iter_mut().zip(file).for_each(|(ns, file)| *ns = file.unwrap_or(*ns));
        Costs::from_ns(ns)
    }
}

/// Costs of two daemons on one machine.
fn default_costs() -> Costs {
    let CostTable { overhead_ns, latency_ns, byte_ns, combine_byte_ns, copy_byte_ns } = CostTable::default();
    Costs::from_ns([overhead_ns, latency_ns, byte_ns, combine_byte_ns, copy_byte_ns])
        .expect("the defaults are possible")
}

/// Costs as algorithms are chosen by them.
pub fn cost_table(costs: Costs) -> CostTable {
    let [overhead_ns, latency_ns, byte_ns, combine_byte_ns, copy_byte_ns] = costs.to_ns();
    CostTable { overhead_ns, latency_ns, byte_ns, combine_byte_ns, copy_byte_ns }
}

/// Links say that they live four times in it, and a daemon does not sleep for less than milliseconds.
const LINK_TIMEOUT_MS: RangeInclusive<u64> = 10..=24 * 60 * 60 * 1000;
const _: () = assert!(PAGE_BYTES == 4096, "a message of `check` says so");

// What `ropeway calibrate` writes.
/// Setting of [`Config::link_eager_bytes_max`].
pub const LINK_EAGER_BYTES_MAX: &str = "link_eager_bytes_max";
/// Setting of [`Config::node_eager_bytes_max`].
pub const NODE_EAGER_BYTES_MAX: &str = "node_eager_bytes_max";
/// Setting of [`Config::node_piece_bytes`].
pub const NODE_PIECE_BYTES: &str = "node_piece_bytes";

/// A size or a time that can't be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} = {value} can't be: {least} to {most} {unit} are possible")]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub struct OutOfRange {
    pub name: &'static str,
    pub value: u64,
    pub least: u64,
    pub most: u64,
    pub unit: &'static str,
}

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ConfigError {
    /// The file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The file is not what it should be.
    #[error("{}: {source}", path.display())]
    Malformed { path: PathBuf, source: Box<toml::de::Error> },
    /// A cost in the file can't be.
    #[error("{}: {source}", path.display())]
    Cost { path: PathBuf, source: CostOutOfRange },
    /// A size in the file can't be.
    #[error("{}: {source}", path.display())]
    OutOfRange { path: PathBuf, source: OutOfRange },
}

fn memory_total() -> Option<u64> {
    memory_line("MemTotal:")
}

/// Memory the machine can still give out without swapping.
pub(crate) fn memory_available() -> Option<u64> {
    memory_line("MemAvailable:")
}

fn memory_line(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_configuration_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/etc/ropewayd.toml");
        Config::from_file(&path).unwrap();
    }

    fn of_text(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Config::from_file(file.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn the_sample_configuration_shows_every_setting_and_its_default() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/etc/ropewayd.toml");
        let text = std::fs::read_to_string(path).unwrap();
        let is_setting = |line: &&str| line.contains(" = ") || line.starts_with("# [");
        let settings: String =
            text.lines().filter(is_setting).map(|line| line.trim_start_matches("# ").to_owned() + "\n").collect();
        let config = of_text(&settings).unwrap();
        assert_eq!(config.link_eager_bytes_max, Config::default().link_eager_bytes_max);
        assert_eq!(config.costs, Config::default().costs);
        for name in [LINK_EAGER_BYTES_MAX, NODE_EAGER_BYTES_MAX, NODE_PIECE_BYTES].into_iter().chain(Costs::NAMES) {
            assert!(settings.contains(name), "{name}");
        }
    }

    #[test]
    fn the_usual_file_is_read_if_it_is_there_and_none_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (named, usual) = (Path::new("/nonexistent/named"), file.path());
        assert_eq!(path_or(Some(named), usual).as_deref(), Some(named));
        assert_eq!(path_or(None, usual).as_deref(), Some(usual));
        assert_eq!(path_or(None, Path::new("/nonexistent/usual")), None);
        assert!(Config::read(Some(named)).is_err());
    }

    #[test]
    fn an_unknown_setting_is_named() {
        let error = of_text("link_timeout = 3\n").unwrap_err();
        assert!(error.contains("link_timeout"), "{error}");
    }

    #[test]
    fn sizes_are_taken_from_the_file_and_left_open_without() {
        let config =
            of_text("link_eager_bytes_max = 0\nnode_eager_bytes_max = 65536\nnode_piece_bytes = 4096\n").unwrap();
        assert_eq!(config.link_eager_bytes_max, 0);
        assert_eq!(config.thresholds(), Thresholds { eager_bytes_max: 65536, piece_bytes: 4096 });
        let config = of_text("").unwrap();
        assert_eq!((config.node_eager_bytes_max, config.node_piece_bytes), (None, None));
    }

    #[test]
    fn sizes_costs_and_limits_of_another_are_taken_and_nothing_else() {
        let limits = "job_memory_bytes_max = 65536\narena_bytes_max = 8192\n";
        let sizes = "link_eager_bytes_max = 4096\nnode_eager_bytes_max = 2048\n[costs]\nbyte_ns = 2\n";
        let measured = of_text(&[limits, sizes].concat()).unwrap();
        let other = Config { socket: Some("/elsewhere".into()), idle_yield: Duration::ZERO, ..measured };
        let config = Config::on_loopback(ClusterKey([7; 32])).configured_as(&other);
        assert_eq!((config.link_eager_bytes_max, config.node_eager_bytes_max), (4096, Some(2048)));
        assert_eq!((config.job_memory_bytes_max, config.arena_bytes_max), (65536, 8192));
        assert_eq!(config.costs, other.costs);
        assert!(config.socket.is_none() && config.listen.is_some() && config.key.matches(&ClusterKey([7; 32])));
        assert_eq!(config.idle_yield, Config::default().idle_yield);
        assert!(config.is_calibrated());
        assert!(!of_text("idle_yield_us = 7\n").unwrap().is_calibrated());
    }

    #[test]
    fn costs_are_taken_from_the_file_and_checked() {
        let config = of_text("[costs]\nlatency_ns = 30000\nbyte_ns = 0.08\n").unwrap();
        let defaults = CostTable::default();
        assert_eq!(cost_table(config.costs), CostTable { latency_ns: 30000.0, byte_ns: 0.08, ..defaults });
        assert_eq!(cost_table(Config::default().costs), defaults);
        for (line, what) in [
            ("byte_ns = 0", "byte_ns = 0 is out of range"),
            ("latency_ns = inf", "latency_ns = inf is out of range"),
            ("overhead_ns = -1", "overhead_ns = -1 is out of range"),
            ("gamma = 1", "gamma"),
        ] {
            let error = of_text(&format!("[costs]\n{line}\n")).unwrap_err();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn too_many_ranks_are_told_what_arenas_they_could_have() {
        let config = of_text("arena_bytes_max = 17179869184\n").unwrap();
        assert_eq!(config.why_not_ranks(4000), None);
        let why = config.why_not_ranks(9000).unwrap();
        assert!(why.contains("9000 ranks") && why.contains("arena_bytes_max = 17179869184"), "{why}");
        let limit = why.split("to ").last().and_then(|text| text.split(' ').next()).unwrap();
        let config = of_text(&format!("arena_bytes_max = {limit}\n")).unwrap();
        assert_eq!(config.why_not_ranks(9000), None);
    }

    #[test]
    fn a_size_out_of_range_is_named_with_its_range() {
        for (line, range) in [
            ("link_eager_bytes_max = 65537", "0 to 65536"),
            ("node_eager_bytes_max = 1000000", "0 to 65536"),
            ("node_piece_bytes = 0", "4096 to 4194304"),
            ("node_piece_bytes = 8388608", "4096 to 4194304"),
        ] {
            let error = of_text(line).unwrap_err();
            assert!(error.contains(line) && error.contains(range), "{error}");
        }
        for (line, range) in [
            ("link_timeout_ms = 0", "10 to 86400000 milliseconds"),
            ("link_timeout_ms = 18446744073709551", "10 to 86400000 milliseconds"),
            ("arena_bytes_max = 0", "4096 to "),
            ("arena_bytes_max = 1000000", "in multiples of 4096,"),
            ("arena_bytes_max = 140737488355328", "in multiples of 4096,"),
        ] {
            let error = of_text(line).unwrap_err();
            assert!(error.contains(line) && error.contains(range), "{error}");
        }
        assert!(of_text("node_piece_bytes = -1").unwrap_err().contains("node_piece_bytes"));
        assert!(of_text("node_piece_bytes = \"64K\"").unwrap_err().contains("node_piece_bytes"));
    }
}
