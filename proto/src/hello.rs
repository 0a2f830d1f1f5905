//! Daemon ↔ daemon: the first 64 bytes each side sends on a new link, little-endian.
//!
//! ```text
//!  0        4      6      8        16                                48    56     58  60    64
//!  +--------+------+------+--------+---------------------------------+-----+------+---+-----+
//!  | "RWLK" | min  | max  | daemon |             key                 | job | node | 0 | crc |
//!  +--------+------+------+--------+---------------------------------+-----+------+---+-----+
//! ```
//!
//! `node` is zero on a link. On a wire of `job`, it is the dialling daemon's node in it, plus one; who is called leaves both
//! zero.
//! Both sides send theirs at once and judge the other's. These bytes keep their place in every version, so that two
//! daemons of any age can at least name their versions to each other.

use std::fmt;

use serde::{Deserialize, Serialize};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::ids::{JobId, NodeId};

/// Bytes of a hello.
pub const HELLO_BYTES: usize = 64;

const MAGIC: [u8; 4] = *b"RWLK";
const CRC_OFFSET: usize = HELLO_BYTES - 4;

/// The protocol versions a program speaks, oldest and newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionRange {
    /// The oldest version understood.
    pub min: u16,
    /// The newest version understood.
    pub max: u16,
}

impl VersionRange {
    /// What this build speaks, towards clients and towards other daemons.
    pub const CURRENT: Self = Self { min: 2, max: 2 };

    /// The newest version both speak.
    pub fn common(self, other: Self) -> Result<u16, VersionMismatch> {
        let newest = self.max.min(other.max);
        if newest >= self.min.max(other.min) { Ok(newest) } else { Err(VersionMismatch { ours: self, theirs: other }) }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.min == self.max { write!(f, "{}", self.max) } else { write!(f, "{} to {}", self.min, self.max) }
    }
}

/// Two programs that have no protocol version in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no common protocol version: we speak {ours}, the peer speaks {theirs}")]
pub struct VersionMismatch {
    /// Our versions.
    pub ours: VersionRange,
    /// The peer's versions.
    pub theirs: VersionRange,
}

/// A cluster's secret. Daemons of one cluster know it, nobody else does.
#[derive(Clone, Copy)]
pub struct ClusterKey(pub [u8; 32]);

impl ClusterKey {
    /// Compares in a time that does not depend on where the keys differ.
    pub fn matches(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
    }
}

impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterKey(…)")
    }
}

/// What a daemon says of itself when a link begins.
#[derive(Clone, Copy, Debug)]
pub struct Hello {
    /// Versions it speaks.
    pub versions: VersionRange,
    /// Its own random number, by which it is told from other daemons.
    pub daemon: u64,
    /// Proof that it belongs to the cluster. Until links are encrypted, daemons listen on loopback only.
    pub key: ClusterKey,
    /// If the connection is to be a wire: of which job, and which of its nodes dials.
    pub wire: Option<(JobId, NodeId)>,
}

/// Why a link was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The first bytes are not ours: some other program has connected.
    #[error("the peer does not speak the ropeway link protocol")]
    NotRopeway,
    /// The checksum does not fit the bytes.
    #[error("hello checksum mismatch")]
    Checksum,
    /// Nothing in common.
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    /// The peer's key is another one.
    #[error("the peer belongs to another cluster: its key differs from ours")]
    WrongKey,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct RawHello {
    magic: [u8; 4],
    min: U16,
    max: U16,
    daemon: U64,
    key: [u8; 32],
    job: U64,
    node: U16,
    reserved: [u8; 2],
    crc: U32,
}

const _: () = assert!(size_of::<RawHello>() == HELLO_BYTES);

impl Hello {
    /// The hello as it goes over the wire.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let (job, node) = self.wire.map_or((0, 0), |(job, node)| (job.0, node.0 + 1));
        let mut raw = RawHello {
            magic: MAGIC,
            min: self.versions.min.into(),
            max: self.versions.max.into(),
            daemon: self.daemon.into(),
            key: self.key.0,
            job: job.into(),
            node: node.into(),
            reserved: [0; 2],
            crc: 0.into(),
        };
        raw.crc = crc32c::crc32c(&raw.as_bytes()[..CRC_OFFSET]).into();
        zerocopy::transmute!(raw)
    }

    /// Reads the peer's hello, which may be anything.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Result<Self, HelloError> {
        let raw: RawHello = zerocopy::transmute!(*bytes);
        if raw.magic != MAGIC {
            return Err(HelloError::NotRopeway);
        }
        if raw.crc.get() != crc32c::crc32c(&bytes[..CRC_OFFSET]) {
            return Err(HelloError::Checksum);
        }
        let versions = VersionRange { min: raw.min.get(), max: raw.max.get() };
        let wire = raw.node.get().checked_sub(1).map(|node| (JobId(raw.job.get()), NodeId(node)));
        Ok(Self { versions, daemon: raw.daemon.get(), key: ClusterKey(raw.key), wire })
    }

    /// Judges the peer's hello: the version to speak, or why not.
    pub fn accept(&self, peer: &Self) -> Result<u16, HelloError> {
        let version = self.versions.common(peer.versions)?;
        if self.key.matches(&peer.key) { Ok(version) } else { Err(HelloError::WrongKey) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello(min: u16, max: u16, key: u8) -> Hello {
        Hello { versions: VersionRange { min, max }, daemon: 0x0102, key: ClusterKey([key; 32]), wire: None }
    }

    #[test]
    fn a_hello_has_its_golden_bytes() {
        let bytes = hello(1, 3, 7).encode();
        let mut golden = [0; 60];
        golden[..16].copy_from_slice(b"RWLK\x01\0\x03\0\x02\x01\0\0\0\0\0\0");
        golden[16..48].fill(7);
        assert_eq!(bytes[..60], golden);
        assert_eq!(Hello::decode(&bytes).map(|h| h.daemon), Ok(0x0102));
    }

    #[test]
    fn a_wire_names_its_job_and_node() {
        let wire = Some((JobId(0x0304), NodeId(4)));
        let bytes = Hello { wire, ..hello(1, 1, 0) }.encode();
        assert_eq!(bytes[48..60], [4, 3, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
        assert_eq!(Hello::decode(&bytes).map(|hello| hello.wire), Ok(wire));
    }

    #[test]
    fn the_newest_common_version_is_chosen() {
        assert_eq!(hello(1, 3, 0).accept(&hello(2, 9, 0)), Ok(3));
    }

    #[test]
    fn a_refusal_names_both_versions() {
        let error = hello(1, 1, 0).accept(&hello(2, 4, 0)).unwrap_err();
        assert_eq!(error.to_string(), "no common protocol version: we speak 1, the peer speaks 2 to 4");
    }

    #[test]
    fn another_cluster_is_refused() {
        assert_eq!(hello(1, 1, 1).accept(&hello(1, 1, 2)), Err(HelloError::WrongKey));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in any::<[u8; HELLO_BYTES]>()) {
            prop_assert!(Hello::decode(&bytes).is_err());
        }
    }
}
