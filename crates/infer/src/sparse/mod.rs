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
//!   ([`Dialect::Autoware`]), of the encoder alone or of the whole detector.
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
use det_post_types::{Error, ErrorKind, Result};

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
    /// holds more than the encoder. Its only input is the map.
    pub rest: Option<Vec<u8>>,
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
    let (dialect, network, rest) = if has(&["SparseConvolution"]) {
        (Dialect::Scn, scn::read(&model)?, None)
    } else if has(&["ImplicitGemm", "IndiceConv"]) {
        let (network, rest) = autoware::read(&model)?;
        (Dialect::Autoware, network, rest)
    } else {
        return refuse(
            "no sparse convolution: neither SparseConvolution (scn) nor ImplicitGemm or \
             IndiceConv (autoware) is among its nodes"
                .into(),
        );
    };
    let point_channels = point_channels(&model, network.input_channels())?;
    Ok(SparseFile { network, dialect, point_channels, rest })
}

/// A name in every file of Autoware's nodes.
const MAKES_RULEBOOK: &str = "GetIndicePairs";

/// The network behind the map of a file that holds a whole detector; `None` for every other file.
///
/// # Errors
/// `Model` as [`parse`], of a file with Autoware's nodes; the message names the file.
pub(super) fn behind_map(path: &Path) -> Result<Option<Vec<u8>>> {
    match read_if_named(path, MAKES_RULEBOOK)? {
        Some(_) => Ok(load(path)?.rest),
        None => Ok(None),
    }
}

/// Whether a file holds a whole detector: a sparse encoder in Autoware's nodes, and the network behind its map,
/// which is what [`crate::load`] loads of it.
///
/// # Errors
/// `Model` when the file cannot be read, and as [`parse`] of a file with Autoware's nodes.
pub fn is_detector(path: &Path) -> Result<bool> {
    behind_map(path).map(|network| network.is_some())
}

/// The name of the map that a file in Autoware's nodes ends at: it holds an encoder without the network behind
/// the map. `None` for every other file.
///
/// # Errors
/// As [`is_detector`].
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
