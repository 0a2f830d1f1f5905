//! How much the machine's caches hold.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// If the system does not say.
const UNKNOWN: u64 = 64 << 20;

/// Bytes of the largest cache of a core, as the system says. Others may have it, too.
pub(crate) fn largest_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(|| largest_in(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or(UNKNOWN))
}

/// Of the caches that are described in a folder.
fn largest_in(folder: &Path) -> Option<u64> {
    let described = fs::read_dir(folder).ok()?.flatten();
    described.filter_map(|cache| bytes(&fs::read_to_string(cache.path().join("size")).ok()?)).max()
}

/// A size as the kernel writes it.
fn bytes(size: &str) -> Option<u64> {
    size.trim().strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_cache_counts_and_what_is_no_cache_does_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(largest_in(folder.path()), None);
        for (name, size) in [("index0", "32K\n"), ("index3", "32768K\n"), ("index2", "512K\n"), ("index4", "many\n")] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("size"), size).unwrap();
        }
        fs::write(folder.path().join("uevent"), "").unwrap();
        assert_eq!(largest_in(folder.path()), Some(32 << 20));
        assert_eq!(largest_in(&folder.path().join("index0/size")), None, "no folder");
    }
}
