//! A fixed set of seeds. A failure prints the command that shows it again.

/// Debug builds are for people who wait.
const SEEDS: u64 = if cfg!(debug_assertions) { 200 } else { 1000 };

fn all_properties_hold(has_faults: bool) {
    let mut messages = 0;
    for seed in 0..SEEDS {
        match ropeway_sim::run(seed, has_faults, false) {
            Ok(summary) => messages += summary.messages,
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    assert!(messages as u64 > 20 * SEEDS, "only {messages} messages: this tests nothing");
}

#[test]
fn all_properties_hold_while_everybody_lives() {
    all_properties_hold(false);
}

#[test]
fn all_properties_hold_when_ranks_and_links_fail() {
    all_properties_hold(true);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || ropeway_sim::run(7, true, false).map(|summary| (summary.messages, summary.events, summary.errors));
    assert_eq!(run().unwrap(), run().unwrap());
}
