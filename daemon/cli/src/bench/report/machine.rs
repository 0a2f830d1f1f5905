//! Where figures come from.

use std::fs;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

/// Machine and versions. What can't be found out is left out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    /// The day and time it began, UTC.
    pub(super) date: String,
    /// Of Ropeway.
    pub(super) version: String,
    /// Whether it was built with optimizations, without which figures mean little.
    pub(super) optimized: bool,
    pub(super) cores: usize,
    pub(super) cpu: Option<String>,
    pub(super) memory_gib: Option<f64>,
    pub(super) kernel: Option<String>,
    pub(super) system: Option<String>,
    /// How many threads wanted to run in the minute before, on average.
    pub(super) load: Option<f64>,
}

impl Machine {
    /// This one, now.
    pub(super) fn look() -> Self {
        let memory_kib = field("/proc/meminfo", "MemTotal", ':');
        let memory_kib = memory_kib.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
        Self {
            date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            optimized: !cfg!(debug_assertions),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: field("/proc/cpuinfo", "model name", ':'),
            memory_gib: memory_kib.map(|kib| (kib / 104_857.6).round() / 10.0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
            system: field("/etc/os-release", "PRETTY_NAME", '='),
            load: fs::read_to_string("/proc/loadavg").ok().and_then(|text| text.split(' ').next()?.parse().ok()),
        }
    }
}

/// What a file of `name: value` lines says about a name.
fn field(path: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let values = text.lines().filter_map(|line| line.split_once(separator));
    values.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().trim_matches('"').to_owned())
}
