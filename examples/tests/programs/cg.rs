//! Conjugate gradients on several ranks. The program itself compares with the serial solution.

use crate::job;

const CG: &str = env!("CARGO_BIN_EXE_cg");

#[test]
fn both_variants_find_the_serial_solution() {
    for ranks in [1, 3, 4] {
        let records = job::run(CG, ranks, &["--grid", "24", "--json"]).records();
        assert_eq!(
            records.iter().map(|record| record["variant"].as_str().unwrap()).collect::<Vec<_>>(),
            ["blocking", "overlapped"]
        );
        for record in records {
            assert_eq!((record["ranks"].as_u64(), record["unknowns"].as_u64()), (Some(ranks.into()), Some(576)));
            assert!((20..100).contains(&record["iterations"].as_u64().unwrap()), "{record}");
            assert!(record["difference"].as_f64().unwrap() < 1e-8, "{record}");
        }
    }
}

#[test]
fn a_matrix_can_be_read() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let solve = |ranks, text: &str| {
        std::fs::write(file.path(), format!("%%MatrixMarket matrix coordinate real {text}")).unwrap();
        job::run(CG, ranks, &["--matrix", file.path().to_str().unwrap()])
    };
    let solved = solve(2, "symmetric\n3 3 5\n1 1 4\n2 1 -1\n2 2 4\n3 2 -1\n3 3 4\n").stdout();
    assert!(solved.starts_with("blocking: 3 unknowns, 2 iterations"), "{solved}");
    assert!(solve(2, "general\n2 2 3\n1 1 4\n2 1 -1\n2 2 4\n").complaint().contains("element 2, 1 differs"));
    assert!(solve(2, "symmetric\n2 2 2\n1 1 4\n2 2 -4\n").complaint().contains("not positive definite"));
    assert!(solve(3, "symmetric\n2 2 2\n1 1 4\n2 2 4\n").complaint().contains("use at most -n 2"));
}
