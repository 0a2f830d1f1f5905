//! Reads square matrices in the Matrix Market format, densely or sparsely.
//!
//! ```text
//! %%MatrixMarket matrix coordinate real symmetric     or: array; integer; general
//! % comments
//! 3 3 4                                               rows, columns, and, of coordinate files, entries
//! 1 1 4.0                                             row, column, value; of array files the values, column by column
//! 2 1 -1.0
//! 2 2 4.0
//! 3 3 4.0
//! ```
//!
//! A file has a matrix, but no right-hand side. Our solvers choose it so that the solution is all ones.

mod elements;
mod lines;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use elements::{Dense, Elements, Sparse};
use lines::{Banner, Lines, number, words};

/// A square matrix, all of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Rows, and columns.
    pub size: usize,
    /// All elements, row by row.
    pub elements: Vec<f32>,
}

/// A square matrix of which the file gives some elements; the others are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseMatrix {
    /// Rows, and columns.
    pub size: usize,
    /// Elements by row and column, counted from 0. In a symmetric matrix both halves.
    pub elements: BTreeMap<(usize, usize), f64>,
}

/// Why a file has no matrix for us.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ReadError {
    /// It can't be opened.
    #[error("can't open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// A line of it is wrong.
    #[error("{}, line {line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: Problem },
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum Problem {
    /// The banner is missing.
    #[error("not a Matrix Market file: it must begin with \"%%MatrixMarket matrix\"")]
    NoBanner,
    /// The banner promises something we don't do.
    #[error("{word:?} matrices are not supported; {supported} are")]
    Unsupported { word: String, supported: &'static str },
    /// Not the numbers that have to be here.
    #[error("expected {0}")]
    Expected(&'static str),
    /// Solvers are for square ones.
    #[error("the matrix has {rows} rows and {columns} columns; it must be square")]
    NotSquare { rows: usize, columns: usize },
    /// Too large, or nothing at all.
    #[error("the matrix has {size} rows; 1 to {size_max} are possible")]
    BadSize { size: usize, size_max: usize },
    /// An index outside of the matrix.
    #[error("there is no element {row}, {column} in a matrix of {size} rows; indices begin at 1")]
    OutOfRange { row: usize, column: usize, size: usize },
    /// Two values for one element.
    #[error("element {row}, {column} occurs twice (in a symmetric matrix also counts {column}, {row})")]
    Twice { row: usize, column: usize },
    /// NaN, or infinite, also when it is so in the precision of the solver only.
    #[error("{word} is not a finite number in {precision} precision")]
    NotFinite { word: String, precision: &'static str },
    /// The file has ended.
    #[error("the file ends after {found} of {expected} entries")]
    TooFew { found: usize, expected: usize },
    /// The file goes on.
    #[error("more than {0} entries")]
    TooMany(usize),
    /// It can't be read.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Reads a whole matrix.
pub fn read(path: &Path) -> Result<Matrix, ReadError> {
    let dense = read_into::<Dense>(path)?;
    Ok(Matrix { size: dense.size, elements: dense.values })
}

/// Reads the elements that the file gives.
pub fn read_sparse(path: &Path) -> Result<SparseMatrix, ReadError> {
    let sparse = read_into::<Sparse>(path)?;
    Ok(SparseMatrix { size: sparse.size, elements: sparse.values })
}

fn read_into<E: Elements>(path: &Path) -> Result<E, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Open { path: path.to_owned(), source })?;
    let mut lines = Lines::new(BufReader::new(file));
    let elements = parse(&mut lines);
    elements.map_err(|problem| ReadError::Line { path: path.to_owned(), line: lines.number(), problem })
}

fn parse<E: Elements, R: BufRead>(lines: &mut Lines<R>) -> Result<E, Problem> {
    let banner = Banner::parse(lines.next_raw()?.ok_or(Problem::NoBanner)?)?;
    let (size, given) = banner.parse_size(lines.next()?.ok_or(Problem::Expected(banner.size_line()))?)?;
    if !(1..=E::SIZE_MAX).contains(&size) {
        return Err(Problem::BadSize { size, size_max: E::SIZE_MAX });
    }
    let expected = given.unwrap_or_else(|| banner.entries_of_array(size));
    let mut elements = E::new(size);
    let mut next_of_array = (1, 1);
    for found in 0..expected {
        let line = lines.next()?.ok_or(Problem::TooFew { found, expected })?;
        let (place, value) = if banner.is_coordinate {
            let [row, column, value] = words(line, "row, column and value")?;
            ((number(row, "a row number")?, number(column, "a column number")?), value)
        } else {
            let [value] = words(line, "one value")?;
            let place = next_of_array;
            next_of_array = banner.below(size, place);
            (place, value)
        };
        put(&mut elements, size, place, banner.is_symmetric, value)?;
    }
    match lines.next()? {
        None => Ok(elements),
        Some(_) => Err(Problem::TooMany(expected)),
    }
}

/// Sets the element at `place`, counted from 1, and in a symmetric matrix its mirror image.
fn put<E: Elements>(
    elements: &mut E,
    size: usize,
    (row, column): (usize, usize),
    is_symmetric: bool,
    value: &str,
) -> Result<(), Problem> {
    if !(1..=size).contains(&row) || !(1..=size).contains(&column) {
        return Err(Problem::OutOfRange { row, column, size });
    }
    let value = E::parse(value)?;
    let mut is_new = elements.put(row - 1, column - 1, value);
    if is_symmetric && row != column {
        is_new &= elements.put(column - 1, row - 1, value);
    }
    if is_new { Ok(()) } else { Err(Problem::Twice { row, column }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text<E: Elements>(text: &str) -> Result<E, String> {
        let mut lines = Lines::new(text.as_bytes());
        parse(&mut lines).map_err(|problem| format!("{}: {problem}", lines.number()))
    }

    fn parsed(text: &str) -> Result<Matrix, String> {
        read_text::<Dense>(text).map(|dense| Matrix { size: dense.size, elements: dense.values })
    }

    fn refusal(text: &str) -> String {
        parsed(text).unwrap_err()
    }

    #[test]
    fn coordinates_fill_a_matrix_of_zeros() {
        let text = "%%MatrixMarket matrix coordinate real general\n% a comment\n\n2 2 3\n1 1 4\n 2 1 -1.5e0 \n2 2 3\n";
        assert_eq!(parsed(text), Ok(Matrix { size: 2, elements: vec![4.0, 0.0, -1.5, 3.0] }));
    }

    #[test]
    fn an_array_goes_column_by_column() {
        let text = "%%MatrixMarket MATRIX Array integer General\r\n2 2\r\n1\r\n2\r\n3\r\n4\r\n";
        assert_eq!(parsed(text), Ok(Matrix { size: 2, elements: vec![1.0, 3.0, 2.0, 4.0] }));
    }

    #[test]
    fn symmetric_matrices_are_completed() {
        let complete = Ok(Matrix { size: 3, elements: vec![9.0, 1.0, 2.0, 1.0, 8.0, 3.0, 2.0, 3.0, 7.0] });
        assert_eq!(parsed("%%MatrixMarket matrix array real symmetric\n3 3\n9\n1\n2\n8\n3\n7\n"), complete);
        let coordinate =
            "%%MatrixMarket matrix coordinate real symmetric\n3 3 6\n1 1 9\n2 1 1\n3 1 2\n2 2 8\n3 2 3\n3 3 7\n";
        assert_eq!(parsed(coordinate), complete);
    }

    #[test]
    fn sparse_matrices_have_what_the_file_gives() {
        let header = "%%MatrixMarket matrix coordinate real";
        let sparse =
            |text: String| read_text::<Sparse>(&text).map(|sparse| sparse.values.into_iter().collect::<Vec<_>>());
        let symmetric = sparse(format!("{header} symmetric\n1000000 1000000 2\n7 7 4\n1000000 3 1e-300\n"));
        assert_eq!(symmetric.unwrap(), [((2, 999_999), 1e-300), ((6, 6), 4.0), ((999_999, 2), 1e-300)]);
        let twice = sparse(format!("{header} symmetric\n2 2 2\n2 1 4\n1 2 4\n"));
        assert!(twice.unwrap_err().starts_with("4: element 1, 2 occurs twice"));
        let infinite = sparse(format!("{header} general\n2 2 1\n2 1 1e309\n"));
        assert_eq!(infinite.unwrap_err(), "3: 1e309 is not a finite number in double precision");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        assert!(refusal("").starts_with("1: not a Matrix Market file"));
        assert!(refusal("1 2 3\n").contains("%%MatrixMarket"));
        assert!(refusal("%%MatrixMarket matrix coordinate complex general\n").contains("\"complex\""));
        assert!(refusal("%%MatrixMarket matrix coordinate pattern general\n").contains("real and integer are"));
        assert!(refusal("%%MatrixMarket matrix array real hermitian\n").contains("\"hermitian\""));
        assert!(refusal("%%MatrixMarket matrix array real general\n2 3\n").contains("2 rows and 3 columns"));
        assert!(refusal("%%MatrixMarket matrix array real general\n99999 99999\n").contains("99999"));
        assert!(refusal("%%MatrixMarket matrix array real general\n0 0\n").contains("0 rows"));
    }

    #[test]
    fn a_wrong_entry_is_told_with_its_line() {
        let with = |entries: &str| refusal(&format!("%%MatrixMarket matrix coordinate real general\n2 2 2\n{entries}"));
        assert_eq!(with("1 1 x\n"), "3: expected a number");
        assert_eq!(with("1 1\n"), "3: expected row, column and value");
        assert_eq!(with("1 1 1 1\n"), "3: expected row, column and value");
        assert_eq!(with("1 1 1\n% not counted\n-1 2 1\n"), "5: expected a row number");
        assert!(with("0 1 1\n").starts_with("3: there is no element 0, 1"));
        assert!(with("1 1 1\n1 3 1\n").starts_with("4: there is no element 1, 3"));
        assert!(with("1 1 1\n1 1 2\n").starts_with("4: element 1, 1 occurs twice"));
        assert_eq!(with("1 1 NaN\n"), "3: NaN is not a finite number in single precision");
        assert!(with("1 1 1e39\n").contains("1e39"));
        assert_eq!(with("1 1 1\n"), "4: the file ends after 1 of 2 entries");
        assert_eq!(with("1 1 1\n2 2 1\n1 2 1\n"), "5: more than 2 entries");
    }

    #[test]
    fn files_are_named_in_errors() {
        let error = read(Path::new("/nonexistent.mtx")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent.mtx"), "{error}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [0xff, 0xfe, 0x00]).unwrap();
        let error = read(file.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
