//! Resize and Upsample.

use super::attributes::{Place, Reason, axis_of, length};
use super::importer::Importer;
use super::{Id, Operation};

type Imported = Result<Vec<Id>, Reason>;

/// The largest side of an output.
const MAX_SIDE: usize = 1 << 16;

/// A resize of the last two dimensions.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::dense) struct Resize {
    /// Linear, else nearest.
    pub(in crate::dense) is_linear: bool,
    /// How places of the output map to places of the input.
    pub(in crate::dense) coordinates: Coordinates,
    /// How a nearest place is rounded.
    pub(in crate::dense) rounding: Rounding,
    /// Output size over input size, down and right, as the file states them.
    pub(in crate::dense) scales: [f32; 2],
}

/// ONNX's `coordinate_transformation_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dense) enum Coordinates {
    /// `(x + 0.5) / scale - 0.5`.
    HalfPixel,
    /// As `HalfPixel`, 0 where the output has length 1.
    PytorchHalfPixel,
    /// `x * (input - 1) / (output - 1)`.
    AlignCorners,
    /// `x / scale`.
    Asymmetric,
}

/// ONNX's `nearest_mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::dense) enum Rounding {
    /// To the nearest, halves down.
    PreferFloor,
    /// To the nearest, halves up.
    PreferCeil,
    /// Down.
    Floor,
    /// Up.
    Ceil,
}

pub(super) fn resize<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let (sizes, scales) = targets(importer, place, &shape)?;
    let rank = shape.len();
    if rank < 3 || (0..rank.saturating_sub(2)).any(|at| sizes[at] != shape[at]) {
        return Err(format!("{shape:?} to {sizes:?}; the last two dimensions may change"));
    }
    if place.flag("antialias", false)? {
        return Err("attribute antialias is 1".into());
    }
    if sizes == shape {
        return Ok(vec![input]);
    }
    let resize = modes(place, [scales[rank - 2], scales[rank - 1]])?;
    let is_exact = |at: usize| scales[at] * shape[at] as f32 == sizes[at] as f32;
    if resize.coordinates == Coordinates::AlignCorners && !(rank - 2..rank).all(is_exact) {
        return Err(format!(
            "align_corners with scales {scales:?} that give no whole size of {shape:?}"
        ));
    }
    if let Some(at) =
        (rank - 2..rank).find(|&at| is_nearly_half(&resize, [shape[at], sizes[at]], scales[at]))
    {
        return Err(format!(
            "nearest by a scale of {}: a place is half way but for its rounding",
            scales[at]
        ));
    }
    let operation = Operation::Resize(resize);
    importer.floats(place, operation, &[input], &sizes).map(|id| vec![id])
}

/// Whether the nearest place of an output along an axis is half way but for the rounding of f32, where
/// ONNX Runtime takes it as half way and the operation as what it is.
fn is_nearly_half(resize: &Resize, [from, to]: [usize; 2], scale: f32) -> bool {
    let has_halves = matches!(resize.rounding, Rounding::PreferFloor | Rounding::PreferCeil);
    if resize.is_linear || !has_halves || from == to {
        return false;
    }
    (0..to).map(|at| at as f32).any(|at| {
        let place = match resize.coordinates {
            Coordinates::Asymmetric => at / scale,
            Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if to == 1 => 0.0,
            Coordinates::HalfPixel | Coordinates::PytorchHalfPixel => (at + 0.5) / scale - 0.5,
            Coordinates::AlignCorners => at * (from - 1) as f32 / (to - 1) as f32,
        };
        let distance = (place - place.floor() - 0.5).abs();
        distance != 0.0 && distance <= 4.0 * f32::EPSILON * place.abs().max(1.0)
    })
}

/// Sizes and scales by dimension.
fn targets<'a>(
    importer: &Importer<'a>,
    place: &Place<'_, 'a>,
    shape: &[usize],
) -> Result<(Vec<usize>, Vec<f32>), Reason> {
    let is_old = place.set < 11 || place.node.operator == "Upsample";
    let given = match place.node.attribute("scales") {
        Some(crate::onnx::AttributeValue::Floats(scales)) if is_old => Some(scales.clone()),
        _ => place.floats(&importer.graph, if is_old { 1 } else { 2 })?.map(|list| list.to_vec()),
    };
    let axes: Vec<usize> = match place.ints("axes")? {
        Some(axes) => axes.iter().map(|&of| axis_of(of, shape.len())).collect::<Result<_, _>>()?,
        None => (0..shape.len()).collect(),
    };
    let (mut sizes, mut scales) = (shape.to_vec(), vec![1.0; shape.len()]);
    match given {
        Some(list) if list.len() == axes.len() => {
            for (&axis, scale) in axes.iter().zip(list) {
                let size = (f64::from(scale) * shape[axis] as f64).floor();
                if !(1.0..=MAX_SIDE as f64).contains(&size) && scale != 1.0 {
                    return Err(format!("a scale of {scale} for a dimension of {}", shape[axis]));
                }
                if scale != 1.0 {
                    sizes[axis] = size as usize;
                }
                scales[axis] = scale;
            }
        }
        Some(list) => return Err(format!("{} scales for {} dimensions", list.len(), axes.len())),
        None => {
            let list = place.integers(&importer.graph, 3)?.ok_or("neither scales nor sizes")?;
            if !matches!(place.text("keep_aspect_ratio_policy")?, None | Some("stretch")) {
                return Err("attribute keep_aspect_ratio_policy".into());
            }
            if list.len() != axes.len() {
                return Err(format!("{} sizes for {} dimensions", list.len(), axes.len()));
            }
            for (&axis, &size) in axes.iter().zip(&*list) {
                let size = length(size)?;
                if size != shape[axis] && !(1..=MAX_SIDE).contains(&size) {
                    return Err(format!("a size of {size}"));
                }
                sizes[axis] = size;
                scales[axis] = size as f32 / shape[axis] as f32;
            }
        }
    }
    Ok((sizes, scales))
}

fn modes(place: &Place<'_, '_>, scales: [f32; 2]) -> Result<Resize, Reason> {
    let is_linear = match place.text("mode")?.unwrap_or("nearest") {
        "nearest" => false,
        "linear" | "bilinear" => true,
        mode => return Err(format!("mode {mode}; nearest and linear are covered")),
    };
    if place.set < 11 || place.node.operator == "Upsample" {
        let (coordinates, rounding) = (Coordinates::Asymmetric, Rounding::Floor);
        return Ok(Resize { is_linear, coordinates, rounding, scales });
    }
    let coordinates = match place.text("coordinate_transformation_mode")?.unwrap_or("half_pixel") {
        "half_pixel" => Coordinates::HalfPixel,
        "pytorch_half_pixel" => Coordinates::PytorchHalfPixel,
        "align_corners" => Coordinates::AlignCorners,
        "asymmetric" => Coordinates::Asymmetric,
        mode => return Err(format!("attribute coordinate_transformation_mode is {mode}")),
    };
    let rounding = match place.text("nearest_mode")?.unwrap_or("round_prefer_floor") {
        "round_prefer_floor" => Rounding::PreferFloor,
        "round_prefer_ceil" => Rounding::PreferCeil,
        "floor" => Rounding::Floor,
        "ceil" => Rounding::Ceil,
        mode => return Err(format!("attribute nearest_mode is {mode}")),
    };
    Ok(Resize { is_linear, coordinates, rounding, scales })
}
