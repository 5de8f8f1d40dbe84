//! Outlines of masks.

use super::mask::{Mask, MaskWindow};

/// The neighbours of a pixel clockwise from the right, y down.
const NEIGHBOURS: [[i64; 2]; 8] =
    [[1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1], [1, -1]];

impl Mask<'_> {
    /// The outer border of the part with the longest one, as pixels of the source image: the corners of
    /// a polygon clockwise, from the leftmost pixel of its highest row. Pixels on a straight line
    /// between two corners are left out; parts touch by their corners, too. Empty without a pixel.
    ///
    /// As `findContours` of OpenCV with `RETR_EXTERNAL` and `CHAIN_APPROX_SIMPLE`, from which
    /// ultralytics takes the polygons of its results; of several parts, which it joins in newer
    /// releases, one is taken.
    pub fn outline(&self) -> Vec<[u32; 2]> {
        let MaskWindow { left, top, width, height, .. } = self.window;
        let mut seen = vec![false; width as usize * height as usize];
        let (mut longest, mut pending) = (Vec::new(), Vec::new());
        for y in 0..height {
            for x in 0..width {
                if self.is_set(x, y) && !seen[self.place([x, y])] {
                    self.fill([x, y], &mut seen, &mut pending);
                    let found = self.border([x, y]);
                    if found.len() > longest.len() {
                        longest = found;
                    }
                }
            }
        }
        longest.into_iter().map(|[x, y]| [left + x, top + y]).collect()
    }

    fn place(&self, [x, y]: [u32; 2]) -> usize {
        y as usize * self.window.width as usize + x as usize
    }

    /// The neighbour of a pixel of the window in a direction, if it is set.
    fn neighbour(&self, [x, y]: [u32; 2], direction: usize) -> Option<[u32; 2]> {
        let [dx, dy] = NEIGHBOURS[direction % 8];
        let x = u32::try_from(i64::from(x) + dx).ok().filter(|&x| x < self.window.width)?;
        let y = u32::try_from(i64::from(y) + dy).ok().filter(|&y| y < self.window.height)?;
        self.is_set(x, y).then_some([x, y])
    }

    /// Marks the part of a pixel.
    fn fill(&self, start: [u32; 2], seen: &mut [bool], pending: &mut Vec<[u32; 2]>) {
        pending.push(start);
        seen[self.place(start)] = true;
        while let Some(pixel) = pending.pop() {
            for next in (0..8).filter_map(|direction| self.neighbour(pixel, direction)) {
                let place = self.place(next);
                if !seen[place] {
                    seen[place] = true;
                    pending.push(next);
                }
            }
        }
    }

    /// The corners of the outer border of a part, from its first pixel in the order of rows.
    fn border(&self, start: [u32; 2]) -> Vec<[u32; 2]> {
        // The first neighbour clockwise, behind the pixel that the border came from.
        let step = |pixel: [u32; 2], came_in: usize| {
            let first = came_in + 6 - came_in % 2;
            let mut directions = (first..first + 8).map(|direction| direction % 8);
            directions.find_map(|to| Some((self.neighbour(pixel, to)?, to)))
        };
        // Nothing is set above and to the left of it.
        let Some((second, first_to)) = step(start, 0) else { return vec![start] };
        let (mut corners, mut pixel, mut came_in) = (Vec::new(), second, first_to);
        loop {
            let Some((next, to)) = step(pixel, came_in) else { return corners };
            if to != came_in {
                corners.push(pixel);
            }
            if pixel == start && to == first_to {
                break;
            }
            (pixel, came_in) = (next, to);
        }
        // The start is found last.
        if corners.last() == Some(&start) {
            corners.rotate_right(1);
        }
        corners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Size;

    /// The outline of a picture of `#`, whose window begins at column 10 and row 20.
    fn outline(rows: &[&str]) -> Vec<[u32; 2]> {
        let words: Vec<u32> = rows
            .iter()
            .map(|row| row.bytes().rev().fold(0, |word, byte| word << 1 | u32::from(byte == b'#')))
            .collect();
        let (width, height) = (rows[0].len() as u32, rows.len() as u32);
        let window = MaskWindow { left: 10, top: 20, width, height, first_word: 0 };
        let mask = Mask { image: Size::new(100, 100), window, words: &words };
        let corners = mask.outline();
        assert!(corners.iter().all(|[x, y]| *x >= 10 && *y >= 20));
        corners.into_iter().map(|[x, y]| [x - 10, y - 20]).collect()
    }

    #[test]
    fn corners_are_clockwise() {
        // (rows, corners): as OpenCV finds them, which goes the other way round.
        let cases: [(&[&str], &[[u32; 2]]); 9] = [
            (&["....", "...."], &[]),
            (&["....", ".#.."], &[[1, 1]]),
            (&["####", "####", "####"], &[[0, 0], [3, 0], [3, 2], [0, 2]]),
            (&[".###."], &[[1, 0], [3, 0]]),
            (&["#...", ".#..", "..#."], &[[0, 0], [2, 2]]),
            (&[".#.", "###", ".#."], &[[1, 0], [2, 1], [1, 2], [0, 1]]),
            // A hole is inside of the border.
            (&["####", "#..#", "####"], &[[0, 0], [3, 0], [3, 2], [0, 2]]),
            // The longer border of two parts.
            (&["#.....", "...##.", "...##."], &[[3, 1], [4, 1], [4, 2], [3, 2]]),
            // A branch of one pixel is passed on both sides.
            (&["#..", "#..", "###"], &[[0, 0], [0, 1], [1, 2], [2, 2], [0, 2]]),
        ];
        for (rows, expected) in cases {
            assert_eq!(outline(rows), expected, "{rows:?}");
        }
    }

    #[test]
    fn every_small_mask_has_a_border_that_ends() {
        for bits in 0_u32..1 << 12 {
            let rows: Vec<u32> = (0..3).map(|row| bits >> (4 * row) & 15).collect();
            let window = MaskWindow { left: 0, top: 0, width: 4, height: 3, first_word: 0 };
            let mask = Mask { image: Size::new(4, 3), window, words: &rows };
            let corners = mask.outline();
            assert_eq!(corners.is_empty(), bits == 0, "{bits:b}");
            assert!(corners.iter().all(|&[x, y]| mask.is_set(x, y)), "{bits:b}");
            assert!(corners.len() <= 24, "{bits:b}: {corners:?}");
        }
    }
}
