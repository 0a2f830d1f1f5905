//! A fingerprint of the sources that both ends of a segment are built from.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// This crate, and what the words in its segments mean.
const FOLDERS: [&str; 2] = ["src", "../src"];
/// FNV-1a, 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo::rerun-if-changed={folder}");
        find(Path::new(folder), &mut files)?;
    }
    // The order in which a folder lists its files is nobody's promise.
    files.sort();
    let mut hash = OFFSET;
    for file in files {
        hash = fs::read(file)?.iter().fold(hash, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    }
    println!("cargo::rustc-env=ROPEWAY_BUILD={hash}");
    Ok(())
}

fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { find(&path, files)? } else { files.push(path) }
    }
    Ok(())
}
