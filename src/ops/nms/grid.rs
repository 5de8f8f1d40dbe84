//! Finds the boxes near a box, whatever their sizes.

/// An upright region of the plane and the size of what lies in it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::ops) struct Extent {
    min: [f32; 2],
    max: [f32; 2],
    size: f32,
}

impl Extent {
    /// From x and y of two corners. `size` is the longer side as the op
    /// computes it; of two boxes that meet, the grid compares these.
    #[inline]
    pub(in crate::ops) fn new(min: [f32; 2], max: [f32; 2], size: f32) -> Self {
        Self { min, max, size }
    }

    /// Around a centre, a little wider than asked for, so that no rounding can
    /// part two regions that touch.
    #[inline]
    pub(in crate::ops) fn around(center: [f32; 2], half: [f32; 2]) -> Self {
        let slack = 1e-4 * half[0].max(half[1]) + 1e-6 * center[0].abs().max(center[1].abs());
        let half = [half[0] + slack, half[1] + slack];
        Self {
            min: [center[0] - half[0], center[1] - half[1]],
            max: [center[0] + half[0], center[1] + half[1]],
            size: 2.0 * half[0].max(half[1]) + slack,
        }
    }
}

/// The last level is a single cell, for everything larger than the others.
const LAST_LEVEL: u32 = 63;
/// Cells of level `l` have edges of `2^(l - FIRST_EXPONENT)`.
const FIRST_EXPONENT: u32 = 20;
/// No entry: the end of a cell's list.
const NONE: u32 = u32::MAX;

/// Lists of items by cell, in one hash table over all levels of cells.
///
/// An item stands in every cell it touches, at most two by two, of the level
/// whose cells are just larger than itself. Cells are unbounded; two cells
/// that share a bucket only cost time. The grid answers which items may be
/// near, in no stated order: never iterate over it into an output.
#[derive(Clone, Debug, Default)]
pub(in crate::ops) struct Grid {
    /// Per bucket, the position of its first entry.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    /// Everything inserted, for searches wider than looking at all.
    items: Vec<u32>,
    /// One bit for each level that holds something.
    levels: u64,
    /// Bits of a hash that are not used.
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    item: u32,
    next: u32,
}

/// The cells of one level that an extent touches.
struct Cells {
    x: [i32; 2],
    y: [i32; 2],
}

impl Grid {
    /// Memory for `num_items`.
    pub(in crate::ops) fn reserve(&mut self, num_items: usize) {
        let num_buckets = num_buckets(num_items);
        self.heads.reserve(num_buckets.saturating_sub(self.heads.len()));
        self.entries.reserve((4 * num_items).saturating_sub(self.entries.len()));
        self.items.reserve(num_items.saturating_sub(self.items.len()));
    }

    /// Empties the grid and sizes it for `num_items`.
    pub(in crate::ops) fn clear(&mut self, num_items: usize) {
        let num_buckets = num_buckets(num_items);
        self.heads.clear();
        self.heads.resize(num_buckets, NONE);
        self.entries.clear();
        self.items.clear();
        self.levels = 0;
        self.shift = 64 - num_buckets.trailing_zeros();
    }

    /// Adds an item of a group.
    pub(in crate::ops) fn insert(&mut self, item: u32, group: u64, extent: &Extent) {
        let level = level(extent.size);
        let cells = Cells::of(extent, level);
        for y in cells.y[0]..=cells.y[1] {
            for x in cells.x[0]..=cells.x[1] {
                let bucket = self.bucket(group, level, x, y);
                self.entries.push(Entry { item, next: self.heads[bucket] });
                self.heads[bucket] = (self.entries.len() - 1) as u32;
            }
        }
        self.items.push(item);
        self.levels |= 1 << level;
    }

    /// Whether `test` holds for an item near `extent`. Every item of the group
    /// whose extent touches it, and whose size is between `min_size_ratio` and
    /// its inverse times that of `extent`, is tested at least once until one
    /// passes; others may be tested, too.
    #[inline]
    pub(in crate::ops) fn any(
        &self,
        group: u64,
        extent: &Extent,
        min_size_ratio: f32,
        mut test: impl FnMut(u32) -> bool,
    ) -> bool {
        let lowest = level(extent.size * min_size_ratio);
        let highest = level(extent.size / min_size_ratio);
        let mut levels = self.levels & (u64::MAX << lowest) & (u64::MAX >> (LAST_LEVEL - highest));
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            let cells = Cells::of(extent, level);
            if cells.num() > self.items.len() as u64 {
                return self.items.iter().any(|&item| test(item));
            }
            for y in cells.y[0]..=cells.y[1] {
                for x in cells.x[0]..=cells.x[1] {
                    let mut position = self.heads[self.bucket(group, level, x, y)];
                    while let Some(entry) = self.entries.get(position as usize) {
                        if test(entry.item) {
                            return true;
                        }
                        position = entry.next;
                    }
                }
            }
        }
        false
    }

    #[inline]
    fn bucket(&self, group: u64, level: u32, x: i32, y: i32) -> usize {
        let cell = u64::from(x as u32) << 32 | u64::from(y as u32);
        let hash = (cell ^ (group << 6 | u64::from(level)).wrapping_mul(0xd6e8_feb8_6659_fd93))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> self.shift) as usize
    }
}

/// A power of two, at least two buckets an item.
fn num_buckets(num_items: usize) -> usize {
    (2 * num_items.max(8)).next_power_of_two()
}

/// The level whose cells are the smallest that are larger than `size`.
#[inline]
fn level(size: f32) -> u32 {
    // A biased exponent of 127 stands for sizes in [1, 2), cells of 2.
    let exponent = (size.to_bits() >> 23) & 0xff;
    (exponent + 1 + FIRST_EXPONENT).clamp(127, 127 + LAST_LEVEL) - 127
}

impl Cells {
    #[inline]
    fn of(extent: &Extent, level: u32) -> Self {
        let cells_per_unit = if level == LAST_LEVEL {
            0.0
        } else {
            f32::from_bits((127 + FIRST_EXPONENT - level) << 23)
        };
        let cell = |value: f32| {
            let scaled = value * cells_per_unit;
            let truncated = scaled as i32;
            truncated.saturating_sub(i32::from(truncated as f32 > scaled))
        };
        Self {
            x: [cell(extent.min[0]), cell(extent.max[0])],
            y: [cell(extent.min[1]), cell(extent.max[1])],
        }
    }

    #[inline]
    fn num(&self) -> u64 {
        let count = |[first, last]: [i32; 2]| (i64::from(last) - i64::from(first) + 1).max(0);
        (count(self.x) as u64).saturating_mul(count(self.y) as u64)
    }
}

#[cfg(test)]
impl Extent {
    pub(super) fn touches(&self, other: &Self) -> bool {
        (0..2).all(|axis| self.min[axis] <= other.max[axis] && other.min[axis] <= self.max[axis])
    }

    pub(super) fn size(&self) -> f32 {
        self.size
    }
}

#[cfg(test)]
impl Grid {
    pub(super) fn capacities(&self) -> [usize; 3] {
        [self.heads.capacity(), self.entries.capacity(), self.items.capacity()]
    }
}
