//! Rulebook: the sites of a sparse level, and which of them a convolution joins.
//!
//! A *site* is an active cell, a *tap* one offset of the kernel, a *pair* an
//! input site and an output site that a tap joins. Convolutions are
//! cross-correlations, as in torch: kernels are not flipped.
//!
//! **Order.** The sites of every level stand in ascending order of their linear
//! index ([`SiteGrid::index_of`]). The place of a site is its row. Nothing
//! depends on the order of the input, on hashes or on threads: a bitmap of the
//! grid with ranks tells the row of a cell.
//!
//! **Capacity.** Beyond the capacity of a level the sites of the lowest linear
//! indices stay; the others are counted and take no part in tables. With axes
//! z y x this cuts the top of the scene over its whole area.
//!
//! **Grids.** At most [`SiteGrid::MAX_CELLS`] cells, all scenes of a batch
//! together.
//!
//! All results are integers: CPU and CUDA give equal ones. spconv and
//! torchsparse give the same pairs in another order of sites.

#[cfg(feature = "cuda")]
pub(crate) mod args;
mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
mod geometry;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;
mod sites;
mod table;

pub use geometry::{Geometry, Mode};
pub use sites::{RankWord, SiteGrid, Sites};
pub use table::Table;

use det_post_types::{Error, ErrorKind, Result};

/// What became of the rows of [`sites_of_coordinates`]. The sum of all is the
/// number of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntranceCounts {
    /// Sites kept.
    pub num_sites: usize,
    /// Rows outside the grid or the batch.
    pub num_outside: usize,
    /// Rows of a cell that an earlier row has.
    pub num_duplicates: usize,
    /// Sites over the capacity.
    pub num_over_capacity: usize,
}

/// What became of the sites of [`output_sites`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputCounts {
    /// Sites kept.
    pub num_sites: usize,
    /// Sites over the capacity.
    pub num_over_capacity: usize,
    /// Input sites that no output reads, capacity aside: the last slab of an
    /// even axis without padding, for one.
    pub num_inputs_without_output: usize,
}

/// A level whose cells are `scale` cells of another one wide, along all axes but the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Scaled<L> {
    /// The level, or where to find it.
    pub level: L,
    /// How many cells of the other level a cell is wide.
    pub scale: u32,
}

/// The sites of a network's input, from rows of (batch, c0, c1, c2) in any
/// order.
///
/// `input_rows` receives per site the row that its features are in: the first
/// row of the cell.
pub fn sites_of_coordinates(
    coordinates: &[[i32; 4]],
    sites: &mut Sites,
    input_rows: &mut Vec<u32>,
) -> EntranceCounts {
    cpu::sites_of_coordinates(coordinates, sites, input_rows)
}

/// The sites of the output of a strided or transposed convolution, or of a
/// pooling, in place of those that `output` held.
///
/// A submanifold output has the sites of its input, an inverse one those of the
/// level it returns to: neither needs a call.
///
/// # Errors
/// `Argument` when the geometry is wrong ([`Geometry::check`]), the mode has no
/// sites of its own, or the grids differ in their batch, or, for a strided
/// convolution, the output's grid is not the one that follows from the input's.
pub fn output_sites(
    input: &Sites,
    geometry: &Geometry,
    mode: Mode,
    output: &mut Sites,
) -> Result<OutputCounts> {
    geometry.check(mode)?;
    check_grids(input.grid(), output.grid(), geometry, mode)?;
    match mode {
        Mode::Strided | Mode::Transposed => Ok(cpu::output_sites(input, geometry, mode, output)),
        Mode::Submanifold | Mode::Inverse => {
            argument(format!("{mode:?} has no separate sites; use the sites of the level"))
        }
    }
}

/// The sites of levels, seen along their first axis: the cells (batch, 0, c1, c2) of a plane for
/// which a level with scale `s` has a site (batch, any, c1 / s, c2 / s), in place of those that
/// `output` held.
///
/// # Errors
/// `Argument` when the grid of `output` has more than one cell along its first axis, a scale is
/// 0, or a cell of a level is outside of it.
pub fn merged_sites(sources: &[Scaled<&Sites>], output: &mut Sites) -> Result<OutputCounts> {
    for source in sources {
        check_merge(source.level.grid(), source.scale, output.grid())?;
    }
    Ok(cpu::merged_sites(sources, output))
}

/// Checks that every cell of a grid has a place on a plane.
///
/// # Errors
/// `Argument` as of [`merged_sites`].
pub fn check_merge(grid: &SiteGrid, scale: u32, plane: &SiteGrid) -> Result<()> {
    let [depth, rows, columns] = plane.shape();
    let [_, s1, s2] = grid.shape();
    let is_inside =
        |size: u32, limit: u32| u64::from(size - 1) * u64::from(scale) < u64::from(limit);
    let fits = depth == 1
        && scale > 0
        && grid.batch_size() == plane.batch_size()
        && is_inside(s1, rows)
        && is_inside(s2, columns);
    if fits {
        return Ok(());
    }
    argument(format!(
        "a grid of {}x{:?} with a scale of {scale} has no place on a plane of {}x{:?}",
        grid.batch_size(),
        grid.shape(),
        plane.batch_size(),
        plane.shape()
    ))
}

/// Fills the table of a convolution between two levels. For a submanifold one
/// both are the same level.
///
/// # Errors
/// `Argument` when the table is of another geometry or mode or too small, or
/// the grids do not fit them.
pub fn fill_table(input: &Sites, output: &Sites, table: &mut Table) -> Result<()> {
    let (geometry, mode) = (*table.geometry(), table.mode());
    geometry.check(mode)?;
    check_grids(input.grid(), output.grid(), &geometry, mode)?;
    if mode == Mode::Submanifold && input.indices() != output.indices() {
        return argument(
            "a submanifold convolution must be between levels of the same sites".into(),
        );
    }
    if output.len() > table.capacity() {
        return argument(format!(
            "{} output sites, the table is for {}",
            output.len(),
            table.capacity()
        ));
    }
    cpu::fill_table(input, output, table);
    Ok(())
}

fn check_grids(input: &SiteGrid, output: &SiteGrid, geometry: &Geometry, mode: Mode) -> Result<()> {
    let fits = match mode {
        Mode::Submanifold => input.shape() == output.shape(),
        Mode::Strided => geometry.strided_shape(input.shape())? == output.shape(),
        Mode::Inverse => geometry.strided_shape(output.shape())? == input.shape(),
        Mode::Transposed => {
            // The output padding is free up to this.
            let padding: [u32; 3] =
                std::array::from_fn(|axis| geometry.stride[axis].max(geometry.dilation[axis]) - 1);
            let most = geometry.transposed_shape(input.shape(), padding)?;
            let missing = |axis: usize| most[axis].checked_sub(output.shape()[axis]);
            (0..3).all(|axis| missing(axis).is_some_and(|num| num <= padding[axis]))
        }
    };
    if fits && input.batch_size() == output.batch_size() {
        return Ok(());
    }
    argument(format!(
        "{mode:?} of {geometry} from a grid of {}x{:?} to one of {}x{:?}",
        input.batch_size(),
        input.shape(),
        output.batch_size(),
        output.shape()
    ))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "rulebook", message))
}

#[cfg(test)]
pub(crate) mod scenes;
#[cfg(test)]
mod tests;
