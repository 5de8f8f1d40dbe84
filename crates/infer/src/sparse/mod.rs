//! Networks of sparse convolutions: from the features of voxels to a dense map, or to outputs
//! on the sites of a plane (VoxelNeXt).
//!
//! The networks are layers of our own with weights from ONNX files, whose nodes
//! no general engine knows. Two dialects are read into the same list of
//! operations ([`SparseNetwork`]):
//!
//! - NVIDIA's `scn` files ([`Dialect::Scn`]), as CUDA-CenterPoint and
//!   CUDA-BEVFusion use them and `tools/export_sparse.py` writes them;
//! - Autoware's files with nodes of its TensorRT plugins
//!   ([`Dialect::Autoware`]), of only the encoder or of the whole detector.
//!
//! A [`Plan`] lays a network out for a capacity: rulebooks, fused steps and
//! buffers. Batch size is 1.

mod autoware;
mod axes;
mod builder;
mod constants;
mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
mod listing;
mod merging;
mod node;
mod operation;
mod plan;
mod scn;

use std::path::Path;

pub use builder::{NetworkBuilder, Weights};
pub use cpu::{CpuEncoder, EncoderCounts};
#[cfg(feature = "cuda")]
pub use cuda::CudaEncoder;
pub use operation::{
    Convolution, GridAxes, Level, MergedLevels, Operation, Operator, Origin, SiteOutput,
    SparseNetwork, SparseTensor, ToMap,
};
pub use plan::{Memory, Plan, PlannedRulebook, Step, StepKind};

use crate::efficient_nms::read_if_named;
use crate::load_layers;
use crate::onnx::Model;
#[cfg(doc)]
use det_post_types::NetworkPart;
use det_post_types::{Error, ErrorKind, Result, Size};

const STAGE: &str = "sparse_network";

/// The metadata entry that names the channels of a point, separated by spaces
/// or commas.
const POINT_CHANNELS: &str = "point_channels";

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseFile {
    /// The network of sparse convolutions.
    pub network: SparseNetwork,
    /// How it is written.
    pub dialect: Dialect,
    /// Names of the channels of a point in the order of the features, where the
    /// file gives them.
    pub point_channels: Option<Vec<String>>,
    /// What comes after the map, as an ONNX model of its own, where the file
    /// holds more than the encoder. Its only input is the map; with cameras, their map follows.
    pub rest: Option<Vec<u8>>,
    /// The network of the cameras, where the file has one ([`NetworkPart::Cameras`]).
    pub cameras: Option<CameraNetwork>,
}

/// The sizes of the network of the cameras of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CameraNetwork {
    /// Channels, rows and columns of the features of images, which it takes.
    pub image_features: [usize; 3],
    /// Depth bins of a pixel.
    pub num_depths: usize,
    /// Features of a pixel.
    pub num_channels: usize,
    /// Cells of the map of the cameras along z.
    pub levels: usize,
    /// Cells along x, the rows.
    pub rows: usize,
    /// Cells along y, the columns.
    pub columns: usize,
    /// Whether it takes images of depths, too.
    pub takes_depth_images: bool,
}

/// How a network of sparse convolutions is written as nodes of ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// NVIDIA's nodes `SparseConvolution`, `ScatterDense` …
    Scn,
    /// Autoware's nodes `GetIndicePairsImplicitGemm`, `ImplicitGemm` …
    Autoware,
}

impl std::fmt::Display for Dialect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scn => "scn",
            Self::Autoware => "autoware",
        })
    }
}

/// Reads a network from a file.
///
/// # Errors
/// `Io` when the file cannot be read, `Model` as [`parse`]; the message names
/// the file.
pub fn load(path: &Path) -> Result<SparseFile> {
    load_layers(path, STAGE, parse)
}

/// Reads a network from the bytes of a file.
///
/// # Errors
/// `Model` when the file is not an ONNX model, holds no sparse convolution, or
/// a node, an attribute or a shape is unknown or contradicts the others. The
/// message names the node.
pub fn parse(bytes: &[u8]) -> Result<SparseFile> {
    let model = Model::parse(bytes)?;
    let has = |operators: &[&str]| {
        model.graph.nodes.iter().any(|node| operators.contains(&node.operator))
    };
    let (dialect, network, rest, cameras) = if has(&["SparseConvolution"]) {
        (Dialect::Scn, scn::read(&model)?, None, None)
    } else if has(&["ImplicitGemm", "IndiceConv"]) {
        let autoware::Parts { network, rest, cameras } = autoware::read(&model)?;
        (Dialect::Autoware, network, rest, cameras)
    } else {
        return refuse(
            "no sparse convolution: neither SparseConvolution (scn) nor ImplicitGemm or \
             IndiceConv (autoware) is among its nodes"
                .into(),
        );
    };
    let point_channels = point_channels(&model, network.input_channels())?;
    Ok(SparseFile { network, dialect, point_channels, rest, cameras })
}

/// A name in every file of Autoware's nodes.
const MAKES_RULEBOOK: &str = "GetIndicePairs";

/// The network behind the map of a file that holds a whole detector; `None` for every other file.
///
/// # Errors
/// `Model` as [`parse`], of a file with Autoware's nodes; the message names the file.
pub(super) fn behind_map(path: &Path) -> Result<Option<Vec<u8>>> {
    Ok(detector(path)?.and_then(|file| file.rest))
}

/// The network of the cameras of a file that holds a detector with cameras and LiDAR, for as many
/// cameras and images of this size: inputs features of images `[N, C, h, w]` and, where it takes
/// points, images of depths `[N, 1, height, width]`; outputs a distribution of depths `[N, D, h, w]` and
/// features of pixels `[N, h, w, C]`.
///
/// # Errors
/// `Io` when the file cannot be read; `Model` when it has no such network. The message names the file.
pub(super) fn camera_network(path: &Path, num_cameras: usize, image_size: Size) -> Result<Vec<u8>> {
    load_layers(path, STAGE, |bytes| {
        autoware::camera_network(&Model::parse(bytes)?, num_cameras, image_size)
    })
}

/// A file that holds a whole detector: a sparse encoder in Autoware's nodes, and the network behind its map,
/// which is what [`crate::load`] loads of it; `None` for every other file.
///
/// # Errors
/// `Model` when the file cannot be read, and as [`parse`] of a file with Autoware's nodes.
pub fn detector(path: &Path) -> Result<Option<SparseFile>> {
    match read_if_named(path, MAKES_RULEBOOK)? {
        Some(_) => Ok(Some(load(path)?).filter(|file| file.rest.is_some())),
        None => Ok(None),
    }
}

/// The name of the input of the network behind the maps that is the map of the cameras.
pub const MAP_OF_CAMERAS: &str = "map_of_cameras";

/// The name of the map that a file in Autoware's nodes ends at: it holds an encoder without the network behind
/// the map. `None` for every other file.
///
/// # Errors
/// As [`detector`].
pub fn ends_at_map(path: &Path) -> Result<Option<String>> {
    let Some(bytes) = read_if_named(path, MAKES_RULEBOOK)? else { return Ok(None) };
    if load(path)?.rest.is_some() {
        return Ok(None);
    }
    let model = Model::parse(&bytes)?;
    Ok(model.graph.outputs.first().map(|map| map.name.to_owned()))
}

fn point_channels(model: &Model<'_>, num_expected: usize) -> Result<Option<Vec<String>>> {
    let Some(text) = model.metadata(POINT_CHANNELS) else { return Ok(None) };
    let names = text.split([' ', ',']).filter(|name| !name.is_empty()).map(str::to_owned);
    let names: Vec<String> = names.collect();
    if names.len() != num_expected {
        return refuse(format!(
            "metadata {POINT_CHANNELS} names {} channels, the network takes {num_expected}",
            names.len()
        ));
    }
    Ok(Some(names))
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}
