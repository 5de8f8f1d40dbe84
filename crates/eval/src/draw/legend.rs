//! What the colours of an image mean.

use super::canvas::{Canvas, Font};
use super::colors::{BACKGROUND, TEXT, color};
use super::rect::Rect;
use det_post_types::Size;

/// Between entries and around all, in pixels.
const GAP: f32 = 8.0;

/// A colour and its meaning.
pub(super) struct Entry {
    pub(super) color: [u8; 3],
    pub(super) text: String,
}

/// Draws entries below each other in the upper left corner; returns the area they cover.
pub(super) fn draw_legend(canvas: &mut Canvas, entries: &[Entry], font: Font) -> Option<Rect> {
    let row = font.height() + 4.0;
    let widest = entries.iter().map(|entry| font.width(&entry.text)).fold(0.0, f32::max);
    let size = [3.0 * GAP + row + widest, 2.0 * GAP + row * entries.len() as f32];
    let panel = Rect::at([0.0; 2], size);
    if entries.is_empty() {
        return None;
    }
    canvas.shade(&panel, BACKGROUND);
    for (index, entry) in entries.iter().enumerate() {
        draw_entry(canvas, entry, [GAP, GAP + row * index as f32], font);
    }
    Some(panel)
}

/// An image with entries beside each other below it, in as many rows as its width asks for.
pub(super) fn with_footer(image: &Canvas, entries: &[Entry], font: Font) -> Canvas {
    let Size { width, height } = image.size();
    let row = font.height() + 4.0;
    let (mut x, mut y) = (GAP, height as f32 + GAP);
    let mut places = Vec::new();
    for entry in entries {
        let advance = row + GAP + font.width(&entry.text);
        if x > GAP && x + advance > width as f32 {
            (x, y) = (GAP, y + row);
        }
        places.push([x, y]);
        x += advance + 2.0 * GAP;
    }
    let bottom = places.last().map_or(height as f32, |place| place[1] + row + GAP);
    let mut canvas = Canvas::new(Size::new(width, bottom as u32));
    canvas.fill(BACKGROUND);
    canvas.paste(image, [0, 0]);
    for (entry, place) in entries.iter().zip(places) {
        draw_entry(&mut canvas, entry, place, font);
    }
    canvas
}

fn draw_entry(canvas: &mut Canvas, entry: &Entry, [x, y]: [f32; 2], font: Font) {
    let side = font.height() - 2.0;
    canvas.rectangle(&Rect::at([x, y + 2.0], [side; 2]), color(entry.color));
    let at = [x + font.height() + GAP, y + 1.0];
    canvas.text(at, &entry.text, color(TEXT), font);
}
