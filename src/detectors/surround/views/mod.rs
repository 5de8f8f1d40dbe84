//! DETR3D and Sparse4D behind a backbone.
//!
//! The backbone takes the pictures `[N, 3, H, W]` (or `[1, N, 3, H, W]`) and gives one
//! output a level, `[N, C, h, w]` or `[N, h, w, C]` (or with a leading 1), f32 or f16. Its
//! maps are written channels last, the decoder looks into them where its queries project,
//! and its queries become candidates. Maps are int8 where the configuration has their scales.

mod cpu;
#[cfg(feature = "cuda")]
mod cuda;

pub(super) use cpu::ViewHead;
#[cfg(feature = "cuda")]
pub(super) use cuda::DeviceViewHead;

use nalgebra::Matrix4;

use crate::config::{SurroundFacts, ViewFacts};
use det_post_infer::view_decoder::View;
use det_post_types::{Error, ErrorKind, MapLayout, Motion, Result, Size};

use super::{STAGE, Step};

/// Views without pictures, for a network with pictures of a size.
fn unseen_views(num_views: usize, picture: Size) -> Vec<View> {
    let size = [picture.width, picture.height];
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

/// The size of the pictures that the head states.
///
/// # Errors
/// `Model` when it does not.
pub(super) fn picture_size(facts: &SurroundFacts) -> Result<Size> {
    facts.input_size.map_or_else(|| model_error("the head states no input_size".into()), Ok)
}

/// Width and height of every level, those that are begun counted whole.
fn level_sizes(picture: Size, facts: &ViewFacts) -> Vec<[usize; 2]> {
    let of_stride =
        |&stride: &u32| [picture.width, picture.height].map(|n| n.div_ceil(stride) as usize);
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
