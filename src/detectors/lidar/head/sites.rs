//! Heads whose outputs are on the sites of a map: VoxelNeXt.

use super::{LidarHead, MAX_TASKS, floats, refuse};
use crate::config::SiteFacts;
use det_post_infer::ExpectedDim::{Any, Exactly};
use det_post_infer::sparse::CpuEncoder;
use det_post_infer::{Side, bind};
use det_post_ops::decode::sites::{SiteTask, decode_sites};
use det_post_types::{Candidates, Error, ErrorKind, Object3d, Result, TensorSpec};

impl LidarHead {
    /// Decodes the outputs of a network on sites into candidates in the cloud's frame of
    /// reference.
    ///
    /// # Errors
    /// `Argument` when the head is another than [`LidarHead::Sites`], or an output has another
    /// shape than its specification.
    pub fn decode_sites(
        &self,
        network: &CpuEncoder,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        let Self::Sites { decode, outputs } = self else {
            let message = "the outputs of the head are not on sites";
            return Err(Error::new(ErrorKind::Argument, "head", message));
        };
        let mut tasks = [SiteTask::<&[f32]>::default(); MAX_TASKS];
        for (task, outputs) in tasks.iter_mut().zip(outputs) {
            let output = |position| network.site_output(position).ok_or_else(|| missing(position));
            *task = outputs.try_map(output)?;
        }
        decode_sites(&tasks[..outputs.len()], network.last_sites(), decode, candidates)
    }
}

/// An output that was bound and is not there.
pub(super) fn missing(position: usize) -> Error {
    Error::new(
        ErrorKind::Argument,
        "head",
        format!("the network has no output {position} on sites"),
    )
}

/// The outputs of every task by their names.
pub(super) fn bind_sites(facts: &SiteFacts, found: &[TensorSpec]) -> Result<Vec<SiteTask<usize>>> {
    if facts.tasks.len() > MAX_TASKS {
        return refuse(format!("{} tasks exceed the limit of {MAX_TASKS}", facts.tasks.len()));
    }
    let has_iou = !facts.iou_weights.is_empty();
    let mut expected = Vec::new();
    for (task, classes) in facts.tasks.iter().enumerate() {
        for (what, name, num_channels, is_expected) in [
            ("heat map", "hm", classes.len(), true),
            ("offset", "center", 2, true),
            ("height", "center_z", 1, true),
            ("size", "dim", 3, true),
            ("rotation", "rot", 2, true),
            ("velocity", "vel", 2, facts.has_velocity),
            ("overlap", "iou", 1, has_iou),
        ] {
            if is_expected {
                let shape = vec![Any, Exactly(num_channels)];
                expected.push(floats(what, Some(format!("{name}_{task}")), vec![shape]));
            }
        }
    }
    let mut positions = bind(Side::Output, &expected, found)?.into_iter();
    let mut next = || positions.next().ok_or_else(|| missing(found.len()));
    let tasks = facts.tasks.iter().map(|_| {
        Ok(SiteTask {
            heatmap: next()?,
            offset: next()?,
            height: next()?,
            size: next()?,
            rotation: next()?,
            velocity: if facts.has_velocity { Some(next()?) } else { None },
            iou: if has_iou { Some(next()?) } else { None },
        })
    });
    tasks.collect()
}
