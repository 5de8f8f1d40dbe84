//! Networks that decode 3D boxes from the feature maps of several cameras.
//!
//! The networks are layers of our own with weights of published state dicts: files of
//! safetensors ([`SafeTensors`]) under the names of the
//! state dict without the prefix that they share. The facts that the weights do not tell
//! come from the head's file ([`types::ViewDecoder`](det_post_types::ViewDecoder)). What is
//! missing, left over or of another shape is refused by name. A DETR3D may also be an ONNX
//! file with a node `SvTransformerDecoder` ([`sv_transformer_names`]).
//!
//! | family | folder | memory of past frames |
//! |---|---|---|
//! | DETR3D | [`detr3d`] | none |
//! | Sparse4D v3 | [`sparse4d`] | the best anchors of the frame before |
//!
//! Products of constants are folded when a network is read, in f64, and rounded once. A
//! network is then a list of layers that the CPU ([`CpuViewDecoder`]) runs in f32, a GPU
//! ([`CudaViewDecoder`]) in f32 or f16. Batch size is 1.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;
pub mod detr3d;
pub(super) mod plugin;
mod reader;
pub mod sparse4d;
#[cfg(feature = "cuda")]
mod uploaded;

pub use cpu::CpuViewDecoder;
#[cfg(feature = "cuda")]
pub use cuda::{CudaViewDecoder, QueryBuffers};

use std::path::Path;
use std::sync::Arc;

use crate::load_layers;
use crate::safetensors::SafeTensors;
use det_post_ops::view::sample::{MapsView, Projection};
use det_post_types::{Error, ErrorKind, QueryBox, Result, ViewDecoder};

const STAGE: &str = "view_decoder";

/// A network by its family.
#[derive(Clone, Debug)]
pub enum ViewNetwork {
    /// DETR3D.
    Detr3d(Arc<detr3d::Network>),
    /// Sparse4D.
    Sparse4d(Arc<sparse4d::Network>),
}

/// Reads the weights of a network from a file.
///
/// # Errors
/// `Io` when the file cannot be read; `Model` when it is not of the format or does not
/// fit the facts. The message names the file.
pub fn load(path: &Path, facts: &ViewDecoder) -> Result<ViewNetwork> {
    load_layers(path, STAGE, |bytes| parse(bytes, facts))
}

/// The names of tensors that are read of a node `SvTransformerDecoder`: a line for each module of
/// the state dict, with what files call it.
pub fn sv_transformer_names() -> &'static str {
    plugin::NAMES
}

/// Reads the weights of a network from the bytes of a file.
///
/// # Errors
/// `Model` when the file is not of the format, or its tensors do not fit the facts.
pub fn parse(bytes: &[u8], facts: &ViewDecoder) -> Result<ViewNetwork> {
    let of_node = plugin::weights(bytes, facts)?;
    let tensors = SafeTensors::parse(of_node.as_deref().unwrap_or(bytes))?;
    Ok(match facts {
        ViewDecoder::Detr3d(facts) => {
            ViewNetwork::Detr3d(Arc::new(detr3d::Network::read(&tensors, facts.clone())?))
        }
        ViewDecoder::Sparse4d(facts) => {
            ViewNetwork::Sparse4d(Arc::new(sparse4d::Network::read(&tensors, facts.clone())?))
        }
    })
}

impl ViewNetwork {
    /// Queries and classes.
    pub fn query_sizes(&self) -> [usize; 2] {
        match self {
            Self::Detr3d(network) => [network.facts().num_queries, network.facts().num_classes],
            Self::Sparse4d(network) => [network.facts().num_anchors, network.facts().num_classes],
        }
    }

    /// Whether queries have logits of centreness and yawness.
    pub fn has_quality(&self) -> bool {
        matches!(self, Self::Sparse4d(network) if network.facts().has_quality)
    }

    /// Views, levels and channels of the feature maps.
    pub fn map_sizes(&self) -> [usize; 3] {
        match self {
            Self::Detr3d(network) => {
                let facts = network.facts();
                [facts.num_views, facts.num_levels, facts.num_channels]
            }
            Self::Sparse4d(network) => {
                let facts = network.facts();
                [facts.num_views, facts.num_levels, facts.num_channels]
            }
        }
    }
}

/// How a camera sees the base frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct View {
    /// From a point of the base frame in metres to `(u * z, v * z, z)`, u and v in pixels of
    /// the network's input image.
    pub pixels_from_base: [[f64; 4]; 3],
    /// Width and height of the network's input image.
    pub size: [u32; 2],
    /// Whether there is an image. The maps of a view without one are not read; its
    /// calibration still counts.
    pub is_present: bool,
}

impl View {
    /// The projection that selects and samples; [`Projection::UNSEEN`] without an image.
    ///
    /// # Errors
    /// `Argument` when the matrix is not finite or the image has no area.
    pub fn projection(&self) -> Result<Projection> {
        let projection = Projection::new(&self.pixels_from_base, self.size)?;
        Ok(if self.is_present { projection } else { Projection::UNSEEN })
    }
}

/// The anchors that Sparse4D carries from a frame to the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedAnchors {
    /// Boxes, `[K]`, in the base frame of the frame that cached them.
    pub boxes: Vec<QueryBox>,
    /// Features, `[K, C]`.
    pub features: Vec<f32>,
    /// Confidence, `[K]`, in 0 to 1, falling.
    pub confidence: Vec<f32>,
}

impl CachedAnchors {
    /// Refuses other numbers of anchors or channels than a network has.
    fn check(&self, facts: &det_post_types::Sparse4d) -> Result<()> {
        let found = [self.boxes.len(), self.features.len(), self.confidence.len()];
        let expected = facts.num_cached;
        if found == [expected, expected * facts.num_channels, expected] {
            return Ok(());
        }
        let message = format!(
            "the memory has {found:?} boxes, values of features and confidences; the network caches \
             {expected} anchors of {} channels",
            facts.num_channels
        );
        Err(Error::new(ErrorKind::Argument, STAGE, message))
    }
}

/// What a decoder gives for a frame.
#[derive(Clone, Copy, Debug)]
pub struct DecodedQueries<'a> {
    /// Class logits, `[Q, classes]`.
    pub logits: &'a [f32],
    /// Boxes, `[Q]`, in the base frame.
    pub boxes: &'a [QueryBox],
    /// Logits of centreness and yawness, `[Q]`, where the network has them.
    pub quality: Option<&'a [[f32; 2]]>,
}

/// Refuses maps that are not those of a network.
fn check_maps(maps: &MapsView<'_>, [views, levels, channels]: [usize; 3]) -> Result<()> {
    let found = [maps.num_views(), maps.levels().len(), maps.num_channels()];
    if found == [views, levels, channels] {
        return Ok(());
    }
    let [found_views, found_levels, found_channels] = found;
    let message = format!(
        "maps of {found_views} views, {found_levels} levels and {found_channels} channels; the \
         network has {views}, {levels} and {channels}"
    );
    Err(Error::new(ErrorKind::Argument, STAGE, message))
}

/// Refuses views that are not as many as the network has, and fills `projections`.
fn set_projections(
    views: &[View],
    projections: &mut Vec<Projection>,
    expected: usize,
) -> Result<()> {
    if views.len() != expected {
        let message = format!("{} views; the network has {expected}", views.len());
        return Err(Error::new(ErrorKind::Argument, STAGE, message));
    }
    projections.clear();
    for view in views {
        projections.push(view.projection()?);
    }
    Ok(())
}

fn refuse<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

fn no_memory() -> Error {
    Error::new(ErrorKind::Argument, STAGE, "a DETR3D has no memory of past frames")
}
