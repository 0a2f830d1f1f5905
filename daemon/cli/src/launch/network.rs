//! A network of the tool's own: a network namespace for each node, joined by veth pairs.
//!
//! ```text
//!   two nodes:    node 0 ═══ veth, tbf at both ends ═══ node 1
//!   more:         node k ═══ veth, tbf at both ends ═══ bridge in a further namespace
//! ```
//!
//! No namespace has a name. Each lives as long as an open file of this process or a thread in it, so all of them, and with
//! them the interfaces, vanish with the tool and its ranks, however these end.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use nix::unistd::geteuid;

/// The namespaces of the nodes.
pub(crate) struct Network {
    nodes: Vec<Namespace>,
    /// Holds the bridge, if there is one.
    middle: Option<Namespace>,
}

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    #[error("--netns needs root: {0}")]
    NotRoot(nix::Error),
    #[error("--netns needs CAP_SYS_ADMIN, which this root does not have")]
    NoCapability,
    #[error(
        "--netns can't be set up here: the network belongs to another user namespace, and who leaves it can't return"
    )]
    NoReturn,
    #[error("--netns needs the programs ip and tc: install iproute2")]
    NoIproute2,
    #[error("--netns can't be set up here: {program}: {message}")]
    Refused { program: &'static str, message: String },
    #[error("--netns can't be set up here: {0}")]
    Io(#[from] io::Error),
}

impl Network {
    /// Makes a network of so many nodes, at least two. With a rate, no node sends or receives faster.
    pub(crate) fn new(nodes: u32, rate: Option<Rate>) -> Result<Self, NetworkError> {
        probe()?;
        let namespaces = (0..nodes).map(|_| Namespace::new()).collect::<Result<Vec<_>, _>>()?;
        let middle = if namespaces.len() > 2 { Some(Namespace::new()?) } else { None };
        let network = Self { nodes: namespaces, middle };
        network.wire()?;
        for (node, namespace) in network.nodes.iter().enumerate() {
            let _inside = namespace.enter()?;
            let address = Self::address(node);
            batch("ip", &format!("addr add {address}/16 dev {LINK}\nlink set {LINK} up\nlink set lo up\n"))?;
            limit(LINK, rate)?;
        }
        if let Some(middle) = &network.middle {
            let _inside = middle.enter()?;
            (0..network.nodes.len()).try_for_each(|node| limit(&port(node), rate))?;
        }
        Ok(network)
    }

    /// A node's address.
    pub(crate) fn address(node: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from_bits(FIRST_ADDRESS.to_bits() + node as u32))
    }

    /// Files that other processes can enter the nodes' namespaces by, while this process lives.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.nodes.iter().map(Namespace::path).collect()
    }

    /// Moves this thread into a node's namespace, and with it what it opens and starts, until the guard is dropped.
    pub(crate) fn enter(&self, node: usize) -> io::Result<Inside> {
        self.nodes[node].enter()
    }

    fn wire(&self) -> Result<(), NetworkError> {
        let Some(middle) = &self.middle else {
            let _inside = self.nodes[0].enter()?;
            let other = self.nodes[1].path();
            return batch("ip", &format!("link add name {LINK} type veth peer name {LINK} netns {other}\n"));
        };
        let _inside = middle.enter()?;
        let mut commands = "link add name bridge0 type bridge\nlink set bridge0 up\n".to_owned();
        for (node, namespace) in self.nodes.iter().enumerate() {
            let (port, path) = (port(node), namespace.path());
            commands += &format!("link add name {port} type veth peer name {LINK} netns {path}\n");
            commands += &format!("link set {port} master bridge0 up\n");
        }
        batch("ip", &commands)
    }
}

/// The bridge's end of a node's cable.
fn port(node: usize) -> String {
    format!("port{node}")
}

/// Has an interface of the current namespace send no faster than this.
fn limit(interface: &str, rate: Option<Rate>) -> Result<(), NetworkError> {
    let Some(rate) = rate else { return Ok(()) };
    let (segment, burst) = (rate.bytes_in_segment(), rate.bytes_in_burst());
    batch("ip", &format!("link set dev {interface} gso_max_size {segment}\n"))?;
    batch("tc", &format!("qdisc add dev {interface} root tbf rate {rate} burst {burst} latency 100ms\n"))
}

/// Runs commands of iproute2 in the namespace of this thread.
fn batch(program: &'static str, commands: &str) -> Result<(), NetworkError> {
    let mut command = Command::new(program);
    command.args(["-batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NetworkError::NoIproute2,
        _ => error.into(),
    })?;
    let mut stdin = child.stdin.take().expect("it is piped");
    // If the program does not listen, what it says on standard error is more to the point.
    let written = stdin.write_all(commands.as_bytes());
    drop(stdin);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        let message = text.lines().next().unwrap_or("failed").to_owned();
        return Err(NetworkError::Refused { program, message });
    }
    Ok(written?)
}

/// Whether a thread can leave its namespace, and return: one that has to do nothing else.
fn probe() -> Result<(), NetworkError> {
    let there_and_back = || {
        let home = current()?;
        leave()?;
        setns(home, CloneFlags::CLONE_NEWNET).map_err(|error| match error {
            nix::Error::EPERM => NetworkError::NoReturn,
            _ => NetworkError::Io(error.into()),
        })
    };
    let thread = thread::Builder::new().name("namespaces".into()).spawn(there_and_back)?;
    thread.join().unwrap_or_else(|_| Err(NetworkError::Io(io::Error::other("a thread panicked"))))
}

/// Moves this thread into a new namespace.
fn leave() -> Result<(), NetworkError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| match error {
        nix::Error::EPERM if geteuid().is_root() => NetworkError::NoCapability,
        nix::Error::EPERM => NetworkError::NotRoot(error),
        _ => NetworkError::Io(error.into()),
    })
}

/// A network namespace, which exists at least as long as this.
struct Namespace(File);

impl Namespace {
    fn new() -> Result<Self, NetworkError> {
        let home = current()?;
        leave()?;
        let _back = Inside { home };
        Ok(Self(current()?))
    }

    fn enter(&self) -> io::Result<Inside> {
        let home = current()?;
        setns(&self.0, CloneFlags::CLONE_NEWNET)?;
        Ok(Inside { home })
    }

    /// How another process finds it.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

/// The namespace of this thread.
fn current() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// While this exists, the thread is in another namespace than at home.
pub(crate) struct Inside {
    home: File,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // In the wrong network nothing that follows would be right.
        setns(&self.home, CloneFlags::CLONE_NEWNET).expect("who has left a namespace may return to it");
    }
}

/// Bits a second. As text, a number and one of bit, kbit, mbit, gbit, which are powers of 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate(u64);

/// Not a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is not a rate from 1mbit to 100gbit, such as 100mbit or 1gbit")]
pub(crate) struct BadRate;

impl Rate {
    pub(crate) fn bits_per_s(self) -> u64 {
        self.0
    }

    /// The largest segment. Each costs an interrupt, which network cards spare their hosts; but what is sent after a pause goes
    /// at once, up to a segment.
    fn bytes_in_segment(self) -> u64 {
        self.bytes_in(SEGMENT_US).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
    }

    /// A segment with the headers of its packets, which has to fit, and as much as leaves while the queue is late.
    fn bytes_in_burst(self) -> u64 {
        self.bytes_in_segment() * 21 / 20 + self.bytes_in(LATE_US)
    }

    fn bytes_in(self, us: u64) -> u64 {
        self.0 / 8 * us / 1_000_000
    }
}

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(word: &str) -> Result<Self, BadRate> {
        let end = word.find(|letter: char| letter.is_ascii_alphabetic()).ok_or(BadRate)?;
        let (number, unit) = word.split_at(end);
        let unit = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).ok_or(BadRate)?.1;
        let bits = number.parse::<f64>().map_err(|_| BadRate)? * unit as f64;
        if (1e6..=1e11).contains(&bits) { Ok(Self(bits as u64)) } else { Err(BadRate) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, unit): &&(&str, u64)| self.0.is_multiple_of(*unit);
        let (name, unit) = UNITS.iter().find(fits).expect("every number is a multiple of one");
        write!(f, "{}{name}", self.0 / unit)
    }
}

const UNITS: [(&str, u64); 4] = [("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1000), ("bit", 1)];
/// The nodes' interface, each in its own namespace.
pub(crate) const LINK: &str = "ropeway0";
/// Nobody else can reach these addresses, so it does not matter who else uses them.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// What the line has to send of a segment, at most: TCP itself makes segments of up to a millisecond.
const SEGMENT_US: u64 = 525;
/// With smaller ones traffic both ways stays below a fast line's rate.
const SEGMENT_BYTES_MIN: u64 = 16 << 10;
/// The kernel makes no larger ones, unless told to.
const SEGMENT_BYTES_MAX: u64 = 64 << 10;
/// A queue that waits for its turn is woken that late at the latest, as a rule.
const LATE_US: u64 = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_printed_as_they_are_written() {
        for word in ["1gbit", "2500mbit", "100mbit", "1001kbit", "1000001bit"] {
            assert_eq!(word.parse::<Rate>().unwrap().to_string(), word);
        }
        for (word, printed) in [("1Gbit", "1gbit"), ("1.5gbit", "1500mbit"), ("0.0010005Gbit", "1000500bit")] {
            assert_eq!(word.parse::<Rate>().unwrap().to_string(), printed);
        }
        let others = ["", "1", "gbit", "999kbit", "1e1gbit", "infgbit", "NaNgbit", "-1gbit", "101gbit", "1 gbits"];
        for word in others.into_iter().chain(["99999999999999999999gbit"]) {
            assert_eq!(word.parse::<Rate>(), Err(BadRate), "{word}");
        }
    }

    #[test]
    fn a_burst_is_short() {
        let sizes = ["100mbit", "500mbit", "1gbit", "10gbit"].map(|word| {
            let rate: Rate = word.parse().unwrap();
            (rate.bytes_in_segment(), rate.bytes_in_burst())
        });
        assert_eq!(sizes, [(16_384, 18_203), (32_812, 39_452), (65_536, 78_812), (65_536, 168_812)]);
    }
}
