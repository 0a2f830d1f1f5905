//! Which file to run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use super::LaunchError;

/// A program that is there, and its arguments.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
}

impl Program {
    /// Finds a program as a shell does. So there is one clear message, not one from each rank.
    pub(crate) fn find(name: &OsStr, args: &[OsString]) -> Result<Self, LaunchError> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        Ok(Self { path: find_in(&search, Path::new(name))?, args: args.to_vec() })
    }

    /// The tool itself.
    pub(crate) fn this_tool(args: Vec<OsString>) -> Result<Self, LaunchError> {
        let path = std::env::current_exe().map_err(LaunchError::system("finding this program"))?;
        Ok(Self { path, args })
    }
}

fn find_in(search: &OsStr, name: &Path) -> Result<PathBuf, LaunchError> {
    let is_path = name.components().count() > 1 || name.has_root() || name.starts_with(".");
    if is_path {
        return match (is_program(name), name.exists()) {
            (true, _) => Ok(name.to_owned()),
            (false, true) => Err(LaunchError::NotExecutable(name.to_owned())),
            (false, false) => Err(LaunchError::NoSuchFile(name.to_owned())),
        };
    }
    let found = std::env::split_paths(search).map(|folder| folder.join(name)).find(|path| is_program(path));
    found.ok_or_else(|| LaunchError::NotOnPath(name.to_owned()))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(search: &str, name: &str) -> Result<PathBuf, u8> {
        find_in(OsStr::new(search), Path::new(name)).map_err(|error| error.code())
    }

    #[test]
    fn programs_are_found_as_a_shell_does() {
        assert_eq!(find("/nonexistent:/bin", "sh"), Ok("/bin/sh".into()));
        assert_eq!(find("", "/bin/sh"), Ok("/bin/sh".into()));
        assert_eq!(find("/bin", "no-such-program"), Err(127));
        assert_eq!(find("/bin", "./sh"), Err(127));
        assert_eq!(find("/bin", "/etc/passwd"), Err(126));
        assert_eq!(find("/bin", "/bin"), Err(126));
    }
}
