//! Transforms between frames over time.
//!
//! [`TfBuffer`] holds a forest: each frame has at most one parent, with either
//! one static transform or a history of stamped ones. A lookup follows the edges
//! from both frames to their common ancestor and interpolates each at the same
//! stamp: translations linearly, rotations spherically (slerp). A sample with
//! exactly that stamp is used as it is. There is no extrapolation, no default for
//! an unknown transform, and no waiting.
//!
//! The history is bounded in time (`window` before the newest sample of an edge)
//! and in memory (samples per edge, frames). Samples, frames and transforms that
//! exceed a capacity are counted; samples that leave the window are not. A full
//! table of frames evicts unused frames first, so they cannot displace the
//! transforms that a channel needs.
//!
//! Unlike tf2, a sample older than the window is taken as a jump back of the
//! clock, such as a recording that starts over: it clears the history of its
//! edge. Newer samples out of order are sorted in; a sample replaces one with the
//! same stamp. A jump within the window therefore leaves the later samples in
//! place: a caller that detects it calls [`TfBuffer::forget_after`]. A new parent,
//! or a change between static and stamped, replaces the edge. As in tf2, a
//! leading `/` of a frame's name is ignored.
//!
//! Where no transform says how a vehicle moves, a topic of its odometry or velocity does
//! ([`TfBuffer::insert_motion`]): the topic is then the name of the fixed frame of a lookup.

use crate::messages::{TransformStamped, VehicleMotion};
use checks::{check_motion, check_name, error, strip};
use det_post_types::{Header, Result, Stamp};
use frames::{Edge, FrameIndex, Frames};
use motion::{Motion, Sample, insert_sample};
use nalgebra::Isometry3;
use std::collections::VecDeque;
use std::time::Duration;
use vehicle::Vehicle;

mod checks;
mod frames;
mod motion;
mod vehicle;

pub use checks::{MAX_FRAME_ID_LEN, isometry};
pub use vehicle::MAX_VELOCITY_GAP;

/// The bounds of a [`TfBuffer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TfLimits {
    /// The age up to which samples are kept, relative to the newest of their edge.
    pub window: Duration,
    /// Maximum number of samples per edge. When full, the oldest is dropped.
    pub max_samples_per_edge: usize,
    /// Maximum number of frames. When full, a new frame replaces a leaf: the one
    /// that no lookup has used, or not for the longest time; among equals, the one
    /// updated longest ago.
    pub max_frames: usize,
}

impl Default for TfLimits {
    /// 10 seconds, as in tf2; 4096 samples per edge (400 a second); 512 frames.
    fn default() -> Self {
        Self { window: Duration::from_secs(10), max_samples_per_edge: 4096, max_frames: 512 }
    }
}

/// Losses due to full capacities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TfLosses {
    /// Samples that were dropped inside the window.
    pub num_samples_dropped: u64,
    /// Frames that were replaced by new ones, with their transforms.
    pub num_frames_dropped: u64,
    /// Transforms that were refused because there was no frame to replace.
    pub num_transforms_refused: u64,
}

/// A bounded history of transforms; see the module for its rules.
#[derive(Clone, Debug, Default)]
pub struct TfBuffer {
    limits: TfLimits,
    frames: Frames,
    /// By topic, a few.
    vehicles: Vec<Vehicle>,
    losses: TfLosses,
}

impl TfBuffer {
    /// An empty buffer.
    pub fn new(limits: TfLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Losses so far.
    pub fn losses(&self) -> TfLosses {
        self.losses
    }

    /// Removes all frames, for a clock that starts over. The losses remain.
    pub fn clear(&mut self) {
        self.frames.clear();
        self.vehicles.clear();
    }

    /// Removes samples later than `stamp`, for a clock that starts over within the
    /// window. Static transforms and frames remain.
    pub fn forget_after(&mut self, stamp: Stamp) {
        for edge in self.frames.edges_mut() {
            let Some(Edge { motion: Motion::Stamped(samples), .. }) = edge else { continue };
            motion::forget_after(samples, stamp);
            if samples.is_empty() {
                *edge = None;
            }
        }
        self.vehicles.iter_mut().for_each(|vehicle| vehicle.forget_after(stamp));
    }

    /// Inserts a message of a vehicle's motion on `topic`, which is from then on the name of the
    /// fixed frame of [`Self::lookup`]: of odometry the frame of its poses, of velocities the
    /// frame in which the moving one was at the first of them, or at the first after
    /// [`MAX_VELOCITY_GAP`]. Velocities that are not newer than the last are left out.
    ///
    /// # Errors
    /// `Transform`, without a change, when a value is not finite, a rotation is none, the moving
    /// frame has no name, or another one than before.
    pub fn insert_motion(&mut self, topic: &str, message: &VehicleMotion<'_>) -> Result<()> {
        let known = self.vehicles.iter().position(|vehicle| vehicle.topic() == topic);
        let index = known.unwrap_or_else(|| {
            self.vehicles.push(Vehicle::new(topic));
            self.vehicles.len() - 1
        });
        let dropped = self.vehicles[index]
            .insert(message, (self.limits.window, self.limits.max_samples_per_edge))?;
        self.losses.num_samples_dropped += dropped;
        Ok(())
    }

    /// Inserts a transform of a message.
    ///
    /// # Errors
    /// Returns the errors of [`Self::insert`] and [`isometry`].
    pub fn insert_message(
        &mut self,
        transform: &TransformStamped<'_>,
        is_static: bool,
    ) -> Result<()> {
        let Header { stamp, frame_id } = transform.header;
        let parent_from_child = isometry(transform.translation, transform.rotation)?;
        self.insert(frame_id, transform.child_frame_id, stamp, parent_from_child, is_static)
    }

    /// Inserts a transform of `child` in `parent`. The stamp of a static one is
    /// ignored.
    ///
    /// # Errors
    /// `Transform`, without a change, when the isometry is not finite or not a
    /// rotation, a name is empty or too long, a frame would become its own
    /// ancestor, or the table of frames is full.
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
        let sample = Sample { stamp, parent_from_child, forgotten: None };
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

    /// The transform `target_from_source` at `stamp`, from coordinates in
    /// `source_frame` to coordinates in `target_frame`, which may be a topic of
    /// [`Self::insert_motion`].
    ///
    /// # Errors
    /// `Transform` when a frame is unknown, the two are not connected, or an edge
    /// between them is unknown at `stamp`. The message names the edge, the stamp
    /// and the known interval.
    pub fn lookup(
        &self,
        target_frame: &str,
        source_frame: &str,
        stamp: Stamp,
    ) -> Result<Isometry3<f64>> {
        if let Some(vehicle) = self.vehicles.iter().find(|of| of.topic() == target_frame) {
            let target_from_moving = vehicle.at(stamp).map_err(error)?;
            let moving_frame = vehicle.moving_frame();
            if moving_frame == strip(source_frame) {
                return Ok(target_from_moving);
            }
            return Ok(target_from_moving * self.lookup(moving_frame, source_frame, stamp)?);
        }
        let [target_frame, source_frame] = [strip(target_frame), strip(source_frame)];
        let refuse = |reason: String| {
            error(format!("{target_frame:?} from {source_frame:?} at {stamp}: {reason}"))
        };
        let find = |name: &str| {
            self.frames.find(name).ok_or_else(|| refuse(format!("frame {name:?} is not known")))
        };
        let (target, source) = (find(target_frame)?, find(source_frame)?);
        self.frames.mark_used(self.ancestors(target).chain(self.ancestors(source)));
        let common = self
            .ancestors(target)
            .find(|common| self.ancestors(source).any(|ancestor| ancestor == *common))
            .ok_or_else(|| refuse("the frames are not connected".into()))?;
        let common_from_target = self.ancestor_from(target, common, stamp).map_err(refuse)?;
        let common_from_source = self.ancestor_from(source, common, stamp).map_err(refuse)?;
        Ok(common_from_target.inv_mul(&common_from_source))
    }

    /// Evicts frames if `names` do not fit.
    fn make_room(&mut self, names: [&str; 2]) -> Result<()> {
        let num_new = names.iter().filter(|name| self.frames.find(name).is_none()).count();
        let num_over = (self.frames.len() + num_new).saturating_sub(self.limits.max_frames);
        if num_over == 0 {
            return Ok(());
        }
        if self.frames.evict(num_over, names) {
            self.losses.num_frames_dropped += num_over as u64;
            return Ok(());
        }
        self.losses.num_transforms_refused += 1;
        Err(error(format!(
            "TF buffer full ({} of {} frames): {:?} -> {:?} ignored",
            self.frames.len(),
            self.limits.max_frames,
            names[0],
            names[1]
        )))
    }

    /// The edges from `frame` to its root, each with its child frame. `insert`
    /// refuses cycles.
    fn edges(&self, frame: FrameIndex) -> impl Iterator<Item = (FrameIndex, &Edge)> {
        let edge_of = |frame: FrameIndex| Some((frame, self.frames.edge(frame)?));
        std::iter::successors(edge_of(frame), move |(_, edge)| edge_of(edge.parent))
    }

    /// `frame` and its ancestors.
    fn ancestors(&self, frame: FrameIndex) -> impl Iterator<Item = FrameIndex> {
        std::iter::once(frame).chain(self.edges(frame).map(|(_, edge)| edge.parent))
    }

    /// `ancestor_from_frame` at `stamp`, or the reason why it is unknown.
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

#[cfg(test)]
mod tests;
