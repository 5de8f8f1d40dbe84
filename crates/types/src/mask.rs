//! Masks of instances: bits inside a window of the source image.

use super::boxes::Box2d;
use super::image::Size;

named! {
    /// Where a source pixel is on the map of a mask or of prototypes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum MaskRule {
        /// Where the letterbox puts the centre of the pixel: nothing is rounded.
        Straight => "straight",
        /// The part of the map without padding, cut to whole cells, is stretched over the image:
        /// `process_mask_native` of ultralytics (`retina_masks`).
        Native => "native",
        /// The map covers the box of the detection and is 0 around it: masks of regions of interest,
        /// as Mask R-CNN has them.
        Box => "box",
    }
    /// The name in head files.
    pub fn name;
}

/// How the masks of a network are computed from its outputs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskParams {
    /// Where a source pixel is on the map of the mask or of the prototypes.
    pub rule: MaskRule,
    /// Whether values pass through a sigmoid before they are interpolated: older releases of
    /// ultralytics.
    pub sigmoid: bool,
    /// A pixel is set where its value is above this; `None`: 0, with a sigmoid 0.5.
    pub threshold: Option<f32>,
    /// Whether pixels outside of the box are not set. With [`MaskRule::Box`] they never are.
    pub crop: bool,
}

impl MaskParams {
    /// The parameters of a rule, without a sigmoid, cropped.
    pub const fn of(rule: MaskRule) -> Self {
        Self { rule, sigmoid: false, threshold: None, crop: true }
    }

    /// The value above which a pixel is set.
    pub fn level(&self) -> f32 {
        self.threshold.unwrap_or(if self.sigmoid { 0.5 } else { 0.0 })
    }
}

impl Default for MaskParams {
    fn default() -> Self {
        Self::of(MaskRule::Straight)
    }
}

/// The pixels of an instance that may be set, and the place of their bits.
///
/// Rows follow each other from the top, each from the left in words of 32 bits, lowest bit first.
/// The last word of a row is filled with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MaskWindow {
    /// First column.
    pub left: u32,
    /// First row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// The first of its words in the words of the frame.
    pub first_word: u32,
}

impl MaskWindow {
    /// The pixels of an image that a box covers: columns `x1 <= x < x2` and rows `y1 <= y < y2`
    /// of whole indices. A box that is not finite covers none.
    pub fn of_box(bbox: &Box2d, image: Size) -> Self {
        // A NaN becomes 0.
        let pixel = |edge: f32, side: u32| edge.ceil().clamp(0.0, side as f32) as u32;
        let [left, right] = [bbox.x1, bbox.x2].map(|edge| pixel(edge, image.width));
        let [top, bottom] = [bbox.y1, bbox.y2].map(|edge| pixel(edge, image.height));
        if left >= right || top >= bottom || !bbox.is_finite() {
            return Self::default();
        }
        Self { left, top, width: right - left, height: bottom - top, first_word: 0 }
    }

    /// The pixels of an image that a box touches. A box that is not finite touches none.
    pub fn around_box(bbox: &Box2d, image: Size) -> Self {
        let outwards = Box2d {
            x1: bbox.x1.floor(),
            y1: bbox.y1.floor(),
            x2: bbox.x2.ceil(),
            y2: bbox.y2.ceil(),
        };
        Self::of_box(&outwards, image)
    }

    /// All pixels of an image.
    pub fn of_image(image: Size) -> Self {
        Self { left: 0, top: 0, width: image.width, height: image.height, first_word: 0 }
    }

    /// Words of a row.
    pub fn words_per_row(&self) -> usize {
        self.width.div_ceil(32) as usize
    }

    /// Words of all rows.
    pub fn num_words(&self) -> usize {
        self.words_per_row().saturating_mul(self.height as usize)
    }
}

/// The masks of the first detections of a frame, in their order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Masks<'a> {
    /// Size of the source image.
    pub image: Size,
    /// By detection. Detections behind the last have no mask: the capacity was reached.
    pub windows: &'a [MaskWindow],
    /// The bits of all.
    pub words: &'a [u32],
}

impl<'a> Masks<'a> {
    /// The mask of a detection; `None` for one beyond the capacity.
    pub fn get(&self, detection: usize) -> Option<Mask<'a>> {
        let window = *self.windows.get(detection)?;
        let words = self.words.get(window.first_word as usize..)?.get(..window.num_words())?;
        Some(Mask { image: self.image, window, words })
    }
}

/// The mask of an instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mask<'a> {
    /// Size of the source image.
    pub image: Size,
    /// The pixels that may be set.
    pub window: MaskWindow,
    /// Their bits.
    pub words: &'a [u32],
}

impl Mask<'_> {
    /// Whether a pixel of the window is set, by column and row of the window.
    pub fn is_set(&self, column: u32, row: u32) -> bool {
        let word = row as usize * self.window.words_per_row() + (column / 32) as usize;
        self.words.get(word).is_some_and(|word| word >> (column % 32) & 1 != 0)
    }

    /// The number of pixels that are set.
    pub fn area(&self) -> u64 {
        self.words.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Calls `set(x, y)` with the position of each pixel that is set in the source image, rows
    /// from the top, each from the left.
    pub fn for_each(&self, mut set: impl FnMut(u32, u32)) {
        let MaskWindow { left, top, width, .. } = self.window;
        if width == 0 {
            return;
        }
        for (y, row) in (top..).zip(self.words.chunks_exact(self.window.words_per_row())) {
            for (first, &word) in (left..).step_by(32).zip(row) {
                let mut rest = word;
                while rest != 0 {
                    set(first + rest.trailing_zeros(), y);
                    rest &= rest - 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Size = Size::new(100, 50);

    #[test]
    fn windows_have_the_whole_pixels_of_their_boxes() {
        let window = |left, top, width, height| MaskWindow {
            left,
            top,
            width,
            height,
            ..MaskWindow::default()
        };
        let nan = f32::NAN;
        let cases = [
            ((0.0, 0.0, 100.0, 50.0), window(0, 0, 100, 50)),
            ((-5.0, -5.0, 500.0, 500.0), window(0, 0, 100, 50)),
            ((10.0, 20.0, 12.0, 21.0), window(10, 20, 2, 1)),
            ((10.5, 20.0, 12.5, 21.5), window(11, 20, 2, 2)),
            ((10.2, 20.0, 10.8, 30.0), window(0, 0, 0, 0)),
            ((12.0, 20.0, 10.0, 30.0), window(0, 0, 0, 0)),
            ((120.0, 20.0, 130.0, 30.0), window(0, 0, 0, 0)),
            ((10.0, nan, 20.0, 30.0), window(0, 0, 0, 0)),
            ((10.0, 20.0, f32::INFINITY, 30.0), window(0, 0, 0, 0)),
        ];
        for ((x1, y1, x2, y2), expected) in cases {
            assert_eq!(MaskWindow::of_box(&Box2d::new(x1, y1, x2, y2), IMAGE), expected);
        }
        assert_eq!(window(0, 0, 33, 7).num_words(), 14);
        assert_eq!(window(0, 0, 32, 7).num_words(), 7);
    }

    #[test]
    fn pixels_are_bits_from_the_lowest() {
        let windows = [
            MaskWindow { left: 3, top: 2, width: 34, height: 2, first_word: 1 },
            MaskWindow { left: 0, top: 0, width: 33, height: 9, first_word: 5 },
        ];
        let words = [9, 1 << 31 | 1, 0b10, 0, 0b01, 0, 0];
        let masks = Masks { image: IMAGE, windows: &windows, words: &words };
        let mask = masks.get(0).unwrap();
        let mut found = Vec::new();
        mask.for_each(|x, y| found.push((x, y)));
        assert_eq!(found, [(3, 2), (34, 2), (36, 2), (35, 3)]);
        assert_eq!(mask.area(), 4);
        assert!(mask.is_set(0, 0) && mask.is_set(33, 0) && mask.is_set(32, 1));
        assert!(!mask.is_set(1, 0) && !mask.is_set(0, 1) && !mask.is_set(0, 7));
        // Words that are not there.
        assert_eq!(masks.get(1), None);
        assert_eq!(masks.get(2), None);
        let empty = Masks { image: IMAGE, windows: &[MaskWindow::default()], words: &[] };
        let empty = empty.get(0).unwrap();
        empty.for_each(|_, _| panic!());
        assert_eq!(empty.area(), 0);
    }
}
