//! What the help of each benchmark says: what it measures, the options that it heeds, and examples.

use clap::{Args, Command};
use ropeway_bench::Size;

use super::flags::Flags;
use super::name::Name;
use super::options::ignored;

pub(super) const ABOUT: &str = "Measures messages, collectives and programs";

pub(super) const LONG_ABOUT: &str = "\
Measures messages, collectives and programs, beside the floor: what the machine can do without Ropeway.

Persistent messages, one-shot messages and the floor take turns in one run, so that they can be compared.

Data is checked where it arrives: of every message the first eight bytes, which are its number, and at the end of every batch
all bytes of its last message or window, which are new in each batch; so they are of each message where calls are timed one by
one. Of collectives the first and the last element of each block in every round, with new values each time, and all elements in
a round before. compare and transparency check all of what came in the last round. A wrong byte ends the benchmark with exit
status 1. What makes no sense ends with 2, and what can't run here with 3.";

pub(super) const EXAMPLES: &str = "\
Examples:
  ropeway bench report --quick                           all of it on a page, in less than three minutes
  ropeway bench latency --sizes 8,1K --wait polling
  ropeway bench bandwidth --nodes 2 --sizes 1M --counters
  ropeway bench coll allreduce -n 4 --sizes 8,64K,1M
  ropeway bench compare --nodes 2 --of latency

`ropeway bench NAME --help` says what a benchmark measures, and shows its own options. Those that would change nothing in it are
refused.";

/// The subcommand of a benchmark. Options that it ignores are hidden; they are still read, so that what to do instead can be said.
pub(super) fn command(name: Name) -> Command {
    let about = name.about();
    let Page { more, examples, .. } = PAGES.iter().find(|page| page.name == name).expect("every benchmark has one");
    let ignored: Vec<_> = ignored(name).collect();
    Flags::augment_args(Command::new(name.to_string()))
        .mut_args(|arg| {
            let id = arg.get_id().as_str().to_owned();
            let words = own_words(name, &id).map(str::to_owned).or_else(|| arg.get_help().map(ToString::to_string));
            let words = words.unwrap_or_default() + &usual(name, &id);
            let arg = arg.required(name == Name::Coll && id == "operation");
            arg.hide(ignored.contains(&id.as_str())).help(words)
        })
        .long_about(format!("{about}.\n\n{more}"))
        .about(about)
        .after_help(examples.iter().fold("Examples:".to_owned(), |all, example| all + "\n  ropeway bench " + example))
}

/// What an option means to a benchmark, where that is not what it means to most.
fn own_words(name: Name, id: &str) -> Option<&'static str> {
    use Name::{
        Asynchrony, Boum, Coll, Compare, Idle, Latency, MessageRate, Overhead, Overlap, Segments, Skew, Stream,
        Transparency, Wakeup,
    };
    Some(match (name, id) {
        (MessageRate, "ranks") => "Ranks: each of the lower half sends to one of the upper",
        (Idle | Coll | Segments | Transparency, "ranks") => "Ranks, all of which take part",
        (Overlap, "ranks") => "Ranks: messages go between the first and the last, and all take part in collectives",
        (Compare, "ranks") => "Ranks: messages go between pairs of them, and all take part in the rest",
        (Boum, "ranks") => "Ranks at most: programs run on 1, 2, 4, 8 … up to so many",
        (Coll, "sizes") => {
            "Bytes of the vector (bcast, reductions, scans), of each rank's block (gather, scatter, both allgathers, reduce-scatter), or \
             of the block for each rank (alltoall) or neighbour (neighbor-alltoall)"
        }
        (Overlap, "sizes") => "Bytes of a message; with --of as those of coll",
        (Compare | Transparency, "netns") => {
            "Each node in a network namespace of its own, joined by veth pairs, for others' ranks as for ours. Needs root, iproute2 and \
             nsenter, and leaves nothing; without these it ends with 3"
        }
        (Compare, "sizes") => "Bytes of a message; of collectives as those of coll [default: what is telling of each]",
        (Transparency, "sizes") => {
            "Bytes of a rank's keys (is), or of its part of the solution (cg) [default: 8K,64K,1M]"
        }
        (Boum, "sizes") => "Bytes of messages to measure the parameters with, besides those of the programs",
        (Latency | Stream | Overhead | Wakeup | Overlap | Asynchrony, "wait") => {
            "How ranks wait: polling, blocking or adaptive; several take turns"
        }
        (Boum, "wait") => {
            "How ranks wait: polling, blocking or adaptive, one after the other [default: blocking,polling]"
        }
        (Compare, "wait") => {
            "How our ranks wait: polling, blocking or adaptive, one after the other [default: adaptive; exchange: all three; is, cg: \
             polling,blocking]"
        }
        (Transparency, "wait") => {
            "How our ranks wait: polling, blocking or adaptive, one after the other [default: polling,blocking]"
        }
        (Compare, "counters") => {
            "Also show what our daemons and ranks have counted while ours ran, of each size, and how often our ranks have allocated \
             memory in their calls; in JSON `counters`, in the records of each peer"
        }
        (Transparency, "counters") => {
            "Also show what our daemons and ranks have counted while ours ran, of each size; in JSON `counters`, in the records of each \
             peer"
        }
        (Idle, "counters") => {
            "Also show what daemons and ranks have counted while all ranks waited (system calls without yields); as `counters` in JSON"
        }
        (Boum, "counters") => {
            "Also show what our daemons and ranks have counted, of each parameter and program, and how often our ranks have allocated \
             memory in the calls of each parameter; in JSON `counters`, of programs in `execution`"
        }
        (Skew, "iters") => "Rounds in a run [default: 1]",
        (Skew, "seconds") => "How long the receiver is late",
        (Overlap, "of") => "Collectives to hide instead of messages: those of coll",
        (Transparency, "of") => "Programs to compare: is, cg [default: both]",
        _ => return None,
    })
}

/// What a benchmark does if an option is not given.
fn usual(name: Name, id: &str) -> String {
    let defaults = name.defaults();
    let value = match id {
        "sizes" if !name.is_contest() => {
            defaults.sizes.iter().map(|&size| Size(size).to_string()).collect::<Vec<_>>().join(",")
        }
        "wait" if !name.is_contest() && name != Name::Boum => defaults.wait.to_string(),
        "runs" => defaults.runs.to_string(),
        "seconds" => defaults.seconds.to_string(),
        _ => return String::new(),
    };
    format!(" [default: {value}]")
}

/// What is to be known about a benchmark besides its options.
struct Page {
    name: Name,
    more: &'static str,
    /// As they are typed behind `ropeway bench`.
    examples: &'static [&'static str],
}

const PAGES: [Page; 17] = [
    Page {
        name: Name::Latency,
        more: "A message goes to and fro between two ranks; the floor is two threads that pass a word, or a bare TCP connection.

Ranks that are not pinned may share a core while the machine is loaded, and then wait for each other's time slices: if the
median is far above the least, try --pin.

With --beside-links 100 the same is measured in turns beside a link that is busy and 100 that are idle. What the kernel and the
other node's ranks do for the busy one takes cores of this machine too, from the floor as well.",
        examples: &[
            "latency --sizes 8,1K --wait polling,adaptive",
            "latency --nodes 2 --mode persistent --json",
            "latency --sizes 8 --mode persistent --beside-links 100",
        ],
    },
    Page {
        name: Name::Stream,
        more: "The floor is as many messages through memory that two threads share, or through a bare TCP connection.",
        examples: &["stream --sizes 8,1K", "stream --nodes 2"],
    },
    Page {
        name: Name::Bandwidth,
        more: "A window is started at once and then waited for, so that latency does not count. It takes up to 256 MiB on each side and in each direction.",
        examples: &["bandwidth --sizes 64K,1M", "bandwidth --nodes 2 --sizes 1M --counters"],
    },
    Page {
        name: Name::MessageRate,
        more: "The rate is that of all pairs together. Between nodes all of them have 128 messages under way at most, so from 4 pairs on windows are smaller.",
        examples: &["message-rate -n 8 --sizes 8", "message-rate -n 4 --nodes 2 --mode persistent"],
    },
    Page {
        name: Name::Overhead,
        more: "Set-up and release (o_s), start to end of an empty message (o_i), start and wait alone; the time for a byte (b),
overhead to the time of all bytes (R), and the share of set-up in it (d_p). Sizes whose bytes take no time that can be
measured have no R. The first of several sends, which may have to wake the daemon, has a figure of its own (start_first).
What a start to another node has to write at least, written where the starts are, takes start_bare: after large messages
all of it has to be fetched from far away.",
        examples: &["overhead --sizes 8,1M", "overhead --nodes 2 --mode persistent --wait polling,blocking"],
    },
    Page {
        name: Name::Persistence,
        more: "d_p = o_s / (o_s + o_i): what is done once, at init and free, beside what each start and wait still takes.",
        examples: &["persistence --sizes 8,64K", "persistence --nodes 2"],
    },
    Page {
        name: Name::Cpu,
        more: "What moving data costs those who compute beside it.",
        examples: &["cpu --sizes 64K,1M", "cpu --nodes 2 --wait polling"],
    },
    Page {
        name: Name::Idle,
        more: "All ranks wait for a message that does not come until the time is over.",
        examples: &["idle -n 64", "idle -n 8 --seconds 2 --wait polling --json"],
    },
    Page {
        name: Name::Wakeup,
        more: "The floor is a futex by which one thread wakes another.",
        examples: &["wakeup", "wakeup --nodes 2 --wait adaptive"],
    },
    Page {
        name: Name::Skew,
        more: "0 is what there should be: the receiver's buffer was released by its start, so nobody needs to wait for it.",
        examples: &["skew --seconds 0.2 --sizes 8,4M", "skew --nodes 2"],
    },
    Page {
        name: Name::Overlap,
        more: "Messages or, with --of, collectives are started, and waited for after a computation that takes a tenth longer than they do: one
that keeps the core busy, and one that sleeps. All is done twice in a row, and the second time counts: programs repeat themselves, and a
library may go by what they did last. Between nodes the floor of what messages hide (d_o) is what a bare TCP connection
hides, with a thread that sends and one that receives; the floor of their time (t_y) is the line's rate, if --rate sets one, and
else, as of sends, which are over when the kernel has the bytes, what that connection and its threads take.
Availability, the share of the processor that is left to who computes for longer than communication takes, has the same floor: what is
missing of it goes to the kernel, the line and those threads. What is sent or received alone is timed by the rank that computes, what
goes both ways by both: the mean of their times counts.
With one rank a node, as with -n 4 --nodes 4, collectives have such floors too: a thread of each rank that does the same
over bare connections to all others, moving no more than has to be moved. Those with several ranks on each of several nodes have none,
because these share memory, and neither have barrier, bcast, reduce, scan and exscan, because what is best of them depends on the size,
nor collectives of neighbours. Within a node the floor is each rank's own copy of as many bytes, done when it comes to wait. Nothing of
it hides, and it takes longer after computing, as far as data has left the caches: d_o of collectives of which no part hides is about
the same, and more is what Ropeway hides.

Ropeway's daemons drive what was started, whatever programs do. Beside that, baselines can be measured whose programs drive
it themselves, so that nothing moves unless they wait: messages with --progress both, and collectives as schedules of messages
between ranks with --division two-level,flat. These copy what they send and receive once more. With --wait polling,blocking that
makes the four combinations of notification and progress, in turns in one run.",
        examples: &[
            "overlap --nodes 2 --netns --rate 1gbit",
            "overlap --nodes 2 --wait polling,blocking --progress both --sizes 1M",
            "overlap --of allgather,alltoall -n 4 --sizes 64K",
            "overlap --of neighbor-allgather,neighbor-alltoall -n 4 --nodes 2 --sizes 64K",
            "overlap --of allreduce -n 4 --nodes 4 --netns --rate 1gbit",
        ],
    },
    Page {
        name: Name::Asynchrony,
        more: "A receive alone, with a computation much longer than the message. The floor of what goes on by itself (d_a) is what does
between two threads: up to 8K they add to a word and the second copies, above that a flag goes each way and the sender
copies; or between nodes over a bare TCP connection with a thread that receives.

With --progress both beside a baseline whose programs drive messages while they wait; with --wait polling,blocking that makes the
four combinations of notification and progress, in turns in one run.",
        examples: &["asynchrony --sizes 64K,1M", "asynchrony --nodes 2 --wait polling,blocking --progress both"],
    },
    Page {
        name: Name::Coll,
        more: "All ranks begin at the same moment of the machine's clock; what counts is when the last has its result. With more ranks
than cores not all can begin at once: windows that somebody comes late to are left out and counted (missed). How much hides
behind computation (d_o) is measured beside it; and of what is registered the start, the call alone: rank 0's, when it is the first
to come and when it is the last, which does the work if that is little. Several are started in a row; the first of them, which may
have to wake the daemon, has a figure of its own (start_waking). The others have a floor, measured right behind them: starts that write a
line of their own and one that others read, and do nothing else.

With --uneven the parts of gather, scatter, allgather, alltoall, reduce-scatter and neighbours are of different lengths, as programs
call gatherv, scatterv, allgatherv, alltoallv, reduce_scatter and neighbor_allgatherv: in proportion to rank + 1, of --sizes on
average. Between two ranks of an alltoall the sum of both, modulo the number of ranks, takes the place of the rank, so that all have
as much to send.

Neighbours are those in a grid of all ranks that is closed in each dimension: two dimensions, as even as possible, so four neighbours
each, or a ring if the number of ranks is prime. Their collectives are persistent channels, or one-shot messages.

Baselines whose programs drive collectives themselves, as schedules of messages between ranks, are measured in turns with
--division two-level,flat.",
        examples: &["coll allreduce -n 4 --sizes 8,64K,1M --op max", "coll neighbor-alltoall -n 16 --nodes 4 --sizes 1K,64K", "coll alltoall -n 4 --uneven", "coll allgather -n 8 --nodes 2 --division two-level,flat,multileader:2,multigroup:2", "coll allreduce -n 4 --division two-level,flat --algorithm ring --mode persistent"],
    },
    Page {
        name: Name::Compare,
        more: "Each library's launcher runs the same as Ropeway, run by run in turns. Our messages are persistent; theirs are persistent,
nonblocking and, of latency, exchange and collectives, blocking (windows and what overlaps have no such form), and the table
has the best of them. A difference counts if a permutation test says so. Beside round trips between nodes stands what plain
sockets take in the same runs (floor): a connection for each pair of ranks, which yield.

Others run as they are installed but for what their launchers are told: with a core for each rank to bind ranks to cores, as
ours are (Open MPI --bind-to core, MPICH -bind-to core; Intel MPI does so by itself); with fewer cores not to bind them, and to
yield instead of spinning, without which they would hardly come to an end (Open MPI --bind-to none --oversubscribe --mca
mpi_yield_when_idle 1, Intel MPI I_MPI_PIN=0 I_MPI_THREAD_YIELD=2; MPICH is told nothing). With --nodes their messages have to
take TCP over the same interface as ours, also between ranks that they see on one machine (Open MPI --mca pml ob1 --mca btl
tcp,self --mca btl_tcp_if_include; MPICH 4 UCX_TLS=tcp,self UCX_NET_DEVICES, others MPIR_CVAR_CH4_NETMOD=ofi FI_PROVIDER=tcp
FI_TCP_IFACE, both MPIR_CVAR_NOLOCAL=1; Intel MPI I_MPI_FABRICS=ofi I_MPI_OFI_PROVIDER=tcp FI_PROVIDER=tcp FI_TCP_IFACE). On
one node Intel MPI has I_MPI_FABRICS=shm. As root Open MPI gets --allow-run-as-root, and with --netns what its launcher needs
to be reached (PMIX_MCA_ptl_*). Whatever else is set in the environment, such as OMPI_MCA_*, they heed.

What hides (d_o), goes on by itself (d_a) and is saved by binding (d_p) is found out as overlap, asynchrony and persistence do it, by
the same procedure on both sides: --of overlap, asynchrony, persistence, and for a collective overlap:NAME. Such shares may be near zero
or below, so the table has the difference, ours less theirs, and beside it what they are shares of: much that hides of a slow
transfer is not better than a little of a fast one. As d_p of calls that do little at init says little, there is also in JSON what
binding saves of the time of a message (saved): half a round trip bound, beside that of blocking calls.

What starts and waits cost the program (start_send, start_recv, wait_done) is found out as overhead does it: --of overhead.

With --nodes 2 --netns --rate 1gbit others' ranks are in the same namespaces as ours, at the same line. A library that can't be run
there is named and left out.",
        examples: &[
            "compare --of latency,bandwidth",
            "compare --nodes 2 --of latency --sizes 8,1M --peer /opt/mpich",
            "compare -n 8 --nodes 2 --of latency",
            "compare -n 4 --of barrier,allreduce,reduce-scatter,alltoall",
            "compare --of asynchrony,persistence --sizes 64K",
            "compare --nodes 2 --of overhead --sizes 8,4M",
            "compare --nodes 2 --netns --rate 1gbit --of overlap,overlap:allreduce --sizes 64K",
        ],
    },
    Page {
        name: Name::Transparency,
        more: "An integer sort (is) and conjugate gradients (cg), after the NAS Parallel Benchmarks, register nothing and overlap nothing:
what a program gains or loses that is moved to Ropeway and left as it is.",
        examples: &["transparency", "transparency --nodes 2 --of cg --wait polling"],
    },
    Page {
        name: Name::Boum,
        more: "The parameters are t_c, o_s, o_i, b, R, d_p, d_o and d_a; the programs Jacobi's method, conjugate gradients and a transform,
on 1, 2, 4, 8 … ranks; what they compute without messages is measured in turns with them. With more ranks than cores nothing can be
predicted, which it says. docs/boum.md says how.",
        examples: &["boum", "boum -n 8 --wait polling --unknowns 1024 --points 512K"],
    },
    Page {
        name: Name::Segments,
        more: "A transform by binary exchange sends each segment as soon as it is computed. More segments hide more and cost more; the model
says which number is best.",
        examples: &["segments", "segments --nodes 2 --netns --rate 1gbit --points 1M --segments 1,4,16"],
    },
];
