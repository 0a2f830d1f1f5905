//! MPI libraries on this machine: where they are, who they are, and how their programs are built and started.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::launch::LINK;

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
pub(super) struct Placement<'a> {
    pub(super) ranks: u32,
    /// Whether the messages have to take TCP.
    pub(super) over_tcp: bool,
    /// Files of the network namespaces that ranks are dealt to in blocks, if they are not all in this one.
    pub(super) namespaces: &'a [String],
    /// Whether there is a core for each rank.
    pub(super) has_cores: bool,
}

impl Placement<'_> {
    /// The interface of the messages that take TCP.
    fn interface(&self) -> &'static str {
        if self.namespaces.is_empty() { "lo" } else { LINK }
    }

    /// Each namespace, and how many ranks it has.
    fn blocks(&self) -> impl Iterator<Item = (&String, u32)> {
        let (ranks, nodes) = (self.ranks, self.namespaces.len() as u32);
        (0..)
            .zip(self.namespaces)
            .map(move |(node, namespace)| (namespace, ranks / nodes + u32::from(node < ranks % nodes)))
    }
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

/// Whether there is one in this place.
pub(super) fn is_at(place: &Path) -> bool {
    compilers_at(place).into_iter().any(|compiler| Peer::of(compiler).is_some())
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
    pub(super) fn command_line(&self, program: &Path, args: &[String], placement: Placement<'_>) -> Vec<OsString> {
        let mut line: Vec<OsString> = Vec::new();
        line.extend(environment(self.prefix.as_deref()).into_iter().map(|(name, value)| {
            let mut setting = OsString::from(name);
            setting.push("=");
            setting.push(value);
            setting
        }));
        line.extend(self.settings(placement).into_iter().map(OsString::from));
        // Its ranks ask the launcher who they are, over TCP; the ranks of other launchers inherit a connection.
        if let (Family::OpenMpi, Some(first)) = (self.family, placement.namespaces.first()) {
            line.extend(entering(first));
        }
        line.push(self.launcher.clone().into());
        line.extend(self.options(placement).into_iter().map(OsString::from));
        let ranks = |count: u32| ["-n".into(), count.to_string().into()];
        let program = || [program.into()].into_iter().chain(args.iter().map(OsString::from));
        if placement.namespaces.is_empty() {
            line.extend(ranks(placement.ranks).into_iter().chain(program()));
        }
        for (index, (namespace, count)) in placement.blocks().enumerate() {
            line.extend((index > 0).then(|| ":".into()));
            line.extend(
                ranks(count).into_iter().chain(entering(namespace)).chain(seeing_its_interfaces()).chain(program()),
            );
        }
        line
    }

    /// Environment that only says which way messages go.
    fn settings(&self, placement: Placement<'_>) -> Vec<String> {
        let interface = placement.interface();
        let of_interface = |name: &str| format!("{name}={interface}");
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        match (self.family, placement.over_tcp) {
            (Family::OpenMpi, _) if !placement.namespaces.is_empty() => {
                let of_version = |version: &str| {
                    [
                        of_interface(&format!("PMIX_MCA_ptl_{version}_if_include")),
                        format!("PMIX_MCA_ptl_{version}_remote_connections=1"),
                    ]
                };
                ["tcp", "base"].map(of_version).concat()
            }
            (Family::OpenMpi, _) | (Family::Mpich, false) => Vec::new(),
            (Family::Mpich, true) if !self.name.starts_with("MPICH 4") => {
                let fixed = words(&["MPIR_CVAR_CH4_NETMOD=ofi", "FI_PROVIDER=tcp", "MPIR_CVAR_NOLOCAL=1"]);
                [fixed, vec![of_interface("FI_TCP_IFACE")]].concat()
            }
            (Family::Mpich, true) => {
                let fixed = words(&["UCX_TLS=tcp,self", "MPIR_CVAR_NOLOCAL=1", "MPIR_CVAR_CH4_NOLOCAL=1"]);
                [fixed, vec![of_interface("UCX_NET_DEVICES")]].concat()
            }
            (Family::Intel, true) => {
                let fixed = words(&["I_MPI_FABRICS=ofi", "I_MPI_OFI_PROVIDER=tcp", "FI_PROVIDER=tcp"]);
                [fixed, vec![of_interface("FI_TCP_IFACE")]].concat()
            }
            (Family::Intel, false) if placement.has_cores => words(&["I_MPI_FABRICS=shm"]),
            (Family::Intel, false) => words(&["I_MPI_FABRICS=shm", "I_MPI_PIN=0", "I_MPI_THREAD_YIELD=2"]),
        }
    }

    /// Options of its launcher: each rank on a core while there are enough, and yielding when there are not.
    fn options(&self, placement: Placement<'_>) -> Vec<&'static str> {
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
                    options.extend(["--mca", "btl_tcp_if_include", placement.interface()]);
                }
            }
            Family::Mpich if placement.has_cores => options.extend(["-bind-to", "core"]),
            Family::Mpich | Family::Intel => {}
        }
        options
    }
}

/// What has a command run in a network namespace.
fn entering(namespace: &str) -> [OsString; 2] {
    ["nsenter".into(), format!("--net={namespace}").into()]
}

/// What has a command look at the interfaces of its own namespace: some libraries look for them in /sys.
fn seeing_its_interfaces() -> impl Iterator<Item = OsString> {
    let look = "mount -t sysfs sysfs /sys && exec \"$0\" \"$@\"";
    ["unshare", "--mount", "sh", "-c", look].into_iter().map(OsString::from)
}

/// Programs that put ranks into namespaces.
pub(super) const PLACING: [&str; 3] = ["nsenter", "unshare", "mount"];

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
        let line = |family, ranks, over_tcp, namespaces: &[String]| {
            let placement = Placement { ranks, over_tcp, namespaces, has_cores: ranks <= 2 };
            let line = peer(family).command_line(Path::new("contest"), &["latency".to_owned()], placement);
            line.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(Family::Mpich, 2, false, &[]), "mpiexec -bind-to core -n 2 contest latency");
        assert!(line(Family::OpenMpi, 8, false, &[]).contains("--oversubscribe --mca mpi_yield_when_idle 1"));
        assert!(line(Family::OpenMpi, 2, true, &[]).contains("--mca btl tcp,self --mca btl_tcp_if_include lo"));
        assert!(line(Family::Intel, 2, true, &[]).starts_with("I_MPI_FABRICS=ofi"));
        let namespaces = ["/a".to_owned(), "/b".to_owned()];
        let dealt = line(Family::OpenMpi, 3, true, &namespaces);
        assert!(
            dealt.contains("nsenter --net=/a mpiexec")
                && dealt.contains(&format!("if_include {LINK} -n 2 nsenter --net=/a unshare"))
        );
        assert!(dealt.contains("contest latency : -n 1 nsenter --net=/b unshare --mount"), "{dealt}");
    }
}
