//! What goes into sparse operations and comes out.

use super::call::{Call, Const, In};
use super::sites::Level;
use super::sparse_gpu::RowsOf;
use super::status::Failure;
use det_post_ops::arrays::sparse::rows_of_sites;

/// `sparse_features.order`: rows in the order of the sites.
pub const ORDER_SITES: u32 = 0;
/// `sparse_features.order`: rows in the order of the coordinates that the sites were made of.
pub const ORDER_COORDINATES: u32 = 1;

/// Features of sites.
#[repr(C)]
pub struct SparseFeatures {
    /// `[rows, channels]`.
    pub features: In<f32>,
    /// As many as there are sites or, with `…_COORDINATES`, rows that they were made of.
    pub num_rows: usize,
    /// Number of channels.
    pub num_channels: usize,
    /// One of `DET_POST_ORDER_…`.
    pub order: u32,
    /// For later versions; 0.
    pub reserved: u32,
}

/// Features that an operation has made.
#[repr(C)]
pub struct SparseResult {
    /// `[sites, channels]`, in the order of the sites of the rulebook's output.
    pub features: Const<f32>,
    /// Number of sites.
    pub num_sites: usize,
    /// Number of channels.
    pub num_channels: usize,
}

/// The pairs of a rulebook.
#[repr(C)]
pub struct SparsePairs {
    /// `[taps, sites of the output]`: the row of the input, -1 where there is no site.
    pub table: Const<i32>,
    /// Per tap the number of pairs, in host memory, whatever the device.
    pub num_pairs: Const<usize>,
    /// Number of taps.
    pub num_taps: usize,
    /// Number of sites of the output.
    pub num_sites: usize,
    /// Number of sites of the input.
    pub num_input_sites: usize,
}

/// A dense map, 0 at cells without a site.
#[repr(C)]
pub struct SparseMap {
    /// Feature c at depth d is in channel `c * depth + d`.
    pub values: Const<f32>,
    /// Scenes, channels times depth, rows, columns.
    pub shape: [usize; 4],
}

impl SparseFeatures {
    /// The rows of a level, of so many channels where stated.
    pub(super) fn rows(
        &self,
        level: &Level,
        num_channels: Option<usize>,
    ) -> Result<RowsOf, Failure> {
        let is_by_coordinates = match self.order {
            ORDER_SITES => false,
            ORDER_COORDINATES => true,
            other => return Err(Failure::argument(format!("features.order {other} is not known"))),
        };
        if self.reserved != 0 {
            return Err(Failure::argument("features.reserved is not 0"));
        }
        let num_rows = match level.num_rows {
            Some(num_rows) if is_by_coordinates => num_rows,
            None if is_by_coordinates => {
                let message = "features.order 1, but the sites were not made of coordinates";
                return Err(Failure::argument(message));
            }
            _ => level.len(),
        };
        let channels = num_channels.unwrap_or(self.num_channels);
        if (self.num_rows, self.num_channels) != (num_rows, channels) || channels == 0 {
            let found = format!("{} rows of {} channels", self.num_rows, self.num_channels);
            let needed = num_channels.map_or("1 or more".to_owned(), |num| num.to_string());
            let message = format!("features: {found}; {num_rows} rows of {needed} are required");
            return Err(Failure::argument(message));
        }
        Ok(RowsOf { values: self.features, num_rows, num_channels: channels, is_by_coordinates })
    }
}

/// Rows in host memory, in the order of the sites.
pub(super) fn on_host<'a>(
    call: &'a Call,
    of: RowsOf,
    rows: &[u32],
    sorted: &'a mut Vec<f32>,
) -> Result<&'a [f32], Failure> {
    let len = of.num_rows.saturating_mul(of.num_channels);
    let values = call.slice(of.values, len, "features.features")?;
    if !of.is_by_coordinates {
        return Ok(values);
    }
    rows_of_sites(values, of.num_channels, rows, sorted);
    Ok(sorted)
}
