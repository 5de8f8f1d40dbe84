//! Masks as lengths of runs, as COCO writes them.

use super::error::{Error, ErrorKind, Result};
use super::image::Size;
use super::mask::{Mask, MaskWindow};

/// A mask of a whole image as the lengths of runs of pixels, column by column from the left, each
/// from the top: first pixels that are not set, then pixels that are, in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rle {
    size: Size,
    counts: Vec<u32>,
}

impl Rle {
    /// The runs of a mask.
    pub fn of(mask: &Mask<'_>) -> Self {
        let mut rle = Self { size: mask.image, counts: Vec::new() };
        rle.replace(mask);
        rle
    }

    /// Replaces the runs by the runs of a mask.
    pub fn replace(&mut self, mask: &Mask<'_>) {
        let MaskWindow { left, top, width, height, .. } = mask.window;
        self.size = mask.image;
        self.counts.clear();
        let rows = u64::from(mask.image.height);
        // The end of the run of pixels that are set before.
        let mut end = 0;
        for column in 0..width {
            let first = u64::from(left + column) * rows + u64::from(top);
            let mut row = 0;
            while row < height {
                let is_set = |row: &u32| mask.is_set(column, *row);
                let Some(start) = (row..height).find(is_set) else { break };
                row = (start..height).find(|row| !is_set(row)).unwrap_or(height);
                end = self.push(end, first + u64::from(start), u64::from(row - start));
            }
        }
        let num_pixels = u64::from(mask.image.width) * rows;
        if end < num_pixels || self.counts.is_empty() {
            self.counts.push((num_pixels - end) as u32);
        }
    }

    /// Appends a run of `len` pixels that are set, behind the one that ended at `end`; returns its
    /// end.
    fn push(&mut self, end: u64, start: u64, len: u64) -> u64 {
        match self.counts.last_mut() {
            Some(last) if start == end && end > 0 => *last += len as u32,
            _ => self.counts.extend([(start - end) as u32, len as u32]),
        }
        start + len
    }

    /// A mask from the lengths of its runs.
    ///
    /// # Errors
    /// `Argument` when they do not add up to the pixels of the image.
    pub fn new(size: Size, counts: Vec<u32>) -> Result<Self> {
        let num_pixels = u64::from(size.width) * u64::from(size.height);
        let sum: u64 = counts.iter().map(|&count| u64::from(count)).sum();
        if sum == num_pixels {
            return Ok(Self { size, counts });
        }
        Err(argument(format!(
            "runs of {sum} pixels; {num_pixels} of an image of {}x{} expected",
            size.width, size.height
        )))
    }

    /// A mask from COCO's compressed string.
    ///
    /// # Errors
    /// `Argument` when it has other characters, ends within a number, has a negative length, or
    /// the lengths do not add up to the pixels of the image.
    pub fn from_compressed(size: Size, text: &str) -> Result<Self> {
        let mut counts: Vec<u32> = Vec::new();
        let (mut value, mut shift) = (0_i64, 0);
        for byte in text.bytes() {
            if !(48..112).contains(&byte) || shift > 30 {
                return Err(argument(format!("character {byte} of the runs is not one of COCO's")));
            }
            let digit = i64::from(byte - 48);
            value |= (digit & 0x1f) << shift;
            shift += 5;
            if digit & 0x20 != 0 {
                continue;
            }
            if digit & 0x10 != 0 {
                value |= -1 << shift;
            }
            let before = match counts.len() {
                0..=2 => 0,
                len => i64::from(counts[len - 2]),
            };
            let count = u32::try_from(value + before)
                .map_err(|_| argument(format!("a run of {} pixels", value + before)))?;
            counts.push(count);
            (value, shift) = (0, 0);
        }
        if shift != 0 {
            return Err(argument("the runs end within a number".into()));
        }
        Self::new(size, counts)
    }

    /// COCO's compressed string: differences to the run before the last in digits of five bits.
    pub fn to_compressed(&self) -> String {
        let mut text = String::with_capacity(self.counts.len() * 2);
        for (index, &count) in self.counts.iter().enumerate() {
            let before = if index > 2 { self.counts[index - 2] } else { 0 };
            let mut value = i64::from(count) - i64::from(before);
            loop {
                let digit = (value & 0x1f) as u8;
                value >>= 5;
                let is_last = value == if digit & 0x10 != 0 { -1 } else { 0 };
                text.push(char::from(48 + if is_last { digit } else { digit | 0x20 }));
                if is_last {
                    break;
                }
            }
        }
        text
    }

    /// Size of the image.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The lengths of the runs.
    pub fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// The number of pixels that are set.
    pub fn area(&self) -> u64 {
        self.counts.iter().skip(1).step_by(2).map(|&count| u64::from(count)).sum()
    }

    /// Calls `set` with the column and row of each pixel that is set.
    pub fn for_each(&self, mut set: impl FnMut(u32, u32)) {
        let rows = u64::from(self.size.height);
        let mut at = 0;
        for runs in self.counts.chunks(2) {
            let start = at + u64::from(runs[0]);
            at = start + runs.get(1).map_or(0, |&len| u64::from(len));
            // Runs add up to the pixels of the image.
            (start..at).for_each(|pixel| set((pixel / rows) as u32, (pixel % rows) as u32));
        }
    }

    /// The pixels that are set in both masks.
    ///
    /// # Errors
    /// `Argument` for masks of images of other sizes.
    pub fn intersection(&self, other: &Self) -> Result<u64> {
        if self.size != other.size {
            let [a, b] = [self.size, other.size];
            return Err(argument(format!(
                "masks have {}x{} and {}x{} pixels",
                a.width, a.height, b.width, b.height
            )));
        }
        let mut both = 0;
        let (mut a, mut b) = (Runs::new(self), Runs::new(other));
        while let (Some(first), Some(second)) = (a.run, b.run) {
            let start = first.0.max(second.0);
            let end = first.1.min(second.1);
            both += end.saturating_sub(start);
            if first.1 <= second.1 { a.advance() } else { b.advance() }
        }
        Ok(both)
    }

    /// The pixels that are set in one of the masks only.
    ///
    /// # Errors
    /// As [`Self::intersection`].
    pub fn difference(&self, other: &Self) -> Result<u64> {
        Ok(self.area() + other.area() - 2 * self.intersection(other)?)
    }

    /// Intersection over union, 0 for two empty masks.
    ///
    /// # Errors
    /// As [`Self::intersection`].
    pub fn iou(&self, other: &Self) -> Result<f64> {
        let both = self.intersection(other)?;
        let union = self.area() + other.area() - both;
        Ok(if union == 0 { 0.0 } else { both as f64 / union as f64 })
    }
}

/// The runs of pixels that are set, in order.
struct Runs<'a> {
    counts: std::slice::Chunks<'a, u32>,
    position: u64,
    /// Start and end of the current one.
    run: Option<(u64, u64)>,
}

impl<'a> Runs<'a> {
    fn new(rle: &'a Rle) -> Self {
        let mut runs = Self { counts: rle.counts.chunks(2), position: 0, run: None };
        runs.advance();
        runs
    }

    fn advance(&mut self) {
        self.run = match self.counts.next() {
            Some(&[unset, set]) => {
                let start = self.position + u64::from(unset);
                self.position = start + u64::from(set);
                Some((start, self.position))
            }
            _ => None,
        };
    }
}

fn argument(message: String) -> Error {
    Error::new(ErrorKind::Argument, "rle", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: Size = Size::new(4, 3);

    /// The runs of the pixels that are set in a window.
    fn rle(window: MaskWindow, rows: &[u32]) -> Rle {
        Rle::of(&Mask { image: IMAGE, window, words: rows })
    }

    fn window(left: u32, top: u32, width: u32, height: u32) -> MaskWindow {
        MaskWindow { left, top, width, height, first_word: 0 }
    }

    #[test]
    fn runs_are_column_by_column() {
        // (window, rows, runs)
        let cases: [(_, &[u32], &[u32]); 7] = [
            (window(0, 0, 4, 3), &[0, 0, 0], &[12]),
            (window(0, 0, 0, 0), &[], &[12]),
            (window(0, 0, 4, 3), &[0b1111, 0b1111, 0b1111], &[0, 12]),
            (window(0, 0, 4, 3), &[0b0001, 0, 0], &[0, 1, 11]),
            // The end of a column and the begin of the next are one run.
            (window(0, 0, 4, 3), &[0b0010, 0b0010, 0b0011], &[2, 4, 6]),
            (window(1, 1, 2, 2), &[0b10, 0b11], &[5, 1, 1, 2, 3]),
            (window(3, 2, 1, 1), &[1], &[11, 1]),
        ];
        for (window, rows, runs) in cases {
            let found = rle(window, rows);
            assert_eq!(found.counts(), runs, "{window:?} {rows:?}");
            let area: u32 = rows.iter().map(|row| row.count_ones()).sum();
            assert_eq!(found.area(), u64::from(area));
            let mut pixels = Vec::new();
            found.for_each(|x, y| pixels.push((x, y)));
            assert!(pixels.is_sorted() && pixels.len() == area as usize, "{pixels:?}");
            let is_set = |&(x, y): &(u32, u32)| {
                rows[(y - window.top) as usize] >> (x - window.left) & 1 == 1
            };
            assert!(pixels.iter().all(is_set), "{pixels:?}");
            assert_eq!(Rle::from_compressed(IMAGE, &found.to_compressed()).unwrap(), found);
        }
        assert_eq!(rle(window(1, 1, 2, 2), &[0b10, 0b11]).to_compressed(), "51112");
    }

    #[test]
    fn strings_that_are_no_runs_are_refused() {
        let whole = rle(window(1, 1, 2, 2), &[0b10, 0b11]).to_compressed();
        for text in [&whole[..whole.len() - 1], "", "P", "\u{7f}", "oooooooo0", "O", "é"] {
            assert!(Rle::from_compressed(IMAGE, text).is_err(), "{text}");
        }
        assert!(Rle::new(IMAGE, vec![5, 8]).is_err());
        assert!(Rle::new(IMAGE, vec![u32::MAX; 3]).is_err());
        let other = Rle::new(Size::new(3, 4), vec![12]).unwrap();
        assert!(rle(window(0, 0, 0, 0), &[]).iou(&other).is_err());
    }

    #[test]
    fn overlaps_count_pixels() {
        let all: Vec<Rle> =
            (0_u32..1 << 8).map(|bits| rle(window(0, 1, 4, 2), &[bits & 15, bits >> 4])).collect();
        for (a, first) in (0_u32..).zip(&all) {
            for (b, second) in (0_u32..).zip(&all) {
                let [both, either] = [a & b, a | b].map(u32::count_ones);
                assert_eq!(first.intersection(second).unwrap(), u64::from(both));
                assert_eq!(first.difference(second).unwrap(), u64::from((a ^ b).count_ones()));
                let iou = if either == 0 { 0.0 } else { f64::from(both) / f64::from(either) };
                assert_eq!(first.iou(second).unwrap(), iou);
            }
        }
    }
}
