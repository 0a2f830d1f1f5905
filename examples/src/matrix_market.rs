//! Reads square matrices in the Matrix Market format, densely.
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
//! A file has a matrix, but no right-hand side. [`System`](crate::jacobi::System) chooses it so that the solution is all ones.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A square matrix.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Rows, and columns.
    pub size: usize,
    /// All elements, row by row.
    pub elements: Vec<f32>,
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
    /// Jacobi's method is for square ones.
    #[error("the matrix has {rows} rows and {columns} columns; it must be square")]
    NotSquare { rows: usize, columns: usize },
    /// Too large, or nothing at all.
    #[error("a matrix of {0} rows can't be solved densely; 1 to {SIZE_MAX} rows can")]
    BadSize(usize),
    /// An index outside of the matrix.
    #[error("there is no element {row}, {column} in a matrix of {size} rows; indices begin at 1")]
    OutOfRange { row: usize, column: usize, size: usize },
    /// Two values for one element.
    #[error("element {row}, {column} occurs twice (in a symmetric matrix also counts {column}, {row})")]
    Twice { row: usize, column: usize },
    /// NaN, or infinite, also when it is so in single precision only.
    #[error("{0} is not a finite number in single precision")]
    NotFinite(String),
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

/// Reads a file.
pub fn read(path: &Path) -> Result<Matrix, ReadError> {
    let file = File::open(path).map_err(|source| ReadError::Open { path: path.to_owned(), source })?;
    let mut lines = Lines::new(BufReader::new(file));
    let matrix = parse(&mut lines);
    matrix.map_err(|problem| ReadError::Line { path: path.to_owned(), line: lines.number, problem })
}

fn parse<R: BufRead>(lines: &mut Lines<R>) -> Result<Matrix, Problem> {
    let banner = Banner::parse(lines.next_raw()?.ok_or(Problem::NoBanner)?)?;
    let size = banner.parse_size(lines.next()?.ok_or(Problem::Expected(banner.size_line()))?)?;
    let mut elements = Elements::new(size.rows, banner.is_symmetric);
    for found in 0..size.entries {
        let line = lines.next()?.ok_or(Problem::TooFew { found, expected: size.entries })?;
        if banner.is_coordinate {
            let [row, column, value] = words(line, "row, column and value")?;
            let (row, column) = (number(row, "a row number")?, number(column, "a column number")?);
            elements.put(row, column, finite(value)?)?;
        } else {
            let [value] = words(line, "one value")?;
            let (row, column) = elements.next_of_array;
            elements.put(row, column, finite(value)?)?;
            elements.advance();
        }
    }
    match lines.next()? {
        None => Ok(Matrix { size: size.rows, elements: elements.values }),
        Some(_) => Err(Problem::TooMany(size.entries)),
    }
}

struct Banner {
    is_coordinate: bool,
    is_symmetric: bool,
}

struct Size {
    rows: usize,
    entries: usize,
}

impl Banner {
    fn parse(line: &str) -> Result<Self, Problem> {
        let line = line.to_ascii_lowercase();
        let mut words = line.split_whitespace();
        if words.next() != Some("%%matrixmarket") || words.next() != Some("matrix") {
            return Err(Problem::NoBanner);
        }
        let mut choose = |supported: &'static str, choices: &[&str]| {
            let word = words.next().unwrap_or("");
            let unsupported = || Problem::Unsupported { word: word.to_owned(), supported };
            choices.iter().position(|&choice| choice == word).ok_or_else(unsupported)
        };
        let format = choose("coordinate and array", &["coordinate", "array"])?;
        choose("real and integer", &["real", "integer", "double"])?;
        let symmetry = choose("general and symmetric", &["general", "symmetric"])?;
        Ok(Self { is_coordinate: format == 0, is_symmetric: symmetry == 1 })
    }

    fn size_line(&self) -> &'static str {
        if self.is_coordinate { "rows, columns and number of entries" } else { "rows and columns" }
    }

    fn parse_size(&self, line: &str) -> Result<Size, Problem> {
        let count = |word| number::<usize>(word, self.size_line());
        let (rows, columns, entries) = if self.is_coordinate {
            let [rows, columns, entries] = words(line, self.size_line())?;
            (count(rows)?, count(columns)?, Some(count(entries)?))
        } else {
            let [rows, columns] = words(line, self.size_line())?;
            (count(rows)?, count(columns)?, None)
        };
        if rows != columns {
            return Err(Problem::NotSquare { rows, columns });
        }
        if !(1..=SIZE_MAX).contains(&rows) {
            return Err(Problem::BadSize(rows));
        }
        let all = if self.is_symmetric { rows * (rows + 1) / 2 } else { rows * rows };
        Ok(Size { rows, entries: entries.unwrap_or(all) })
    }
}

/// The matrix while it is filled.
struct Elements {
    size: usize,
    is_symmetric: bool,
    values: Vec<f32>,
    is_set: Vec<bool>,
    /// Where the next value of an array file belongs: row and column, from 1.
    next_of_array: (usize, usize),
}

impl Elements {
    fn new(size: usize, is_symmetric: bool) -> Self {
        let count = size * size;
        Self { size, is_symmetric, values: vec![0.0; count], is_set: vec![false; count], next_of_array: (1, 1) }
    }

    /// Sets an element, with indices from 1, and in a symmetric matrix its mirror image.
    fn put(&mut self, row: usize, column: usize, value: f32) -> Result<(), Problem> {
        if !(1..=self.size).contains(&row) || !(1..=self.size).contains(&column) {
            return Err(Problem::OutOfRange { row, column, size: self.size });
        }
        let index = (row - 1) * self.size + column - 1;
        let mirrored = if self.is_symmetric { (column - 1) * self.size + row - 1 } else { index };
        if self.is_set[index] {
            return Err(Problem::Twice { row, column });
        }
        for index in [index, mirrored] {
            self.values[index] = value;
            self.is_set[index] = true;
        }
        Ok(())
    }

    /// Down the column; in a symmetric matrix the columns begin at the diagonal.
    fn advance(&mut self) {
        let (row, column) = self.next_of_array;
        let top_of_next = if self.is_symmetric { column + 1 } else { 1 };
        self.next_of_array = if row < self.size { (row + 1, column) } else { (top_of_next, column + 1) };
    }
}

/// Lines that mean something, and how far we are.
struct Lines<R> {
    reader: R,
    line: String,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    fn new(reader: R) -> Self {
        Self { reader, line: String::new(), number: 0 }
    }

    fn next_raw(&mut self) -> Result<Option<&str>, Problem> {
        self.line.clear();
        self.number += 1;
        let bytes = self.reader.read_line(&mut self.line)?;
        Ok((bytes > 0).then_some(self.line.as_str()))
    }

    /// The next line that is neither empty nor a comment.
    fn next(&mut self) -> Result<Option<&str>, Problem> {
        while self.next_raw()?.is_some() {
            let content = self.line.trim();
            if !content.is_empty() && !content.starts_with('%') {
                return Ok(Some(self.line.trim()));
            }
        }
        Ok(None)
    }
}

fn words<'a, const N: usize>(line: &'a str, expected: &'static str) -> Result<[&'a str; N], Problem> {
    let mut words = line.split_whitespace();
    let found = std::array::from_fn(|_| words.next().unwrap_or(""));
    if found[N - 1].is_empty() || words.next().is_some() {
        return Err(Problem::Expected(expected));
    }
    Ok(found)
}

fn number<T: FromStr>(word: &str, expected: &'static str) -> Result<T, Problem> {
    word.parse().map_err(|_| Problem::Expected(expected))
}

fn finite(word: &str) -> Result<f32, Problem> {
    let value: f32 = number(word, "a number")?;
    if value.is_finite() { Ok(value) } else { Err(Problem::NotFinite(word.to_owned())) }
}

/// Four gigabytes of elements.
const SIZE_MAX: usize = 1 << 15;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Matrix, String> {
        let mut lines = Lines::new(text.as_bytes());
        parse(&mut lines).map_err(|problem| format!("{}: {problem}", lines.number))
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
