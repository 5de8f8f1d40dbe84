//! Animated PNG, which browsers play; other viewers show the first frame.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::canvas::Canvas;
use det_post_types::{Error, ErrorKind, Result, Size};

/// Levels of red, green and blue: 252 colours, one byte per pixel.
const LEVELS: [usize; 3] = [6, 7, 6];

/// An animated PNG that is being written, in 252 colours.
pub struct Animation {
    path: PathBuf,
    size: Size,
    writer: png::Writer<BufWriter<File>>,
    indices: Vec<u8>,
}

impl Animation {
    /// A file for `num_frames` images of one size, each shown for `frame_ms`
    /// milliseconds, in a loop.
    ///
    /// # Errors
    /// `Io` when it cannot be written, or for no frames.
    pub fn create(path: &Path, size: Size, num_frames: u32, frame_ms: u16) -> Result<Self> {
        let open = || -> std::result::Result<_, png::EncodingError> {
            let file = BufWriter::new(File::create(path)?);
            let mut encoder = png::Encoder::new(file, size.width, size.height);
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_depth(png::BitDepth::Eight);
            encoder.set_palette(palette());
            encoder.set_animated(num_frames, 0)?;
            encoder.set_frame_delay(frame_ms, 1000)?;
            encoder.validate_sequence(true);
            encoder.write_header()
        };
        let writer = open().map_err(|e| cannot_write(path).with_source(e))?;
        Ok(Self { path: path.to_owned(), size, writer, indices: Vec::new() })
    }

    /// Appends an image.
    ///
    /// # Errors
    /// `Argument` for another size, `Io` when it cannot be written or is one too
    /// many.
    pub fn add(&mut self, canvas: &Canvas) -> Result<()> {
        let Size { width, height } = canvas.size();
        if canvas.size() != self.size {
            let Size { width: wanted_width, height: wanted_height } = self.size;
            let message =
                format!("a frame is {width}x{height}, {wanted_width}x{wanted_height} is wanted");
            return Err(Error::new(ErrorKind::Argument, "animation", message));
        }
        self.indices.clear();
        self.indices
            .extend(canvas.pixels().chunks_exact(3).map(|rgb| index([rgb[0], rgb[1], rgb[2]])));
        self.writer
            .write_image_data(&self.indices)
            .map_err(|e| cannot_write(&self.path).with_source(e))
    }

    /// Closes the file.
    ///
    /// # Errors
    /// `Io` when it cannot be written or frames are missing.
    pub fn finish(self) -> Result<()> {
        self.writer.finish().map_err(|e| cannot_write(&self.path).with_source(e))
    }
}

fn cannot_write(path: &Path) -> Error {
    Error::new(ErrorKind::Io, "images", format!("cannot write {}", path.display()))
}

/// The colours by their indices, with red most and blue least significant.
fn palette() -> Vec<u8> {
    let [reds, greens, blues] = LEVELS;
    let level = |at: usize, num: usize| (at * 255 / (num - 1)) as u8;
    (0..reds * greens * blues)
        .flat_map(|index| {
            let (red, green, blue) =
                (index / (greens * blues), index / blues % greens, index % blues);
            [level(red, reds), level(green, greens), level(blue, blues)]
        })
        .collect()
}

/// Index of the nearest colour of the palette.
fn index(rgb: [u8; 3]) -> u8 {
    let nearest = |axis: usize| (usize::from(rgb[axis]) * (LEVELS[axis] - 1) + 127) / 255;
    ((nearest(0) * LEVELS[1] + nearest(1)) * LEVELS[2] + nearest(2)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_the_palette_stay() {
        for (at, rgb) in palette().chunks_exact(3).enumerate() {
            assert_eq!(usize::from(index([rgb[0], rgb[1], rgb[2]])), at);
        }
        assert_eq!((index([0; 3]), index([255; 3])), (0, 251));
    }

    #[test]
    fn frames_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let size = Size::new(3, 2);
        let mut animation = Animation::create(&path, size, 2, 100).unwrap();
        let mut canvas = Canvas::new(size);
        animation.add(&canvas).unwrap();
        canvas.pixels_mut().fill(255);
        animation.add(&canvas).unwrap();
        assert!(animation.add(&Canvas::new(Size::new(2, 2))).is_err());
        animation.finish().unwrap();

        let file = std::io::BufReader::new(File::open(path).unwrap());
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        assert_eq!(reader.info().animation_control().unwrap().num_frames, 2);
        let mut pixels = vec![7; reader.output_buffer_size().unwrap()];
        for value in [0, 255] {
            reader.next_frame(&mut pixels).unwrap();
            assert!(pixels.iter().all(|&found| found == value), "{value}: {pixels:?}");
        }
    }

    #[test]
    fn missing_frames_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let size = Size::new(3, 2);
        let mut animation = Animation::create(&folder.path().join("a.png"), size, 2, 100).unwrap();
        animation.add(&Canvas::new(size)).unwrap();
        assert!(animation.finish().is_err());
    }
}
