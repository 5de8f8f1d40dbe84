//! The side of a lidar head that runs on a GPU.

use super::{CenterOutputs, LidarHead, refuse};
use crate::device::cuda::{DeviceBuffer, DeviceCandidates, DeviceCounters, DeviceTensor, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::infer::device::DeviceEngine;
use crate::ops::decode_anchor::cuda::{DeviceAnchorOutputs, Workspace as AnchorWorkspace};
use crate::ops::decode_center::cuda::Motion;
use crate::ops::decode_center::cuda::{DeviceCenterTask, Workspace as CenterWorkspace};
use crate::ops::gather::cuda::OutputAttributes;
use crate::ops::select::Limits;
use crate::types::Box3d;

/// Kernels and memory to decode a head's answers on a stream.
pub enum LidarDecoder {
    /// Of [`LidarHead::Center`].
    Center(CenterWorkspace),
    /// Of [`LidarHead::Anchor`].
    Anchor(AnchorWorkspace),
}

impl LidarHead {
    /// Kernels and memory to decode the answers of an engine on a stream, for
    /// up to `num_candidates` that go on.
    ///
    /// # Errors
    /// `Argument` when the answers do not fit; `Device` when there is not enough
    /// memory.
    pub fn decoder(
        &self,
        stream: &Stream,
        engine: &DeviceEngine,
        num_candidates: usize,
    ) -> Result<LidarDecoder> {
        match self {
            Self::Center { decode, outputs } => {
                let mut num_cells = 0;
                for outputs in outputs {
                    num_cells += num_cells_of(engine.output(outputs.heatmap)?, false)?;
                }
                let workspace = CenterWorkspace::new(stream, decode, num_cells, num_candidates)?;
                Ok(LidarDecoder::Center(workspace))
            }
            Self::Anchor { decode, .. } => {
                let outputs = self.anchor_outputs(engine)?;
                let num_cells = num_cells_of(outputs.classes, decode.channels_last)?;
                Ok(LidarDecoder::Anchor(AnchorWorkspace::new(stream, decode, num_cells)?))
            }
        }
    }

    /// Queues the decoding of an engine's answers into `candidates`: to be
    /// recorded, not for every frame. Nothing passes when `num_voxels`, one
    /// number, is 0.
    ///
    /// # Errors
    /// `Inference` or `Argument` when the answers have not the shapes that
    /// were promised; `Device` when the launch fails.
    pub fn enqueue_decode(
        &self,
        engine: &DeviceEngine,
        decoder: &mut LidarDecoder,
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        match (self, decoder) {
            (Self::Center { outputs, .. }, LidarDecoder::Center(workspace)) => {
                let task = |outputs: &CenterOutputs| task(engine, outputs);
                let tasks = outputs.iter().map(task).collect::<Result<Vec<_>>>()?;
                workspace.enqueue(&tasks, num_voxels, candidates, counters)
            }
            (Self::Anchor { .. }, LidarDecoder::Anchor(workspace)) => {
                workspace.enqueue(&self.anchor_outputs(engine)?, num_voxels, candidates, counters)
            }
            _ => Err(of_another_head()),
        }
    }

    /// What it says of objects beside their boxes.
    pub fn attributes(&self) -> OutputAttributes {
        match self {
            Self::Center { decode, .. } => {
                OutputAttributes { velocity: decode.has_velocity, variance: decode.has_variance }
            }
            Self::Anchor { .. } => OutputAttributes { velocity: false, variance: false },
        }
    }

    fn anchor_outputs<'a>(&self, engine: &'a DeviceEngine) -> Result<DeviceAnchorOutputs<'a>> {
        let Self::Anchor { outputs: [Some(classes), Some(boxes), directions], .. } = *self else {
            return refuse("an anchor head has class scores and boxes".into());
        };
        Ok(DeviceAnchorOutputs {
            classes: engine.output(classes)?,
            boxes: engine.output(boxes)?,
            directions: directions.map(|directions| engine.output(directions)).transpose()?,
        })
    }
}

impl LidarDecoder {
    /// Writes the thresholds of a head and the limits to the device and waits;
    /// recorded graphs follow them.
    ///
    /// # Errors
    /// `Argument` when the head differs in anything but thresholds; `Device`
    /// when a copy fails.
    pub fn set(&mut self, head: &LidarHead, limits: Limits) -> Result<()> {
        match (self, head) {
            (Self::Center(workspace), LidarHead::Center { decode, .. }) => {
                workspace.set(decode, limits)
            }
            (Self::Anchor(workspace), LidarHead::Anchor { decode, .. }) => {
                workspace.set(decode, limits)
            }
            _ => Err(of_another_head()),
        }
    }

    /// Velocities and variances, and by candidate its place among them; `None`
    /// when the head has neither.
    pub fn motions(&self) -> Option<(&DeviceBuffer<Motion>, &DeviceBuffer<u32>)> {
        match self {
            Self::Center(workspace) => Some(workspace.motions()),
            Self::Anchor(_) => None,
        }
    }
}

fn task<'a>(engine: &'a DeviceEngine, outputs: &CenterOutputs) -> Result<DeviceCenterTask<'a>> {
    Ok(DeviceCenterTask {
        heatmap: engine.output(outputs.heatmap)?,
        offset: engine.output(outputs.offset)?,
        height: engine.output(outputs.height)?,
        size: engine.output(outputs.size)?,
        rotation: engine.output(outputs.rotation)?,
        velocity: outputs.velocity.map(|velocity| engine.output(velocity)).transpose()?,
    })
}

/// Rows times columns of a map.
fn num_cells_of(map: &DeviceTensor, channels_last: bool) -> Result<usize> {
    match (map.shape(), channels_last) {
        (&[_, rows, columns, _], true) | (&[_, _, rows, columns], false) => Ok(rows * columns),
        (shape, _) => refuse(format!("the network answers with {shape:?}, not a map")),
    }
}

fn of_another_head() -> Error {
    Error::new(ErrorKind::Argument, "head", "a decoder of another kind of head")
}
