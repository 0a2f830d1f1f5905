//! MPI libraries on this machine: where they are, who they are, and how their programs are built and started.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An MPI library.
#[derive(Debug)]
pub(super) struct Peer {
    /// A short name that no other peer has.
    pub(super) name: String,
    family: Family,
    compiler: PathBuf,
    launcher: PathBuf,
    /// Where it is installed, if its programs have to be told.
    prefix: Option<PathBuf>,
}

/// Who made it, which decides what its launcher understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    OpenMpi,
    Mpich,
    Intel,
}

/// What its program runs with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    pub(super) ranks: u32,
    /// Whether the messages have to take TCP.
    pub(super) over_tcp: bool,
    /// Whether there is a core for each rank.
    pub(super) has_cores: bool,
}

/// Every peer on `PATH`, and those in the folders and prefixes that are named.
pub(super) fn find(named: &[PathBuf]) -> Vec<Peer> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).flat_map(|folder| compilers_in(&folder));
    let named = named.iter().flat_map(|place| compilers_at(place));
    let (mut seen, mut peers) = (HashSet::new(), Vec::new());
    for compiler in named.chain(on_path) {
        // `mpicc` is often another name for one of the others, which shows in the file behind it.
        let real = compiler.canonicalize().unwrap_or_else(|_| compiler.clone());
        if seen.insert(real)
            && let Some(peer) = Peer::of(compiler)
        {
            peers.push(peer);
        }
    }
    make_names_unique(&mut peers);
    peers
}

/// A compiler, a folder with compilers, or a prefix with a `bin`.
fn compilers_at(place: &Path) -> Vec<PathBuf> {
    if place.is_file() {
        return vec![place.to_owned()];
    }
    let inside = compilers_in(&place.join("bin"));
    if inside.is_empty() { compilers_in(place) } else { inside }
}

fn compilers_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let names = entries.flatten().map(|entry| entry.file_name());
    let mut found: Vec<_> = names.filter(|name| is_compiler(name)).map(|name| folder.join(name)).collect();
    // The longer name first: it says more.
    found.sort_by_key(|path| std::cmp::Reverse(path.as_os_str().len()));
    found
}

fn is_compiler(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| name == "mpicc" || name.starts_with("mpicc."))
}

fn make_names_unique(peers: &mut [Peer]) {
    for index in 0..peers.len() {
        let same = peers[..index].iter().filter(|peer| peer.name.split('#').next() == Some(&peers[index].name)).count();
        if same > 0 {
            peers[index].name += &format!("#{}", same + 1);
        }
    }
}

impl Peer {
    fn of(compiler: PathBuf) -> Option<Self> {
        let launcher = launcher_of(&compiler)?;
        let prefix = compiler.parent().and_then(Path::parent).map(Path::to_owned);
        let prefix = prefix.filter(|prefix| prefix.as_path() != Path::new("/usr") && prefix.join("lib").is_dir());
        let mut ask = Command::new(&launcher);
        ask.arg("--version").envs(environment(prefix.as_deref()));
        let answer = ask.output().ok()?;
        let (family, name) = recognise(&String::from_utf8_lossy(&answer.stdout))?;
        Some(Self { name, family, compiler, launcher, prefix })
    }

    /// The command that builds a program.
    pub(super) fn compile(&self, source: &Path, program: &Path) -> Command {
        let mut command = Command::new(&self.compiler);
        command.args(["-O2", "-o"]).arg(program).arg(source).envs(environment(self.prefix.as_deref()));
        command
    }

    /// The command line that runs a program, beginning with what sets its environment.
    pub(super) fn command_line(&self, program: &Path, args: &[String], placement: Placement) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        line.extend(environment(self.prefix.as_deref()).into_iter().map(|(name, value)| {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            setting
        }));
        line.extend(self.settings(placement).iter().map(OsString::from));
        line.push(self.launcher.clone().into());
        line.extend(["-n".into(), placement.ranks.to_string().into()]);
        line.extend(self.options(placement).iter().map(OsString::from));
        line.push(program.into());
        line.extend(args.iter().map(OsString::from));
        line
    }

    /// Environment that only says which way messages go.
    fn settings(&self, placement: Placement) -> Vec<&'static str> {
        match (self.family, placement.over_tcp) {
            (Family::OpenMpi, _) | (Family::Mpich, false) => Vec::new(),
            (Family::Mpich, true) if !self.name.starts_with("MPICH 4") => {
                vec!["MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp", "FI_TCP_IFACE=lo", "MPIR_CVAR_NOLOCAL=1"]
            }
            (Family::Mpich, true) => {
                vec!["UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo", "MPIR_CVAR_NOLOCAL=1", "MPIR_CVAR_CH4_NOLOCAL=1"]
            }
            (Family::Intel, true) => {
                vec!["I_MPI_FABRICS=ofi", "I_MPI_OFI_PROVIDER=tcp", "FI_PROVIDER=tcp", "FI_TCP_IFACE=lo"]
            }
            (Family::Intel, false) if placement.has_cores => vec!["I_MPI_FABRICS=shm"],
            (Family::Intel, false) => vec!["I_MPI_FABRICS=shm", "I_MPI_PIN=0", "I_MPI_THREAD_YIELD=2"],
        }
    }

    /// Options of its launcher: each rank on a core while there are enough, and yielding when there are not.
    fn options(&self, placement: Placement) -> Vec<&'static str> {
        let mut options = Vec::new();
        match self.family {
            Family::OpenMpi => {
                if nix::unistd::geteuid().is_root() {
                    options.push("--allow-run-as-root");
                }
                if placement.has_cores {
                    options.extend(["--bind-to", "core"]);
                } else {
                    options.extend(["--bind-to", "none", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]);
                }
                if placement.over_tcp {
                    options.extend(["--mca", "pml", "ob1", "--mca", "btl", "tcp,self"]);
                    options.extend(["--mca", "btl_tcp_if_include", "lo"]);
                }
            }
            Family::Mpich if placement.has_cores => options.extend(["-bind-to", "core"]),
            Family::Mpich | Family::Intel => {}
        }
        options
    }
}

/// What a library that is not installed where the system looks has to be told.
fn environment(prefix: Option<&Path>) -> Vec<(&'static str, OsString)> {
    let Some(prefix) = prefix else { return Vec::new() };
    let mut libraries = prefix.join("lib").into_os_string();
    if let Some(others) = std::env::var_os("LD_LIBRARY_PATH") {
        libraries.push(":");
        libraries.push(others);
    }
    vec![("I_MPI_ROOT", prefix.into()), ("LD_LIBRARY_PATH", libraries)]
}

/// `mpiexec` beside `mpicc`, with the same suffix.
fn launcher_of(compiler: &Path) -> Option<PathBuf> {
    let suffix = compiler.file_name()?.to_str()?.strip_prefix("mpicc")?.to_owned();
    let candidates = [format!("mpiexec{suffix}"), "mpiexec.hydra".to_owned(), "mpiexec".to_owned()];
    candidates.into_iter().map(|name| compiler.with_file_name(name)).find(|path| path.is_file())
}

/// What a launcher says of itself.
fn recognise(version: &str) -> Option<(Family, String)> {
    let number = |text: &str| {
        let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
        text.split(|c: char| c.is_whitespace() || c == ',').find(is_number).unwrap_or("").to_owned()
    };
    let first = version.lines().find(|line| !line.trim().is_empty())?;
    if version.contains("Intel(R) MPI") {
        let after = version.split("Version").nth(1).unwrap_or(version);
        return Some((Family::Intel, format!("Intel MPI {}", number(after))));
    }
    if version.contains("Open MPI") || version.contains("OpenRTE") || version.contains("PRRTE") {
        return Some((Family::OpenMpi, format!("Open MPI {}", number(first))));
    }
    if version.contains("HYDRA") {
        let line = version.lines().find(|line| line.contains("Version:"))?;
        return Some((Family::Mpich, format!("MPICH {}", number(line))));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised_by_what_they_say() {
        let names = [
            "mpiexec (OpenRTE) 4.1.4\n\nReport bugs to http://www.open-mpi.org/\n",
            "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: x\n",
            "Intel(R) MPI Library for Linux* OS, Version 2021.19 Build 20260401\n",
        ]
        .map(|text| recognise(text).map(|(_, name)| name));
        assert_eq!(names, ["Open MPI 4.1.4", "MPICH 4.0.2", "Intel MPI 2021.19"].map(|name| Some(name.to_owned())));
        assert_eq!(recognise("GNU parallel 2022"), None);
    }

    #[test]
    fn ranks_get_cores_while_there_are_enough() {
        let peer = |family| Peer {
            name: String::new(),
            family,
            compiler: "mpicc".into(),
            launcher: "mpiexec".into(),
            prefix: None,
        };
        let line = |family, ranks, over_tcp| {
            let placement = Placement { ranks, over_tcp, has_cores: ranks <= 2 };
            let line = peer(family).command_line(Path::new("contest"), &["latency".to_owned()], placement);
            line.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(Family::Mpich, 2, false), "mpiexec -n 2 -bind-to core contest latency");
        assert!(line(Family::OpenMpi, 8, false).contains("--oversubscribe --mca mpi_yield_when_idle 1"));
        assert!(line(Family::OpenMpi, 2, true).contains("--mca btl tcp,self"));
        assert!(line(Family::Intel, 2, true).starts_with("I_MPI_FABRICS=ofi"));
    }
}
