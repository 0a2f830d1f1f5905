//! Segments, copies, vectored I/O and the arena: never outside, never overlapping.
#![cfg(not(loom))]

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nix::sys::memfd::{MFdFlags, memfd_create};
use proptest::prelude::*;
use ropeway_proto::Layout;
use ropeway_proto::limits::{DOORBELLS, SLOTS_PER_RANK};
use ropeway_shm::{
    Arena, ArenaSlot, Doorbell, Gather, JobGeometry, JobSegment, RequestSlot, Scatter, Segment, SegmentError,
};

const ARENA_BYTES: u64 = 1 << 20;
const GEOMETRY: JobGeometry = JobGeometry { local_ranks: 2, arena_bytes_max: ARENA_BYTES };

fn job() -> JobSegment {
    let job = JobSegment::create(GEOMETRY).unwrap();
    job.reserve_arena(0, 0..ARENA_BYTES).unwrap();
    job
}

#[test]
fn an_unsealed_memfd_is_refused() {
    let fd = memfd_create("test", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING).unwrap();
    File::from(fd.try_clone().unwrap()).set_len(4096).unwrap();
    assert!(matches!(Segment::map(fd, 4096), Err(SegmentError::NotSealed)));
}

#[test]
fn a_plain_file_is_refused() {
    let file = File::open("/proc/self/exe").unwrap();
    let bytes = file.metadata().unwrap().len();
    assert!(matches!(Segment::map(file.into(), bytes), Err(SegmentError::NotSealed)));
}

#[test]
fn a_segment_of_another_size_is_refused() {
    let segment = Segment::create("test", 8192).unwrap();
    let fd = segment.fd().try_clone_to_owned().unwrap();
    assert!(matches!(Segment::map(fd, 4096), Err(SegmentError::WrongSize { found: 8192, expected: 4096 })));
}

#[test]
fn a_segment_can_not_be_resized() {
    let segment = Segment::create("test", 8192).unwrap();
    let file = File::from(segment.fd().try_clone_to_owned().unwrap());
    assert!(file.set_len(4096).is_err());
    assert!(file.set_len(16384).is_err());
    assert!(segment.reserve(0, 8192).is_ok());
    assert!(segment.reserve(4096, 8192).is_err(), "reserving can't grow it");
}

#[test]
fn segments_have_no_name() {
    let before: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let _job = job();
    let after: Vec<_> = std::fs::read_dir("/dev/shm").unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(before, after);
}

#[test]
fn what_different_ranks_write_lies_in_different_cache_lines() {
    /// Two lines: some processors fetch the neighbour along.
    const LINES: usize = 128;
    let job = job();
    let slot = |rank, slot| std::ptr::from_ref(job.slot(rank, slot).unwrap()).addr();
    let doorbell = |rank, index| std::ptr::from_ref(job.doorbell(rank, index).unwrap()).addr();
    let ends = [
        (slot(0, SLOTS_PER_RANK - 1) + size_of::<RequestSlot>(), slot(1, 0)),
        (doorbell(0, DOORBELLS as u32 - 1) + size_of::<Doorbell>(), doorbell(1, 0)),
    ];
    for (end_of_first, begin_of_second) in ends {
        assert!(end_of_first.div_ceil(LINES) <= begin_of_second / LINES);
    }
    // And two requests of one rank, which different processes complete.
    assert!(slot(0, 0).is_multiple_of(64) && slot(0, 1) - slot(0, 0) == 64);
}

#[test]
fn cores_of_several_ranks_count_once() {
    let job = job();
    assert!(job.outnumbers_cores(), "nobody has brought a core");
    job.add_cores([70]);
    job.add_cores([70]);
    assert!(job.outnumbers_cores(), "two ranks on one core");
    job.add_cores([6, 70]);
    assert!(!job.outnumbers_cores(), "two ranks on two cores");
}

#[test]
fn numbers_beyond_the_tables_have_no_slot() {
    let job = job();
    assert!(job.slot(1, 65535).is_some());
    assert!(job.slot(2, 0).is_none());
    assert!(job.slot(0, 65536).is_none());
}

#[test]
fn a_strided_layout_crosses_a_socket() {
    let job = job();
    let arena = job.arena(0).start;
    let from = Layout { offset: arena, block_bytes: 3, stride_bytes: 7, blocks: 1000 };
    let to = Layout { offset: arena + 100_000, block_bytes: 500, stride_bytes: 501, blocks: 6 };
    let sent: Vec<u8> = (0..3000u32).map(|index| ((index * 7) >> 2) as u8).collect();
    job.write(&from, 0, &sent).unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let (mut written, mut read) = (0, 0);
    while read < 3000 {
        let mut gather = Gather::new();
        // With more blocks than a system call takes, a part is taken.
        assert!(gather.push_memory(&job, &from, written, 3000 - written).unwrap() > 0 || written == 3000);
        if written < 3000 {
            written += gather.write(near.as_fd()).unwrap() as u64;
        }
        let mut scatter = Scatter::new();
        scatter.push_memory(&job, &to, read, 3000 - read).unwrap();
        read += scatter.read(far.as_fd()).unwrap() as u64;
    }
    let mut received = vec![0; 3000];
    job.read(&to, 0, &mut received).unwrap();
    assert_eq!(received, sent);
}

#[test]
fn private_bytes_and_shared_memory_share_a_system_call() {
    let job = job();
    let layout = Layout::contiguous(job.arena(0).start, 5);
    job.write(&layout, 0, b"world").unwrap();
    let (near, far) = UnixStream::pair().unwrap();
    let mut gather = Gather::new();
    assert!(gather.push_bytes(b"hello "));
    gather.push_memory(&job, &layout, 0, 5).unwrap();
    assert_eq!((gather.bytes(), gather.write(near.as_fd()).unwrap()), (11, 11));
    let mut head = [0; 6];
    let target = Layout::contiguous(job.arena(0).start + 64, 5);
    let mut scatter = Scatter::new();
    scatter.push_bytes(&mut head);
    scatter.push_memory(&job, &target, 0, 5).unwrap();
    assert_eq!(scatter.read(far.as_fd()).unwrap(), 11);
    let mut tail = [0; 5];
    job.read(&target, 0, &mut tail).unwrap();
    assert_eq!((&head, &tail), (b"hello ", b"world"));
}

proptest! {
    /// Whatever the numbers: an answer, never a fault.
    #[test]
    fn no_layout_reaches_outside(
        offset in prop_oneof![any::<u64>(), 0..10_000_000u64],
        block_bytes in prop_oneof![any::<u64>(), 0..100_000u64],
        stride_bytes in prop_oneof![any::<u64>(), 0..100_000u64],
        blocks in prop_oneof![any::<u32>(), 0..100u32],
        at in prop_oneof![any::<u64>(), 0..1000u64],
        bytes in 0usize..5000,
    ) {
        let job = job();
        let layout = Layout { offset, block_bytes, stride_bytes, blocks };
        let inside = Layout::contiguous(job.arena(0).start, 5000);
        let size = job.channels().end;
        let mut buffer = vec![0; bytes];
        let read = job.read(&layout, at, &mut buffer);
        let write = job.copy(&inside, 0, &layout, at, bytes as u64);
        prop_assert_eq!(read.is_ok(), write.is_ok());
        if read.is_ok() {
            prop_assert!(layout.is_valid() && offset + layout.span() <= size && at + bytes as u64 <= layout.bytes());
        }
    }

    /// Copies between strided layouts agree with packing and unpacking.
    #[test]
    fn a_strided_copy_agrees_with_read_and_write(
        from_block in 1u64..50, to_block in 1u64..50, gap in 0u64..20, total in 1u64..2000, at in 0u64..100,
    ) {
        let job = job();
        let arena = job.arena(0).start;
        let layout = |offset, block: u64| {
            let blocks = (total + at).div_ceil(block) as u32;
            Layout { offset, block_bytes: block, stride_bytes: block + gap, blocks }
        };
        let (from, to) = (layout(arena, from_block), layout(arena + ARENA_BYTES / 2, to_block));
        let sent: Vec<u8> = (0..total).map(|index| ((index * 31) >> 2) as u8).collect();
        job.write(&from, at, &sent).unwrap();
        job.copy(&from, at, &to, at, total).unwrap();
        let mut received = vec![0; total as usize];
        job.read(&to, at, &mut received).unwrap();
        prop_assert_eq!(received, sent);
    }

    /// Buffers never overlap, are zeroed and aligned, and everything that is given back can be had again.
    #[test]
    fn buffers_never_overlap(operations in proptest::collection::vec((0u64..70_000, any::<prop::sample::Index>()), 1..60)) {
        let arena = Arena::new(Arc::new(job()), 0);
        arena.set_reserved(ARENA_BYTES);
        let mut slots: Vec<ArenaSlot> = Vec::new();
        for (bytes, index) in operations {
            if bytes % 3 == 0 && !slots.is_empty() {
                slots.swap_remove(index.index(slots.len()));
                continue;
            }
            let Ok(mut slot) = arena.allocate(bytes) else { continue };
            prop_assert_eq!(slot.offset() % 64, 0);
            prop_assert!(slot.as_bytes().iter().all(|&byte| byte == 0));
            slot.as_bytes_mut().fill(0xee);
            for other in &slots {
                let apart = slot.offset() + bytes <= other.offset() || other.offset() + other.bytes() <= slot.offset();
                prop_assert!(apart || bytes == 0 || other.bytes() == 0);
            }
            slots.push(slot);
        }
        drop(slots);
        prop_assert!(arena.allocate(ARENA_BYTES).is_ok());
    }
}

#[test]
fn an_arena_without_room_says_what_it_needs() {
    let arena = Arena::new(Arc::new(job()), 0);
    assert_eq!(arena.allocate(100).err().map(|full| full.needed), Some(128));
    arena.set_reserved(4096);
    let _kept = arena.allocate(1000).unwrap();
    let needed = arena.allocate(8192).err().map(|full| full.needed);
    assert_eq!(needed, Some(1024 + 8192), "the free end of the arena counts");
}

/// Also while the first part of one is in use already, and seen by others.
#[test]
fn an_arena_gets_huge_pages_where_it_has_the_pages_of_whole_ones() {
    const HUGE: u64 = 2 << 20;
    let geometry = JobGeometry { local_ranks: 2, arena_bytes_max: 2 * HUGE };
    let job = Arc::new(JobSegment::create(geometry).unwrap());
    let others = JobSegment::map(job.fd().try_clone_to_owned().unwrap(), geometry).unwrap();
    let arena = Arena::new(Arc::clone(&job), 1);
    let reserve = |part: std::ops::Range<u64>| {
        job.reserve_arena(1, part.clone()).unwrap();
        arena.set_reserved(part.end);
    };
    reserve(0..HUGE / 2);
    let mut first = arena.allocate(HUGE / 2).unwrap();
    first.as_bytes_mut().fill(7);
    let address = first.as_bytes().as_ptr().addr();
    assert_eq!((address as u64 % HUGE, huge_pages_at(address)), (0, Some(0)));
    reserve(HUGE / 2..HUGE + HUGE / 2);
    let found = huge_pages_at(address);
    if system_has_huge_pages() {
        assert_eq!(found, Some(1));
    }
    let mut seen = vec![0; first.bytes() as usize];
    let layout = Layout { offset: first.offset(), block_bytes: first.bytes(), stride_bytes: first.bytes(), blocks: 1 };
    others.read(&layout, 0, &mut seen).unwrap();
    assert!([&seen[..], first.as_bytes()].iter().all(|bytes| bytes.iter().all(|&byte| byte == 7)));
    assert!(arena.allocate(HUGE).unwrap().as_bytes().iter().all(|&byte| byte == 0));
}

/// How many of its mapping's huge pages this process has in its page table.
fn huge_pages_at(address: usize) -> Option<u64> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = smaps.lines().skip_while(|line| {
        let bounds = line.split([' ', '-']).take(2).map(|bound| usize::from_str_radix(bound, 16).ok());
        !matches!(bounds.collect::<Vec<_>>()[..], [Some(start), Some(end)] if (start..end).contains(&address))
    });
    let kilobytes = lines.find_map(|line| line.strip_prefix("ShmemPmdMapped:")?.trim().strip_suffix(" kB"));
    kilobytes.map(|kilobytes| kilobytes.parse::<u64>().unwrap() / 2048)
}

/// Whether programs may ask for some of shared memory: Linux 6.1 on a processor that has them of this size.
fn system_has_huge_pages() -> bool {
    let size = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).take(2).collect();
    size.trim() == "2097152" && version >= vec![6, 1]
}

#[test]
fn a_lent_buffer_is_never_given_to_anybody_else() {
    let arena = Arena::new(Arc::new(job()), 0);
    arena.set_reserved(4096);
    let mut slot = arena.allocate(4096).unwrap();
    slot.lend();
    drop(slot);
    assert!(arena.allocate(64).is_err());
}

#[test]
#[should_panic(expected = "the buffer is in use")]
fn a_lent_buffer_has_no_slices() {
    let arena = Arena::new(Arc::new(job()), 0);
    arena.set_reserved(4096);
    let mut slot = arena.allocate(64).unwrap();
    slot.lend();
    let _ = slot.as_bytes();
}

#[test]
fn a_slice_is_located_in_its_own_arena_only() {
    let job = Arc::new(job());
    let arena = Arena::new(Arc::clone(&job), 0);
    arena.set_reserved(4096);
    let slot = arena.allocate(100).unwrap();
    assert_eq!(arena.locate(&slot.as_bytes()[10..20]), Some(slot.offset() + 10));
    assert_eq!(Arena::new(job, 1).locate(slot.as_bytes()), None);
    assert_eq!(arena.locate(&[1, 2, 3]), None);
}
