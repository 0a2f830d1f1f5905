//! Numbers travel round a ring of ranks until everybody has its own back; then rank 0 collects their squares.
//!
//! `ropeway run -n 4 -- target/release/guide_messages`
#![forbid(unsafe_code)]

use ropeway::{ANY_SOURCE, Error};

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world();
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);

    // Persistent: bound once, started in every round.
    let mut send = world.send_init(world.alloc::<u32>(1)?, right, 0)?;
    let mut recv = world.recv_init(world.alloc::<u32>(1)?, left, 0)?;
    send.buffer_mut()[0] = rank;
    for _ in 0..size {
        let receiving = recv.start()?;
        send.start()?.wait()?;
        receiving.wait()?;
        send.buffer_mut()[0] = recv.buffer()[0];
    }
    assert_eq!(recv.buffer()[0], rank);

    // One-shot: matched when it comes, whoever it is from.
    if rank > 0 {
        return world.send(&[rank * rank], 0, 1);
    }
    let (mut square, mut sum) = ([0], 0);
    for _ in 1..size {
        let status = world.recv(&mut square, ANY_SOURCE, 1)?;
        assert_eq!(square[0], status.source * status.source);
        sum += square[0];
    }
    println!("the squares of {size} ranks sum up to {sum}");
    Ok(())
}
