//! A rod of metal cools down, as an MPI program would have it: the MPI calls that were there stand beside those that have replaced them.
//!
//! `ropeway run -n 4 -- target/release/guide_from_mpi`
#![forbid(unsafe_code)]

use ropeway::{Error, Operator, start_all};

/// Cells of each rank.
const CELLS: usize = 1000;

fn main() -> Result<(), Error> {
    let world = ropeway::init()?.world(); // MPI_Init, MPI_COMM_WORLD
    let (rank, size) = (world.rank(), world.size()); // MPI_Comm_rank, MPI_Comm_size
    let node = world.split_by_node()?; // MPI_Comm_split_type(MPI_COMM_TYPE_SHARED)

    // At the ends of the rod there is nobody, where MPI has MPI_PROC_NULL: no request is registered.
    let neighbours: Vec<u32> =
        [rank.checked_sub(1), Some(rank + 1).filter(|&right| right < size)].into_iter().flatten().collect();
    let (mut sends, mut recvs) = (Vec::new(), Vec::new());
    for &neighbour in &neighbours {
        sends.push(world.send_init(world.alloc::<f64>(1)?, neighbour, 0)?); // MPI_Send_init
        recvs.push(world.recv_init(world.alloc::<f64>(1)?, neighbour, 0)?); // MPI_Recv_init
    }

    let mut cells = vec![f64::from(rank); CELLS];
    for _ in 0..100 {
        let edge = |neighbour: u32| if neighbour < rank { 0 } else { CELLS - 1 };
        for (send, &neighbour) in sends.iter_mut().zip(&neighbours) {
            send.buffer_mut()[0] = cells[edge(neighbour)];
        }
        let receiving = start_all(&mut recvs)?; // MPI_Startall
        let sending = start_all(&mut sends)?;
        // Inner cells, while the edges travel. Nothing has to be called meanwhile.
        let mut next = cells.clone();
        for cell in 1..CELLS - 1 {
            next[cell] = cells[cell] + (cells[cell - 1] - 2.0 * cells[cell] + cells[cell + 1]) / 4.0;
        }
        receiving.wait_all()?; // MPI_Waitall
        sending.wait_all()?;
        for (recv, &neighbour) in recvs.iter().zip(&neighbours) {
            let here = edge(neighbour);
            let inner = if here == 0 { cells[1] } else { cells[CELLS - 2] };
            next[here] = cells[here] + (recv.buffer()[0] - 2.0 * cells[here] + inner) / 4.0;
        }
        cells = next;
    }

    let mut warmest = [cells.iter().copied().fold(f64::NEG_INFINITY, f64::max)];
    world.allreduce_in_place(&mut warmest, Operator::Max)?; // MPI_Allreduce(MPI_IN_PLACE)
    let mut on_nodes = vec![0; size as usize];
    world.gather(&[node.size()], &mut on_nodes, 0)?; // MPI_Gather
    if rank == 0 {
        let most = on_nodes.iter().max().copied().unwrap_or_default();
        println!("up to {most} of {size} ranks on a node; the rod is at most {:.3} warm", warmest[0]);
    }
    Ok(()) // MPI_Finalize: the last handle is dropped.
}
