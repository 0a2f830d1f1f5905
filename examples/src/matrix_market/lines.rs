//! The lines of a file and what they say.

use std::io::BufRead;
use std::str::FromStr;

use super::Problem;

/// The first line: how the others are to be read.
pub(super) struct Banner {
    pub(super) is_coordinate: bool,
    pub(super) is_symmetric: bool,
}

impl Banner {
    pub(super) fn parse(line: &str) -> Result<Self, Problem> {
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

    /// What the line after it has.
    pub(super) fn size_line(&self) -> &'static str {
        if self.is_coordinate { "rows, columns and number of entries" } else { "rows and columns" }
    }

    /// The size of the matrix, and of coordinate files the number of entries.
    pub(super) fn parse_size(&self, line: &str) -> Result<(usize, Option<usize>), Problem> {
        let count = |word| number::<usize>(word, self.size_line());
        let (rows, columns, entries) = if self.is_coordinate {
            let [rows, columns, entries] = words(line, self.size_line())?;
            (count(rows)?, count(columns)?, Some(count(entries)?))
        } else {
            let [rows, columns] = words(line, self.size_line())?;
            (count(rows)?, count(columns)?, None)
        };
        if rows == columns { Ok((rows, entries)) } else { Err(Problem::NotSquare { rows, columns }) }
    }

    /// How many values an array has: all, or if it is symmetric those of the lower half.
    pub(super) fn entries_of_array(&self, size: usize) -> usize {
        if self.is_symmetric { size * (size + 1) / 2 } else { size * size }
    }

    /// Where the next value of an array belongs, counted from 1: down the column. In a symmetric matrix the columns begin at the
    /// diagonal.
    pub(super) fn below(&self, size: usize, (row, column): (usize, usize)) -> (usize, usize) {
        let top_of_next = if self.is_symmetric { column + 1 } else { 1 };
        if row < size { (row + 1, column) } else { (top_of_next, column + 1) }
    }
}

/// Lines that mean something, and how far we are.
pub(super) struct Lines<R> {
    reader: R,
    line: String,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, line: String::new(), number: 0 }
    }

    /// The number of the line that was read last.
    pub(super) fn number(&self) -> usize {
        self.number
    }

    /// The next line, whatever it is.
    pub(super) fn next_raw(&mut self) -> Result<Option<&str>, Problem> {
        self.line.clear();
        self.number += 1;
        let bytes = self.reader.read_line(&mut self.line)?;
        Ok((bytes > 0).then_some(self.line.as_str()))
    }

    /// The next line that is neither empty nor a comment.
    pub(super) fn next(&mut self) -> Result<Option<&str>, Problem> {
        while self.next_raw()?.is_some() {
            let content = self.line.trim();
            if !content.is_empty() && !content.starts_with('%') {
                return Ok(Some(self.line.trim()));
            }
        }
        Ok(None)
    }
}

/// The words of a line that has to have so many.
pub(super) fn words<'a, const N: usize>(line: &'a str, expected: &'static str) -> Result<[&'a str; N], Problem> {
    let mut words = line.split_whitespace();
    let found = std::array::from_fn(|_| words.next().unwrap_or(""));
    if found[N - 1].is_empty() || words.next().is_some() {
        return Err(Problem::Expected(expected));
    }
    Ok(found)
}

pub(super) fn number<T: FromStr>(word: &str, expected: &'static str) -> Result<T, Problem> {
    word.parse().map_err(|_| Problem::Expected(expected))
}
