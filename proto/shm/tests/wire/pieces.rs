//! Messages that leave or come in pieces.

use super::*;

#[test]
fn frames_that_come_in_pieces_are_put_together() {
    let (mut tap, socket) = tapped();
    let mut near = Side::new(End::Send, socket);
    let (mut feed, socket) = UnixStream::pair().unwrap();
    let mut far = Side::new(End::Recv, socket);
    let mut receiver = EagerReceiver::default();
    assert_eq!(receiver.start(&far.channels[3]), Progress::Pending);
    near.fill(3, 9);
    near.channels[3].channel().sender(0).start(&near.channels[3]);
    near.send();
    let mut bytes = vec![0; WIRE_HEADER_BYTES + SIZES[3] as usize];
    tap.read_exact(&mut bytes).unwrap();
    for (at, byte) in bytes.iter().enumerate() {
        assert_eq!(receiver.poll(&far.channels[3]), Progress::Pending, "after {at} bytes");
        feed.write_all(&[*byte]).unwrap();
        far.wire.receive(&mut far.known);
    }
    assert_eq!(receiver.poll(&far.channels[3]), Progress::Done);
    assert!(far.has(3, 9));
}

#[test]
fn large_messages_behind_small_ones_are_put_together_wherever_they_are_cut() {
    const MESSAGES: u8 = 60;
    let indices = [1, LARGEST];
    let all: Vec<u8> = (0..MESSAGES).flat_map(|number| indices.map(|index| frame(index, number)).concat()).collect();
    // A packet of loopback, what moves a message by little, and all sorts of others.
    for cuts in [&[65_483][..], &[65_500, 76], &[131_072, 1, 20_000], &[100_000, 31, 65_536 + 32 + 40, 3000]] {
        let (mut feed, socket) = UnixStream::pair().unwrap();
        let mut far = Side::new(End::Recv, socket);
        let mut taking = indices.map(Taking::new);
        let mut rest = &all[..];
        for &cut in cuts.iter().cycle() {
            let (piece, behind) = rest.split_at(cut.min(rest.len()));
            feed.write_all(piece).unwrap();
            // A piece may not fit behind what is there.
            for _ in 0..3 {
                far.receive();
                assert!(!far.wire.is_broken(), "cut after {cuts:?}");
                taking.iter_mut().for_each(|taking| taking.take(&far));
            }
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        assert_eq!(taking.map(|taking| taking.taken), [MESSAGES; 2], "cut after {cuts:?}");
    }
}

#[test]
fn what_leaves_in_pieces_arrives_whole() {
    const CHANNELS: usize = 24;
    let message = |index: usize, bytes: u64| (0..bytes).map(|at| (at % 251) as u8 ^ index as u8).collect::<Vec<_>>();
    const LARGE: usize = WIRE_BYTES_MAX as usize;
    for piece in [1, 31, 32, 33, 1000, LARGE, LARGE + 31, 100_000] {
        let (mut tap, socket) = tapped();
        tap.set_nonblocking(true).unwrap();
        let sizes = [WIRE_BYTES_MAX, 16 << 10, 8, 3000].repeat(CHANNELS / 4);
        let mut near = Side::with(End::Send, socket, &sizes);
        let mut senders: Vec<_> = near.channels.iter().map(|channel| channel.channel().sender(0)).collect();
        for (index, sender) in senders.iter_mut().enumerate() {
            let layout = &near.channels[index].channel().end(End::Send).layout;
            near.job.write(layout, 0, &message(index, layout.bytes())).unwrap();
            sender.start(&near.channels[index]);
        }
        let (mut stream, mut read) = (Vec::new(), vec![0; piece]);
        let total = sizes.iter().map(|bytes| bytes + WIRE_HEADER_BYTES as u64).sum::<u64>() as usize;
        near.send();
        while stream.len() < total {
            // So that there is room for something else than a whole piece when more is sent, too.
            let count = tap.read(&mut read).unwrap_or(0);
            stream.extend_from_slice(&read[..count]);
            if count == 0 || stream.len() % 7 < 5 {
                near.send();
            }
        }
        let mut rest = &stream[..];
        let mut found = Vec::new();
        while let Some((header, behind)) = rest.split_at_checked(WIRE_HEADER_BYTES) {
            let Ok(WireFrame::Message { channel, number: 0, bytes }) = WireFrame::decode(header.try_into().unwrap())
            else {
                panic!("only messages are sent")
            };
            let (found_message, behind) = behind.split_at(bytes as usize);
            assert!(found_message == message(channel.into(), bytes.into()), "message of channel {channel}");
            assert_eq!(u64::from(bytes), sizes[usize::from(channel)]);
            found.push(channel);
            rest = behind;
        }
        found.sort_unstable();
        assert!(found.into_iter().eq(0..CHANNELS as u16));
        for (sender, channel) in
            senders.iter_mut().zip(&near.channels).filter(|(_, channel)| channel.channel().bytes() > 8)
        {
            assert_eq!(sender.poll(channel), Progress::Done);
        }
    }
}

/// What is left over goes through the buffer, and the message behind it waits.
#[test]
fn messages_in_more_pieces_than_a_system_call_takes_arrive_whole() {
    const BYTES: u64 = 16 << 10;
    let strided = |offset, bytes| Layout { offset, block_bytes: 32, stride_bytes: 64, blocks: (bytes / 32) as u32 };
    let (mut tap, socket) = tapped();
    let mut near = Side::laid_out(End::Send, socket, &[BYTES; 2], strided);
    let message = |index: usize| (0..BYTES).map(|at| (at % 251) as u8 ^ index as u8).collect::<Vec<_>>();
    for (index, channel) in near.channels.iter().enumerate() {
        let end = channel.channel().end(End::Send);
        near.job.write(&end.layout, 0, &message(index)).unwrap();
        assert_eq!(channel.channel().sender(0).start(channel), Progress::Pending);
    }
    assert_eq!(near.send(), Sent::All);
    let mut arrived = vec![0; WIRE_HEADER_BYTES + BYTES as usize];
    for _ in 0..2 {
        tap.read_exact(&mut arrived).unwrap();
        let Ok(WireFrame::Message { channel, .. }) =
            WireFrame::decode(arrived[..WIRE_HEADER_BYTES].try_into().unwrap())
        else {
            panic!("only messages are sent")
        };
        assert!(arrived[WIRE_HEADER_BYTES..] == message(channel.into()));
    }
}
