//! Plots of curves in the unit square.

use std::path::Path;

use embedded_graphics::pixelcolor::Rgb888;

use super::canvas::Canvas;
use super::image::class_color;
use det_post_types::{Result, Size};

const SIZE: Size = Size::new(640, 520);

/// Margins of the plot area in pixels: left, top, right, bottom.
const MARGINS: [f32; 4] = [50.0, 40.0, 20.0, 50.0];

const WHITE: Rgb888 = Rgb888::new(255, 255, 255);
const GRAY: Rgb888 = Rgb888::new(210, 210, 210);

/// A line through points in the unit square.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, x and y, in order.
    pub points: Vec<[f64; 2]>,
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
    canvas.pixels_mut().fill(255);
    for tick in 0..=10 {
        let at = f64::from(tick) / 10.0;
        canvas.line(pixel([at, 0.0]), pixel([at, 1.0]), GRAY, 1);
        canvas.line(pixel([0.0, at]), pixel([1.0, at]), GRAY, 1);
        if tick % 2 == 0 {
            let ([x, y], [left, middle]) = (pixel([at, 0.0]), pixel([0.0, at]));
            canvas.label([x - 10.0, y + 20.0], &format!("{at:.1}"), WHITE);
            canvas.label([left - 30.0, middle + 7.0], &format!("{at:.1}"), WHITE);
        }
    }
    let [right, bottom] = pixel([1.0, 0.0]);
    canvas.label([right - 8.0 * x_label.len() as f32, bottom + 40.0], x_label, WHITE);
    let [left, top] = pixel([0.0, 1.0]);
    canvas.label([left - 40.0, top - 6.0], &format!("{y_label}    {title}"), WHITE);
    for (at, curve) in curves.iter().enumerate() {
        let color = class_color(at as u32);
        for ends in curve.points.windows(2) {
            canvas.line(pixel(ends[0]), pixel(ends[1]), color, 2);
        }
        canvas.label([left + 10.0, bottom - 10.0 - 18.0 * at as f32], &curve.name, color);
    }
    canvas.save(path)
}

/// Position of a point of the unit square in the image.
fn pixel([x, y]: [f64; 2]) -> [f32; 2] {
    let [left, top, right, bottom] = MARGINS;
    let [width, height] = [SIZE.width as f32 - left - right, SIZE.height as f32 - top - bottom];
    [left + x as f32 * width, top + (1.0 - y as f32) * height]
}
