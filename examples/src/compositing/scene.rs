//! Something to look at: three rings in a row, each through the next, so that none is in front of another as a whole.
//!
//! What lies in a range of depths is drawn by marching through it. So layers blend into the same picture however many
//! there are, but for rounding; and only in the right order.

use std::ops::Range;

use super::{Image, Pixel};
use crate::block;

type Vector = [f32; 3];

/// Draws layer `layer` of so many, layer 0 in front. The last has the background too.
pub fn draw(width: usize, height: usize, layer: u32, layers: u32) -> Image {
    let steps = block(STEPS, layer, layers);
    let is_last = layer + 1 == layers;
    let scale = 2.2 / height.min(width * 3 / 4).max(1) as f32;
    let pixel = |index: usize| {
        let (row, column) = (index / width, index % width);
        let x = (column as f32 + 0.5 - width as f32 / 2.0) * scale;
        let y = (height as f32 / 2.0 - row as f32 - 0.5) * scale;
        let mut light = march(x, y, steps.clone());
        if is_last {
            light.add(background(x, y), 1.0);
        }
        light.pixel()
    };
    Image { width, height, pixels: (0..width * height).map(pixel).collect() }
}

/// A ring in the plane that its axes span.
struct Ring {
    centre: Vector,
    axes: [Vector; 2],
    colour: Vector,
    /// How opaque it is: absorption per unit of length.
    density: f32,
}

const RINGS: [Ring; 3] = [
    Ring {
        centre: [-0.8, 0.0, 0.0],
        axes: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
        colour: [1.0, 0.45, 0.2],
        density: 60.0,
    },
    Ring { centre: [0.0, 0.0, 0.0], axes: [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]], colour: [0.3, 0.85, 1.0], density: 6.0 },
    Ring { centre: [0.8, 0.0, 0.0], axes: [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], colour: [0.65, 0.9, 0.3], density: 60.0 },
];
const RADIUS: f32 = 0.55;
const TUBE: f32 = 0.13;
/// Where the light comes from: from above, from the left, and from behind the viewer.
const LIGHT: Vector = [-0.48, 0.64, -0.6];
/// Steps through depths −1.2 to 1.2.
const STEPS: usize = 96;
const STEP: f32 = 2.4 / STEPS as f32;

/// Light that reaches the viewer, colours multiplied by alpha.
#[derive(Default)]
struct Light {
    colour: Vector,
    alpha: f32,
}

impl Light {
    /// Adds what lies behind.
    fn add(&mut self, colour: Vector, alpha: f32) {
        let seen = (1.0 - self.alpha) * alpha;
        self.colour = std::array::from_fn(|channel| self.colour[channel] + seen * colour[channel]);
        self.alpha += seen;
    }

    fn pixel(&self) -> Pixel {
        let byte = |part: f32| (part.clamp(0.0, 1.0) * 255.0).round() as u8;
        let alpha = byte(self.alpha);
        let [red, green, blue] = self.colour.map(|colour| byte(colour).min(alpha));
        [red, green, blue, alpha]
    }
}

fn march(x: f32, y: f32, steps: Range<usize>) -> Light {
    let (mut light, towards_light) = (Light::default(), turn(LIGHT));
    for step in steps {
        let depth = (step as f32 + 0.5 - STEPS as f32 / 2.0) * STEP;
        let point = turn([x, y, depth]);
        for ring in &RINGS {
            let [u, v] = ring.axes.map(|axis| dot(axis, difference(point, ring.centre)));
            let along = (u * u + v * v).sqrt().max(1e-6);
            let nearest: Vector =
                std::array::from_fn(|i| ring.centre[i] + (u * ring.axes[0][i] + v * ring.axes[1][i]) * RADIUS / along);
            let offset = difference(point, nearest);
            let distance = dot(offset, offset).sqrt();
            if distance < TUBE {
                let density = ring.density * (1.0 - distance / TUBE).sqrt();
                let shine = 0.55 + 0.45 * dot(offset, towards_light) / distance.max(1e-6);
                light.add(ring.colour.map(|colour| colour * shine), 1.0 - (-density * STEP).exp());
            }
        }
    }
    light
}

/// Dusk: dark above, and a glow below.
fn background(x: f32, y: f32) -> Vector {
    let glow = (0.5 - 0.4 * y - 0.1 * x * x).clamp(0.0, 1.0);
    [0.08 + 0.34 * glow * glow, 0.07 + 0.16 * glow, 0.16 + 0.2 * glow]
}

/// From the viewer's axes to those of the rings: half a radian about y, and less about x.
fn turn([x, y, z]: Vector) -> Vector {
    let (sin, cos) = 0.45_f32.sin_cos();
    let (y, z) = (y * cos - z * sin, y * sin + z * cos);
    let (sin, cos) = 0.4_f32.sin_cos();
    [x * cos + z * sin, y, z * cos - x * sin]
}

fn dot(a: Vector, b: Vector) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn difference(a: Vector, b: Vector) -> Vector {
    std::array::from_fn(|i| a[i] - b[i])
}

#[cfg(test)]
mod tests {
    use super::super::blend;
    use super::*;

    fn composite(layers: impl DoubleEndedIterator<Item = Image>) -> Vec<Pixel> {
        let layers: Vec<_> = layers.collect();
        let mut result = vec![[0; 4]; layers[0].pixels.len()];
        blend(layers.iter().map(|layer| &layer.pixels[..]), &mut result);
        result
    }

    #[test]
    fn layers_make_the_same_picture_however_many_there_are() {
        let whole = draw(64, 48, 0, 1).pixels;
        assert!(whole.iter().all(|pixel| pixel[3] == 255));
        let composed = composite((0..5).map(|layer| draw(64, 48, layer, 5)));
        let differences = whole.iter().flatten().zip(composed.iter().flatten()).map(|(a, b)| a.abs_diff(*b));
        assert!(differences.max().unwrap() <= 4);
    }

    #[test]
    fn the_order_of_layers_can_be_seen() {
        let front_to_back = composite((0..2).map(|layer| draw(64, 48, layer, 2)));
        let back_to_front = composite((0..2).rev().map(|layer| draw(64, 48, layer, 2)));
        assert!(front_to_back.iter().zip(&back_to_front).filter(|(a, b)| a != b).count() > 100);
    }
}
