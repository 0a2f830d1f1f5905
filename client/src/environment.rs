//! The `ROPEWAY_` variables, by which a launcher tells a process who it is.

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::str::FromStr;

use ropeway_proto::{JobId, Rank};

use crate::{Error, WaitMode};

/// What the environment says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Environment {
    pub(crate) launch: Launch,
    pub(crate) wait_mode: Option<WaitMode>,
}

/// How the process came to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Launch {
    /// By a launcher, which has left a connection to the daemon at `fd`.
    /// It wants to know what the process does if it has left a log at `log`.
    Rank { fd: RawFd, job: JobId, rank: Rank, size: u32, log: Option<RawFd> },
    /// By hand: it is a job of one. The daemon of the system listens at `socket`, if there is one.
    Alone { socket: PathBuf },
}

impl Environment {
    /// Reads the variables through `lookup`.
    pub(crate) fn read(lookup: impl Fn(&'static str) -> Option<OsString>) -> Result<Self, Error> {
        let why = "is not one of polling, blocking, adaptive";
        let wait_mode = lookup(WAIT).map(|value| parse(WAIT, value, why)).transpose()?;
        let Some(fd) = lookup(FD) else {
            let socket = lookup(SOCKET).map_or_else(|| PathBuf::from(SYSTEM_SOCKET), PathBuf::from);
            return Ok(Self { launch: Launch::Alone { socket }, wait_mode });
        };
        let required = |name| lookup(name).ok_or_else(|| bad(name, String::new(), "is not set, though ROPEWAY_FD is"));
        let launch = Launch::Rank {
            fd: parse(FD, fd, "is not a descriptor")?,
            job: parse::<HexJob>(JOB, required(JOB)?, "is not 16 hexadecimal digits")?.0,
            rank: parse(RANK, required(RANK)?, "is not a rank")?,
            size: parse(SIZE, required(SIZE)?, "is not a number of ranks")?,
            log: lookup(LOG).map(|value| parse(LOG, value, "is not a descriptor")).transpose()?,
        };
        Ok(Self { launch, wait_mode })
    }
}

/// A job's name as launchers write it.
struct HexJob(JobId);

impl FromStr for HexJob {
    type Err = ();

    fn from_str(digits: &str) -> Result<Self, ()> {
        let all_hex = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let job = u64::from_str_radix(digits, 16).ok().filter(|_| all_hex);
        job.map(|job| Self(JobId(job))).ok_or(())
    }
}

fn parse<T: FromStr>(name: &'static str, value: OsString, why: &'static str) -> Result<T, Error> {
    let parsed = value.to_str().and_then(|text| text.parse().ok());
    parsed.ok_or_else(|| bad(name, value.to_string_lossy().into_owned(), why))
}

fn bad(name: &'static str, value: String, why: &'static str) -> Error {
    Error::BadEnvironment { name, value, why }
}

/// The inherited connection to the daemon.
pub(crate) const FD: &str = "ROPEWAY_FD";
/// The number of ranks.
pub(crate) const SIZE: &str = "ROPEWAY_SIZE";
/// An inherited log, if the launcher wants one.
pub(crate) const LOG: &str = "ROPEWAY_LOG";
const JOB: &str = "ROPEWAY_JOB";
const RANK: &str = "ROPEWAY_RANK";
const WAIT: &str = "ROPEWAY_WAIT";
const SOCKET: &str = "ROPEWAY_SOCKET";
const SYSTEM_SOCKET: &str = "/run/ropeway/ropewayd.sock";

#[cfg(test)]
mod tests {
    use super::*;

    const LAUNCHED: [(&str, &str); 4] = [(FD, "5"), (JOB, "00000000000000ff"), (RANK, "2"), (SIZE, "4")];

    fn read(variables: &[(&str, &str)]) -> Result<Environment, Error> {
        Environment::read(|name| variables.iter().rfind(|(n, _)| *n == name).map(|(_, value)| value.into()))
    }

    fn refusal(variable: (&'static str, &str)) -> String {
        let mut variables = LAUNCHED.to_vec();
        variables.push(variable);
        read(&variables).unwrap_err().to_string()
    }

    #[test]
    fn a_launched_rank_knows_who_it_is() {
        let launch = |log| Launch::Rank { fd: 5, job: JobId(255), rank: 2, size: 4, log };
        assert_eq!(read(&LAUNCHED).unwrap(), Environment { launch: launch(None), wait_mode: None });
        let logged = [&LAUNCHED[..], &[(LOG, "6")]].concat();
        assert_eq!(read(&logged).unwrap(), Environment { launch: launch(Some(6)), wait_mode: None });
    }

    #[test]
    fn without_a_launcher_it_is_a_job_of_one() {
        let launch = Launch::Alone { socket: "/run/ropeway/ropewayd.sock".into() };
        assert_eq!(read(&[]).unwrap(), Environment { launch, wait_mode: None });
        let launch = Launch::Alone { socket: "/tmp/x".into() };
        let wait_mode = Some(WaitMode::Blocking);
        assert_eq!(read(&[(SOCKET, "/tmp/x"), (WAIT, "blocking")]).unwrap(), Environment { launch, wait_mode });
    }

    #[test]
    fn a_bad_value_is_named() {
        assert_eq!(refusal((FD, "x")), "environment variable ROPEWAY_FD=\"x\" is not a descriptor");
        assert_eq!(refusal((JOB, "+0000000000000ff")).split(' ').next_back(), Some("digits"));
        assert!(refusal((RANK, "-1")).contains("ROPEWAY_RANK"));
        assert_eq!(refusal((LOG, "x")), "environment variable ROPEWAY_LOG=\"x\" is not a descriptor");
        assert!(refusal((WAIT, "spin")).contains("polling, blocking, adaptive"));
        let missing = read(&LAUNCHED[..3]).unwrap_err().to_string();
        assert_eq!(missing, "environment variable ROPEWAY_SIZE=\"\" is not set, though ROPEWAY_FD is");
    }
}
