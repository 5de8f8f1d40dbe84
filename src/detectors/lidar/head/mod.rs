//! Heads of lidar networks: CenterPoint, PointPillars, TransFusion, BEVFusion and VoxelNeXt.

#[cfg(feature = "cuda")]
mod cuda;
mod sites;

#[cfg(feature = "cuda")]
pub use cuda::{LidarDecoder, Outputs};

use crate::config::{AnchorFacts, CenterFacts, LidarConfig, LidarOutputs, ProposalFacts};
use det_post_infer::ExpectedDim::{Any, Exactly};
use det_post_infer::{Engine, Expected, ExpectedDim, Side, bind};
use det_post_ops::decode::anchor::{AnchorOutputs, decode_anchor};
use det_post_ops::decode::center::{CenterTask, decode_center};
use det_post_ops::decode::proposals::{ProposalOutputs, decode_proposals};
use det_post_ops::decode::sites::SiteTask;
use det_post_types::{
    AnchorDecode, Candidates, CenterDecode, Dim, ElementType, Error, ErrorKind, Grid, Object3d,
    ProposalDecode, ProposalLayout, Result, SiteDecode, Tensor, TensorSpec,
};

/// The maximum number of tasks of a head.
const MAX_TASKS: usize = 16;

const FLOATS: [ElementType; 2] = [ElementType::F32, ElementType::F16];

pub(in crate::detectors) fn floats(
    what: &'static str,
    name: Option<String>,
    shapes: Vec<Vec<ExpectedDim>>,
) -> Expected {
    Expected { what, name, elements: FLOATS.to_vec(), shapes }
}

pub(in crate::detectors) fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, "head", message))
}

/// A lidar network whose tensors were checked.
#[derive(Clone, Debug)]
pub enum LidarHead {
    /// CenterPoint: heat maps and regressions.
    Center {
        /// The meaning of the outputs.
        decode: CenterDecode,
        /// Per task, the positions of its maps among the network's outputs.
        outputs: Vec<CenterTask<usize>>,
    },
    /// PointPillars: anchors.
    Anchor {
        /// The meaning of the outputs.
        decode: AnchorDecode,
        /// The positions of its maps among the network's outputs.
        outputs: AnchorOutputs<usize>,
    },
    /// TransFusion and BEVFusion: proposals.
    Proposals {
        /// The meaning of the outputs.
        decode: ProposalDecode,
        /// The positions of its tensors among the network's outputs.
        outputs: ProposalOutputs<usize>,
    },
    /// VoxelNeXt: heat maps and regressions on sites.
    Sites {
        /// The meaning of the outputs.
        decode: SiteDecode,
        /// Per task, the positions of its outputs among the network's.
        outputs: Vec<SiteTask<usize>>,
    },
}

impl LidarHead {
    /// Matches the facts of a network, whose input is a map of these dimensions, with its
    /// tensors.
    ///
    /// # Errors
    /// `Model` naming expected and found tensors when they do not fit.
    pub fn new(
        config: &LidarConfig,
        map: &[ExpectedDim; 4],
        inputs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> Result<Self> {
        let name = config.facts.model_input.clone();
        let input = floats("map of features", name, vec![map.to_vec()]);
        bind(Side::Input, &[input], inputs)?;
        Self::of_outputs(config, outputs)
    }

    /// Matches the facts of a network with its outputs.
    ///
    /// # Errors
    /// As [`LidarHead::new`].
    pub fn of_outputs(config: &LidarConfig, outputs: &[TensorSpec]) -> Result<Self> {
        let facts = &config.facts;
        match &facts.outputs {
            LidarOutputs::Center(center) => Ok(Self::Center {
                decode: config.center_decode(center),
                outputs: bind_center(center, &facts.grid, outputs)?,
            }),
            LidarOutputs::Anchor(anchor) => Ok(Self::Anchor {
                decode: anchor.decode(&facts.grid, config.score_thresholds.clone()),
                outputs: bind_anchor(anchor, outputs)?,
            }),
            LidarOutputs::Proposals(proposals) => Ok(Self::Proposals {
                decode: config.proposal_decode(proposals),
                outputs: bind_proposals(proposals, facts.class_names.len(), outputs)?,
            }),
            LidarOutputs::Sites(of_sites) => Ok(Self::Sites {
                decode: config.site_decode(of_sites),
                outputs: sites::bind_sites(of_sites, outputs)?,
            }),
        }
    }

    /// Applies the thresholds of `config`, whose facts must be those of the head.
    pub fn reconfigure(&mut self, config: &LidarConfig) {
        match (self, &config.facts.outputs) {
            (Self::Center { decode, .. }, LidarOutputs::Center(center)) => {
                *decode = config.center_decode(center);
            }
            (Self::Anchor { decode, .. }, LidarOutputs::Anchor(_)) => {
                decode.score_thresholds = config.score_thresholds.clone();
            }
            (Self::Proposals { decode, .. }, LidarOutputs::Proposals(proposals)) => {
                *decode = config.proposal_decode(proposals);
            }
            (Self::Sites { decode, .. }, LidarOutputs::Sites(sites)) => {
                *decode = config.site_decode(sites);
            }
            _ => {}
        }
    }

    /// Memory for the network's input, a map of these dimensions.
    ///
    /// # Errors
    /// `Model` when a dimension is open in the map and in the input.
    pub fn input(map: &[ExpectedDim; 4], inputs: &[TensorSpec]) -> Result<Tensor> {
        let spec = &inputs[0];
        let element = spec.element.unwrap_or(ElementType::F32);
        Tensor::zeros(element, &Self::input_shape(map, spec)?)
    }

    /// The shape of a network's input that is a map of these dimensions.
    ///
    /// # Errors
    /// `Model` when a dimension is open in the map and in the input.
    pub fn input_shape(map: &[ExpectedDim; 4], input: &TensorSpec) -> Result<[usize; 4]> {
        let mut shape = [0; 4];
        for (position, (size, expected)) in shape.iter_mut().zip(map).enumerate() {
            let found = input.shape.as_ref().and_then(|dims| dims.get(position));
            *size = match (expected, found) {
                (Exactly(size), _) | (Any, Some(Dim::Fixed(size))) => *size,
                (Any, _) => {
                    return refuse(format!("input {input} does not say its number of channels"));
                }
            };
        }
        Ok(shape)
    }

    /// Decodes the network's outputs into candidates in the cloud's frame of reference.
    ///
    /// # Errors
    /// `Inference` or `Argument` when an output has another shape than its specification;
    /// `Argument` for [`LidarHead::Sites`], which has [`LidarHead::decode_sites`].
    pub fn decode(&self, engine: &dyn Engine, candidates: &mut Candidates<Object3d>) -> Result<()> {
        match self {
            Self::Center { decode, outputs } => {
                let mut tasks = [CenterTask::default(); MAX_TASKS];
                for (task, outputs) in tasks.iter_mut().zip(outputs) {
                    *task = outputs.try_map(|position| engine.output(position))?;
                }
                decode_center(&tasks[..outputs.len()], decode, candidates)
            }
            Self::Anchor { decode, outputs } => {
                let outputs = outputs.try_map(|position| engine.output(position))?;
                decode_anchor(&outputs, decode, candidates)
            }
            Self::Proposals { decode, outputs } => {
                let outputs = outputs.try_map(|position| engine.output(position))?;
                decode_proposals(&outputs, decode, candidates)
            }
            Self::Sites { .. } => Err(not_of_tensors()),
        }
    }
}

fn not_of_tensors() -> Error {
    Error::new(ErrorKind::Argument, "head", "the outputs of the head are on sites")
}

/// The outputs of every task: by name, or by position in the order offset, height, size,
/// rotation, velocity, heat map, or with the heat map first.
fn bind_center(
    facts: &CenterFacts,
    grid: &Grid,
    found: &[TensorSpec],
) -> Result<Vec<CenterTask<usize>>> {
    if facts.tasks.len() > MAX_TASKS {
        return refuse(format!("{} tasks exceed the limit of {MAX_TASKS}", facts.tasks.len()));
    }
    let variances = if facts.has_variance { 2 } else { 1 };
    let per_task = if facts.has_velocity { 6 } else { 5 };
    let heatmap_first = facts.heatmap_first && facts.output_names.is_empty();
    let mut expected = Vec::new();
    for (task, classes) in facts.tasks.iter().enumerate() {
        let mut names = facts.output_names.get(task).into_iter().flatten().cloned();
        let mut add = |what, num_channels| {
            let shape = vec![Exactly(1), Exactly(num_channels), Any, Any];
            expected.push(floats(what, names.next(), vec![shape]));
        };
        add("offset", 2 * variances);
        add("height", variances);
        add("size", 3 * variances);
        add("rotation", 2 * variances);
        if facts.has_velocity {
            add("velocity", 2 * variances);
        }
        add("heat map", classes.len());
        if heatmap_first {
            let first = expected.len() - per_task;
            expected[first..].rotate_right(1);
        }
    }
    let positions = bind(Side::Output, &expected, found)?;
    let outputs = positions.chunks_exact(per_task).map(|of_task| {
        let (heatmap, maps) = match heatmap_first {
            true => (of_task[0], &of_task[1..]),
            false => (of_task[per_task - 1], of_task),
        };
        CenterTask {
            offset: maps[0],
            height: maps[1],
            size: maps[2],
            rotation: maps[3],
            velocity: facts.has_velocity.then(|| maps[4]),
            heatmap,
        }
    });
    let outputs: Vec<_> = outputs.collect();
    outputs.iter().try_for_each(|task: &CenterTask<usize>| {
        check_sides(&found[task.heatmap], grid, facts.downsample_factor)
    })?;
    Ok(outputs)
}

/// Refuses a heat map that does not have a cell for each `factor` by `factor` cells of the grid: boxes would be at other
/// places. Networks round the sides down or up.
fn check_sides(map: &TensorSpec, grid: &Grid, factor: u32) -> Result<()> {
    let [nx, ny, _] = grid.grid_size();
    let Some([_, _, height, width]) = map.shape.as_deref() else { return Ok(()) };
    for (side, num_cells) in [(height, ny), (width, nx)] {
        let allowed = [num_cells / factor, num_cells.div_ceil(factor)];
        if let Dim::Fixed(found) = *side
            && !allowed.contains(&u32::try_from(found).unwrap_or(u32::MAX))
        {
            return refuse(format!(
                "the heat map {map} has a side of {found} cells, but {num_cells} cells of the grid by downsample_factor \
                 {factor} are {}: correct downsample_factor, point_range_m or voxel_size_m",
                allowed[1]
            ));
        }
    }
    Ok(())
}

/// Class scores, boxes and, if the model has a third output, directions.
fn bind_anchor(facts: &AnchorFacts, found: &[TensorSpec]) -> Result<AnchorOutputs<usize>> {
    let num_anchors = facts.anchors.len() * facts.rotations_rad.len();
    let has_directions = match facts.output_names.len() {
        0 => found.len() > 2,
        num_names => num_names > 2,
    };
    let mut names = facts.output_names.iter().cloned();
    let mut expected = Vec::new();
    for (what, per_anchor) in
        [("class scores", facts.anchors.len()), ("boxes", 7), ("directions", 2)]
    {
        let channels = Exactly(num_anchors * per_anchor);
        let shape = match facts.channels_last {
            true => vec![Exactly(1), Any, Any, channels],
            false => vec![Exactly(1), channels, Any, Any],
        };
        if what != "directions" || has_directions {
            expected.push(floats(what, names.next(), vec![shape]));
        }
    }
    let positions = bind(Side::Output, &expected, found)?;
    Ok(AnchorOutputs {
        classes: positions[0],
        boxes: positions[1],
        directions: positions.get(2).copied(),
    })
}

/// Boxes, scores, and directions or labels, by name or by position.
fn bind_proposals(
    facts: &ProposalFacts,
    num_classes: usize,
    found: &[TensorSpec],
) -> Result<ProposalOutputs<usize>> {
    let num = facts.num_proposals.map_or(Any, Exactly);
    let num_channels = Exactly(facts.layout.num_box_channels());
    let (boxes, scores, others) = match facts.layout {
        ProposalLayout::TransFusion => (
            vec![Exactly(1), num_channels, num],
            vec![Exactly(1), Exactly(num_classes), num],
            vec![Exactly(1), Exactly(2), num],
        ),
        ProposalLayout::BevFusion => (vec![num_channels, num], vec![num], vec![num]),
    };
    let mut names = facts.output_names.iter().cloned();
    let boxes = floats("boxes", names.next(), vec![boxes]);
    let scores = floats("scores", names.next(), vec![scores]);
    let others = match facts.layout {
        ProposalLayout::TransFusion => floats("directions", names.next(), vec![others]),
        ProposalLayout::BevFusion => Expected {
            what: "labels",
            name: names.next(),
            elements: vec![ElementType::I64, ElementType::I32],
            shapes: vec![others],
        },
    };
    let positions = bind(Side::Output, &[boxes, scores, others], found)?;
    Ok(ProposalOutputs {
        boxes: positions[0],
        scores: positions[1],
        directions_or_labels: positions[2],
    })
}
