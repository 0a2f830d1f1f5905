//! Large messages that are received straight into the buffers of their receives.

use std::collections::HashMap;

use super::*;

/// Feeds a message as a whole. How many system calls it took to receive it.
fn pass(feed: &mut UnixStream, far: &mut Side, message: &[u8]) -> u64 {
    let before = far.wire.system_calls();
    feed.write_all(message).unwrap();
    while far.wire.receive(&mut far.known).frames == 0 {}
    far.wire.system_calls() - before
}

#[test]
fn messages_that_come_whole_are_received_where_they_belong_until_one_does_not() {
    let (mut feed, socket) = UnixStream::pair().unwrap();
    let mut far = Side::new(End::Recv, socket);
    let mut taking = Taking::new(LARGEST);
    let mut calls = Vec::new();
    for number in 0..3 {
        taking.take(&far);
        calls.push(pass(&mut feed, &mut far, &frame(LARGEST, number)));
    }
    assert_eq!(calls, [1, 2, 2], "with a front, and the rest");
    taking.take(&far);
    let message = frame(LARGEST, 3);
    let (part, rest) = message.split_at(20_000);
    feed.write_all(part).unwrap();
    assert_eq!(far.wire.receive(&mut far.known).missing as usize, rest.len());
    assert_eq!(pass(&mut feed, &mut far, rest), 1, "behind its part");
    taking.take(&far);
    // Its receive has not started: it comes into a cell, and so through the buffer.
    taking.take(&far);
    assert_eq!(pass(&mut feed, &mut far, &frame(LARGEST, 4)), 1);
    taking.take(&far);
    assert_eq!(taking.taken, 5);
}

#[test]
fn messages_whose_receives_have_not_started_come_into_cells() {
    let (mut feed, socket) = UnixStream::pair().unwrap();
    let mut far = Side::new(End::Recv, socket);
    let mut taking = Taking::new(LARGEST);
    for number in 0..CELLS as u8 {
        pass(&mut feed, &mut far, &frame(LARGEST, number));
    }
    taking.take(&far);
    assert_eq!(u32::from(taking.taken), CELLS);
}

#[test]
fn buffers_in_more_pieces_than_a_system_call_takes_are_filled() {
    let strided = |offset, bytes| Layout { offset, block_bytes: 32, stride_bytes: 40, blocks: (bytes / 32) as u32 };
    let (mut feed, socket) = UnixStream::pair().unwrap();
    let mut far = Side::laid_out(End::Recv, socket, &[WIRE_BYTES_MAX], strided);
    let mut receiver = EagerReceiver::default();
    for number in 0..4u32 {
        let message: Vec<u8> = (0..WIRE_BYTES_MAX).map(|at| (at % 251) as u8 ^ number as u8).collect();
        let header = WireFrame::Message { channel: 0, number, bytes: message.len() as u32 }.encode();
        assert_eq!(receiver.start(&far.channels[0]), Progress::Pending);
        pass(&mut feed, &mut far, &[&header[..], &message].concat());
        assert_eq!(receiver.poll(&far.channels[0]), Progress::Done);
        let mut received = vec![0; message.len()];
        far.job.read(&far.channels[0].channel().end(End::Recv).layout, 0, &mut received).unwrap();
        assert!(received == message, "message {number}");
    }
}

/// Nobody is told again of what was there before.
#[test]
fn what_follows_a_message_whose_rest_is_in_as_many_pieces_as_a_system_call_takes_is_not_forgotten() {
    // Some of them come with the front.
    for blocks in 250..260 {
        let strided = |offset, bytes| match bytes {
            8 => Layout::contiguous(offset, 8),
            _ => Layout { offset, block_bytes: 160, stride_bytes: 168, blocks },
        };
        let (mut feed, socket) = UnixStream::pair().unwrap();
        let sizes = [160 * u64::from(blocks), 8];
        let mut far = Side::laid_out(End::Recv, socket, &sizes, strided);
        let mut receivers = [EagerReceiver::default(); 2];
        for number in 0..4u8 {
            let mut both = Vec::new();
            for (channel, (receiver, bytes)) in receivers.iter_mut().zip(sizes).enumerate() {
                assert_eq!(receiver.start(&far.channels[channel]), Progress::Pending);
                let (channel, bytes) = (channel as u16, bytes as u32);
                both.extend(WireFrame::Message { channel, number: number.into(), bytes }.encode());
                both.extend(vec![number; bytes as usize]);
            }
            feed.write_all(&both).unwrap();
            while far.wire.receive(&mut far.known).is_full {}
            for (channel, receiver) in receivers.iter_mut().enumerate() {
                assert_eq!(receiver.poll(&far.channels[channel]), Progress::Done, "{blocks} blocks, message {number}");
                assert!(far.has(channel, number));
            }
        }
    }
}

/// A rank that takes a part of what the daemon waits for has it woken for less.
#[test]
fn the_daemon_is_woken_when_a_rank_has_begun_a_message_that_does_not_come_whole() {
    let Shared { mut feed, looks, mut far, rank } = Shared::new();
    let mut taking = Taking::new(LARGEST);
    let mut known = KnownChannels::new(Arc::clone(&rank));
    for number in 0..2 {
        taking.take(&far);
        feed.write_all(&frame(LARGEST, number)).unwrap();
        while far.wire.receive(&mut far.known).frames == 0 {}
    }
    taking.take(&far);
    let message = frame(LARGEST, 2);
    // The daemon has the front, and waits for all the rest; then a rank takes what has come of that.
    feed.write_all(&message[..200]).unwrap();
    while far.wire.receive(&mut far.known).missing == 0 {}
    feed.write_all(&message[200..20_000]).unwrap();
    while rank.receive(&mut known).missing as usize != message.len() - 20_000 {}
    feed.write_all(&message[20_000..20_001]).unwrap();
    assert!(is_readable(&looks, 5000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn messages_arrive_wherever_they_are_cut(
        // No piece has more messages of a channel than that has cells.
        order in proptest::collection::vec(Just([1, 4, LARGEST]).prop_shuffle(), 1..12),
        cuts in proptest::collection::vec(1usize..150_000, 1..8),
    ) {
        let (mut feed, socket) = UnixStream::pair().unwrap();
        let mut far = Side::new(End::Recv, socket);
        let mut taking: HashMap<_, _> = [1, 4, LARGEST].map(|index| (index, Taking::new(index))).into();
        let mut numbers = HashMap::new();
        let mut stream = Vec::new();
        for index in order.into_iter().flatten() {
            let number: &mut u8 = numbers.entry(index).or_default();
            stream.extend(frame(index, *number));
            *number += 1;
        }
        let (mut rest, mut cuts) = (&stream[..], cuts.iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at((*cuts.next().unwrap()).min(rest.len()));
            for part in piece.chunks(60_000) {
                feed.write_all(part).unwrap();
                for _ in 0..8 {
                    far.wire.receive(&mut far.known);
                    prop_assert!(!far.wire.is_broken());
                    taking.values_mut().for_each(|taking| taking.take(&far));
                }
            }
            rest = behind;
        }
        let taken = |index: &usize| taking[index].taken;
        prop_assert!(numbers.iter().all(|(index, number)| taken(index) == *number));
    }
}
