//! Masks and keypoints of partners.

use det_post_types::{Detections, Keypoint, Mask, MaskWindow, Size};

/// The least IoU of masks that are the same.
pub(super) const MIN_MASK_IOU: f32 = 0.9;
/// The largest distance between keypoints that are the same, in diagonals of the box.
pub(super) const MAX_KEYPOINT_DISTANCE: f32 = 0.05;
/// The score from which a keypoint is visible, and the score below which it is not.
const VISIBLE: [f32; 2] = [0.5, 0.25];

/// What a detection has beside its box.
#[derive(Clone, Debug)]
pub(super) enum Part {
    None,
    /// `None`: beyond the capacity.
    Mask(Option<OwnMask>),
    Keypoints(Vec<Keypoint>),
}

/// The mask of a detection.
#[derive(Clone, Debug)]
pub(super) struct OwnMask {
    image: Size,
    window: MaskWindow,
    words: Vec<u32>,
}

impl Part {
    /// Of the detection at a position.
    pub(super) fn of(detections: &Detections<'_>, at: usize) -> Self {
        match detections {
            Detections::Masked2d(_, masks) => Self::Mask(masks.get(at).map(|mask| OwnMask {
                image: mask.image,
                window: mask.window,
                words: mask.words.to_vec(),
            })),
            Detections::Keypoints2d(_, keypoints) => Self::Keypoints(keypoints.of(at).to_vec()),
            _ => Self::None,
        }
    }
}

impl OwnMask {
    fn view(&self) -> Mask<'_> {
        Mask { image: self.image, window: self.window, words: &self.words }
    }

    fn covers(&self, x: u32, y: u32) -> bool {
        let MaskWindow { left, top, width, height, .. } = self.window;
        x.checked_sub(left).is_some_and(|column| column < width)
            && y.checked_sub(top).is_some_and(|row| row < height)
    }
}

/// The IoU of masks on the pixels that both boxes cover: boxes are compared by themselves. 1 where neither
/// sets a pixel there, 0 where only one is there.
pub(super) fn mask_iou(a: Option<&OwnMask>, b: Option<&OwnMask>) -> f32 {
    let (Some(a), Some(b)) = (a, b) else {
        return if a.is_none() && b.is_none() { 1.0 } else { 0.0 };
    };
    let (mut num, mut num_both) = ([0_u64; 2], 0_u64);
    let MaskWindow { left, top, .. } = b.window;
    a.view().for_each(|x, y| {
        if b.covers(x, y) {
            num[0] += 1;
            num_both += u64::from(b.view().is_set(x - left, y - top));
        }
    });
    b.view().for_each(|x, y| num[1] += u64::from(a.covers(x, y)));
    match num[0] + num[1] - num_both {
        0 => 1.0,
        either => (num_both as f64 / either as f64) as f32,
    }
}

/// How keypoints of partners differ.
pub(super) struct Moved {
    /// The largest distance of keypoints that are visible in both runs, in diagonals.
    pub(super) largest: f32,
    /// Whether one is further away than [`MAX_KEYPOINT_DISTANCE`], or visible in one run and not in
    /// the other.
    pub(super) is_other: bool,
}

/// Compares keypoints of partners with a box of this diagonal.
pub(super) fn moved(of: &[Keypoint], others: &[Keypoint], diagonal: f32) -> Moved {
    let mut found = Moved { largest: 0.0, is_other: of.len() != others.len() };
    let [visible, hidden] = VISIBLE;
    for (a, b) in of.iter().zip(others) {
        let (low, high) = (a.score.min(b.score), a.score.max(b.score));
        if low >= visible {
            let distance = (a.x - b.x).hypot(a.y - b.y) / diagonal.max(1.0);
            found.largest = found.largest.max(distance);
        }
        found.is_other |= high >= visible && low < hidden;
    }
    found.is_other |= found.largest > MAX_KEYPOINT_DISTANCE;
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mask with rows of a window, `#` set.
    fn mask(left: u32, top: u32, rows: &[&str]) -> Option<OwnMask> {
        let word = |row: &&str| {
            (0..).zip(row.chars()).map(|(bit, pixel)| u32::from(pixel == '#') << bit).sum::<u32>()
        };
        let width = rows.first().map_or(0, |row| row.len() as u32);
        let window = MaskWindow { left, top, width, height: rows.len() as u32, first_word: 0 };
        Some(OwnMask { image: Size::new(99, 99), window, words: rows.iter().map(word).collect() })
    }

    #[test]
    fn masks_are_compared_where_both_boxes_are() {
        let full = mask(3, 5, &["####", "####"]);
        for (name, other, expected) in [
            ("the same", full.clone(), 1.0),
            ("half of it", mask(3, 5, &["####", "...."]), 0.5),
            ("nothing of it", mask(3, 5, &["....", "...."]), 0.0),
            ("a column less of the box", mask(4, 5, &["###", "###"]), 1.0),
            ("a row more of the box", mask(3, 4, &["####", "####", "####"]), 1.0),
            ("a row more, and a pixel less", mask(3, 4, &["####", "###.", "####"]), 0.875),
            ("boxes without a shared pixel", mask(50, 50, &["##"]), 1.0),
            ("no pixels", mask(0, 0, &[]), 1.0),
            ("beyond the capacity", None, 0.0),
        ] {
            assert_eq!(mask_iou(full.as_ref(), other.as_ref()), expected, "{name}");
            assert_eq!(mask_iou(other.as_ref(), full.as_ref()), expected, "{name}");
        }
        assert_eq!(mask_iou(None, None), 1.0);
        let empty = mask(3, 5, &["...."]);
        assert_eq!(mask_iou(empty.as_ref(), empty.as_ref()), 1.0);
    }

    #[test]
    fn keypoints_move_or_become_invisible() {
        let at = |x, score| Keypoint { x, y: 0.0, score };
        for (a, b, largest, is_other) in [
            (at(0.0, 0.9), at(0.0, 0.9), 0.0, false),
            (at(0.0, 0.9), at(5.0, 0.9), 0.05, false),
            (at(0.0, 0.5), at(6.0, 0.5), 0.06, true),
            // Not visible in both.
            (at(0.0, 0.4), at(60.0, 0.9), 0.0, false),
            (at(0.0, 0.1), at(60.0, 0.2), 0.0, false),
            (at(10.0, 0.9), at(0.0, 0.0), 0.0, true),
            (at(0.0, 0.0), at(10.0, 0.5), 0.0, true),
        ] {
            let found = moved(&[a], &[b], 100.0);
            assert_eq!((found.largest, found.is_other), (largest, is_other), "{a:?} {b:?}");
        }
        assert!(!moved(&[], &[], 0.0).is_other);
    }
}
