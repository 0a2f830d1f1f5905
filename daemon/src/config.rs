//! Every setting of the daemon: name, unit, default, meaning.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ropeway_proto::hello::{ClusterKey, VersionRange};
use ropeway_proto::limits;
use ropeway_shm::Thresholds;
use serde::Deserialize;

/// What a daemon is told at start.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of the control socket; `None` when only [`Daemon::connect`](crate::Daemon::connect) is used.
    pub socket: Option<PathBuf>,
    /// Where to listen for links of other daemons; `None` for a node on its own. Loopback only, or see
    /// [`network_is_private`](Self::network_is_private).
    pub listen: Option<SocketAddr>,
    /// Listen on an address that is not loopback. Links are not encrypted, so this is only for a network that no other
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
    /// Sizes that decide how messages between ranks of this node travel.
    pub thresholds: Thresholds,
    /// How long the daemon keeps looking for work, yielding the core, before it sleeps.
    pub idle_yield: Duration,
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
            thresholds: Thresholds { eager_bytes_max: limits::EAGER_BYTES_MAX, piece_bytes: limits::PIECE_BYTES },
            idle_yield: Duration::from_micros(50),
            versions: VersionRange::CURRENT,
        }
    }
}

impl Config {
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
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| ConfigError::Malformed { path: path.to_owned(), source: Box::new(source) })?;
        let defaults = Self::default();
        Ok(Self {
            socket: file.socket,
            link_timeout: file.link_timeout_ms.map_or(defaults.link_timeout, Duration::from_millis),
            job_memory_bytes_max: file.job_memory_bytes_max.unwrap_or(defaults.job_memory_bytes_max),
            arena_bytes_max: file.arena_bytes_max.unwrap_or(defaults.arena_bytes_max),
            idle_yield: file.idle_yield_us.map_or(defaults.idle_yield, Duration::from_micros),
            ..defaults
        })
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
}

fn memory_total() -> Option<u64> {
    memory_line("MemTotal:")
}

/// Memory the machine can still give out without swapping.
pub(crate) fn memory_available() -> Option<u64> {
    memory_line("MemAvailable:")
}

fn memory_line(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
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

    #[test]
    fn an_unknown_setting_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "link_timeout = 3\n").unwrap();
        let error = Config::from_file(file.path()).unwrap_err().to_string();
        assert!(error.contains("link_timeout"), "{error}");
    }
}
