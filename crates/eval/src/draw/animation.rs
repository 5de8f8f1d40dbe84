//! Animations: GIF, which every viewer plays, and animated PNG, which browsers play and of which
//! other viewers show the first frame.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use super::canvas::Canvas;
use super::colors::CLASS_COLORS;
use det_post_types::{Error, ErrorKind, Result, Size};

/// Levels of red, green and blue of the colours between the colours of classes and grey.
const NUM_LEVELS: usize = 6;

/// Greys from black to white.
const NUM_GRAYS: usize = 32;

/// The first indices of greys and of other colours.
const FIRST_GRAY: usize = CLASS_COLORS.len();
const FIRST_OTHER: usize = FIRST_GRAY + NUM_GRAYS;

/// The largest difference between red, green and blue of a grey.
const GRAY_SPREAD: u8 = 6;

/// Paths of the two files of an animation.
#[derive(Clone, Copy, Debug)]
pub struct AnimationPaths<'a> {
    /// The animated PNG.
    pub png: &'a Path,
    /// The GIF.
    pub gif: &'a Path,
}

/// An animation that is being written as two files, in 255 colours, among them the colours of
/// classes and truth.
pub struct Animation {
    size: Size,
    png_path: PathBuf,
    png: png::Writer<BufWriter<File>>,
    gif_path: PathBuf,
    gif: gif::Encoder<BufWriter<File>>,
    /// In hundredths of a second.
    frame_delay: u16,
    indices: Vec<u8>,
}

impl Animation {
    /// Files for `num_frames` images of one size, each shown for `frame_ms` milliseconds, in a
    /// loop. GIF rounds the time to 10 ms.
    ///
    /// # Errors
    /// `Argument` for a side of more than 65535 pixels; `Io` when a file cannot be written, or
    /// for no frames.
    pub fn create(
        paths: AnimationPaths<'_>,
        size: Size,
        num_frames: u32,
        frame_ms: u16,
    ) -> Result<Self> {
        let AnimationPaths { png: png_path, gif: gif_path } = paths;
        let png = || -> std::result::Result<_, png::EncodingError> {
            let file = BufWriter::new(File::create(png_path)?);
            let mut encoder = png::Encoder::new(file, size.width, size.height);
            encoder.set_color(png::ColorType::Indexed);
            encoder.set_depth(png::BitDepth::Eight);
            encoder.set_palette(palette());
            encoder.set_animated(num_frames, 0)?;
            encoder.set_frame_delay(frame_ms, 1000)?;
            encoder.validate_sequence(true);
            encoder.write_header()
        };
        let [width, height] = sides(size)?;
        let gif = || -> std::result::Result<_, gif::EncodingError> {
            let file = BufWriter::new(File::create(gif_path)?);
            let mut encoder = gif::Encoder::new(file, width, height, &palette())?;
            encoder.set_repeat(gif::Repeat::Infinite)?;
            Ok(encoder)
        };
        Ok(Self {
            size,
            png: png().map_err(|e| cannot_write(png_path).with_source(e))?,
            png_path: png_path.to_owned(),
            gif: gif().map_err(|e| cannot_write(gif_path).with_source(e))?,
            gif_path: gif_path.to_owned(),
            frame_delay: frame_ms / 10,
            indices: Vec::new(),
        })
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
        self.png
            .write_image_data(&self.indices)
            .map_err(|e| cannot_write(&self.png_path).with_source(e))?;
        let [width, height] = sides(self.size)?;
        let frame = gif::Frame {
            width,
            height,
            delay: self.frame_delay,
            buffer: self.indices.as_slice().into(),
            ..gif::Frame::default()
        };
        self.gif.write_frame(&frame).map_err(|e| cannot_write(&self.gif_path).with_source(e))
    }

    /// Closes the files.
    ///
    /// # Errors
    /// `Io` when one cannot be written or frames are missing.
    pub fn finish(self) -> Result<()> {
        self.png.finish().map_err(|e| cannot_write(&self.png_path).with_source(e))?;
        let file =
            self.gif.into_inner().map_err(|e| cannot_write(&self.gif_path).with_source(e))?;
        file.into_inner().map_err(|e| cannot_write(&self.gif_path).with_source(e.into_error()))?;
        Ok(())
    }
}

/// Width and height as GIF has them.
fn sides(Size { width, height }: Size) -> Result<[u16; 2]> {
    let [Ok(width), Ok(height)] = [width, height].map(u16::try_from) else {
        let message = format!("{width}x{height} pixels; allowed: up to 65535x65535");
        return Err(Error::new(ErrorKind::Argument, "animation", message));
    };
    Ok([width, height])
}

fn cannot_write(path: &Path) -> Error {
    Error::new(ErrorKind::Io, "images", format!("cannot write {}", path.display()))
}

/// The colours by their indices: classes, greys, and the others with red most and blue least
/// significant.
fn palette() -> Vec<u8> {
    let level = |at: usize, num: usize| (at * 255 / (num - 1)) as u8;
    let grays = (0..NUM_GRAYS).map(|at| [level(at, NUM_GRAYS); 3]);
    let others = (0..NUM_LEVELS.pow(3)).map(|index| {
        let [red, rest] = [index / NUM_LEVELS.pow(2), index % NUM_LEVELS.pow(2)];
        [red, rest / NUM_LEVELS, rest % NUM_LEVELS].map(|at| level(at, NUM_LEVELS))
    });
    CLASS_COLORS.into_iter().chain(grays).chain(others).flatten().collect()
}

/// Index of a colour of the palette: of the same one, else of a near one.
fn index(rgb: [u8; 3]) -> u8 {
    if let Some(class) = CLASS_COLORS.iter().position(|color| *color == rgb) {
        return class as u8;
    }
    let nearest = |value: u8, num: usize| (usize::from(value) * (num - 1) + 127) / 255;
    let [red, green, blue] = rgb;
    let (low, high) = (red.min(green).min(blue), red.max(green).max(blue));
    if high - low <= GRAY_SPREAD {
        return (FIRST_GRAY + nearest(green, NUM_GRAYS)) as u8;
    }
    let [red, green, blue] = rgb.map(|value| nearest(value, NUM_LEVELS));
    (FIRST_OTHER + (red * NUM_LEVELS + green) * NUM_LEVELS + blue) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_the_palette_stay() {
        let palette = palette();
        assert_eq!(palette.len(), 3 * 255);
        for rgb in palette.chunks_exact(3) {
            let index = usize::from(index([rgb[0], rgb[1], rgb[2]]));
            let found = &palette[3 * index..][..3];
            let is_near = rgb.iter().zip(found).all(|(a, b)| a.abs_diff(*b) <= 4);
            assert!(is_near, "{rgb:?} becomes {found:?}");
        }
        for color in CLASS_COLORS.into_iter().chain([[0; 3], [255; 3]]) {
            let index = usize::from(index(color));
            assert_eq!(palette[3 * index..][..3], color);
        }
    }

    fn paths(folder: &Path) -> [PathBuf; 2] {
        ["a.png", "a.gif"].map(|name| folder.join(name))
    }

    #[test]
    fn frames_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let [png, gif] = paths(folder.path());
        let size = Size::new(3, 2);
        let paths = AnimationPaths { png: &png, gif: &gif };
        let mut animation = Animation::create(paths, size, 2, 100).unwrap();
        let mut canvas = Canvas::new(size);
        animation.add(&canvas).unwrap();
        canvas.pixels_mut().fill(255);
        animation.add(&canvas).unwrap();
        assert!(animation.add(&Canvas::new(Size::new(2, 2))).is_err());
        animation.finish().unwrap();

        let file = std::io::BufReader::new(File::open(png).unwrap());
        let mut decoder = png::Decoder::new(file);
        decoder.set_transformations(png::Transformations::EXPAND);
        let mut reader = decoder.read_info().unwrap();
        assert_eq!(reader.info().animation_control().unwrap().num_frames, 2);
        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut moving = options.read_info(File::open(gif).unwrap()).unwrap();
        assert_eq!(moving.repeat(), gif::Repeat::Infinite);
        let mut pixels = vec![7; reader.output_buffer_size().unwrap()];
        for value in [0, 255] {
            reader.next_frame(&mut pixels).unwrap();
            assert!(pixels.iter().all(|&found| found == value), "{value}: {pixels:?}");
            let frame = moving.read_next_frame().unwrap().unwrap();
            assert_eq!((frame.width, frame.height, frame.delay), (3, 2, 10));
            let shown = frame.buffer.chunks_exact(4).all(|rgba| rgba == [value, value, value, 255]);
            assert!(shown, "{value}: {:?}", frame.buffer);
        }
        assert!(moving.read_next_frame().unwrap().is_none());
    }

    #[test]
    fn missing_frames_and_sizes_of_no_gif_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let [png, gif] = paths(folder.path());
        let paths = AnimationPaths { png: &png, gif: &gif };
        let size = Size::new(3, 2);
        let mut animation = Animation::create(paths, size, 2, 100).unwrap();
        animation.add(&Canvas::new(size)).unwrap();
        assert!(animation.finish().is_err());
        let error = Animation::create(paths, Size::new(70_000, 2), 2, 100).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}
