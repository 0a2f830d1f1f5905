//! The reduction of layers to a picture.

use ropeway::{Collective, Communicator, Error};

use super::{Pixel, blend};
use crate::block;

/// Lays pictures of one size over each other, as often as one likes. Its messages are bound once.
#[derive(Debug)]
pub struct Compositor {
    rank: u32,
    ranks: u32,
    width: usize,
    height: usize,
    /// Each rank's strip of each layer.
    exchange: Collective<Pixel>,
    /// The blended strips.
    gather: Collective<Pixel>,
}

impl Compositor {
    /// Prepares for pictures of this size. Rank 0 will have the result.
    pub fn new(world: &Communicator, width: usize, height: usize) -> Result<Self, Error> {
        let (rank, ranks) = (world.rank(), world.size());
        let strips: Vec<usize> = (0..ranks).map(|rank| block(height, rank, ranks).len() * width).collect();
        // Everybody sends everybody the strip that is the receiver's.
        let exchange = world.alltoallv_init(&strips.repeat(ranks as usize))?;
        let gather = world.gather_init(&strips, 0)?;
        Ok(Self { rank, ranks, width, height, exchange, gather })
    }

    /// Lays the layers of all ranks over each other, rank 0's in front. The picture is on rank 0; the others get nothing.
    ///
    /// # Panics
    /// If the layer has not the size that was prepared for.
    pub fn composite(&mut self, layer: &[Pixel]) -> Result<&[Pixel], Error> {
        self.reduce_scatter(layer)?;
        self.gather.start()?.wait()?;
        Ok(self.gather.output())
    }

    /// Gives each rank its strip of the result: a reduce-scatter whose operator is `over`, by direct send. It is
    /// written out because `over` is none of the predefined operators.
    fn reduce_scatter(&mut self, layer: &[Pixel]) -> Result<(), Error> {
        self.exchange.input_mut().copy_from_slice(layer);
        self.exchange.start()?.wait()?;
        let pixels = block(self.height, self.rank, self.ranks).len() * self.width;
        // They lie one behind the other, by rank: from front to back.
        let strips = (0..self.ranks as usize).map(|rank| &self.exchange.output()[rank * pixels..][..pixels]);
        blend(strips, self.gather.input_mut());
        Ok(())
    }
}
