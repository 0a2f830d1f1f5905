//! The operator, in integers, so that it rounds alike everywhere.

/// Red, green, blue and alpha, colours multiplied by alpha: none is larger than alpha.
pub type Pixel = [u8; 4];

/// What is seen of two pixels, one behind the other.
pub fn over(front: Pixel, back: Pixel) -> Pixel {
    let transparency = 255 - front[3];
    std::array::from_fn(|channel| front[channel] + scale(back[channel], transparency))
}

/// Blends layers, or the same strip of each, from front to back, into `result`.
pub fn blend<'a>(layers: impl IntoIterator<Item = &'a [Pixel]>, result: &mut [Pixel]) {
    result.fill([0; 4]);
    for layer in layers {
        result.iter_mut().zip(layer).for_each(|(front, &back)| *front = over(*front, back));
    }
}

/// Multiplies the colours by alpha.
pub(super) fn premultiply([red, green, blue, alpha]: [u8; 4]) -> Pixel {
    [scale(red, alpha), scale(green, alpha), scale(blue, alpha), alpha]
}

/// Divides the colours by alpha. What can't be seen is black.
pub(super) fn unpremultiply([red, green, blue, alpha]: Pixel) -> [u8; 4] {
    let whole = u32::from(alpha);
    let divided = |colour: u8| ((u32::from(colour) * 255 + whole / 2).checked_div(whole)).unwrap_or(0) as u8;
    [divided(red), divided(green), divided(blue), alpha]
}

/// `value · factor / 255`, rounded to nearest.
fn scale(value: u8, factor: u8) -> u8 {
    ((u32::from(value) * u32::from(factor) + 127) / 255) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: Pixel = [255, 0, 0, 255];
    const CLEAR: Pixel = [0; 4];
    const HALF_BLUE: Pixel = [0, 0, 128, 128];

    #[test]
    fn the_front_hides_the_back_as_far_as_it_is_opaque() {
        assert_eq!(over(RED, HALF_BLUE), RED);
        assert_eq!(over(CLEAR, HALF_BLUE), HALF_BLUE);
        assert_eq!(over(HALF_BLUE, CLEAR), HALF_BLUE);
        assert_eq!(over(HALF_BLUE, RED), [127, 0, 128, 255]);
    }

    #[test]
    fn no_colour_exceeds_alpha_and_nothing_overflows() {
        for front in 0..=255 {
            for back in 0..=255 {
                let [red, _, blue, alpha] = over(premultiply([255, 0, 90, front]), premultiply([255, 0, 200, back]));
                assert!(red == alpha && blue <= alpha && alpha >= front.max(back), "{front} over {back}");
            }
        }
    }

    #[test]
    fn layers_are_blended_from_front_to_back() {
        let layers: [&[Pixel]; 3] = [&[CLEAR, HALF_BLUE], &[HALF_BLUE, RED], &[RED, HALF_BLUE]];
        let mut result = [[9; 4]; 2];
        blend(layers, &mut result);
        assert_eq!(result, [over(HALF_BLUE, RED), over(HALF_BLUE, RED)]);
        blend(layers.into_iter().rev(), &mut result);
        assert_eq!(result, [RED, over(over(HALF_BLUE, RED), HALF_BLUE)]);
    }

    #[test]
    fn opaque_colours_survive_premultiplication() {
        for colour in 0..=255 {
            let pixel = [colour, 255 - colour, 7, 255];
            assert_eq!(unpremultiply(premultiply(pixel)), pixel);
        }
        assert_eq!(unpremultiply(premultiply([200, 100, 50, 0])), [0; 4]);
        assert_eq!(unpremultiply([64, 0, 128, 128]), [128, 0, 255, 128]);
    }
}
