//! Dimensions that several tensors have together: as few as they permit.

use super::MAX_RANK;
use super::launch::{Dims, RowDims, check_count};
use det_post_types::Result;

/// Dimensions that `N` tensors have together, with the strides of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout<const N: usize> {
    pub sizes: [usize; MAX_RANK],
    pub strides: [[usize; MAX_RANK]; N],
    pub rank: usize,
}

impl<const N: usize> Layout<N> {
    /// Dimensions of size 1 are left out; one is kept where there is no other.
    pub fn new(sizes: &[usize], strides: [&[usize]; N]) -> Self {
        let mut layout = Self { sizes: [1; MAX_RANK], strides: [[0; MAX_RANK]; N], rank: 0 };
        for (axis, &size) in sizes.iter().enumerate() {
            if size != 1 {
                layout.sizes[layout.rank] = size;
                for (to, from) in layout.strides.iter_mut().zip(strides) {
                    to[layout.rank] = from.get(axis).copied().unwrap_or(0);
                }
                layout.rank += 1;
            }
        }
        layout.rank = layout.rank.max(1);
        layout
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.sizes.swap(a, b);
        self.strides.iter_mut().for_each(|strides| strides.swap(a, b));
    }

    /// Dimensions in the order of falling strides of a tensor.
    pub fn ordered_by(mut self, tensor: usize) -> Self {
        for end in (1..self.rank).rev() {
            for at in 0..end {
                if self.strides[tensor][at] < self.strides[tensor][at + 1] {
                    self.swap(at, at + 1);
                }
            }
        }
        self
    }

    /// Neighbouring dimensions that every tensor goes through as one are joined.
    pub fn merged(&self) -> Self {
        let mut merged = Self { rank: 1, ..*self };
        for axis in 1..self.rank {
            let (to, size) = (merged.rank - 1, self.sizes[axis]);
            let pairs = merged.strides.iter().zip(&self.strides);
            let is_one = pairs.clone().all(|(outer, own)| outer[to] == own[axis] * size);
            let to = if is_one { to } else { merged.rank };
            merged.sizes[to] = if is_one { merged.sizes[to] * size } else { size };
            for (outer, own) in merged.strides.iter_mut().zip(&self.strides) {
                outer[to] = own[axis];
            }
            merged.rank = to + 1;
        }
        for axis in merged.rank..MAX_RANK {
            merged.sizes[axis] = 1;
            merged.strides.iter_mut().for_each(|strides| strides[axis] = 0);
        }
        merged
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.sizes[..self.rank].iter().product()
    }

    /// As kernels take them.
    ///
    /// # Errors
    /// `Argument` when there are more than 2^32 - 1 elements.
    pub fn dims(&self) -> Result<Dims> {
        check_count(self.sizes[..self.rank].iter().product())?;
        let sizes = self.sizes.map(|size| size as u32);
        Ok(Dims { sizes, rank: self.rank as u32, reserved: 0 })
    }
}

/// Rows of `N` tensors.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLayout<const N: usize> {
    pub dims: RowDims,
    pub strides: [[usize; MAX_RANK]; N],
}

impl<const N: usize> RowLayout<N> {
    /// Rows along `axes`; the elements of a row are in row-major order. The first tensor decides
    /// which rows are neighbours.
    ///
    /// # Errors
    /// `Argument` when there are more than 2^32 - 1 elements.
    pub fn new(sizes: &[usize], axes: &[usize], strides: [&[usize]; N]) -> Result<Self> {
        check_count(sizes.iter().product())?;
        let part = |is_along: bool| {
            let mut part = [1; MAX_RANK];
            for (axis, (to, &size)) in part.iter_mut().zip(sizes).enumerate() {
                if axes.contains(&axis) == is_along {
                    *to = size;
                }
            }
            Layout::new(&part[..sizes.len()], strides)
        };
        let kept = part(false).ordered_by(0).merged();
        let along = part(true).merged();
        // A dimension of size 1 that only holds a place is left out.
        let num_kept = if kept.sizes[0] == 1 { 0 } else { kept.rank };
        let mut sizes = [1; MAX_RANK];
        let mut strides = [[0; MAX_RANK]; N];
        for (at, size) in sizes.iter_mut().enumerate().take((num_kept + along.rank).min(MAX_RANK)) {
            let (from, axis) = if at < num_kept { (&kept, at) } else { (&along, at - num_kept) };
            *size = from.sizes[axis] as u32;
            for (to, from) in strides.iter_mut().zip(&from.strides) {
                to[at] = from[axis];
            }
        }
        let last_kept = if num_kept == 0 { 0 } else { kept.strides[0][num_kept - 1] };
        let dims = RowDims {
            sizes,
            num_kept: num_kept as u32,
            rank: (num_kept + along.rank) as u32,
            num_rows: if num_kept == 0 { 1 } else { kept.len() as u32 },
            len: along.len() as u32,
            rows_are_neighbours: u32::from(
                last_kept != 0 && last_kept < along.strides[0][along.rank - 1],
            ),
            reserved: 0,
        };
        Ok(Self { dims, strides })
    }
}
