//! Decodes the outputs of a VoxelNeXt head, which are on the sites of a map, into candidates.
//!
//! Every class of a task is looked at by itself: a site becomes a candidate of each class for
//! which
//! - its score, the sigmoid of the heat, is at least the threshold of the class at its distance,
//!   which is `sqrt(x² + y²)` of the decoded centre;
//! - the norm of (sine, cosine) is at least the yaw-norm threshold of the class;
//! - its centre is in the centre range;
//! - it is valid: all its numbers are finite, and no extent is negative.
//!
//! A site that passes all but the last is counted ([`Candidates::num_invalid_boxes`]), for each
//! class. If its centre is not finite, the lowest threshold of the class applies and no range; a
//! norm that is NaN passes. A NaN in the heat never passes and is counted
//! ([`Candidates::num_nan_scores`]).
//!
//! With a predicted overlap `v` and the weight `w` of the class ([`SiteDecode::iou_weights`]) the
//! score of a candidate is `score^(1 - w) * iou^w`, where `iou = (v + 1) / 2`, limited to 0 and 1.
//! The threshold applies to the score before.
//!
//! [`Candidate::source`] is the linear index of the site on the map, plus the cells of the map for
//! each task before. Arithmetic is f32 in the order written here: x = `(column + offset_x) *
//! cell_size + origin`, y likewise by the row, z unchanged; sizes are `exp` of their channels, the
//! yaw is by `atan2`. `exp`, `atan2` and powers of CPU and CUDA may differ in the last
//! place, and with them scores, sizes and yaws; centres and sources are equal. OpenPCDet's
//! `VoxelNeXtHead` decodes the same boxes; it multiplies by stride and voxel size one after the
//! other, and takes at most 500 of a task.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

use crate::sparse::rulebook::{SiteGrid, Sites};
#[cfg(doc)]
use det_post_types::Candidate;
use det_post_types::{Candidates, Error, ErrorKind, Object3d, Result, SiteDecode};

/// The outputs of one task: floats `[M, channels]`, rows in the order of the sites. `T` is a
/// tensor in host or device memory, or where to find one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteTask<T> {
    /// Logits, a channel per class.
    pub heatmap: T,
    /// Offset of the centre from the site, x and y, in cells.
    pub offset: T,
    /// Height of the centre in metres.
    pub height: T,
    /// Logarithms of three extents in metres.
    pub size: T,
    /// Cosine and sine.
    pub rotation: T,
    /// Velocity along x and y in metres per second, with [`SiteDecode::has_velocity`].
    pub velocity: Option<T>,
    /// Predicted overlap, -1 to 1, with [`SiteDecode::iou_weights`].
    pub iou: Option<T>,
}

impl<T: Copy> SiteTask<T> {
    /// The task with each output replaced by `map` of it.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<U>(&self, mut map: impl FnMut(T) -> Result<U>) -> Result<SiteTask<U>> {
        Ok(SiteTask {
            heatmap: map(self.heatmap)?,
            offset: map(self.offset)?,
            height: map(self.height)?,
            size: map(self.size)?,
            rotation: map(self.rotation)?,
            velocity: self.velocity.map(&mut map).transpose()?,
            iou: self.iou.map(map).transpose()?,
        })
    }

    /// The outputs with their names and channels.
    fn named(&self, num_classes: usize) -> [(&'static str, Option<T>, usize); 7] {
        [
            ("heatmap", Some(self.heatmap), num_classes),
            ("offset", Some(self.offset), 2),
            ("height", Some(self.height), 1),
            ("size", Some(self.size), 3),
            ("rotation", Some(self.rotation), 2),
            ("velocity", self.velocity, 2),
            ("iou", self.iou, 1),
        ]
    }
}

/// Replaces the contents of `candidates` by the candidates of all tasks, unsorted: see
/// [`Candidates::finish`]. If there are more than their capacity, those with the lowest scores are
/// dropped and counted there.
///
/// # Errors
/// `Argument` when there are other tasks than in the parameters, an output is missing or has another
/// number of values, a class has no yaw-norm threshold or weight while others have, or the sites
/// are not of one plane.
pub fn decode_sites(
    tasks: &[SiteTask<&[f32]>],
    sites: &Sites,
    params: &SiteDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    check_params(params)?;
    check_grid(sites.grid(), params)?;
    check_num_tasks(tasks.len(), params)?;
    for (index, (task, classes)) in tasks.iter().zip(&params.tasks).enumerate() {
        check_present(index, task, params)?;
        for (name, output, num_channels) in task.named(classes.len()) {
            let found = output.map_or(0, <[f32]>::len);
            if output.is_some() && found != sites.len() * num_channels {
                return argument(format!(
                    "{name} of task {index} has {found} values; {} sites of {num_channels} channels",
                    sites.len()
                ));
            }
        }
    }
    cpu::decode_sites(tasks, sites, params, candidates);
    Ok(())
}

/// Checks that all classes have what some have.
fn check_params(params: &SiteDecode) -> Result<()> {
    let num_classes = params.tasks.iter().flatten().map(|&class| class as usize + 1).max();
    let num_classes = num_classes.unwrap_or(0);
    for (what, found) in [
        ("yaw-norm thresholds", params.yaw_norm_thresholds.len()),
        ("weights of overlaps", params.iou_weights.len()),
    ] {
        if found != 0 && found < num_classes {
            return argument(format!("{found} {what} do not match {num_classes} classes"));
        }
    }
    Ok(())
}

fn check_num_tasks(found: usize, params: &SiteDecode) -> Result<()> {
    match params.tasks.len() {
        expected if expected == found => Ok(()),
        expected => argument(format!("{found} tasks; {expected} expected")),
    }
}

/// Checks that the optional outputs are there where the parameters say so.
fn check_present<T>(index: usize, task: &SiteTask<T>, params: &SiteDecode) -> Result<()> {
    for (name, is_there, is_expected) in [
        ("velocity", task.velocity.is_some(), params.has_velocity),
        ("iou", task.iou.is_some(), !params.iou_weights.is_empty()),
    ] {
        if is_expected && !is_there {
            return argument(format!("task {index} has no {name}"));
        }
    }
    Ok(())
}

/// Checks that the sites are of one plane, whose cells can be numbered in all tasks.
fn check_grid(grid: &SiteGrid, params: &SiteDecode) -> Result<()> {
    let is_plane = grid.batch_size() == 1 && grid.shape()[0] == 1;
    let num_sources = grid.num_cells().saturating_mul(params.tasks.len());
    if is_plane && u32::try_from(num_sources).is_ok() {
        return Ok(());
    }
    argument(format!(
        "sites of a grid of {}x{:?} in {} tasks; one plane of rows and columns is expected",
        grid.batch_size(),
        grid.shape(),
        params.tasks.len()
    ))
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_sites", message))
}

#[cfg(test)]
mod tests;
