//! How networks take the cells of voxels.

/// The columns of a tensor of cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoxelCoordinates {
    /// z, y, x (BEVFusion).
    Zyx,
    /// The frame of a batch, always 0, then z, y, x (TransFusion, whose grid is one cell high).
    BatchZyx,
}

impl VoxelCoordinates {
    /// The number of columns.
    pub const fn num_columns(self) -> usize {
        match self {
            Self::Zyx => 3,
            Self::BatchZyx => 4,
        }
    }
}
