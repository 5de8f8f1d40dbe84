//! Grids of cells and the active ones among them.

use det_post_types::{Error, ErrorKind, Result};

/// The cells of a level: a batch of scenes on a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteGrid {
    batch_size: u32,
    shape: [u32; 3],
}

impl SiteGrid {
    /// The most cells of a grid, all scenes together: their bitmap with ranks
    /// takes 64 MiB.
    pub const MAX_CELLS: u64 = 1 << 28;

    /// A grid of `shape` cells per scene. The order of the axes is the
    /// network's: z y x or x y z.
    ///
    /// # Errors
    /// `Argument` when there is no cell or more than [`Self::MAX_CELLS`].
    pub fn new(batch_size: u32, shape: [u32; 3]) -> Result<Self> {
        let num_cells = shape
            .iter()
            .try_fold(u64::from(batch_size), |product, &size| product.checked_mul(size.into()));
        match num_cells {
            Some(1..=Self::MAX_CELLS) => Ok(Self { batch_size, shape }),
            _ => Err(Error::new(
                ErrorKind::Argument,
                "rulebook",
                format!(
                    "a batch of {batch_size} on a grid of {shape:?} has {} cells; it must have 1 \
                     to {}",
                    num_cells.map_or("over 2^64".into(), |num| num.to_string()),
                    Self::MAX_CELLS
                ),
            )),
        }
    }

    /// Number of scenes.
    pub fn batch_size(&self) -> u32 {
        self.batch_size
    }

    /// Cells per axis.
    pub fn shape(&self) -> [u32; 3] {
        self.shape
    }

    /// Number of cells, all scenes together.
    pub fn num_cells(&self) -> usize {
        self.batch_size as usize * self.cells_per_scene() as usize
    }

    /// The linear index of `(batch, c0, c1, c2)`:
    /// `((batch * S0 + c0) * S1 + c1) * S2 + c2`; `None` outside the grid.
    #[inline]
    pub fn index_of(&self, [batch, c0, c1, c2]: [i32; 4]) -> Option<u32> {
        let [s0, s1, s2] = self.shape;
        let inside = u32::try_from(batch).ok()? < self.batch_size
            && u32::try_from(c0).ok()? < s0
            && u32::try_from(c1).ok()? < s1
            && u32::try_from(c2).ok()? < s2;
        inside.then(|| ((batch as u32 * s0 + c0 as u32) * s1 + c1 as u32) * s2 + c2 as u32)
    }

    /// `(batch, c0, c1, c2)` of a linear index.
    #[inline]
    pub fn cell_of(&self, index: u32) -> [u32; 4] {
        let [s0, s1, s2] = self.shape;
        [index / s2 / s1 / s0, index / s2 / s1 % s0, index / s2 % s1, index % s2]
    }

    /// Of a plane: the linear index of the cell under `(batch, any, c1, c2)` of a level with a
    /// scale, which has a place on it.
    #[inline]
    pub(crate) fn under(&self, [batch, _, c1, c2]: [u32; 4], scale: u32) -> u32 {
        let [_, s1, s2] = self.shape;
        (batch * s1 + c1 * scale) * s2 + c2 * scale
    }

    fn cells_per_scene(&self) -> u32 {
        self.shape.iter().product()
    }
}

/// 32 cells of a bitmap and the number of sites before them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct RankWord {
    /// Bit `i` is set where cell `32 * word + i` is a site.
    pub bits: u32,
    /// Sites in all words before; undefined where no bit is set.
    pub rank: u32,
}

/// The active cells of a level, in ascending order of their linear index.
///
/// The place of a site in this order is its row in tables and features.
#[derive(Clone, Debug)]
pub struct Sites {
    grid: SiteGrid,
    capacity: usize,
    indices: Vec<u32>,
    words: Vec<RankWord>,
}

impl Sites {
    /// No sites, with memory for `capacity` of them and the bitmap of the grid.
    pub fn new(grid: SiteGrid, capacity: usize) -> Self {
        let capacity = capacity.min(grid.num_cells());
        Self {
            grid,
            capacity,
            indices: Vec::with_capacity(capacity),
            words: vec![RankWord::default(); grid.num_cells().div_ceil(32)],
        }
    }

    /// The grid.
    pub fn grid(&self) -> &SiteGrid {
        &self.grid
    }

    /// The most sites that can be held.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Number of sites.
    pub fn len(&self) -> usize {
        self.indices.len()
    }

    /// Whether there are no sites.
    pub fn is_empty(&self) -> bool {
        self.indices.is_empty()
    }

    /// Linear indices, ascending.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// The row of a cell; `None` where it is not a site.
    #[inline]
    pub fn row_of(&self, index: u32) -> Option<u32> {
        let word = self.words[index as usize / 32];
        let bit = 1_u32 << (index % 32);
        (word.bits & bit != 0).then(|| word.rank + (word.bits & (bit - 1)).count_ones())
    }

    /// Of `len` cells from `index` on, at most 32: the row of the first site,
    /// undefined where there is none, and a bit per cell that is one.
    #[inline]
    pub(super) fn window(&self, index: u32, len: u32) -> (u32, u32) {
        let (word, shift) = (index as usize / 32, index % 32);
        let first = self.words[word];
        let bits = first.bits >> shift;
        let before = first.rank + (first.bits & !(u32::MAX << shift)).count_ones();
        let mask = u32::MAX >> (32 - len);
        if shift + len <= 32 {
            return (before, bits & mask);
        }
        let second = self.words[word + 1];
        let row = if bits == 0 { second.rank } else { before };
        (row, (bits | second.bits << (32 - shift)) & mask)
    }

    /// Removes all sites.
    pub(super) fn clear(&mut self) {
        for &index in &self.indices {
            self.words[index as usize / 32].bits = 0;
        }
        self.indices.clear();
    }

    /// Marks a cell as a site; false where it was marked. Rows are undefined
    /// until [`Self::rank_marked`].
    #[inline]
    pub(super) fn mark(&mut self, index: u32) -> bool {
        let word = &mut self.words[index as usize / 32];
        let bit = 1 << (index % 32);
        let is_new = word.bits & bit == 0;
        word.bits |= bit;
        is_new
    }

    /// Makes the marked cells the sites, as many as there is capacity for.
    /// Returns the number of those over it.
    pub(super) fn rank_marked(&mut self) -> usize {
        let mut num_over_capacity = 0;
        for (place, word) in self.words.iter_mut().enumerate() {
            if word.bits == 0 {
                continue;
            }
            word.rank = self.indices.len() as u32;
            let mut bits = word.bits;
            while bits != 0 && self.indices.len() < self.capacity {
                self.indices.push(32 * place as u32 + bits.trailing_zeros());
                bits &= bits - 1;
            }
            num_over_capacity += bits.count_ones() as usize;
            word.bits ^= bits;
        }
        num_over_capacity
    }
}
