//! Merge: sites of several levels become the sites of a plane, seen from above.
//!
//! Input: levels with features `[N, C]`, rows in the order of their sites, each with a scale: how
//! many cells of the plane a cell is wide. Output `[M, C]`, rows in the order of the sites of the
//! plane ([`merged_sites`](crate::sparse::rulebook::merged_sites)): the sum of the features of
//! all sites above a cell. A site of a level with scale `s` at `(any, c1, c2)` is above the cell
//! `(0, s * c1, s * c2)`, and no other.
//!
//! Sums are f32 and begin with 0: level by level as they are given, in a level by rising first
//! axis. CPU and CUDA are equal, from run to run and for any order of voxels. It is the
//! concatenation of three scales and `bev_out` of OpenPCDet's `VoxelResBackBone8xVoxelNeXt`, whose
//! sums on a GPU are in no fixed order. Sites that the capacity of the plane leaves out are left
//! out of sums.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;

use crate::sparse::rulebook::{Scaled, Sites, check_merge};
use det_post_types::{Error, ErrorKind, Result};

/// The most levels that are merged.
pub const MAX_SOURCES: usize = 3;

/// The features of a level that is merged.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The sites, and their scale.
    pub sites: Scaled<&'a Sites>,
    /// `[N, C]`
    pub features: &'a [f32],
}

/// Writes all of `out`, `[M, C]`, from the features of levels.
///
/// # Errors
/// `Argument` when there is no level or more than [`MAX_SOURCES`], a level has no place on the
/// plane, there are no channels, or the number of features is another.
pub fn sparse_merge(
    sources: &[Source<'_>],
    num_channels: usize,
    plane: &Sites,
    out: &mut [f32],
) -> Result<()> {
    check_num_sources(sources.len())?;
    let fits = |source: &Source<'_>| {
        source.features.len() == source.sites.level.len().saturating_mul(num_channels)
    };
    if num_channels == 0 || out.len() != plane.len() * num_channels || !sources.iter().all(fits) {
        let found: Vec<_> = sources.iter().map(|source| source.features.len()).collect();
        return argument(format!(
            "{found:?} features to {} of {num_channels} channels do not fit the sites",
            out.len()
        ));
    }
    for Source { sites, .. } in sources {
        check_merge(sites.level.grid(), sites.scale, plane.grid())?;
    }
    out.fill(0.0);
    for Source { sites: Scaled { level, scale }, features } in sources {
        // Sites of a cell follow each other by their first axis.
        for (&index, features) in level.indices().iter().zip(features.chunks_exact(num_channels)) {
            let cell = plane.grid().under(level.grid().cell_of(index), *scale);
            let Some(row) = plane.row_of(cell) else { continue };
            let sums = &mut out[row as usize * num_channels..][..num_channels];
            sums.iter_mut().zip(features).for_each(|(sum, &feature)| *sum += feature);
        }
    }
    Ok(())
}

fn check_num_sources(num: usize) -> Result<()> {
    match num {
        1..=MAX_SOURCES => Ok(()),
        _ => argument(format!("{num} levels to merge; 1 to {MAX_SOURCES} are allowed")),
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "sparse_merge", message))
}

#[cfg(test)]
mod tests;
