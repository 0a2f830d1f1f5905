//! A fixed set of seeds. A failure prints the command that shows it again.

/// Debug builds are for people who wait.
const SEEDS: u64 = if cfg!(debug_assertions) { 200 } else { 1000 };

fn all_properties_hold(has_faults: bool) {
    let (mut messages, mut rounds) = (0, 0);
    for seed in 0..SEEDS {
        match ropeway_sim::run(seed, has_faults, false) {
            Ok(summary) => {
                messages += summary.messages;
                rounds += summary.rounds;
            }
            Err(failure) => panic!("seed {seed}: {failure}"),
        }
    }
    assert!(messages as u64 > 20 * SEEDS, "only {messages} messages: this tests nothing");
    assert!(rounds as u64 > 2 * SEEDS, "only {rounds} rounds of collectives: this tests nothing");
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
    let run = |seed| ropeway_sim::run(seed, true, false).map(|summary| format!("{summary:?}"));
    for seed in 0..30 {
        assert_eq!(run(seed).unwrap(), run(seed).unwrap());
    }
}
