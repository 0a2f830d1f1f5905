//! The configuration file that `ropeway calibrate --save` writes, for daemons that the tool brings.

use std::path::{Path, PathBuf};

use clap::Args;
use ropeway_daemon::Config;
use ropeway_daemon::config::path;

use crate::failure::{Failure, tell};

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
    Config::read(named).map_err(Failure::other)
}
