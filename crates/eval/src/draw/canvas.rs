//! An RGB image with drawing operations.

use std::convert::Infallible;
use std::f32::consts::TAU;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use embedded_graphics::geometry::{OriginDimensions, Point, Size as GraphicsSize};
use embedded_graphics::mono_font::iso_8859_1::{
    FONT_7X14, FONT_7X14_BOLD, FONT_9X18_BOLD, FONT_10X20,
};
use embedded_graphics::mono_font::{MonoFont, MonoTextStyle};
use embedded_graphics::pixelcolor::{Rgb888, RgbColor};
use embedded_graphics::prelude::{DrawTarget, Drawable, Pixel, Primitive};
use embedded_graphics::primitives::{PrimitiveStyle, Rectangle, Triangle};
use embedded_graphics::text::{Baseline, Text};

use super::colors::text_on;
use super::rect::Rect;
use det_post_types::{Error, ErrorKind, Result, Size};

/// Coordinates are clamped to this magnitude before drawing: a box may be anywhere, and pixel
/// counters have 32 bits.
const FAR: f32 = 1e5;

/// A font of one width, 14, 18 or 20 pixels high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Font {
    /// 7 by 14, for images up to 1000 pixels wide.
    Small,
    /// 9 by 18, up to 1800.
    Medium,
    /// 10 by 20, above.
    Large,
}

impl Font {
    /// Between the border of a label and its text, in pixels.
    const PADDING: f32 = 2.0;

    /// The font of images of a width, in pixels.
    pub fn for_width(width: u32) -> Self {
        match width {
            0..=999 => Self::Small,
            1000..=1799 => Self::Medium,
            _ => Self::Large,
        }
    }

    fn glyphs(self) -> &'static MonoFont<'static> {
        match self {
            Self::Small => &FONT_7X14,
            Self::Medium => &FONT_9X18_BOLD,
            Self::Large => &FONT_10X20,
        }
    }

    /// For text on colours, where thin lines are hard to read.
    fn bold(self) -> &'static MonoFont<'static> {
        match self {
            Self::Small => &FONT_7X14_BOLD,
            Self::Medium | Self::Large => self.glyphs(),
        }
    }

    /// Height of a line, in pixels.
    pub(super) fn height(self) -> f32 {
        self.glyphs().character_size.height as f32
    }

    /// Width of a text, in pixels.
    pub(super) fn width(self, text: &str) -> f32 {
        self.glyphs().character_size.width as f32 * text.chars().count() as f32
    }

    /// Width and height of a text with its border.
    pub(super) fn size_of_label(self, text: &str) -> [f32; 2] {
        [self.width(text) + 2.0 * Self::PADDING, self.height() + Self::PADDING]
    }
}

/// An RGB image, initially black. Drawing is clipped to it.
pub struct Canvas {
    size: Size,
    pixels: Vec<u8>,
}

impl Canvas {
    /// A black image.
    pub fn new(size: Size) -> Self {
        Self { size, pixels: vec![0; 3 * size.width as usize * size.height as usize] }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Red, green, blue, row by row.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Red, green, blue, row by row.
    pub fn pixels_mut(&mut self) -> &mut [u8] {
        &mut self.pixels
    }

    /// Copies another canvas, whose top left corner comes to `at`. What is outside is left
    /// out.
    pub fn paste(&mut self, other: &Canvas, [x, y]: [u32; 2]) {
        let width = other.size.width.min(self.size.width.saturating_sub(x)) as usize;
        let height = other.size.height.min(self.size.height.saturating_sub(y)) as usize;
        let [from_row, to_row] = [other.size.width, self.size.width].map(|n| 3 * n as usize);
        for row in 0..height {
            let source = &other.pixels[row * from_row..][..3 * width];
            let target = (row + y as usize) * to_row + 3 * x as usize;
            self.pixels[target..][..3 * width].copy_from_slice(source);
        }
    }

    /// Colours the pixel at a position; positions outside the image are left out.
    pub fn dot(&mut self, at: [f32; 2], color: Rgb888) {
        draw(&Pixel(point(at), color), self);
    }

    /// A line, clipped to the image before it is drawn; none where an end is not finite.
    pub fn line(&mut self, from: [f32; 2], to: [f32; 2], color: Rgb888, width: u32) {
        let Some([from, to]) = self.clip([from, to], width) else { return };
        let [dx, dy] = [to[0] - from[0], to[1] - from[1]];
        let num_steps = dx.abs().max(dy.abs()).ceil().max(1.0);
        let field = GraphicsSize::new_equal(width);
        for step in 0..=num_steps as u32 {
            let t = f64::from(step) / num_steps;
            let at = point([(from[0] + t * dx) as f32, (from[1] + t * dy) as f32]);
            let top_left = at - Point::new_equal(width as i32 / 2);
            draw(
                &Rectangle::new(top_left, field).into_styled(PrimitiveStyle::with_fill(color)),
                self,
            );
        }
    }

    /// The visible part of a line, by the algorithm of Liang and Barsky.
    fn clip(&self, ends: [[f32; 2]; 2], width: u32) -> Option<[[f64; 2]; 2]> {
        let [from, to] = ends.map(|end| end.map(f64::from));
        let margin = f64::from(width);
        let (mut first, mut last) = (0.0_f64, 1.0_f64);
        let sizes = [self.size.width, self.size.height].map(f64::from);
        for axis in 0..2 {
            let delta = to[axis] - from[axis];
            let [low, high] = [-margin, sizes[axis] + margin].map(|border| border - from[axis]);
            if !delta.is_finite() || (delta == 0.0 && (low > 0.0 || high < 0.0)) {
                return None;
            }
            if delta != 0.0 {
                let [a, b] = [low / delta, high / delta];
                (first, last) = (first.max(a.min(b)), last.min(a.max(b)));
            }
        }
        let at = |t: f64| [0, 1].map(|axis| from[axis] + t * (to[axis] - from[axis]));
        (first <= last).then(|| [at(first), at(last)])
    }

    /// A polygon through the corners.
    pub fn polygon(&mut self, corners: &[[f32; 2]], color: Rgb888, width: u32) {
        for (from, to) in corners.iter().zip(corners.iter().cycle().skip(1)) {
            self.line(*from, *to, color, width);
        }
    }

    /// Draws a circle in a line of one pixel.
    pub fn circle(&mut self, center: [f32; 2], radius: f32, color: Rgb888) {
        const NUM_CORNERS: usize = 128;
        let corners: [[f32; 2]; NUM_CORNERS] = std::array::from_fn(|corner| {
            let (sin, cos) = (corner as f32 / NUM_CORNERS as f32 * TAU).sin_cos();
            [center[0] + radius * cos, center[1] + radius * sin]
        });
        self.polygon(&corners, color, 1);
    }

    /// A filled circle.
    pub(super) fn disc(&mut self, [x, y]: [f32; 2], radius: f32, color: Rgb888) {
        let reach = radius.ceil() as i32;
        for (right, down) in (-reach..=reach).flat_map(|y| (-reach..=reach).map(move |x| (x, y))) {
            let [right, down] = [right as f32, down as f32];
            if right.hypot(down) <= radius {
                self.dot([x + right, y + down], color);
            }
        }
    }

    /// A filled rectangle.
    pub(super) fn rectangle(&mut self, area: &Rect, color: Rgb888) {
        let image = self.bounds();
        if !area.touches(&image) {
            return;
        }
        let top_left = point([area.left.max(0.0), area.top.max(0.0)]);
        let end = point([area.right.min(image.right), area.bottom.min(image.bottom)]);
        let size = (end - top_left).component_max(Point::zero());
        let size = GraphicsSize::new(size.x as u32, size.y as u32);
        let style = PrimitiveStyle::with_fill(color);
        draw(&Rectangle::new(top_left, size).into_styled(style), self);
    }

    /// A filled triangle.
    pub(super) fn triangle(&mut self, corners: [[f32; 2]; 3], color: Rgb888) {
        let [a, b, c] = corners.map(point);
        draw(&Triangle::new(a, b, c).into_styled(PrimitiveStyle::with_fill(color)), self);
    }

    /// Gives every pixel a colour.
    pub(super) fn fill(&mut self, rgb: [u8; 3]) {
        self.pixels.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&rgb));
    }

    /// Mixes an area with three times as much of a colour, as a background of text.
    pub(super) fn shade(&mut self, area: &Rect, rgb: [u8; 3]) {
        let within = |value: f32, end: u32| value.max(0.0).min(end as f32) as usize;
        let Size { width, height } = self.size;
        let columns = within(area.left, width)..within(area.right, width);
        for row in within(area.top, height)..within(area.bottom, height) {
            let start = 3 * row * width as usize;
            let pixels = &mut self.pixels[start + 3 * columns.start..start + 3 * columns.end];
            for pixel in pixels.chunks_exact_mut(3) {
                for (value, over) in pixel.iter_mut().zip(rgb) {
                    *value = ((u16::from(*value) + 3 * u16::from(over)) / 4) as u8;
                }
            }
        }
    }

    /// The whole image.
    pub(super) fn bounds(&self) -> Rect {
        Rect::at([0.0; 2], [self.size.width as f32, self.size.height as f32])
    }

    /// A name on the background of plots, in the upper left corner.
    pub fn title(&mut self, text: &str) {
        let font = Font::for_width(self.size.width);
        let field = Rect::at([0.0; 2], font.size_of_label(text));
        self.field(&field, text, Rgb888::BLACK, font);
    }

    /// A rectangle of a colour with text on it, in black or white.
    pub(super) fn field(&mut self, field: &Rect, text: &str, color: Rgb888, font: Font) {
        self.rectangle(field, color);
        let at = [field.left + Font::PADDING, field.top + Font::PADDING - 1.0];
        let style = MonoTextStyle::new(font.bold(), text_on([color.r(), color.g(), color.b()]));
        draw(&Text::with_baseline(text, point(at), style, Baseline::Top), self);
    }

    /// Text whose upper left corner is `at`. Letters beyond Latin-1 are shown as `?`.
    pub(super) fn text(&mut self, at: [f32; 2], text: &str, color: Rgb888, font: Font) {
        let style = MonoTextStyle::new(font.glyphs(), color);
        draw(&Text::with_baseline(text, point(at), style, Baseline::Top), self);
    }

    /// Encodes the image as a JPEG file, replacing the content of `jpeg`.
    ///
    /// # Errors
    /// `Codec` when a side has no pixel or more than 65535.
    pub fn encode_jpeg(&self, quality: u8, jpeg: &mut Vec<u8>) -> Result<()> {
        let Size { width, height } = self.size;
        let refused = || {
            let message = format!("an image of {width}x{height} is no JPEG");
            Error::new(ErrorKind::Codec, "images", message)
        };
        let [Ok(width), Ok(height)] = [width, height].map(u16::try_from) else {
            return Err(refused());
        };
        jpeg.clear();
        jpeg_encoder::Encoder::new(jpeg, quality)
            .encode(&self.pixels, width, height, jpeg_encoder::ColorType::Rgb)
            .map_err(|cause| refused().with_source(cause))
    }

    /// Writes the image as a PNG file.
    ///
    /// # Errors
    /// `Io` when it cannot be written.
    pub fn save(&self, path: &Path) -> Result<()> {
        let error = |source: png::EncodingError| {
            Error::new(ErrorKind::Io, "images", format!("cannot write {}", path.display()))
                .with_source(source)
        };
        let file = File::create(path).map_err(|e| error(e.into()))?;
        let mut encoder =
            png::Encoder::new(BufWriter::new(file), self.size.width, self.size.height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.set_compression(png::Compression::Fast);
        let mut writer = encoder.write_header().map_err(error)?;
        writer.write_image_data(&self.pixels).map_err(error)?;
        writer.finish().map_err(error)
    }
}

/// Draws; drawing on a canvas cannot fail.
fn draw<D: Drawable<Color = Rgb888>>(drawable: &D, canvas: &mut Canvas) {
    match drawable.draw(canvas) {
        Ok(_) => {}
        Err(never) => match never {},
    }
}

/// The pixel of a coordinate; NaN is far outside.
fn point([x, y]: [f32; 2]) -> Point {
    let pixel = |v: f32| if v.is_nan() { -FAR as i32 } else { v.clamp(-FAR, FAR).floor() as i32 };
    Point::new(pixel(x), pixel(y))
}

impl OriginDimensions for Canvas {
    fn size(&self) -> GraphicsSize {
        GraphicsSize::new(self.size.width, self.size.height)
    }
}

impl DrawTarget for Canvas {
    type Color = Rgb888;
    type Error = Infallible;

    fn draw_iter<I: IntoIterator<Item = Pixel<Rgb888>>>(
        &mut self,
        pixels: I,
    ) -> std::result::Result<(), Infallible> {
        for Pixel(at, color) in pixels {
            let (Ok(x), Ok(y)) = (u32::try_from(at.x), u32::try_from(at.y)) else { continue };
            if x < self.size.width && y < self.size.height {
                let start = 3 * (y as usize * self.size.width as usize + x as usize);
                self.pixels[start..start + 3].copy_from_slice(&[color.r(), color.g(), color.b()]);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_outside_is_cut_off() {
        let mut canvas = Canvas::new(Size::new(20, 10));
        let red = Rgb888::RED;
        canvas.line([-1e30, 5.0], [f32::NAN, 5.0], red, 2);
        canvas.line([3.0, 4.0], [1e9, 4.0], red, 1);
        canvas.text([15.0, -12.0], "person 0.91", Rgb888::BLUE, Font::Small);
        canvas.text([f32::INFINITY, f32::NAN], "0.91", red, Font::Large);
        canvas.rectangle(&Rect::at([-1e9, 8.0], [1e9, 1e9]), red);
        canvas.shade(&Rect::at([18.0, -4.0], [1e9, 5.0]), [255; 3]);
        canvas.circle([0.0, 0.0], f32::INFINITY, red);
        assert_eq!(canvas.pixels_mut()[3 * (4 * 20 + 2)], 0, "left of the line");
        assert_eq!(canvas.pixels_mut()[3 * (4 * 20 + 19)], 255, "on the line");
    }

    #[test]
    fn a_saved_image_reads_back() {
        let mut canvas = Canvas::new(Size::new(5, 3));
        canvas.dot([4.5, 2.9], Rgb888::new(1, 2, 3));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.png");
        canvas.save(&path).unwrap();
        let file = std::io::BufReader::new(File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert_eq!(pixels, *canvas.pixels_mut());
        assert_eq!(pixels[42..], [1, 2, 3]);
    }
}
