//! The sizes of inputs and maps.

/// The cell of a point in no cell.
pub const OUTSIDE: u32 = u32::MAX;

/// The sizes of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrustumShape {
    /// Cameras.
    pub num_cameras: usize,
    /// Depths of a pixel, D.
    pub num_depths: usize,
    /// Rows of a feature map, H.
    pub rows: usize,
    /// Columns of a feature map, W.
    pub columns: usize,
}

impl FrustumShape {
    /// Pixels of a feature map.
    pub fn num_pixels(&self) -> usize {
        self.rows.saturating_mul(self.columns)
    }

    /// Points of all cameras.
    pub fn num_points(&self) -> usize {
        let Self { num_cameras, num_depths, .. } = self;
        num_cameras.saturating_mul(*num_depths).saturating_mul(self.num_pixels())
    }
}

/// The sizes of a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Cells along z.
    pub levels: usize,
    /// Rows of a level.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl MapShape {
    /// Cells of a level.
    pub fn plane(&self) -> usize {
        self.rows.saturating_mul(self.columns)
    }

    /// Cells of all levels.
    pub fn num_cells(&self) -> usize {
        self.levels.saturating_mul(self.plane())
    }

    /// The shape of a map of so many channels of features.
    pub fn of_channels(&self, num_channels: usize) -> [usize; 4] {
        [1, self.levels.saturating_mul(num_channels), self.rows, self.columns]
    }
}
