//! Files that the tool writes.

use std::path::{Path, PathBuf};

/// The file that a name leads to, also if it is not there yet: what replaces a file must not replace a link to it.
pub(crate) fn behind_links(path: &Path) -> PathBuf {
    let mut real = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = real.read_link() else { break };
        real = real.parent().unwrap_or(Path::new("")).join(target);
    }
    real
}

/// The system follows no more of them either.
const LINKS_MAX: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_lead_to_files_that_are_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("second", at("first")).unwrap();
        symlink(at("file"), at("second")).unwrap();
        assert_eq!(behind_links(&at("first")), at("file"));
        symlink("round", at("round")).unwrap();
        assert_eq!(behind_links(&at("round")), at("round"));
    }
}
