//! The parallel transform on several ranks. The program itself compares with a serial one.

use crate::job;

const FFT: &str = env!("CARGO_BIN_EXE_fft");

#[test]
fn it_equals_the_serial_transform_however_it_is_cut() {
    for (ranks, size) in [(1, "1"), (2, "4"), (3, "2K"), (4, "16K"), (5, "1K")] {
        let args = ["--size", size, "--segments", "1,2,5,64", "--runs", "2", "--json"];
        let records = job::run(FFT, ranks, &args).records();
        assert_eq!(
            records.iter().map(|record| record["segments"].as_u64().unwrap()).collect::<Vec<_>>(),
            [1, 2, 5, 64]
        );
        for record in records {
            let parts = ["transforms_ms", "packing_ms", "communication_ms"].map(|key| record[key].as_f64().unwrap());
            assert!(parts.iter().sum::<f64>() <= record["total_ms"].as_f64().unwrap(), "{record}");
            assert!(record["relative_error"].as_f64().unwrap() < 1e-5, "{record}");
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    assert!(
        job::run(FFT, 2, &["--size", "3K"]).complaint().contains("3072 points are not a power of two; 4096 would be")
    );
    assert!(job::run(FFT, 3, &["--size", "4"]).complaint().contains("use at most -n 2"));
}
