//! Windows: strided views of buffers.

/// The most dimensions of a window.
pub const MAX_RANK: usize = 6;

/// A strided view of a buffer. Offset and strides are in elements; a stride of 0 repeats values.
///
/// The elements that it names, counted from `offset`, fit a `usize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    /// The first element.
    pub offset: usize,
    dims: [usize; MAX_RANK],
    strides: [usize; MAX_RANK],
    rank: u8,
}

/// A window of a buffer that is known by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    /// The number of the buffer.
    pub buffer: usize,
    /// The view.
    pub window: Window,
}

impl Window {
    /// A view; `None` when it has more than [`MAX_RANK`] dimensions, the numbers of dimensions and
    /// strides differ, or its elements do not fit a `usize`.
    pub fn new(offset: usize, dims: &[usize], strides: &[usize]) -> Option<Self> {
        if dims.len() != strides.len() || dims.len() > MAX_RANK {
            return None;
        }
        let mut window =
            Self { offset, dims: [1; MAX_RANK], strides: [0; MAX_RANK], rank: dims.len() as u8 };
        window.dims[..dims.len()].copy_from_slice(dims);
        window.strides[..strides.len()].copy_from_slice(strides);
        let mut last = 0_usize;
        let mut len = 1_usize;
        for (&dim, &stride) in dims.iter().zip(strides) {
            len = len.checked_mul(dim)?;
            last = last.checked_add(dim.saturating_sub(1).checked_mul(stride)?)?;
        }
        offset.checked_add(last)?.checked_add(1)?;
        Some(window)
    }

    /// All of a dense, row-major tensor at the start of a buffer; `None` as [`Self::new`].
    pub fn contiguous(dims: &[usize]) -> Option<Self> {
        let mut strides = [0; MAX_RANK];
        let mut stride = 1_usize;
        for (at, &dim) in dims.iter().enumerate().rev() {
            *strides.get_mut(at)? = stride;
            stride = stride.checked_mul(dim.max(1))?;
        }
        Self::new(0, dims, &strides[..dims.len()])
    }

    /// A map `[N, C, H, W]` in a buffer of pixels of `pixel` channels each, of which it has the
    /// first C; `None` as [`Self::new`], or when a pixel has fewer.
    pub fn channels_last([n, c, h, w]: [usize; 4], pixel: usize) -> Option<Self> {
        let row = w.checked_mul(pixel)?;
        let map = h.checked_mul(row)?;
        (c <= pixel).then(|| Self::new(0, &[n, c, h, w], &[map, 1, row, pixel]))?
    }

    /// Lengths of the dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank()]
    }

    /// Elements from one index of a dimension to the next.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.rank()]
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        usize::from(self.rank)
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.dims().iter().product()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.dims().contains(&0)
    }

    /// Elements from the first to the last, both included; 0 when it is empty.
    pub fn extent(&self) -> usize {
        if self.is_empty() {
            return 0;
        }
        let last: usize = self.dims().iter().zip(self.strides()).map(|(d, s)| (d - 1) * s).sum();
        last + 1
    }

    /// The element behind the last; `None` when it does not fit a `usize`.
    pub fn end(&self) -> Option<usize> {
        self.offset.checked_add(self.extent())
    }

    /// Whether the values follow each other in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        let mut stride = 1;
        for (&dim, &found) in self.dims().iter().zip(self.strides()).rev() {
            if dim != 1 && found != stride {
                return false;
            }
            stride *= dim;
        }
        true
    }

    /// Dimensions in another order: that of the result at `i` is `axes[i]`. `None` unless `axes`
    /// has every dimension once.
    pub fn permute(&self, axes: &[usize]) -> Option<Self> {
        let mut seen = [false; MAX_RANK];
        let mut result = *self;
        if axes.len() != self.rank() {
            return None;
        }
        for (at, &axis) in axes.iter().enumerate() {
            if axis >= self.rank() || std::mem::replace(&mut seen[axis], true) {
                return None;
            }
            result.dims[at] = self.dims[axis];
            result.strides[at] = self.strides[axis];
        }
        Some(result)
    }

    /// `len` indices of a dimension from `start` on, every `step`-th. `None` when they are not all
    /// there or the step is 0.
    pub fn slice(&self, axis: usize, start: usize, step: usize, len: usize) -> Option<Self> {
        let dim = *self.dims().get(axis)?;
        if step == 0 {
            return None;
        }
        let mut result = *self;
        result.dims[axis] = len;
        if len > 0 {
            let last = (len - 1).checked_mul(step)?.checked_add(start)?;
            if last >= dim {
                return None;
            }
            result.offset = self.offset.checked_add(start.checked_mul(self.strides[axis])?)?;
            // With one index the step means nothing, and may be large.
            if len > 1 {
                result.strides[axis] = self.strides[axis].checked_mul(step)?;
            }
        } else if start > dim {
            return None;
        }
        Some(result)
    }

    /// Values repeated to larger dimensions, as ONNX and numpy do: dimensions are aligned at the
    /// last; those of length 1, and absent ones, are repeated.
    pub fn broadcast(&self, dims: &[usize]) -> Option<Self> {
        let added = dims.len().checked_sub(self.rank())?;
        let mut strides = [0; MAX_RANK];
        for (at, &dim) in dims.iter().enumerate().skip(added) {
            let from = at - added;
            *strides.get_mut(at)? = match self.dims[from] {
                found if found == dim => self.strides[from],
                1 => 0,
                _ => return None,
            };
        }
        Self::new(self.offset, dims, strides.get(..dims.len())?)
    }

    /// The values in row-major order under other dimensions; `None` when these have another
    /// number of values, or no strides name them.
    pub fn reshape(&self, dims: &[usize]) -> Option<Self> {
        let num = dims.iter().try_fold(1_usize, |product, &dim| product.checked_mul(dim))?;
        if num != self.len() || dims.len() > MAX_RANK {
            return None;
        }
        if num == 0 {
            let empty = Self::contiguous(dims)?;
            return Some(Self { offset: self.offset, ..empty });
        }
        // Dimensions of length 1 fit everywhere.
        let pairs = self.dims().iter().zip(self.strides());
        let old: Vec<(usize, usize)> =
            pairs.filter(|(dim, _)| **dim != 1).map(|(&d, &s)| (d, s)).collect();
        let mut strides = [1; MAX_RANK];
        let (mut from, mut to) = (0, 0);
        while from < old.len() {
            // The fewest dimensions of both that have the same number of values.
            let (first_from, first_to) = (from, to);
            let (mut num_from, mut num_to) = (old[from].0, *dims.get(to)?);
            (from, to) = (from + 1, to + 1);
            while num_from != num_to {
                if num_to < num_from {
                    num_to *= dims.get(to)?;
                    to += 1;
                } else {
                    num_from *= old.get(from)?.0;
                    from += 1;
                }
            }
            let merged = &old[first_from..from];
            if merged.windows(2).any(|pair| pair[0].1 != pair[1].0 * pair[1].1) {
                return None;
            }
            let mut stride = merged.last()?.1;
            for at in (first_to..to).rev() {
                strides[at] = stride;
                stride = stride.checked_mul(dims[at])?;
            }
        }
        Self::new(self.offset, dims, &strides[..dims.len()])
    }

    /// Whether two windows of one buffer may have an element in common. Exact for slices of
    /// channels, rows and columns of one map; else `true` may be wrong, `false` never is.
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.is_empty() || other.is_empty() {
            return false;
        }
        let (Some(end), Some(other_end)) = (self.end(), other.end()) else { return true };
        if end <= other.offset || other_end <= self.offset {
            return false;
        }
        // Both repeat a pattern of some period: are they apart within it?
        let periods = self.strides().iter().chain(other.strides());
        !periods.copied().any(|period| match (self.within(period), other.within(period)) {
            (Some([a, a_end]), Some([b, b_end])) => a_end <= b || b_end <= a,
            _ => false,
        })
    }

    /// The elements of a period that the window touches, as a range; `None` when it is not so
    /// regular.
    fn within(&self, period: usize) -> Option<[usize; 2]> {
        if period < 2 {
            return None;
        }
        let mut len = 1;
        for (&dim, &stride) in self.dims().iter().zip(self.strides()) {
            if dim > 1 && !stride.is_multiple_of(period) {
                len += (dim - 1) * stride;
            }
        }
        let start = self.offset % period;
        (len <= period - start).then_some([start, start + len])
    }

    /// Calls with the offset of every value, in row-major order.
    pub fn for_each_offset(&self, mut call: impl FnMut(usize)) {
        if self.is_empty() {
            return;
        }
        let (dims, strides) = (self.dims(), self.strides());
        let Some((&last_dim, outer)) = dims.split_last() else { return call(self.offset) };
        let last_stride = strides[outer.len()];
        let mut index = [0; MAX_RANK];
        let mut base = self.offset;
        loop {
            (0..last_dim).for_each(|at| call(base + at * last_stride));
            let mut axis = outer.len();
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                base += strides[axis];
                if index[axis] < dims[axis] {
                    break;
                }
                base -= strides[axis] * dims[axis];
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offsets(window: &Window) -> Vec<usize> {
        let mut offsets = Vec::new();
        window.for_each_offset(|offset| offsets.push(offset));
        offsets
    }

    #[test]
    fn views_name_the_values_that_numpy_does() {
        let map = Window::channels_last([2, 3, 2, 2], 8).unwrap();
        assert_eq!(offsets(&map)[..6], [0, 8, 16, 24, 1, 9]);
        assert_eq!((map.len(), map.extent(), map.end()), (24, 59, Some(59)));
        let dense = Window::contiguous(&[2, 3, 4]).unwrap();
        assert!(dense.is_contiguous() && !map.is_contiguous());
        let turned = dense.permute(&[2, 0, 1]).unwrap();
        assert_eq!(offsets(&turned)[..7], [0, 4, 8, 12, 16, 20, 1]);
        assert_eq!(dense.permute(&[0, 0, 1]), None);
        let sliced = dense.slice(2, 1, 2, 2).unwrap();
        assert_eq!(offsets(&sliced), [1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23]);
        assert_eq!(dense.slice(2, 1, 2, 3), None);
        assert_eq!(dense.slice(2, 4, 1, 0).unwrap().len(), 0);
        let row = Window::contiguous(&[3, 1]).unwrap().broadcast(&[2, 3, 2]).unwrap();
        assert_eq!(offsets(&row), [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2]);
        assert_eq!(dense.broadcast(&[2, 3, 5]), None);
        assert_eq!(offsets(&Window::contiguous(&[]).unwrap()), [0]);
        assert_eq!(Window::new(0, &[2, usize::MAX], &[1, 2]), None);
        assert_eq!(Window::new(0, &[1; 7], &[1; 7]), None);
    }

    #[test]
    fn reshapes_are_windows_where_strides_name_them() {
        let map = Window::channels_last([1, 6, 4, 5], 8).unwrap();
        let flat = map.reshape(&[1, 6, 20]).unwrap();
        // The stride of a dimension of length 1 is any.
        assert_eq!(flat.strides()[1..], [1, 8]);
        assert_eq!(offsets(&flat), offsets(&map));
        assert_eq!(map.reshape(&[120]), None);
        assert_eq!(offsets(&map.reshape(&[2, 3, 20]).unwrap()), offsets(&map));
        assert_eq!(map.reshape(&[7]), None);
        let dense = Window::contiguous(&[2, 3, 4]).unwrap();
        assert_eq!(dense.reshape(&[4, 1, 6, 1]).unwrap().strides(), [6, 6, 1, 1].as_slice());
    }

    #[test]
    fn parts_of_a_concatenation_are_apart() {
        let buffer = Window::channels_last([2, 24, 4, 5], 24).unwrap();
        let parts = [(0, 8), (8, 5), (13, 11)].map(|(c, len)| buffer.slice(1, c, 1, len).unwrap());
        for (a, part) in parts.iter().enumerate() {
            for (b, other) in parts.iter().enumerate() {
                assert_eq!(part.overlaps(other), a == b);
            }
            assert!(part.overlaps(&buffer));
        }
        let rows = |start| buffer.slice(2, start, 2, 2).unwrap();
        assert!(!rows(0).overlaps(&rows(1)) && rows(0).overlaps(&rows(0)));
        let (top, bottom) = (buffer.slice(2, 0, 1, 2).unwrap(), buffer.slice(2, 2, 1, 2).unwrap());
        assert!(!top.overlaps(&bottom));
    }

    proptest! {
        #[test]
        fn no_overlap_is_missed(
            a_at in 0_usize..20, a in proptest::collection::vec((1_usize..4, 0_usize..9), 1..4),
            b_at in 0_usize..20, b in proptest::collection::vec((1_usize..4, 0_usize..9), 1..4),
        ) {
            let window = |at, pairs: &[(usize, usize)]| {
                let (dims, strides): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
                Window::new(at, &dims, &strides).unwrap()
            };
            let (a, b) = (window(a_at, &a), window(b_at, &b));
            let found = offsets(&a);
            if offsets(&b).iter().any(|offset| found.contains(offset)) {
                prop_assert!(a.overlaps(&b));
            }
            prop_assert_eq!(found.iter().max().unwrap() + 1, a.end().unwrap());
        }

        #[test]
        fn a_reshape_names_the_same_values(
            pairs in proptest::collection::vec((1_usize..4, 0_usize..9), 1..5), split in 1_usize..4,
        ) {
            let (dims, strides): (Vec<_>, Vec<_>) = pairs.iter().copied().unzip();
            let window = Window::new(3, &dims, &strides).unwrap();
            let num = window.len();
            if num % split == 0 && let Some(shaped) = window.reshape(&[split, 1, num / split]) {
                prop_assert_eq!(offsets(&shaped), offsets(&window));
            }
        }
    }
}
