//! A spatial hash grid: finds the boxes near a box, whatever their sizes.

/// Centre and size of a box along the axes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Extent {
    center: [f32; 2],
    half: [f32; 2],
    slack: f32,
}

impl Extent {
    /// From the centre and half the extents along x and y. A slack larger than
    /// the rounding error keeps boxes that touch within reach of each other.
    #[inline]
    pub(crate) fn new(center: [f32; 2], half: [f32; 2]) -> Self {
        let slack = 1e-3 * half[0].max(half[1]) + 1e-6 * center[0].abs().max(center[1].abs());
        Self { center, half, slack }
    }

    /// The longer side.
    #[inline]
    fn size(&self) -> f32 {
        2.0 * self.half[0].max(self.half[1])
    }
}

/// The limits of the broad phase: the differences in size and position at which one box
/// can suppress another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach {
    /// The minimum ratio of the longer sides of the smaller and the larger box.
    pub min_size_ratio: f32,
    /// The maximum distance of the centres along an axis, relative to either box's side
    /// along it. Infinite: all boxes that touch.
    pub max_shift_ratio: f32,
}

impl Reach {
    /// All boxes that touch.
    pub(crate) const TOUCHING: Self = Self { min_size_ratio: 0.0, max_shift_ratio: f32::INFINITY };

    /// Axis-aligned boxes whose IoU is above a threshold. Along each axis they overlap by
    /// at least that part of the longer side, which bounds the ratio of the sides and the
    /// distance of the centres. A threshold within the rounding error bounds nothing.
    pub(crate) fn aligned(iou_threshold: f32) -> Self {
        if iou_threshold < 1e-3 {
            return Self::TOUCHING;
        }
        let shift = (1.0 - iou_threshold).max(0.5 / iou_threshold - 0.5);
        Self { min_size_ratio: 0.99 * iou_threshold, max_shift_ratio: 1.01 * shift }
    }

    /// Axis-aligned bounds of rotated boxes whose IoU is above a threshold: sides
    /// of a rectangle and of its bounds differ by the square root of two at most,
    /// in either direction.
    pub(crate) fn rotated(iou_threshold: f32) -> Self {
        let aligned = Self::aligned(iou_threshold);
        Self { min_size_ratio: 0.5 * aligned.min_size_ratio, ..Self::TOUCHING }
    }
}

/// The last level is a single cell, for all boxes that are larger.
const LAST_LEVEL: u32 = 63;
/// Cells of level `l` have edges of `2^(l - FIRST_EXPONENT)`.
const FIRST_EXPONENT: u32 = 20;
/// The end of a cell's list.
const NONE: u32 = u32::MAX;

/// Lists of items by cell, in one hash table over all levels of cells.
///
/// An item is in the cell of its centre, on the level of the smallest cells that are
/// larger than the item. Cells that share a bucket are searched together. The order of
/// items is unspecified: no output may depend on it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grid {
    /// Per bucket, the position of its first entry.
    heads: Vec<u32>,
    entries: Vec<Entry>,
    /// A bit for each level that has items.
    levels: u64,
    /// Unused bits of a hash.
    shift: u32,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    item: u32,
    next: u32,
}

/// Cells of one level.
struct Cells {
    x: [i32; 2],
    y: [i32; 2],
}

impl Grid {
    /// Memory for `num_items`.
    pub(super) fn with_capacity(num_items: usize) -> Self {
        let heads = Vec::with_capacity(num_buckets(num_items));
        Self { heads, entries: Vec::with_capacity(num_items), ..Self::default() }
    }

    /// Clears the grid and sizes it for `num_items`.
    pub(crate) fn clear(&mut self, num_items: usize) {
        let num_buckets = num_buckets(num_items);
        self.heads.clear();
        self.heads.resize(num_buckets, NONE);
        self.entries.clear();
        self.levels = 0;
        self.shift = 64 - num_buckets.trailing_zeros();
    }

    /// Adds an item of a group.
    #[inline]
    pub(crate) fn insert(&mut self, item: u32, group: u64, extent: &Extent) {
        let level = level(extent.size());
        let [x, y] = extent.center.map(|value| cell(value, level));
        let bucket = self.bucket(group, level, x, y);
        self.entries.push(Entry { item, next: self.heads[bucket] });
        self.heads[bucket] = (self.entries.len() - 1) as u32;
        self.levels |= 1 << level;
    }

    /// Whether `test` holds for an item near an extent. Every item of the group within
    /// `reach` is tested at least once until a test passes; others may be tested as well.
    #[inline]
    pub(crate) fn any(
        &self,
        group: u64,
        extent: &Extent,
        reach: Reach,
        mut test: impl FnMut(u32) -> bool,
    ) -> bool {
        let size = extent.size();
        let lowest = level(size * reach.min_size_ratio);
        let highest = level(size / reach.min_size_ratio);
        let mut levels = self.levels & (u64::MAX << lowest) & (u64::MAX >> (LAST_LEVEL - highest));
        while levels != 0 {
            let level = levels.trailing_zeros();
            levels &= levels - 1;
            let cells = Cells::near(extent, reach, level);
            if cells.num() > self.entries.len() as u64 {
                return self.entries.iter().any(|entry| test(entry.item));
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

/// A power of two, at least two buckets per item.
fn num_buckets(num_items: usize) -> usize {
    (2 * num_items.max(8)).next_power_of_two()
}

/// The level of the smallest cells that are larger than `size`.
#[inline]
fn level(size: f32) -> u32 {
    // A biased exponent of 127: sizes in [1, 2), cells of 2.
    let exponent = (size.to_bits() >> 23) & 0xff;
    (exponent + 1 + FIRST_EXPONENT).clamp(127, 127 + LAST_LEVEL) - 127
}

/// The edge of a level's cells.
#[inline]
fn cell_size(level: u32) -> f32 {
    if level == LAST_LEVEL {
        f32::INFINITY
    } else {
        f32::from_bits((127 + level - FIRST_EXPONENT) << 23)
    }
}

/// The cell of a coordinate; 0 on the last level.
#[inline]
fn cell(value: f32, level: u32) -> i32 {
    let cells_per_unit = if level == LAST_LEVEL {
        0.0
    } else {
        f32::from_bits((127 + FIRST_EXPONENT - level) << 23)
    };
    let scaled = value * cells_per_unit;
    let truncated = scaled as i32;
    truncated.saturating_sub(i32::from(truncated as f32 > scaled))
}

impl Cells {
    /// The cells of the centres of all items of a level within reach.
    #[inline]
    fn near(extent: &Extent, reach: Reach, level: u32) -> Self {
        let half_cell = 0.5 * cell_size(level);
        let cells = |axis: usize| {
            let half = extent.half[axis];
            let shift = (half + half_cell).min(2.0 * half * reach.max_shift_ratio) + extent.slack;
            let center = extent.center[axis];
            [cell(center - shift, level), cell(center + shift, level)]
        };
        Self { x: cells(0), y: cells(1) }
    }

    #[inline]
    fn num(&self) -> u64 {
        let count = |[first, last]: [i32; 2]| (i64::from(last) - i64::from(first) + 1) as u64;
        count(self.x).saturating_mul(count(self.y))
    }
}

#[cfg(test)]
impl Extent {
    /// Whether the grid must find `other` near this extent.
    pub(super) fn is_near(&self, other: &Self, reach: Reach) -> bool {
        let ratio = self.size().min(other.size()) / self.size().max(other.size());
        ratio >= reach.min_size_ratio
            && (0..2).all(|axis| {
                let shift = (self.center[axis] - other.center[axis]).abs();
                shift <= self.half[axis] + other.half[axis]
                    && shift <= 2.0 * self.half[axis] * reach.max_shift_ratio
            })
    }
}

#[cfg(test)]
impl Grid {
    pub(super) fn capacities(&self) -> [usize; 2] {
        [self.heads.capacity(), self.entries.capacity()]
    }
}
