//! What a head of DETR3D or Sparse4D states, and what follows from it on either device.

use std::path::Path;

use nalgebra::Matrix4;

use crate::config::{SurroundConfig, SurroundDecoder, SurroundFacts, SurroundKind, ViewFacts};
use crate::detectors::surround::{STAGE, Step};
use det_post_infer::view_decoder::View;
use det_post_types::{
    ElementType, Error, ErrorKind, MapLayout, Motion, Result, Size, TensorSpec, ViewPrecision,
};

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

    /// Whether the outputs of a backbone that are read are int8.
    ///
    /// # Errors
    /// `Model` when some are.
    pub(super) fn are_int8(&self, outputs: &[TensorSpec]) -> Result<bool> {
        let is_int8 = |output: &TensorSpec| output.element == Some(ElementType::I8);
        let outputs = &outputs[..outputs.len().min(self.facts.level_strides.len())];
        match outputs.iter().filter(|output| is_int8(output)).count() {
            0 => Ok(false),
            num if num == outputs.len() => Ok(true),
            num => model_error(format!(
                "{num} of {} outputs of the backbone are int8: all have to be, or none",
                outputs.len()
            )),
        }
    }

    /// The values of 1 of int8 levels: of int8 outputs as the backbone's file states them (`stated`, by
    /// output) or else the user does, of others as the user does.
    ///
    /// # Errors
    /// `Model` when an int8 output has no scale, or two that differ.
    pub(super) fn level_scales(
        &self,
        outputs: &[TensorSpec],
        stated: &[Option<f32>],
    ) -> Result<Option<Vec<f32>>> {
        let ViewFacts { level_strides, extra_level, .. } = self.facts;
        if !self.are_int8(outputs)? {
            return Ok(self.map_scales.map(<[f32]>::to_vec));
        }
        let num_outputs = level_strides.len();
        let scale = |level: usize| {
            let output = level.min(num_outputs - 1);
            let of_user = self.map_scales.and_then(|scales| scales.get(level)).copied();
            let name = outputs.get(output).map_or("", |output| output.name.as_str());
            match (stated.get(output).copied().flatten(), of_user) {
                (Some(of_file), Some(of_user)) if (of_file - of_user).abs() > 1e-6 * of_file => {
                    model_error(format!(
                        "decoder.map_scales has {of_user} for level {level}; the backbone's file \
                         quantizes its output {name} by {of_file}: leave decoder.map_scales out"
                    ))
                }
                (Some(scale), _) | (None, Some(scale)) => Ok(scale),
                (None, None) => model_error(format!(
                    "the backbone's output {name} is int8 and its file states no scale \
                     (QuantizeLinear at its end): set decoder.map_scales, one number a level"
                )),
            }
        };
        let scales = (0..num_outputs + usize::from(*extra_level)).map(scale);
        let scales = scales.collect::<Result<Vec<_>>>()?;
        scale_of(Some(&scales), scales.len() - 1, num_outputs)?;
        Ok(Some(scales))
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

/// The scale of an int8 level.
///
/// # Errors
/// `Model` without scales, and for a level of the last output's texels with another scale.
pub(super) fn scale_of(scales: Option<&[f32]>, level: usize, num_outputs: usize) -> Result<f32> {
    let of_output = level.min(num_outputs - 1);
    match scales.map(|scales| (scales.get(level), scales.get(of_output))) {
        Some((Some(scale), Some(of_output))) if scale.to_bits() == of_output.to_bits() => {
            Ok(*scale)
        }
        Some((Some(scale), Some(of_output))) => model_error(format!(
            "decoder.map_scales has {scale} for the extra level, whose texels are int8 of a level of \
             {of_output}: both are one number"
        )),
        _ => model_error(format!(
            "output {of_output} of the backbone is int8: set decoder.map_scales, one number a level"
        )),
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
    let rank = if layout == MapLayout::Blocks32 { 5 } else { 4 };
    let shape = match map {
        [1, shape @ ..] if shape.len() == rank => shape,
        shape => shape,
    };
    let shape = match (shape, layout) {
        (&[n, blocks, h, w, 32], MapLayout::Blocks32) => [n, 32 * blocks, h, w],
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
