//! DETR3D and Sparse4D behind a backbone.
//!
//! The backbone takes the images `[N, 3, H, W]` (or `[1, N, 3, H, W]`) and gives one
//! output a level, `[N, C, h, w]` or `[N, h, w, C]` (or with a leading 1), f32 or f16. Its
//! maps are written channels last, the decoder looks into them where its queries project,
//! and its queries become candidates. Maps are int8 where the configuration has their scales.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

use std::path::Path;

use nalgebra::Matrix4;

use super::decoder::{Family, Networks, has_batch};
use super::{STAGE, Step};
use crate::config::{SurroundConfig, SurroundDecoder, SurroundFacts, SurroundKind, ViewFacts};
use cpu::ViewHead;
#[cfg(feature = "cuda")]
use cuda::DeviceViewHead;
use det_post_infer::Engine;
#[cfg(feature = "cuda")]
use det_post_infer::device::DeviceEngine;
use det_post_infer::view_decoder::{self, View, ViewNetwork};
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::Stream;
#[cfg(feature = "cuda")]
use det_post_types::TensorSpec;
use det_post_types::{Error, ErrorKind, MapLayout, Motion, Result, Size, ViewPrecision};

/// The decoder of a head of kind `detr3d` or `sparse4d`.
#[derive(Clone, Copy)]
pub struct ViewFamily<'a> {
    config: &'a SurroundConfig,
    facts: &'a ViewFacts,
    weights_path: &'a Path,
    precision: ViewPrecision,
    map_scales: Option<&'a [f32]>,
}

impl<'a> ViewFamily<'a> {
    /// The decoder that a configuration names.
    ///
    /// # Errors
    /// `Argument` for a head of another family.
    pub fn of(config: &'a SurroundConfig) -> Result<Self> {
        let (
            SurroundKind::Views(facts),
            SurroundDecoder::Views { weights_path, precision, map_scales },
        ) = (&config.facts.kind, &config.decoder)
        else {
            let message = "head kind streampetr takes no decoder weights";
            return Err(Error::new(ErrorKind::Argument, STAGE, message));
        };
        let (precision, map_scales) = (*precision, map_scales.as_deref());
        Ok(Self { config, facts, weights_path, precision, map_scales })
    }

    /// Networks with a backbone in an engine of the CPU.
    ///
    /// # Errors
    /// `Model` when the outputs of the backbone are not those that the head states, or the
    /// decoder requires a GPU.
    pub fn on_cpu(
        &self,
        mut backbone: Box<dyn Engine>,
        network: &ViewNetwork,
    ) -> Result<Networks<dyn Engine>> {
        let head = ViewHead::new(self, backbone.as_mut(), network)?;
        let [num_cameras, ..] = network.map_sizes();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), false),
            backbone,
            decoder: Box::new(head),
            num_cameras,
            input_size: input_size(&self.config.facts)?,
        })
    }

    /// Networks with a backbone in the memory of a GPU, whose stream is `stream`.
    ///
    /// # Errors
    /// `Model` when the outputs of the backbone are not those that the head states, or the
    /// network is larger than the kernels; `Argument` for int8 maps in f32, or more candidates
    /// than a GPU can choose; `Device` when there is not enough memory.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(
        &self,
        stream: &Stream,
        backbone: DeviceEngine,
        network: &ViewNetwork,
    ) -> Result<Networks<DeviceEngine>> {
        let head = DeviceViewHead::new(self, stream, &backbone, network)?;
        let [num_cameras, ..] = network.map_sizes();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), false),
            backbone: Box::new(backbone),
            decoder: Box::new(head),
            num_cameras,
            input_size: input_size(&self.config.facts)?,
        })
    }

    fn network(&self) -> Result<ViewNetwork> {
        view_decoder::load(self.weights_path, &self.facts.decoder)
    }
}

impl Family for ViewFamily<'_> {
    fn load_on_cpu(&self) -> Result<Networks<dyn Engine>> {
        let network = self.network()?;
        let config = self.config;
        self.on_cpu(det_post_infer::load(&config.model_path, &config.engine)?, &network)
    }

    #[cfg(feature = "cuda")]
    fn load_on_gpu(&self, stream: &Stream) -> Result<Networks<DeviceEngine>> {
        let network = self.network()?;
        let config = self.config;
        let input_size = input_size(&config.facts)?;
        let [num_views, ..] = network.map_sizes();
        let shape_of = |spec: &TensorSpec| Ok(images_shape(spec, num_views, input_size));
        let backbone = DeviceEngine::load(&config.model_path, &config.engine, stream, shape_of)?;
        self.on_gpu(stream, backbone, &network)
    }
}

/// The shape of the backbone's input, with a batch of 1 where it has one.
#[cfg(feature = "cuda")]
fn images_shape(input: &TensorSpec, num_views: usize, input_size: Size) -> Vec<usize> {
    let shape = [1, num_views, 3, input_size.height as usize, input_size.width as usize];
    shape[usize::from(!has_batch(Some(input), false))..].to_vec()
}

/// Views without images, for a network with images of a size.
fn unseen_views(num_views: usize, input_size: Size) -> Vec<View> {
    let size = [input_size.width, input_size.height];
    vec![View { pixels_from_base: [[0.0; 4]; 3], size, is_present: false }; num_views]
}

/// Writes the matrices of a frame, and which cameras it has.
fn write_views<'a>(views: &mut [View], matrices: impl Iterator<Item = (&'a Matrix4<f64>, bool)>) {
    for (view, (matrix, is_present)) in views.iter_mut().zip(matrices) {
        view.is_present = is_present;
        view.pixels_from_base =
            std::array::from_fn(|row| std::array::from_fn(|column| matrix[(row, column)]));
    }
}

/// Refuses a backbone whose outputs are not as many as the levels.
fn check_outputs(num_outputs: usize, facts: &ViewFacts) -> Result<()> {
    let num_strides = facts.level_strides.len();
    if num_outputs == num_strides {
        return Ok(());
    }
    model_error(format!(
        "the backbone has {num_outputs} outputs, the head {num_strides} level_strides"
    ))
}

/// The size of the images that the head states.
///
/// # Errors
/// `Model` when it does not.
fn input_size(facts: &SurroundFacts) -> Result<Size> {
    facts.input_size.map_or_else(|| model_error("the head states no input_size".into()), Ok)
}

/// Width and height of every level, those that are begun counted whole.
fn level_sizes(input_size: Size, facts: &ViewFacts) -> Vec<[usize; 2]> {
    let of_stride =
        |&stride: &u32| [input_size.width, input_size.height].map(|n| n.div_ceil(stride) as usize);
    let mut sizes: Vec<[usize; 2]> = facts.level_strides.iter().map(of_stride).collect();
    if let Some(last) = sizes.last().copied().filter(|_| facts.extra_level) {
        sizes.push(last.map(|n| n.div_ceil(2)));
    }
    sizes
}

/// Views, channels, rows and columns of a map.
fn map_shape(
    map: &[usize],
    layout: MapLayout,
    [num_views, num_channels]: [usize; 2],
) -> Result<[usize; 4]> {
    let shape = match map {
        [1, shape @ ..] if shape.len() == 4 => shape,
        shape => shape,
    };
    let shape = match (shape, layout) {
        (&[n, c, h, w], MapLayout::Planar) | (&[n, h, w, c], MapLayout::ChannelsLast) => {
            [n, c, h, w]
        }
        _ => [0; 4],
    };
    if shape[..2] == [num_views, num_channels] {
        return Ok(shape);
    }
    inference_error(format!(
        "an output of the backbone is {map:?}; {num_views} cameras and {num_channels} channels in \
         {layout:?} order expected"
    ))
}

fn motion_of(step: &Step) -> Option<Motion> {
    let Step::Next { current_from_previous, elapsed } = step else { return None };
    let matrix = current_from_previous.to_homogeneous();
    let row = |row| std::array::from_fn(|column| matrix[(row, column)] as f32);
    Some(Motion { interval_s: elapsed.as_secs_f32(), current_from_past: [row(0), row(1), row(2)] })
}

fn model_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

fn inference_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Inference, STAGE, message))
}
