//! The parallel sort on several ranks. The program itself compares with a serial one.

use crate::job;

const RADIX_SORT: &str = env!("CARGO_BIN_EXE_radix_sort");

#[test]
fn both_variants_sort_with_every_radix() {
    for ranks in [1, 2, 3, 5] {
        let args = ["--keys", "1,100,4K", "--bits", "3,8,16", "--runs", "1", "--json"];
        let records = job::run(RADIX_SORT, ranks, &args).records();
        let cases: Vec<_> = records.iter().map(|record| (record["keys"].as_u64(), record["bits"].as_u64())).collect();
        let expected = [1, 100, 4096].into_iter().flat_map(|keys| [3, 8, 16].map(|bits| (Some(keys), Some(bits))));
        assert_eq!(cases, expected.collect::<Vec<_>>());
        for record in records {
            let [blocking, overlapped] =
                ["blocking", "overlapped"].map(|variant| record[variant]["total_ms"].as_f64().unwrap());
            let improvement = record["improvement_percent"].as_f64().unwrap();
            assert!((improvement - (blocking - overlapped) / blocking * 100.0).abs() < 1e-6, "{record}");
        }
    }
}

#[test]
fn the_table_has_a_row_for_each_number_of_keys_and_a_column_for_each_radix() {
    let table = job::run(RADIX_SORT, 2, &["--keys", "16,1K", "--bits", "2,10", "--runs", "1"]).stdout();
    let words: Vec<Vec<_>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["keys", "2", "bits", "10", "bits"]);
    assert_eq!(words[1..].iter().map(|row| (row[0], row.len())).collect::<Vec<_>>(), [("16", 3), ("1K", 3)]);
}

#[test]
fn each_algorithm_of_the_allgather_is_a_row() {
    let args = ["--keys", "1K", "--bits", "8", "--runs", "1", "--algorithm"];
    // Within a node there is nothing to choose.
    let table = job::run_on(2, RADIX_SORT, 2, &[&args[..], &["ring,standard-exchange:1"]].concat()).stdout();
    assert!(table.contains("\nallgather: between nodes"), "{table}");
    let words: Vec<Vec<_>> = table.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["keys", "allgather", "8", "bits"]);
    assert_eq!(
        words[1..].iter().map(|row| row[..2].to_vec()).collect::<Vec<_>>(),
        [["1K", "ring"], ["1K", "standard-exchange:1"]]
    );
    let refused = job::run_on(2, RADIX_SORT, 2, &[&args[..], &["no-such-algorithm"]].concat()).complaint();
    assert!(refused.contains("no-such-algorithm"), "{refused}");
}
