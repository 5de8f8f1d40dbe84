//! Decoding of lidar heads on a GPU.

use super::sites::missing;
use super::{LidarHead, refuse};
use det_post_infer::device::{DeviceEngine, StagedOutput};
use det_post_infer::sparse::CudaEncoder;
use det_post_ops::decode::anchor::cuda::Workspace as AnchorWorkspace;
use det_post_ops::decode::center::cuda::Workspace as CenterWorkspace;
use det_post_ops::decode::gather::cuda::OutputAttributes;
use det_post_ops::decode::proposals::cuda::Workspace as ProposalWorkspace;
use det_post_ops::decode::select::Limits;
use det_post_ops::decode::sites::cuda::Workspace as SiteWorkspace;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Stream};
use det_post_ops::shared::Motion;
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{Box3d, Error, ErrorKind, Result};

/// Kernels and memory to decode a head's outputs on a stream.
pub enum LidarDecoder {
    /// For [`LidarHead::Center`].
    Center(CenterWorkspace),
    /// For [`LidarHead::Anchor`].
    Anchor(AnchorWorkspace),
    /// For [`LidarHead::Proposals`].
    Proposals(ProposalWorkspace),
    /// For [`LidarHead::Sites`].
    Sites(SiteWorkspace),
}

/// What computes a head's outputs.
#[derive(Clone, Copy)]
pub struct Outputs<'a> {
    /// The engine of the network, with the outputs of all heads but [`LidarHead::Sites`].
    pub engine: &'a DeviceEngine,
    /// The layers whose outputs are on sites.
    pub on_sites: Option<&'a CudaEncoder>,
}

impl LidarHead {
    /// Kernels and memory to decode the outputs of an engine on a stream, for up to
    /// `num_candidates` selected candidates.
    ///
    /// # Errors
    /// `Argument` when the outputs do not fit; `Device` when there is not enough memory.
    pub fn decoder(
        &self,
        stream: &Stream,
        Outputs { engine, on_sites }: Outputs<'_>,
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
            Self::Anchor { decode, outputs } => {
                let classes = engine.output(outputs.classes)?;
                let num_cells = num_cells_of(classes, decode.channels_last)?;
                Ok(LidarDecoder::Anchor(AnchorWorkspace::new(stream, decode, num_cells)?))
            }
            Self::Proposals { decode, outputs } => {
                let boxes = engine.output(outputs.boxes)?.shape();
                let num_proposals = boxes.last().copied().unwrap_or(0);
                let workspace =
                    ProposalWorkspace::new(stream, decode, num_proposals, num_candidates)?;
                Ok(LidarDecoder::Proposals(workspace))
            }
            Self::Sites { decode, .. } => {
                let num_sites = layers(on_sites)?.last_sites().capacity();
                let workspace = SiteWorkspace::new(stream, decode, num_sites, num_candidates)?;
                Ok(LidarDecoder::Sites(workspace))
            }
        }
    }

    /// Lets kernels read the outputs of proposals through host memory, since labels are integers. Nothing changes
    /// for other heads.
    ///
    /// # Errors
    /// As of [`DeviceEngine::stage`].
    pub fn stage(&self, engine: &mut DeviceEngine) -> Result<()> {
        let Self::Proposals { outputs, .. } = self else { return Ok(()) };
        let outputs = [outputs.boxes, outputs.scores, outputs.directions_or_labels];
        engine.stage(&outputs.map(|position| StagedOutput { position, rows: None }))
    }

    /// Queues the decoding of an engine's outputs into `candidates`: to be recorded, not
    /// for every frame. There are no candidates if `num_voxels`, one value, is 0.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than its specification;
    /// `Device` when the launch fails.
    pub fn enqueue_decode(
        &self,
        Outputs { engine, on_sites }: Outputs<'_>,
        decoder: &mut LidarDecoder,
        num_voxels: &DeviceBuffer<u32>,
        candidates: &mut DeviceCandidates<Box3d>,
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        match (self, decoder) {
            (Self::Center { outputs, .. }, LidarDecoder::Center(workspace)) => {
                let tasks = outputs.iter().map(|task| task.try_map(|at| engine.output(at)));
                let tasks = tasks.collect::<Result<Vec<_>>>()?;
                workspace.enqueue(&tasks, num_voxels, candidates, counters)
            }
            (Self::Anchor { outputs, .. }, LidarDecoder::Anchor(workspace)) => {
                let outputs = outputs.try_map(|position| engine.output(position))?;
                workspace.enqueue(&outputs, num_voxels, candidates, counters)
            }
            (Self::Proposals { outputs, .. }, LidarDecoder::Proposals(workspace)) => {
                let outputs = outputs.try_map(|position| engine.output(position))?;
                workspace.enqueue(&outputs, num_voxels, candidates, counters)
            }
            (Self::Sites { outputs, .. }, LidarDecoder::Sites(workspace)) => {
                let layers = layers(on_sites)?;
                let output = |at| layers.site_output(at).ok_or_else(|| missing(at));
                let tasks = outputs.iter().map(|task| task.try_map(output));
                let tasks = tasks.collect::<Result<Vec<_>>>()?;
                workspace.enqueue(&tasks, layers.last_sites(), candidates, counters)
            }
            _ => Err(of_another_head()),
        }
    }

    /// The attributes of objects that the head regresses.
    pub fn attributes(&self) -> OutputAttributes {
        match self {
            Self::Center { decode, .. } => {
                OutputAttributes { velocity: decode.has_velocity, variance: decode.has_variance }
            }
            Self::Anchor { .. } => OutputAttributes { velocity: false, variance: false },
            Self::Proposals { decode, .. } => {
                OutputAttributes { velocity: decode.layout.has_velocity(), variance: false }
            }
            Self::Sites { decode, .. } => {
                OutputAttributes { velocity: decode.has_velocity, variance: false }
            }
        }
    }
}

impl LidarDecoder {
    /// Writes the thresholds of a head and the limits to the device and waits; recorded
    /// graphs use the values last set.
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
            (Self::Proposals(workspace), LidarHead::Proposals { decode, .. }) => {
                workspace.set(decode, limits)
            }
            (Self::Sites(workspace), LidarHead::Sites { decode, .. }) => {
                workspace.set(decode, limits)
            }
            _ => Err(of_another_head()),
        }
    }

    /// Velocities and variances, and by candidate its index among them; `None` for a head
    /// without them.
    pub fn motions(&self) -> Option<(&DeviceBuffer<Motion>, &DeviceBuffer<u32>)> {
        match self {
            Self::Center(workspace) => Some(workspace.motions()),
            Self::Proposals(workspace) => Some(workspace.motions()),
            Self::Sites(workspace) => Some(workspace.motions()),
            Self::Anchor(_) => None,
        }
    }
}

/// Rows times columns of a map.
fn num_cells_of(map: &DeviceTensor, channels_last: bool) -> Result<usize> {
    match (map.shape(), channels_last) {
        (&[_, rows, columns, _], true) | (&[_, _, rows, columns], false) => Ok(rows * columns),
        (shape, _) => refuse(format!("the network's output is {shape:?}, not a map")),
    }
}

fn layers(on_sites: Option<&CudaEncoder>) -> Result<&CudaEncoder> {
    on_sites.ok_or_else(|| missing(0))
}

fn of_another_head() -> Error {
    Error::new(ErrorKind::Argument, "head", "the decoder is of another kind of head")
}
