//! What a program does, in its user's words.

use std::path::Path;
use std::time::Duration;

use ropeway_bench::Size;
use ropeway_bench::boum::{Messages, Workload};
use serde::Deserialize;

use crate::failure::Failure;

/// A program with messages of one size.
pub(super) fn simple(compute: Duration, (bytes, count): (usize, u64), iterations: u64) -> Workload {
    Workload {
        iterations,
        computation: compute.as_secs_f64(),
        messages: vec![Messages { bytes, count, in_swaps: false }],
    }
}

/// A program from a file in TOML.
pub(super) fn read(path: &Path) -> Result<Workload, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::Other(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::Other(format!("can't read {}: {error}", path.display())))?;
    parse(&text).map_err(|error| wrong(&error))
}

fn parse(text: &str) -> Result<Workload, String> {
    let Description { compute, iterations, message } = toml::from_str(text).map_err(|error| error.to_string())?;
    let computation = humantime::parse_duration(&compute).map_err(|error| format!("compute {compute:?}: {error}"))?;
    let messages = |Described { bytes, count }| match bytes.parse::<Size>() {
        _ if count == 0 => Err(format!("count of {bytes:?} has to be at least 1, or leave this [[message]] out")),
        Ok(Size(bytes)) => Ok(Messages { bytes, count, in_swaps: false }),
        Err(error) => Err(format!("bytes {bytes:?} {error}")),
    };
    let messages: Vec<_> = message.into_iter().map(messages).collect::<Result<_, _>>()?;
    match (iterations, messages.is_empty()) {
        (0, _) => Err("iterations have to be at least 1".to_owned()),
        (_, true) => Err("there is nothing to gain without messages: add a [[message]]".to_owned()),
        _ => Ok(Workload { iterations, computation: computation.as_secs_f64(), messages }),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    compute: String,
    iterations: u64,
    message: Vec<Described>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Described {
    bytes: String,
    count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_has_messages_of_several_sizes() {
        let text = "compute = \"5ms\"\niterations = 10\n[[message]]\nbytes = \"64K\"\ncount = 4\n[[message]]\nbytes = \"16\"\ncount = 2\n";
        let messages = vec![
            Messages { bytes: 65_536, count: 4, in_swaps: false },
            Messages { bytes: 16, count: 2, in_swaps: false },
        ];
        assert_eq!(parse(text), Ok(Workload { iterations: 10, computation: 0.005, messages }));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str, why: &str| {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        };
        refused("compute = \"5 parsecs\"\niterations = 1\nmessage = []\n", "compute \"5 parsecs\"");
        refused("compute = \"5ms\"\niterations = 1\nmessage = [{ bytes = \"1Q\", count = 1 }]\n", "is not a size");
        refused(
            "compute = \"5ms\"\niterations = 1\nmessage = [{ bytes = \"8\", count = 0 }]\n",
            "count of \"8\" has to be at least 1",
        );
        refused("compute = \"5ms\"\niterations = 0\nmessage = []\n", "at least 1");
        refused("compute = \"5ms\"\niterations = 1\nmessage = []\n", "add a [[message]]");
        refused("compute = \"5ms\"\nranks = 1\n", "ranks");
    }
}
