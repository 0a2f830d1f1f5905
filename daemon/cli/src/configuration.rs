//! The configuration file that `ropeway calibrate --save` writes, for daemons that the tool brings.

use std::path::{Path, PathBuf};

use clap::Args;
use nix::unistd::{AccessFlags, access};
use ropeway_daemon::Config;

use crate::failure::{Failure, tell};

/// Where the system's daemon looks.
pub(crate) const DEFAULT_CONFIG: &str = "/etc/ropeway/ropewayd.toml";

/// Which file it is.
#[derive(Args, Default)]
pub(crate) struct ConfigFlag {
    /// Configuration file whose sizes, costs and limits of memory the tool's own daemons use, and nothing else of it; /dev/null
    /// has none [default: the daemon's, /etc/ropeway/ropewayd.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigFlag {
    pub(crate) fn is_given(&self) -> bool {
        self.config.is_some()
    }

    /// What it says; the defaults if there is none.
    pub(crate) fn read(&self) -> Result<Config, Failure> {
        read(self.config.as_deref())
    }

    /// Tells the user of sizes and costs that are not the defaults: the same command may take another time elsewhere.
    pub(crate) fn tell(&self) -> Result<(), Failure> {
        if let Some(path) = path(self.config.as_deref())
            && self.read()?.is_calibrated()
        {
            tell(&format!("ropeway: sizes and costs from {}", path.display()));
        }
        Ok(())
    }
}

/// The daemon's configuration, from this file if one is named.
pub(crate) fn read(named: Option<&Path>) -> Result<Config, Failure> {
    path(named).map_or_else(|| Ok(Config::default()), |path| Config::from_file(&path).map_err(Failure::other))
}

/// The file that is named, or else the daemon's, if it is there for us to read.
pub(crate) fn path(named: Option<&Path>) -> Option<PathBuf> {
    let usual = || access(DEFAULT_CONFIG, AccessFlags::R_OK).is_ok().then(|| PathBuf::from(DEFAULT_CONFIG));
    named.map(Path::to_owned).or_else(usual)
}
