//! `ropeway calibrate`: sane figures, and a configuration that a daemon accepts.

mod tool;

use ropeway_daemon::Config;
use tool::{records, ropeway, stderr, stdout};

#[test]
fn floors_and_thresholds_are_sane() {
    let output = ropeway(&["calibrate", "--quick", "--json", "--quiet"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let records = records(&output);
    let [record] = &records[..] else { panic!("{}", stdout(&output)) };
    let floors = record["floors"].as_object().unwrap();
    assert!(floors.len() == 12 && floors.values().all(|floor| floor.as_f64().unwrap() > 0.0), "{floors:?}");
    let floor = |name: &str| floors[name].as_f64().unwrap();
    assert!(floor("loopback_busy_ns") > floor("clock_ns"));
    let costs = record["costs"].as_object().unwrap();
    assert!(costs.len() == 5 && costs.values().all(|cost| cost.as_f64().unwrap() > 0.0), "{costs:?}");
    let size = |name: &str| record["thresholds"][name].as_u64().unwrap();
    for (name, range) in [
        ("node_eager_bytes_max", 2 << 10..=64 << 10),
        ("node_piece_bytes", 16 << 10..=256 << 10),
        ("link_eager_bytes_max", 4 << 10..=64 << 10),
    ] {
        assert!(range.contains(&size(name)) && size(name).is_power_of_two(), "{name} = {}", size(name));
    }
}

#[test]
fn what_is_saved_a_daemon_accepts_and_the_rest_of_the_file_stays() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ropewayd.toml");
    std::fs::write(&path, "# Ours.\nidle_yield_us = 7\n").unwrap();
    let save = || {
        let output = ropeway(&["calibrate", "--quick", "--save"]).arg(&path).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert!(stdout(&output).contains("node_piece_bytes") && stdout(&output).contains("because"));
        assert!(stderr(&output).contains("saved to"), "{}", stderr(&output));
        std::fs::read_to_string(&path).unwrap()
    };
    let (once, twice) = (save(), save());
    assert!(once.starts_with("# Ours.\nidle_yield_us = 7\n"), "{once}");
    assert_eq!(once.lines().count(), twice.lines().count(), "{twice}");
    let config = Config::from_file(&path).unwrap();
    assert_eq!(config.idle_yield.as_micros(), 7);
    assert!(config.node_eager_bytes_max.is_some() && config.node_piece_bytes.is_some());
    assert_ne!(config.costs, Config::default().costs);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn what_can_not_be_saved_is_said_at_once() {
    let output = ropeway(&["calibrate", "--save", "/nonexistent/ropewayd.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("can't save to /nonexistent/ropewayd.toml"), "{}", stderr(&output));
    assert_eq!(stdout(&output), "", "nothing was measured");
}
