//! `ropewayd`: flags → configuration → run.
#![forbid(unsafe_code)]

use std::env;
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ropeway_daemon::Config;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// The Ropeway daemon: moves the messages of this node's programs.
///
/// It runs in the foreground and tells systemd when it is ready. Programs started with `ropeway run` find it by its
/// control socket.
#[derive(Parser)]
#[command(name = "ropewayd", version, after_help = "Log: set RUST_LOG, for example RUST_LOG=debug.")]
struct Flags {
    /// Configuration file [default: /etc/ropeway/ropewayd.toml, if it is there].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Path of the control socket [default: /run/ropeway/ropewayd.sock].
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,

    /// Serve one inherited connection and end with it.
    #[arg(long, value_name = "FD", conflicts_with = "socket")]
    serve_fd: Option<i32>,
}

const DEFAULT_SOCKET: &str = "/run/ropeway/ropewayd.sock";

fn main() -> ExitCode {
    let filter = env::var("RUST_LOG").ok().and_then(|targets| targets.parse().ok());
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    tracing_subscriber::registry()
        .with(lines)
        .with(filter.unwrap_or_else(|| Targets::new().with_default(LevelFilter::INFO)))
        .init();
    match start(Flags::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("ropewayd: {error}");
            ExitCode::FAILURE
        }
    }
}

fn start(flags: Flags) -> Result<(), Box<dyn std::error::Error>> {
    let mut config = match Config::read(flags.config.as_deref()) {
        // The program that has brought us may be older or newer than the machine's configuration.
        Err(error) if flags.serve_fd.is_some() && flags.config.is_none() => {
            tracing::warn!("{error}; without it");
            Config::default()
        }
        config => config?,
    };
    if let Some(number) = flags.serve_fd {
        config.socket = None;
        let stream = ropeway_shm::descriptor::take_inherited(number)
            .map_err(|error| format!("--serve-fd {number}: {error}; pass the number of an inherited socket"))?;
        return Ok(ropeway_daemon::run(config, Some(stream.into()))?);
    }
    config.socket = flags.socket.or(config.socket).or_else(|| Some(DEFAULT_SOCKET.into()));
    Ok(ropeway_daemon::run(config, None)?)
}
