//! Transforms between frames over time.
//!
//! [`TfBuffer`] holds a forest: each frame has at most one parent, with either
//! one static transform or a history of stamped ones. A lookup walks from both
//! frames to their common ancestor and interpolates each edge at the same
//! stamp: translations linearly, rotations on the sphere. A stamp that an edge
//! has exactly is taken as it is. Nothing is extrapolated, nothing stands in
//! for a transform that is not known, and nothing waits.
//!
//! Bounded in time (`window` behind the newest sample of an edge) and in memory
//! (samples an edge, frames). What is dropped or refused for want of room is
//! counted; what leaves the window is not. A full table of frames evicts those
//! that no lookup uses first, so unused transforms cannot displace the ones that a
//! channel needs.
//!
//! Unlike tf2, a sample older than the window is taken as a jump back of the
//! clock, such as a recording that starts over: it clears the history of its
//! edge. Younger ones out of order are sorted in, and the same stamp again
//! replaces; so a jump within the window leaves the later samples of before in
//! place, and who knows of the jump calls [`TfBuffer::forget_after`]. A new parent,
//! and a change between static and stamped, replace the edge. As in tf2, `/`
//! before a frame's name is dropped.

use crate::error::{Error, ErrorKind, Result};
use crate::transport::messages::TransformStamped;
use crate::types::{Header, Stamp};
use frames::{Edge, FrameIndex, Frames};
use motion::{Motion, Sample, insert_sample};
use nalgebra::{Isometry3, Quaternion, UnitQuaternion, Vector3};
use std::collections::VecDeque;
use std::time::Duration;

mod frames;
mod motion;

/// The longest name of a frame.
pub const MAX_FRAME_ID_LEN: usize = 256;

/// Greatest difference of a rotation's squared norm from 1, as in tf2.
const NORM_TOLERANCE: f64 = 0.01;

const STAGE: &str = "tf";

fn error(message: String) -> Error {
    Error::new(ErrorKind::Transform, STAGE, message)
}

/// The isometry of a translation and a quaternion x, y, z, w, which is
/// normalised.
///
/// # Errors
/// `Transform` when a value is not finite or the squared norm of the
/// quaternion is further than 0.01 from 1 (zero is the usual case).
pub fn isometry(translation: [f64; 3], rotation: [f64; 4]) -> Result<Isometry3<f64>> {
    let [x, y, z, w] = rotation;
    let (translation, rotation) = (Vector3::from(translation), Quaternion::new(w, x, y, z));
    check_motion(&translation, &rotation)?;
    Ok(Isometry3::from_parts(translation.into(), UnitQuaternion::new_normalize(rotation)))
}

fn check_motion(translation: &Vector3<f64>, rotation: &Quaternion<f64>) -> Result<()> {
    let [x, y, z] = translation.as_ref();
    let [i, j, k, w] = rotation.coords.as_ref();
    if ![x, y, z, i, j, k, w].iter().all(|value| value.is_finite()) {
        return Err(error(format!(
            "translation [{x}, {y}, {z}] and rotation [{i}, {j}, {k}, {w}] must be finite"
        )));
    }
    let norm_squared = rotation.norm_squared();
    if (norm_squared - 1.0).abs() > NORM_TOLERANCE {
        return Err(error(format!(
            "rotation [{i}, {j}, {k}, {w}] has squared norm {norm_squared}; 1 is needed, within \
             {NORM_TOLERANCE}"
        )));
    }
    Ok(())
}

/// The bounds of a [`TfBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfLimits {
    /// How long samples are kept, counted back from the newest of their edge.
    pub window: Duration,
    /// Most samples of one edge. When full, the oldest goes.
    pub max_samples_per_edge: usize,
    /// Most frames, parents included. When full, a new frame takes the place of a
    /// leaf: of the one that no lookup has needed, or not for the longest time;
    /// then of the one updated longest ago.
    pub max_frames: usize,
}

impl Default for TfLimits {
    /// 10 seconds, as in tf2; 4096 samples an edge (400 a second); 512 frames.
    fn default() -> Self {
        Self { window: Duration::from_secs(10), max_samples_per_edge: 4096, max_frames: 512 }
    }
}

/// What was lost for want of room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TfLosses {
    /// Samples that were dropped although they were inside the window.
    pub num_samples_dropped: u64,
    /// Frames that were dropped for new ones, with their transforms.
    pub num_frames_dropped: u64,
    /// Transforms that were refused because a frame would have been one too
    /// many, and no other could be dropped.
    pub num_transforms_refused: u64,
}

/// A bounded history of transforms; see the module for its rules.
#[derive(Clone, Debug, Default)]
pub struct TfBuffer {
    limits: TfLimits,
    frames: Frames,
    losses: TfLosses,
}

impl TfBuffer {
    /// An empty buffer.
    pub fn new(limits: TfLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was lost so far for want of room.
    pub fn losses(&self) -> TfLosses {
        self.losses
    }

    /// Forgets all frames, for a clock that starts over. The losses stay.
    pub fn clear(&mut self) {
        self.frames.clear();
    }

    /// Forgets samples of later than `stamp`, for a clock that starts over
    /// within the window. Static transforms and frames stay.
    pub fn forget_after(&mut self, stamp: Stamp) {
        for edge in self.frames.edges_mut() {
            let Some(Edge { motion: Motion::Stamped(samples), .. }) = edge else { continue };
            samples.truncate(samples.partition_point(|sample| sample.stamp <= stamp));
            if samples.is_empty() {
                *edge = None;
            }
        }
    }

    /// Takes in one transform of a message.
    ///
    /// # Errors
    /// As [`Self::insert`], and for a rotation that is none.
    pub fn insert_message(
        &mut self,
        transform: &TransformStamped<'_>,
        is_static: bool,
    ) -> Result<()> {
        let Header { stamp, frame_id } = transform.header;
        let parent_from_child = isometry(transform.translation, transform.rotation)?;
        self.insert(frame_id, transform.child_frame_id, stamp, parent_from_child, is_static)
    }

    /// Takes in one transform of `child` in `parent`. The stamp of a static
    /// one does not matter.
    ///
    /// # Errors
    /// `Transform`, and nothing changes, when the isometry is not finite or
    /// not a rotation, a name is empty or too long, a frame would become its
    /// own ancestor, or there is no room for another frame.
    pub fn insert(
        &mut self,
        parent: &str,
        child: &str,
        stamp: Stamp,
        parent_from_child: Isometry3<f64>,
        is_static: bool,
    ) -> Result<()> {
        let [parent, child] = [strip(parent), strip(child)];
        check_name(parent)?;
        check_name(child)?;
        check_motion(
            &parent_from_child.translation.vector,
            parent_from_child.rotation.quaternion(),
        )?;
        if parent == child {
            return Err(error(format!("{child:?} cannot be its own parent")));
        }
        if let (Some(parent_index), Some(child_index)) =
            (self.frames.find(parent), self.frames.find(child))
            && self.ancestors(parent_index).any(|ancestor| ancestor == child_index)
        {
            return Err(error(format!(
                "{parent:?} cannot be the parent of its ancestor {child:?}"
            )));
        }
        self.make_room([parent, child])?;

        let [parent, child] = [self.frames.update(parent), self.frames.update(child)];
        let sample = Sample { stamp, parent_from_child };
        let limits = self.limits;
        match self.frames.edge_mut(child) {
            Some(Edge { parent: known, motion: Motion::Stamped(samples) })
                if *known == parent && !is_static =>
            {
                self.losses.num_samples_dropped +=
                    insert_sample(samples, sample, limits.window, limits.max_samples_per_edge);
            }
            edge => {
                let motion = if is_static {
                    Motion::Static(parent_from_child)
                } else {
                    Motion::Stamped(VecDeque::from([sample]))
                };
                *edge = Some(Edge { parent, motion });
            }
        }
        Ok(())
    }

    /// The transform `target_from_source` at `stamp`: it takes coordinates in
    /// `source_frame` to coordinates in `target_frame`.
    ///
    /// # Errors
    /// `Transform` when a frame is not known, the two are not connected, or an
    /// edge between them is not known at `stamp`; the message names the edge,
    /// the stamp and the interval that is known.
    pub fn lookup(
        &self,
        target_frame: &str,
        source_frame: &str,
        stamp: Stamp,
    ) -> Result<Isometry3<f64>> {
        let [target_frame, source_frame] = [strip(target_frame), strip(source_frame)];
        let refuse = |reason: String| {
            error(format!("{target_frame:?} from {source_frame:?} at {stamp}: {reason}"))
        };
        let find = |name: &str| {
            self.frames.find(name).ok_or_else(|| refuse(format!("frame {name:?} is not known")))
        };
        let (target, source) = (find(target_frame)?, find(source_frame)?);
        self.frames.need(self.ancestors(target).chain(self.ancestors(source)));
        let common = self
            .ancestors(target)
            .find(|common| self.ancestors(source).any(|ancestor| ancestor == *common))
            .ok_or_else(|| refuse("the frames are not connected".into()))?;
        let common_from_target = self.ancestor_from(target, common, stamp).map_err(refuse)?;
        let common_from_source = self.ancestor_from(source, common, stamp).map_err(refuse)?;
        Ok(common_from_target.inv_mul(&common_from_source))
    }

    /// Drops frames when there are too many for two more.
    fn make_room(&mut self, names: [&str; 2]) -> Result<()> {
        let num_new = names.iter().filter(|name| self.frames.find(name).is_none()).count();
        let num_over = (self.frames.len() + num_new).saturating_sub(self.limits.max_frames);
        if num_over == 0 {
            return Ok(());
        }
        if self.frames.drop_least_needed(num_over, names) {
            self.losses.num_frames_dropped += num_over as u64;
            return Ok(());
        }
        self.losses.num_transforms_refused += 1;
        Err(error(format!(
            "no room for {:?} from {:?}: {} frames are known, {} is the most",
            names[0],
            names[1],
            self.frames.len(),
            self.limits.max_frames
        )))
    }

    /// The edges from `frame` up to its root, each with the frame it starts
    /// at. There is no cycle, as `insert` refuses what would close one.
    fn edges(&self, frame: FrameIndex) -> impl Iterator<Item = (FrameIndex, &Edge)> {
        let edge_of = |frame: FrameIndex| Some((frame, self.frames.edge(frame)?));
        std::iter::successors(edge_of(frame), move |(_, edge)| edge_of(edge.parent))
    }

    /// `frame`, its parent, and so on.
    fn ancestors(&self, frame: FrameIndex) -> impl Iterator<Item = FrameIndex> {
        std::iter::once(frame).chain(self.edges(frame).map(|(_, edge)| edge.parent))
    }

    /// `ancestor_from_frame` at `stamp`, or why it is not known.
    fn ancestor_from(
        &self,
        frame: FrameIndex,
        ancestor: FrameIndex,
        stamp: Stamp,
    ) -> std::result::Result<Isometry3<f64>, String> {
        let mut ancestor_from_frame = Isometry3::identity();
        for (child, edge) in self.edges(frame).take_while(|(child, _)| *child != ancestor) {
            let parent_from_child = edge.motion.at(stamp).ok_or_else(|| {
                let [parent, child] = [edge.parent, child].map(|index| self.frames.name(index));
                format!("{parent:?} from {child:?} is known {}", edge.motion.interval())
            })?;
            ancestor_from_frame = parent_from_child * ancestor_from_frame;
        }
        Ok(ancestor_from_frame)
    }
}

fn strip(name: &str) -> &str {
    name.strip_prefix('/').unwrap_or(name)
}

fn check_name(name: &str) -> Result<()> {
    match name.len() {
        1..=MAX_FRAME_ID_LEN => Ok(()),
        0 => Err(error("a frame has an empty name".into())),
        len => {
            Err(error(format!("a frame's name has {len} bytes, {MAX_FRAME_ID_LEN} is the most")))
        }
    }
}

#[cfg(test)]
mod tests;
