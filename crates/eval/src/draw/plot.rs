//! Plots of curves in the unit square.

use std::path::Path;

use super::canvas::{Canvas, Font};
use super::colors::{BACKGROUND, GRID, TEXT, color};
use det_post_types::{Result, Size};

const SIZE: Size = Size::new(820, 560);

/// Margins of the plot area in pixels: left, top, right, bottom.
const MARGINS: [f32; 4] = [60.0, 60.0, 260.0, 60.0];

const FONT: Font = Font::Small;

/// A line through points in the unit square.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Red, green and blue.
    pub color: [u8; 3],
    /// Its points, x and y, in order.
    pub points: Vec<[f64; 2]>,
    /// Whether each point is marked by a dot.
    pub has_dots: bool,
}

/// Draws curves over a grid, with a legend, as a PNG file.
///
/// # Errors
/// `Io` when the file cannot be written.
pub fn save_plot(
    path: &Path,
    title: &str,
    [x_label, y_label]: [&str; 2],
    curves: &[Curve],
) -> Result<()> {
    let mut canvas = Canvas::new(SIZE);
    canvas.fill(BACKGROUND);
    let text = color(TEXT);
    let [left, top] = pixel([0.0, 1.0]);
    let [right, bottom] = pixel([1.0, 0.0]);
    for tick in 0..=10 {
        let at = f64::from(tick) / 10.0;
        canvas.line(pixel([at, 0.0]), pixel([at, 1.0]), color(GRID), 1);
        canvas.line(pixel([0.0, at]), pixel([1.0, at]), color(GRID), 1);
        if tick % 2 == 0 {
            let [x, y] = pixel([at, at]);
            let number = format!("{at:.1}");
            let width = FONT.width(&number);
            canvas.text([x - 0.5 * width, bottom + 8.0], &number, text, FONT);
            canvas.text([left - width - 8.0, y - 0.5 * FONT.height()], &number, text, FONT);
        }
    }
    canvas.text([left, 8.0], title, text, Font::Medium);
    canvas.text([8.0, top - 24.0], y_label, text, FONT);
    canvas.text([right - FONT.width(x_label), bottom + 30.0], x_label, text, FONT);
    for (at, curve) in curves.iter().enumerate() {
        let color = color(curve.color);
        for ends in curve.points.windows(2) {
            canvas.line(pixel(ends[0]), pixel(ends[1]), color, 2);
        }
        for &point in curve.points.iter().filter(|_| curve.has_dots) {
            canvas.disc(pixel(point), 5.0, color);
        }
        let y = top + 22.0 * at as f32;
        let [from, to] = [12.0, 36.0].map(|x| [right + x, y + 0.5 * FONT.height()]);
        canvas.line(from, to, color, 4);
        canvas.text([right + 44.0, y], &curve.name, text, FONT);
    }
    canvas.save(path)
}

/// Position of a point of the unit square in the image.
fn pixel([x, y]: [f64; 2]) -> [f32; 2] {
    let [left, top, right, bottom] = MARGINS;
    let [width, height] = [SIZE.width as f32 - left - right, SIZE.height as f32 - top - bottom];
    [left + x as f32 * width, top + (1.0 - y as f32) * height]
}
