//! The maxima that several crates rely on, and the inequalities between them.

/// Entries of a client's command ring. A full ring makes `start` wait for the daemon to catch up.
pub const RING_ENTRIES: usize = 4096;

/// Request slots of one rank: how many requests it may hold at once.
pub const SLOTS_PER_RANK: u32 = 1 << 16;

/// How many of these are left to calls that give theirs back before they return, such as a send that waits: two for each thread that can sleep.
/// Who has registered or begun too much can then still do what others wait for.
pub const PASSING_SLOTS: u32 = 2 * DOORBELLS as u32;

/// Doorbells in a control segment. Threads beyond that share one, and wake up together.
pub const DOORBELLS: usize = 64;

/// The doorbell of the thread that combines by user-defined operators while its program computes.
pub const COMBINER_DOORBELL: u32 = DOORBELLS as u32 - 2;

/// Ranks in a job.
pub const RANKS_PER_JOB_MAX: u32 = 1 << 17;

/// Nodes in a job.
pub const NODES_PER_JOB_MAX: usize = 1 << 12;

/// The largest tag. Tags are non-negative; the sign bit is left for wildcards.
pub const TAG_MAX: i32 = (1 << 30) - 1;

/// The largest message.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 40;

/// Blocks of a strided layout.
pub const BLOCKS_MAX: u32 = 1 << 24;

/// Messages up to this size are sent eagerly, pushed at once without asking, unless a node was told otherwise.
pub const EAGER_BYTES_MAX: u64 = 8 << 10;

/// The most a node can be told to send eagerly. Whoever receives more at once cuts the link, so a job's nodes may differ.
pub const EAGER_BYTES_LIMIT: u64 = 64 << 10;

/// Eager messages a channel's sender may have outstanding before the receiver has taken them.
pub const CHANNEL_CREDITS: u16 = 16;

/// The largest message of a channel that goes over a wire instead of the daemons' link. A part of it waits in one of the wire's buffers until
/// the rest has come.
pub const WIRE_BYTES_MAX: u64 = 64 << 10;

/// Channel ends of a job that one wire can serve on one node. Further ones use the link.
pub const WIRE_CHANNELS: usize = 1024;

/// Members of a collective that send each other their small parts directly, if each has a node of its own. More send fewer messages if
/// they pass on what they have heard.
pub const CROSSING_MEMBERS_MAX: usize = 4;

/// What a member may send in all, if each of the others gets as much as the largest part. Wires would take twice that; but on lines as slow as
/// 1 Gbit/s no daemon on the way is missed then, and what is sent has driven what a start needs out of the caches.
pub const CROSSING_BYTES_MAX: u64 = 32 << 10;

/// Nodes of a job beyond which there are no wires: each is a socket in every rank.
pub const WIRED_NODES_MAX: usize = 64;

/// Eager one-shot messages outstanding from one rank to another; beyond that they announce themselves.
pub const PAIR_CREDITS: u32 = 32;

/// The largest one-shot message that goes from one rank of a node to another without the daemon.
pub const POST_BYTES_MAX: usize = 16 << 10;

/// The largest of these that lies in a cell of its lane. Longer ones need a locker.
pub const POST_CELL_BYTES: usize = 2 << 10;

/// Ranks on a node beyond which all one-shot messages go by the daemon: each pair has a lane of some 132 KiB, if it uses it, and
/// 128 KiB of lockers.
pub const POST_RANKS_MAX: u32 = 128;

/// The piece in which large messages travel. Pieces of different messages take turns on a link.
pub const CHUNK_BYTES: u64 = 256 << 10;

/// The piece in which large messages between ranks of one node are copied, by whoever has time, unless a node was told
/// otherwise.
pub const PIECE_BYTES: u64 = 64 << 10;

/// The smallest piece a node can be told: pieces of the largest message can be counted in 32 bits.
pub const PIECE_BYTES_MIN: u64 = 4 << 10;

/// The largest: a few pieces are how long the daemon may be away from everything else.
pub const PIECE_BYTES_LIMIT: u64 = 4 << 20;

/// Payload behind one frame header.
pub const FRAME_PAYLOAD_MAX: u32 = 1 << 20;

/// One message on the control socket.
pub const CONTROL_BYTES_MAX: usize = 1 << 20;

/// Kinds of calls of collectives for which a communicator keeps what it has registered. All ranks keep alike, so this and what
/// follows is part of the protocol.
pub const ONE_SHOT_SHAPES_MAX: usize = 64;

/// The largest arrays of all of them together, of one rank.
pub const ONE_SHOT_BYTES_MAX: u64 = 64 << 20;

/// Calls alike that may be on their way at once.
pub const ONE_SHOT_LANES_MAX: u64 = 8;

/// The same, of arrays however large.
pub const ONE_SHOT_LANES_MIN: u64 = 2;

/// Events a process can log. It logs no more then, so that a log begins where the process did.
pub const LOG_EVENTS_MAX: u64 = 1 << 19;

/// Memory of all logs of a job: many processes have less each.
pub const LOG_BYTES_MAX: u64 = 512 << 20;

/// Alignment of registered buffers: a cache line, so that neighbours never share one.
pub const BUFFER_ALIGN: u64 = 64;

// Names of a wire's channels are 16 bits wide, and marked in whole words.
const _: () = assert!(WIRE_CHANNELS <= u16::MAX as usize && WIRE_CHANNELS.is_multiple_of(64));
// A chunk and an eager message each fit behind one header.
const _: () = assert!(CHUNK_BYTES <= FRAME_PAYLOAD_MAX as u64);
const _: () = assert!(EAGER_BYTES_MAX <= EAGER_BYTES_LIMIT && EAGER_BYTES_LIMIT <= CHUNK_BYTES);
const _: () = assert!(PIECE_BYTES_MIN <= PIECE_BYTES && PIECE_BYTES <= PIECE_BYTES_LIMIT);
// Pieces are counted in a u32, and its largest value means that none is left.
const _: () = assert!(MESSAGE_BYTES_MAX / PIECE_BYTES_MIN < u32::MAX as u64);
// Ring indices are masked, and count entries modulo 2^32.
const _: () = assert!(RING_ENTRIES.is_power_of_two() && RING_ENTRIES < u32::MAX as usize / 2);
// Credits are returned when half of them are used, so there must be a half.
const _: () = assert!(CHANNEL_CREDITS >= 2 && PAIR_CREDITS >= 2);
// A waiter's doorbell is stored as index + 1 in a u32, those of several waiters as bits of a u64.
const _: () = assert!(DOORBELLS <= u64::BITS as usize);
const _: () = assert!(PASSING_SLOTS < SLOTS_PER_RANK);
const _: () = assert!(BUFFER_ALIGN.is_power_of_two());
