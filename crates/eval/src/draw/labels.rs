//! Texts beside boxes, without overlap.

use embedded_graphics::pixelcolor::Rgb888;

use super::canvas::{Canvas, Font};
use super::rect::Rect;

/// How far a label may be from its box, in heights of a label.
const MAX_STEPS: u8 = 12;

/// The costs of places: each other box that is covered or fills the label, each later choice, a
/// place away from the box, and each step from it.
const COST_OF_COVERING: f32 = 4.0;
const COST_OF_CHOICE: f32 = 0.1;
const COST_OF_LINE: f32 = 2.0;
const COST_OF_STEP: f32 = 0.3;

/// Labels of boxes, placed once all boxes are known: none covers another, and places that cover
/// other boxes are avoided. A label away from its box has a line to it.
pub struct Labels {
    font: Font,
    requests: Vec<Request>,
    /// What labels may not cover.
    taken: Vec<Rect>,
}

struct Request {
    bounds: Rect,
    text: String,
    color: Rgb888,
}

/// A place for a label. The lowest cost wins, the first of equals.
struct Place {
    field: Rect,
    cost: f32,
    has_line: bool,
}

impl Labels {
    /// None yet, in a font.
    pub fn new(font: Font) -> Self {
        Self { font, requests: Vec::new(), taken: Vec::new() }
    }

    /// Adds a label for the box of these corners; earlier ones choose their places first. A box
    /// whose corners are not finite has none.
    pub fn add(&mut self, corners: &[[f32; 2]], text: String, color: Rgb888) {
        if let Some(bounds) = Rect::around(corners) {
            self.requests.push(Request { bounds, text, color });
        }
    }

    /// Keeps an area free of labels.
    pub(super) fn keep_free(&mut self, area: Rect) {
        self.taken.push(area);
    }

    /// Draws the labels of boxes that the image shows. Those without a free place are counted
    /// in the lower left corner.
    pub fn draw(self, canvas: &mut Canvas) {
        let Self { font, requests, mut taken } = self;
        let image = canvas.bounds();
        let mut num_left_out = 0;
        for (index, request) in requests.iter().enumerate() {
            let Request { bounds, text, color } = request;
            if !bounds.touches(&image) {
                continue;
            }
            let others = requests.iter().enumerate().filter(|(other, _)| *other != index);
            let others = others.map(|(_, other)| &other.bounds);
            let size = font.size_of_label(text);
            let places = places(bounds, size)
                .into_iter()
                .map(|place| Place { field: place.field.moved_into(&image), ..place });
            let is_free = |place: &Place| !taken.iter().any(|other| place.field.touches(other));
            let cost = |place: &Place| {
                let covered = |other: &Rect| {
                    let least = place.field.area().min(other.area()).max(1.0);
                    place.field.overlap(other) / least
                };
                place.cost + COST_OF_COVERING * others.clone().map(covered).sum::<f32>()
            };
            let best = places.filter(is_free).map(|place| (cost(&place), place));
            let Some((_, place)) = best.min_by(|(a, _), (b, _)| a.total_cmp(b)) else {
                num_left_out += 1;
                continue;
            };
            if place.has_line {
                let from = place.field.nearest(bounds.middle());
                canvas.line(from, bounds.nearest(from), *color, 1);
            }
            canvas.field(&place.field, text, *color, font);
            taken.push(place.field);
        }
        if num_left_out > 0 {
            let text = format!("{num_left_out} more labels");
            let size = font.size_of_label(&text);
            let field = Rect::at([0.0, image.bottom - size[1]], size);
            canvas.field(&field, &text, Rgb888::new(0, 0, 0), font);
        }
    }
}

/// Places around a box: at its corners, beside it, inside it, then above and below at growing
/// distances.
fn places(bounds: &Rect, size: [f32; 2]) -> Vec<Place> {
    let Rect { left, top, right, bottom } = *bounds;
    let [width, height] = size;
    let mut near = vec![
        [left, top - height],
        [right - width, top - height],
        [left, bottom],
        [right - width, bottom],
        [right, top],
        [left - width, top],
        [right, bottom - height],
        [left - width, bottom - height],
    ];
    if right - left >= width && bottom - top >= 2.0 * height {
        near.insert(1, [left, top]);
    }
    let near = near.into_iter().zip(0_u8..).map(|(at, choice)| Place {
        field: Rect::at(at, size),
        cost: COST_OF_CHOICE * f32::from(choice),
        has_line: false,
    });
    let middle = 0.5 * (left + right - width);
    let away = (1..=MAX_STEPS).flat_map(|step| {
        let distance = f32::from(step) * height;
        let [above, below] = [top - height - distance, bottom + distance];
        let shift = width + 0.5 * height;
        let at = [above, below].into_iter().flat_map(move |y| {
            [middle, middle - shift, middle + shift].into_iter().map(move |x| [x, y])
        });
        at.map(move |at| Place {
            field: Rect::at(at, size),
            cost: COST_OF_LINE + COST_OF_STEP * f32::from(step),
            has_line: true,
        })
    });
    near.chain(away).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Size;

    const RED: Rgb888 = Rgb888::new(255, 0, 0);

    fn square([x, y]: [f32; 2], side: f32) -> [[f32; 2]; 4] {
        [[x, y], [x + side, y], [x + side, y + side], [x, y + side]]
    }

    /// Red pixels of labels, whose texts are black.
    fn num_red(canvas: &Canvas) -> usize {
        canvas.pixels().chunks_exact(3).filter(|rgb| *rgb == [255, 0, 0]).count()
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let [width, height] = Font::Small.size_of_label(" ");
        let area = (width * height) as usize;
        for (num, side) in [(2, 40.0), (12, 30.0), (30, 3.0)] {
            let mut canvas = Canvas::new(Size::new(600, 600));
            let mut labels = Labels::new(Font::Small);
            for index in 0..num {
                // Each box covers most of the one before.
                let at = 290.0 + 2.0 * index as f32;
                labels.add(&square([at, at], side), " ".to_owned(), RED);
            }
            labels.draw(&mut canvas);
            // Lines from labels to boxes are red, too, and at most as long as half the image.
            let found = num_red(&canvas);
            assert!(found >= num * area, "{num}: {found} of {}", num * area);
        }
    }

    #[test]
    fn labels_without_a_place_are_counted() {
        let size = Size::new(300, 40);
        let mut labels = Labels::new(Font::Small);
        for _ in 0..40 {
            labels.add(&square([50.0, 10.0], 4.0), "car".to_owned(), RED);
        }
        let mut canvas = Canvas::new(size);
        labels.draw(&mut canvas);
        assert!(num_red(&canvas) > 0);
        let white = |rgb: &[u8]| rgb == [255; 3];
        assert!(canvas.pixels().chunks_exact(3).any(white), "the count is white on black");
    }

    #[test]
    fn boxes_outside_and_without_a_place_have_no_label() {
        let mut canvas = Canvas::new(Size::new(50, 50));
        let mut labels = Labels::new(Font::Small);
        labels.add(&square([500.0, 0.0], 10.0), "car".to_owned(), RED);
        labels.add(&square([f32::NAN, 0.0], 10.0), "car".to_owned(), RED);
        labels.add(&square([f32::INFINITY, 0.0], 10.0), "car".to_owned(), RED);
        labels.add(&[], "car".to_owned(), RED);
        labels.draw(&mut canvas);
        assert!(canvas.pixels().iter().all(|&value| value == 0));
    }

    #[test]
    fn a_label_avoids_the_box_above() {
        let mut canvas = Canvas::new(Size::new(200, 200));
        let mut labels = Labels::new(Font::Small);
        labels.add(&square([80.0, 100.0], 30.0), "car".to_owned(), RED);
        labels.add(&square([80.0, 65.0], 30.0), " ".to_owned(), Rgb888::new(0, 255, 0));
        labels.draw(&mut canvas);
        let row = &canvas.pixels()[3 * 200 * 90..3 * 200 * 91];
        assert!(!row.chunks_exact(3).any(|rgb| rgb == [255, 0, 0]), "not on the other box");
    }
}
