//! Tables for people.

use std::fmt;

/// Rows of cells under a heading. The first columns are words, the others are numbers.
#[derive(Clone, Debug)]
pub struct Table {
    words: usize,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Only the heading. The first column is words.
    pub fn new(heading: &[&str]) -> Self {
        Self::with_words(1, heading)
    }

    /// Only the heading. So many columns are words.
    pub fn with_words(words: usize, heading: &[&str]) -> Self {
        Self { words, rows: vec![heading.iter().map(|&cell| cell.to_owned()).collect()] }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether there is nothing but the heading.
    pub fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    fn width(&self, column: usize) -> usize {
        self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = self.width(column);
                let gap = if column == 0 { "" } else { "  " };
                if column < self.words {
                    line.push_str(&format!("{gap}{cell:width$}"));
                } else {
                    line.push_str(&format!("{gap}{cell:>width$}"));
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["mode", "us"]);
        assert!(table.is_empty());
        table.push(vec!["persistent".into(), "1.5".into()]);
        table.push(vec!["µ".into(), "100.25".into()]);
        assert_eq!(table.to_string(), "mode            us\npersistent     1.5\nµ           100.25\n");
    }

    #[test]
    fn several_columns_may_be_words() {
        let mut table = Table::with_words(2, &["metric", "unit", "median"]);
        table.push(vec!["R".into(), "ratio".into(), "0.5".into()]);
        assert_eq!(table.to_string(), "metric  unit   median\nR       ratio     0.5\n");
    }
}
