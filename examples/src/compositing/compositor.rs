//! The reduction of layers to a picture.

use ropeway::{Collective, Communicator, Error, Reproducible, UserOperator};

use super::{Pixel, over};
use crate::block;

/// Lays pictures of one size over each other, as often as one likes. Its messages are bound once.
#[derive(Debug)]
pub struct Compositor {
    /// To each rank its strip of all layers, blended.
    blend: Collective<Pixel>,
    /// The blended strips.
    gather: Collective<Pixel>,
}

impl Compositor {
    /// Prepares for pictures of this size. Rank 0 will have the result.
    pub fn new(world: &Communicator, width: usize, height: usize) -> Result<Self, Error> {
        let ranks = world.size();
        let strips: Vec<usize> = (0..ranks).map(|rank| block(height, rank, ranks).len() * width).collect();
        let over = UserOperator::new(|front: &mut Pixel, back: &Pixel| *front = over(*front, *back));
        let blend = world.reduce_scatter_init(&strips, Reproducible(&over))?;
        Ok(Self { blend, gather: world.gatherv_init(&strips, 0)? })
    }

    /// Lays the layers of all ranks over each other, rank 0's in front. The picture is on rank 0; the others get nothing.
    ///
    /// # Panics
    /// If the layer has not the size that was prepared for.
    pub fn composite(&mut self, layer: &[Pixel]) -> Result<&[Pixel], Error> {
        self.blend.input_mut().copy_from_slice(layer);
        self.blend.start()?.wait()?;
        self.gather.input_mut().copy_from_slice(self.blend.output());
        self.gather.start()?.wait()?;
        Ok(self.gather.output())
    }
}
