//! A decoded picture.

use super::bits::damaged;
use det_post_types::{Result, Size};

/// A decoded picture of 4:2:0: planes of luma, and of two chroma at half the size.
pub(super) struct Picture<'a> {
    pub(super) size: Size,
    pub(super) luma: Plane<'a>,
    pub(super) chroma: [Plane<'a>; 2],
}

/// Rows of samples.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a> {
    pub(super) bytes: &'a [u8],
    /// Bytes from one row to the next.
    pub(super) step: usize,
}

impl<'a> Plane<'a> {
    fn rows(self, num: usize, len: usize) -> impl Iterator<Item = &'a [u8]> {
        let Self { bytes, step } = self;
        (0..num).map(move |row| &bytes[row * step..row * step + len])
    }

    #[cfg_attr(not(feature = "video"), allow(dead_code, reason = "nothing decodes"))]
    fn has(&self, num_rows: usize, len: usize) -> bool {
        let needed = self.step.checked_mul(num_rows.saturating_sub(1));
        let needed = needed.and_then(|rows| rows.checked_add(len));
        len <= self.step && needed.is_some_and(|needed| needed <= self.bytes.len())
    }
}

impl Picture<'_> {
    /// Checks that the planes hold the picture, whose sides are even.
    #[cfg_attr(not(feature = "video"), allow(dead_code, reason = "nothing decodes"))]
    pub(super) fn check(&self) -> Result<()> {
        let [width, height] = [self.size.width as usize, self.size.height as usize];
        let is_even = width.is_multiple_of(2) && height.is_multiple_of(2) && width * height > 0;
        let has_chroma = self.chroma.iter().all(|plane| plane.has(height / 2, width / 2));
        match is_even && self.luma.has(height, width) && has_chroma {
            true => Ok(()),
            false => Err(damaged(format!("the decoder gave an image of {width}x{height}"))),
        }
    }

    /// Writes the picture as `nv12` without padding: luma, then pairs of chroma. The samples are
    /// the decoder's. The length of `pixels` is that of the picture.
    pub(super) fn write_nv12(&self, pixels: &mut [u8]) {
        let [width, height] = [self.size.width as usize, self.size.height as usize];
        let (luma, chroma) = pixels.split_at_mut(width * height);
        for (to, from) in luma.chunks_exact_mut(width).zip(self.luma.rows(height, width)) {
            to.copy_from_slice(from);
        }
        let [u, v] = self.chroma.map(|plane| plane.rows(height / 2, width / 2));
        for (to, (u, v)) in chroma.chunks_exact_mut(width).zip(u.zip(v)) {
            for (pair, (u, v)) in to.as_chunks_mut().0.iter_mut().zip(u.iter().zip(v)) {
                *pair = [*u, *v];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_become_pairs_of_chroma() {
        let luma: Vec<u8> = (0..20).collect();
        let picture = Picture {
            size: Size::new(4, 2),
            luma: Plane { bytes: &luma, step: 6 },
            chroma: [Plane { bytes: &[50, 51, 99], step: 3 }, Plane { bytes: &[60, 61], step: 2 }],
        };
        picture.check().unwrap();
        let mut pixels = [0; 12];
        picture.write_nv12(&mut pixels);
        assert_eq!(pixels, [0, 1, 2, 3, 6, 7, 8, 9, 50, 60, 51, 61]);
        for size in [(3, 2), (4, 3), (0, 2), (4, 4), (8, 2)] {
            let size = Size::new(size.0, size.1);
            assert!(Picture { size, ..picture }.check().is_err(), "{size:?}");
        }
    }
}
