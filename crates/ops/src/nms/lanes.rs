//! Kept axis-aligned boxes, tested many at a time.

use multiversion::multiversion;

use crate::nms::geometry::AlignedBox;
use det_post_types::Box2d;

/// Up to this many boxes, testing all kept ones is faster than the grid.
pub(crate) const MAX_WITHOUT_GRID: usize = 1024;
const NUM_LANES: usize = 16;

/// Kept boxes in blocks of [`NUM_LANES`], coordinate by coordinate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    blocks: Vec<Block>,
    num: usize,
}

/// Lanes past the last kept box hold empty boxes with the rank of the first.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    x1: [f32; NUM_LANES],
    y1: [f32; NUM_LANES],
    x2: [f32; NUM_LANES],
    y2: [f32; NUM_LANES],
    area: [f32; NUM_LANES],
    rank: [u32; NUM_LANES],
}

impl Lanes {
    pub(super) fn with_capacity(num_boxes: usize) -> Self {
        let num_blocks = num_boxes.min(MAX_WITHOUT_GRID).div_ceil(NUM_LANES);
        Self { blocks: Vec::with_capacity(num_blocks), num: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.num = 0;
    }

    /// Adds a kept box and its rank.
    pub(crate) fn push(&mut self, rank: u32, shape: &AlignedBox) {
        let lane = self.num % NUM_LANES;
        if lane == 0 {
            self.blocks.push(Block { rank: [rank; NUM_LANES], ..Block::default() });
        }
        if let Some(block) = self.blocks.last_mut() {
            let bbox = shape.bbox();
            (block.x1[lane], block.y1[lane]) = (bbox.x1, bbox.y1);
            (block.x2[lane], block.y2[lane]) = (bbox.x2, bbox.y2);
            (block.area[lane], block.rank[lane]) = (shape.area(), rank);
        }
        self.num += 1;
    }

    /// Whether `test` holds for the rank of a kept box. Every box whose intersection with
    /// `bbox` is more than `min_part` of its area is tested until a test passes; others
    /// may be tested as well.
    pub(crate) fn any(
        &self,
        bbox: &Box2d,
        offset: f32,
        min_part: f32,
        test: impl Fn(u32) -> bool,
    ) -> bool {
        let mut first = 0;
        while let Some(found) = first_overlapping(&self.blocks[first..], bbox, offset, min_part) {
            first += found;
            if self.blocks[first].rank.iter().any(|&rank| test(rank)) {
                return true;
            }
            first += 1;
        }
        false
    }
}

/// The first block with a box whose intersection is more than `min_part` of its area.
#[multiversion(targets("x86_64+avx2"))]
fn first_overlapping(blocks: &[Block], bbox: &Box2d, offset: f32, min_part: f32) -> Option<usize> {
    blocks.iter().position(|block| {
        let mut overlaps = 0_u32;
        for lane in 0..NUM_LANES {
            let width = (block.x2[lane].min(bbox.x2) - block.x1[lane].max(bbox.x1)) + offset;
            let height = (block.y2[lane].min(bbox.y2) - block.y1[lane].max(bbox.y1)) + offset;
            let shared = width.max(0.0) * height.max(0.0);
            overlaps |= u32::from(shared > min_part * block.area[lane]);
        }
        overlaps != 0
    })
}

#[cfg(test)]
impl Lanes {
    pub(super) fn capacity(&self) -> usize {
        self.blocks.capacity()
    }
}
