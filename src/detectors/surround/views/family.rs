//! What a head of DETR3D or Sparse4D states, and what follows from it on either device.

use std::path::Path;

use nalgebra::Matrix4;

use crate::config::{SurroundConfig, SurroundDecoder, SurroundFacts, SurroundKind, ViewFacts};
use crate::detectors::surround::{STAGE, Step};
use det_post_infer::view_decoder::View;
use det_post_types::{Error, ErrorKind, MapLayout, Motion, Result, Size, ViewPrecision};

/// The decoder of a head of kind `detr3d` or `sparse4d`.
#[derive(Clone, Copy)]
pub struct ViewFamily<'a> {
    pub(in crate::detectors::surround) config: &'a SurroundConfig,
    pub(in crate::detectors::surround) facts: &'a ViewFacts,
    pub(in crate::detectors::surround) weights_path: &'a Path,
    pub(in crate::detectors::surround) precision: ViewPrecision,
    pub(in crate::detectors::surround) map_scales: Option<&'a [f32]>,
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
}

/// Views without images, for a network with images of a size.
pub(in crate::detectors::surround) fn unseen_views(
    num_views: usize,
    input_size: Size,
) -> Vec<View> {
    let size = [input_size.width, input_size.height];
    vec![View { pixels_from_base: [[0.0; 4]; 3], size, is_present: false }; num_views]
}

/// Writes the matrices of a frame, and which cameras it has.
pub(in crate::detectors::surround) fn write_views<'a>(
    views: &mut [View],
    matrices: impl Iterator<Item = (&'a Matrix4<f64>, bool)>,
) {
    for (view, (matrix, is_present)) in views.iter_mut().zip(matrices) {
        view.is_present = is_present;
        view.pixels_from_base =
            std::array::from_fn(|row| std::array::from_fn(|column| matrix[(row, column)]));
    }
}

/// Refuses a backbone whose outputs are not as many as the levels.
pub(super) fn check_outputs(num_outputs: usize, facts: &ViewFacts) -> Result<()> {
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
pub(in crate::detectors::surround) fn input_size(facts: &SurroundFacts) -> Result<Size> {
    facts.input_size.map_or_else(|| model_error("the head states no input_size".into()), Ok)
}

/// Width and height of every level, those that are begun counted whole.
pub(super) fn level_sizes(input_size: Size, facts: &ViewFacts) -> Vec<[usize; 2]> {
    let of_stride =
        |&stride: &u32| [input_size.width, input_size.height].map(|n| n.div_ceil(stride) as usize);
    let mut sizes: Vec<[usize; 2]> = facts.level_strides.iter().map(of_stride).collect();
    if let Some(last) = sizes.last().copied().filter(|_| facts.extra_level) {
        sizes.push(last.map(|n| n.div_ceil(2)));
    }
    sizes
}

/// Views, channels, rows and columns of a map.
pub(super) fn map_shape(
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

pub(in crate::detectors::surround) fn motion_of(step: &Step) -> Option<Motion> {
    let Step::Next { current_from_previous, elapsed } = step else { return None };
    let matrix = current_from_previous.to_homogeneous();
    let row = |row| std::array::from_fn(|column| matrix[(row, column)] as f32);
    Some(Motion { interval_s: elapsed.as_secs_f32(), current_from_past: [row(0), row(1), row(2)] })
}

pub(super) fn model_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, message))
}

pub(super) fn inference_error<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Inference, STAGE, message))
}
