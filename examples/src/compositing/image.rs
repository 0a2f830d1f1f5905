//! Pictures and their files.

use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use png::{BitDepth, ColorType, Decoder, DecodingError, Encoder, EncodingError, Transformations};

use super::over::{Pixel, premultiply, unpremultiply};

/// A picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Pixels of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// All pixels, row by row from the top.
    pub pixels: Vec<Pixel>,
}

/// A file that can't be read or written.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum ImageError {
    /// It can't be opened or created.
    #[error("can't open {}: {source}", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// It is not a picture.
    #[error("can't read {} as PNG: {source}", path.display())]
    Decode { path: PathBuf, source: DecodingError },
    /// It can't be written.
    #[error("can't write {}: {source}", path.display())]
    Encode { path: PathBuf, source: EncodingError },
}

impl Image {
    /// Reads a PNG file of any kind. Colours of 16 bits lose the lower ones; without alpha the picture is opaque.
    pub fn read_png(path: &Path) -> Result<Self, ImageError> {
        let file = File::open(path).map_err(|source| ImageError::Open { path: path.to_owned(), source })?;
        decode(file).map_err(|source| ImageError::Decode { path: path.to_owned(), source })
    }

    /// Writes a PNG file with colours of 8 bits and alpha.
    pub fn write_png(&self, path: &Path) -> Result<(), ImageError> {
        let file = File::create(path).map_err(|source| ImageError::Open { path: path.to_owned(), source })?;
        self.encode(file).map_err(|source| ImageError::Encode { path: path.to_owned(), source })
    }

    fn encode(&self, file: File) -> Result<(), EncodingError> {
        let mut encoder = Encoder::new(BufWriter::new(file), self.width as u32, self.height as u32);
        encoder.set_color(ColorType::Rgba);
        encoder.set_depth(BitDepth::Eight);
        let mut writer = encoder.write_header()?;
        let bytes: Vec<u8> = self.pixels.iter().flat_map(|&pixel| unpremultiply(pixel)).collect();
        writer.write_image_data(&bytes)?;
        writer.finish()
    }
}

fn decode(file: File) -> Result<Image, DecodingError> {
    let mut decoder = Decoder::new(BufReader::new(file));
    decoder.set_transformations(Transformations::normalize_to_color8() | Transformations::ALPHA);
    let mut reader = decoder.read_info()?;
    let mut bytes = vec![0; reader.output_buffer_size().ok_or(DecodingError::LimitsExceeded)?];
    let frame = reader.next_frame(&mut bytes)?;
    let bytes = &bytes[..frame.buffer_size()];
    let pixels = match frame.color_type {
        ColorType::Rgba => bytes.as_chunks().0.iter().map(|&pixel| premultiply(pixel)).collect(),
        // The transformations leave nothing else.
        _ => bytes.as_chunks().0.iter().map(|&[grey, alpha]| premultiply([grey, grey, grey, alpha])).collect(),
    };
    Ok(Image { width: frame.width as usize, height: frame.height as usize, pixels })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let pixels = vec![[255, 3, 77, 255], [0; 4], [128, 0, 128, 128], [1, 2, 3, 255], [9; 4], [0, 0, 0, 40]];
        let image = Image { width: 3, height: 2, pixels };
        image.write_png(file.path()).unwrap();
        assert_eq!(Image::read_png(file.path()).unwrap(), image);
    }

    #[test]
    fn other_kinds_of_png_are_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read = |colour, depth, bytes: &[u8]| {
            let mut encoder = Encoder::new(file.reopen().unwrap(), 2, 1);
            encoder.set_color(colour);
            encoder.set_depth(depth);
            encoder.write_header().unwrap().write_image_data(bytes).unwrap();
            Image::read_png(file.path()).unwrap().pixels
        };
        assert_eq!(read(ColorType::Grayscale, BitDepth::One, &[0x40]), [[0, 0, 0, 255], [255; 4]]);
        assert_eq!(read(ColorType::GrayscaleAlpha, BitDepth::Eight, &[255, 128, 9, 255]), [[128; 4], [9, 9, 9, 255]]);
        assert_eq!(read(ColorType::Rgb, BitDepth::Eight, &[1, 2, 3, 4, 5, 6]), [[1, 2, 3, 255], [4, 5, 6, 255]]);
        let sixteen = [255, 255, 0, 0, 128, 0, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(read(ColorType::Rgba, BitDepth::Sixteen, &sixteen), [[255, 0, 128, 255], [0; 4]]);
    }

    #[test]
    fn files_are_named_in_errors() {
        let missing = Image::read_png(Path::new("/nonexistent.png")).unwrap_err().to_string();
        assert!(missing.starts_with("can't open /nonexistent.png"), "{missing}");
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "P6 1 1 255").unwrap();
        let refusal = Image::read_png(file.path()).unwrap_err().to_string();
        assert!(refusal.contains(file.path().to_str().unwrap()) && refusal.contains("as PNG"), "{refusal}");
    }
}
