//! TCP connections that no timer paces.

use std::ffi::OsString;
use std::os::fd::AsFd;

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

/// Chooses the congestion control of a socket that is not connected yet, or listens; returns what it is now, unless that is what the
/// system has chosen, because it has none of ours or keeps them from its users.
///
/// Algorithms that pace by a model of the path, such as BBR, are made for the Internet: on short paths with large windows they cost half of
/// the bandwidth. They have to be left out from the start. A connection that is established under one stays paced by a timer for as
/// long as it lives, also under another that it is given later: an interrupt every few segments, which takes the core from whoever
/// computes on it.
pub fn leave_unpaced(socket: &impl AsFd) -> Option<&'static str> {
    CONGESTION_CONTROL.into_iter().find(|name| setsockopt(socket, TcpCongestion, &OsString::from(name)).is_ok())
}

/// In order of preference.
const CONGESTION_CONTROL: [&str; 2] = ["cubic", "reno"];
