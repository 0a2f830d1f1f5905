//! Sizes as people write them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A number of bytes, keys or points. As text, with a suffix K, M or G for powers of 1024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Size(pub usize);

/// Not a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a size from 1 to 1G, such as 8, 64K or 1M")]
pub struct BadSize;

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(word: &str) -> Result<Self, BadSize> {
        let (digits, shift) = match word.char_indices().next_back() {
            Some((end, 'k' | 'K')) => (&word[..end], 10),
            Some((end, 'm' | 'M')) => (&word[..end], 20),
            Some((end, 'g' | 'G')) => (&word[..end], 30),
            _ => (word, 0),
        };
        let number: usize = digits.parse().map_err(|_| BadSize)?;
        let bytes = number.checked_mul(1 << shift).ok_or(BadSize)?;
        if (1..=1 << 30).contains(&bytes) { Ok(Self(bytes)) } else { Err(BadSize) }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, suffix) = match self.0 {
            0 => (0, ""),
            bytes if bytes % (1 << 30) == 0 => (bytes >> 30, "G"),
            bytes if bytes % (1 << 20) == 0 => (bytes >> 20, "M"),
            bytes if bytes % (1 << 10) == 0 => (bytes >> 10, "K"),
            bytes => (bytes, ""),
        };
        f.pad(&format!("{number}{suffix}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes() {
        let parsed: Vec<_> =
            ["8", "1K", "64k", "1M", "1G"].iter().map(|word| word.parse::<Size>().unwrap().0).collect();
        assert_eq!(parsed, [8, 1024, 65_536, 1 << 20, 1 << 30]);
        for word in ["", "K", "0", "8B", "2G", "-1", "99999999999999999999", "18446744073709551615K", "ä"] {
            assert_eq!(word.parse::<Size>(), Err(BadSize), "{word}");
        }
    }

    #[test]
    fn sizes_are_printed_as_they_are_written() {
        for word in ["1", "1000", "1K", "1025", "64K", "3M", "1G"] {
            assert_eq!(word.parse::<Size>().unwrap().to_string(), word);
        }
        assert_eq!(Size(0).to_string(), "0");
    }
}
