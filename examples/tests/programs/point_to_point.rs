//! The programs that pass messages from rank to rank.

use crate::job;

#[test]
fn a_halo_exchange_gives_the_serial_map() {
    let said = job::run(env!("CARGO_BIN_EXE_halo"), 3, &["--rows", "16", "--columns", "5", "--steps", "20"]).stdout();
    assert_eq!(said, "20 steps on 16 x 15 cells: the same as computed serially\n");
}

#[test]
fn a_token_goes_round() {
    let said = job::run(env!("CARGO_BIN_EXE_ring"), 3, &["--rounds", "50"]).stdout();
    assert!(said.starts_with("50 rounds of 3 ranks, "), "{said}");
}

#[test]
fn a_dense_system_is_solved_both_ways() {
    for mode in ["oneshot", "persistent"] {
        let said = job::run(env!("CARGO_BIN_EXE_jacobi"), 3, &["--size", "100", "--mode", mode]).stdout();
        assert!(said.starts_with("solved after 2"), "{said}");
    }
}

#[test]
fn messages_of_all_sizes_go_there_and_back() {
    let said = job::run(env!("CARGO_BIN_EXE_ping_pong"), 2, &["--bytes-max", "1K", "--round-trips", "10"]).stdout();
    let sizes: Vec<_> = said.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!((sizes.first(), sizes.last()), (Some(&"1"), Some(&"1024")), "{said}");
    let alone = job::run(env!("CARGO_BIN_EXE_ping_pong"), 1, &[]).complaint();
    assert!(alone.contains("ropeway run -n 2"), "{alone}");
}
