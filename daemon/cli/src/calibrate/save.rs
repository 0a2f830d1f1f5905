//! Writes sizes into a configuration file, and leaves everything else in it as it is.

use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::unistd::{AccessFlags, access};
use ropeway_daemon::Config;
use ropeway_proto::costs::Costs;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use toml_edit::{DocumentMut, Value};

use crate::failure::Failure;
use crate::files::behind_links;

/// A configuration file that can be written.
pub(super) struct Saving {
    /// The file itself, if the name is a link.
    path: PathBuf,
    document: DocumentMut,
    permissions: Permissions,
}

impl Saving {
    /// Reads the file, if it is there, and makes sure that it can be replaced.
    pub(super) fn prepare(path: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let elsewhere = "; `--save FILE` saves to another file";
            Failure::Other(format!("can't save to {}: {error}{elsewhere}", path.display()))
        };
        let (path, text, permissions) = match fs::canonicalize(path) {
            Ok(real) => {
                // What can't be replaced by a file is not read either: a pipe would keep us waiting.
                if !fs::metadata(&real).map_err(failed)?.is_file() {
                    return Err(failed(io::Error::other("it is not an ordinary file")));
                }
                // A daemon must be able to read it, before and after.
                Config::from_file(&real).map_err(Failure::other)?;
                let text = fs::read_to_string(&real).map_err(failed)?;
                let permissions = fs::metadata(&real).map_err(failed)?.permissions();
                (real, text, permissions)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (behind_links(path), String::new(), Permissions::from_mode(0o644))
            }
            Err(error) => return Err(failed(error)),
        };
        access(folder(&path), AccessFlags::W_OK).map_err(|errno| failed(errno.into()))?;
        let document = text.parse().map_err(Failure::other)?;
        Ok(Self { path, document, permissions })
    }

    /// Replaces the file by one with these settings and costs, which are in nanoseconds and in the order of their names: by all of
    /// them, or not at all. Says where it is.
    pub(super) fn save(self, settings: &[(&str, u64)], costs_ns: &[f64]) -> Result<PathBuf, Failure> {
        let Self { path, mut document, permissions } = self;
        set(&mut document, settings);
        set_costs(&mut document, costs_ns);
        // A signal now waits until the work is done, so that no half of it is left behind.
        for signal in [SIGINT, SIGQUIT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map_err(Failure::other)?;
        }
        let write = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(folder(&path))?;
            file.write_all(document.to_string().as_bytes())?;
            file.as_file().set_permissions(permissions)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|error| Failure::Other(format!("can't save to {}: {error}", path.display())))?;
        Ok(path)
    }
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Changes settings where they are, comments included, and adds those that are not there at the end.
fn set(document: &mut DocumentMut, settings: &[(&str, u64)]) {
    // Comments after the last setting belong to the document; what is added comes after them.
    let mut before = document.trailing().as_str().unwrap_or_default().to_owned();
    let is_empty = document.is_empty() && before.is_empty();
    before.push_str(if is_empty { "" } else { "\n" });
    before.push_str("# Measured by `ropeway calibrate`.\n");
    let mut before = Some(before);
    for &(name, value) in settings {
        let mut value = Value::from(i64::try_from(value).expect("sizes are small"));
        if let Some(old) = document.get_mut(name).and_then(|item| item.as_value_mut()) {
            *value.decor_mut() = old.decor().clone();
            *old = value;
            continue;
        }
        document.insert(name, value.into());
        if let (Some(before), Some(mut key)) = (before.take(), document.key_mut(name)) {
            key.leaf_decor_mut().set_prefix(before);
            document.set_trailing("");
        }
    }
}

/// The same in the section of costs, which is made if it is not there.
fn set_costs(document: &mut DocumentMut, costs_ns: &[f64]) {
    let section = document.entry("costs").or_insert_with(toml_edit::table);
    let Some(section) = section.as_table_like_mut() else { return };
    for (name, &ns) in Costs::NAMES.into_iter().zip(costs_ns) {
        let mut value = Value::from(ns);
        if let Some(old) = section.get(name).and_then(|item| item.as_value()) {
            *value.decor_mut() = old.decor().clone();
        }
        section.insert(name, value.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: [(&str, u64); 3] =
        [("node_eager_bytes_max", 8192), ("node_piece_bytes", 65536), ("link_eager_bytes_max", 32768)];

    const COSTS: [f64; 5] = [1000.5, 2000.0, 0.5, 0.25, 0.125];

    fn with(text: &str, settings: &[(&str, u64)]) -> String {
        let mut document: DocumentMut = text.parse().unwrap();
        set(&mut document, settings);
        set_costs(&mut document, &COSTS);
        document.to_string()
    }

    #[test]
    fn what_else_is_in_the_file_stays() {
        let text = "# Ours.\nidle_yield_us = 7 # short\n\nnode_piece_bytes = 4096   # tiny\n# The end.\n";
        let expected = "# Ours.\nidle_yield_us = 7 # short\n\nnode_piece_bytes = 65536   # tiny\n# The end.\n\n\
                        # Measured by `ropeway calibrate`.\nnode_eager_bytes_max = 8192\nlink_eager_bytes_max = 32768\n\n\
                        [costs]\noverhead_ns = 1000.5\nlatency_ns = 2000.0\nbyte_ns = 0.5\ncombine_byte_ns = 0.25\ncopy_byte_ns = 0.125\n";
        assert_eq!(with(text, &SETTINGS), expected);
    }

    #[test]
    fn saving_twice_is_saving_once() {
        let sample = include_str!("../../../../packaging/etc/ropewayd.toml");
        for text in ["", "# Only a comment.", "idle_yield_us = 7", sample] {
            let once = with(text, &SETTINGS);
            assert!(once.starts_with(text), "{once}");
            assert_eq!(with(&once, &SETTINGS), once);
            let others = SETTINGS.map(|(name, value)| (name, value / 2));
            assert_eq!(with(&with(&once, &others), &SETTINGS), once);
        }
    }

    #[test]
    fn a_link_and_the_permissions_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file.toml"), folder.path().join("link.toml"));
        fs::write(&file, "idle_yield_us = 7\n").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Saving::prepare(&link).unwrap().save(&SETTINGS, &COSTS).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let config = Config::from_file(&link).unwrap();
        assert_eq!((config.node_eager_bytes_max, config.link_eager_bytes_max), (Some(8192), 32768));
        assert_eq!(config.costs.to_ns(), COSTS);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn what_is_no_ordinary_file_is_not_replaced() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let (pipe, link) = (folder.path().join("pipe"), folder.path().join("link"));
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for path in [&pipe, &link] {
            let error = Saving::prepare(path).err().unwrap().to_string();
            assert!(error.contains("not an ordinary file"), "{error}");
        }
        assert!(fs::metadata(&link).unwrap().file_type().is_fifo());
    }

    #[test]
    fn a_file_that_no_daemon_accepts_is_left_alone() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "nonsense = 1\n").unwrap();
        let error = Saving::prepare(file.path()).err().unwrap().to_string();
        assert!(error.contains("nonsense"), "{error}");
        let error = Saving::prepare(Path::new("/nonexistent/ropewayd.toml")).err().unwrap().to_string();
        assert!(
            error.contains("can't save to /nonexistent/ropewayd.toml: ") && error.contains("--save FILE"),
            "{error}"
        );
    }
}
