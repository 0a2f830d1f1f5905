//! What records of one batch each say about overlap and asynchrony must follow from each other.
#![allow(dead_code, reason = "each test file is a crate of its own, and not all of them measure shares")]

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Whatever makes a record another case.
const KEYS: [&str; 10] =
    ["mode", "side", "op", "root", "progress", "wait", "division", "algorithm", "compute", "bytes"];

/// Metrics by name.
type Metrics = BTreeMap<String, f64>;

/// All combinations of one word of each list, as they stand in records.
pub(crate) fn product(lists: &[&[&str]]) -> BTreeSet<Vec<String>> {
    let mut product = BTreeSet::from([Vec::new()]);
    for list in lists {
        let longer = |row: &Vec<String>| list.iter().map(|word| [&row[..], &[(*word).to_owned()]].concat()).collect();
        product = product.iter().flat_map(|row| -> Vec<Vec<String>> { longer(row) }).collect();
    }
    product
}

/// The words under these keys in each record, all of which are different.
pub(crate) fn rows(records: &[Value], keys: &[&str]) -> BTreeSet<Vec<String>> {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let rows: BTreeSet<Vec<_>> =
        records.iter().map(|record| keys.iter().map(|key| word(&record[*key])).collect()).collect();
    assert_eq!(rows.len(), records.len(), "some are there twice");
    rows
}

/// The metrics of each case, which has been measured in one batch.
fn cases(records: &[Value]) -> Vec<Metrics> {
    let mut cases = BTreeMap::<[String; KEYS.len()], Metrics>::new();
    for record in records {
        assert_eq!(record["samples"], 1, "{record}");
        let case = cases.entry(KEYS.map(|key| record[key].to_string())).or_default();
        let earlier = case.insert(record["metric"].as_str().unwrap().to_owned(), record["median"].as_f64().unwrap());
        assert_eq!(earlier, None, "{record}");
    }
    cases.into_values().collect()
}

/// Figures have five digits, so a sum or quotient of `terms` in units of what they are divided by is known to as many.
fn assert_near(found: f64, expected: f64, terms: f64, metrics: &Metrics) {
    assert!((found - expected).abs() <= 2e-4 * (terms + found.abs()), "{found} instead of {expected}: {metrics:?}");
}

/// What hides is what both together save.
pub(crate) fn assert_overlap_adds_up(records: &[Value]) {
    for metrics in cases(records) {
        let [t_x, t_y, t_o] = ["t_x", "t_y", "t_o"].map(|metric| metrics[metric]);
        assert!(t_x > 0.0 && t_y > 0.0 && t_o > 0.0, "{metrics:?}");
        assert_near(metrics["d_o"], (t_x + t_y - t_o) / t_y, (t_x + t_y + t_o) / t_y, &metrics);
        assert_eq!(metrics.len(), 5, "{metrics:?}");
    }
}

/// What goes on by itself is what a computation in between saves.
pub(crate) fn assert_asynchrony_adds_up(records: &[Value]) {
    for metrics in cases(records) {
        let [t_comm, t_async, t_start] = ["t_comm", "t_async", "t_start"].map(|metric| metrics[metric]);
        assert_near(metrics["d_a"], 1.0 - t_async / t_comm, 1.0 + t_async / t_comm, &metrics);
        assert!(t_start > 0.0 && t_start <= t_async * (1.0 + 1e-4), "{metrics:?}");
        assert_eq!(metrics.len(), 4, "{metrics:?}");
    }
}
