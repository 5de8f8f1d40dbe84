//! Operators that move elements, and operators of shapes.

use super::attributes::{Place, Reason, axes_of, axis_of, length};
use super::importer::Importer;
use super::{Id, Operation, Value, View, broadcast, fold};

type Imported = Result<Vec<Id>, Reason>;

pub(super) fn import<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    match place.node.operator {
        "Reshape" => reshape(importer, place),
        "Flatten" => flatten(importer, place),
        "Squeeze" => squeeze(importer, place),
        "Unsqueeze" => unsqueeze(importer, place),
        "Transpose" => transpose(importer, place),
        "Slice" => slice(importer, place),
        "Split" => split(importer, place),
        "Expand" => expand(importer, place),
        "Tile" => tile(importer, place),
        "Concat" => concat(importer, place),
        "Dropout" => dropout(place),
        "Cast" => super::casts::cast(importer, place),
        "Shape" => shape(importer, place),
        "Size" => {
            let num = importer.graph.values[place.input(0)?].len();
            Ok(vec![importer.integers(&[], vec![num as i64])])
        }
        _ => Ok(vec![place.input(0)?]),
    }
}

fn shape<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let shape = importer.graph.shape(place.input(0)?);
    let rank = shape.len() as i64;
    let bound = |name: &str, default: i64| -> Result<usize, Reason> {
        let at = place.int(name)?.unwrap_or(default);
        let at = if at < 0 { at.saturating_add(rank) } else { at };
        Ok(at.clamp(0, rank) as usize)
    };
    let (start, end) = (bound("start", 0)?, bound("end", rank)?);
    let lengths: Vec<i64> =
        shape.get(start..end).unwrap_or_default().iter().map(|&length| length as i64).collect();
    Ok(vec![importer.integers(&[lengths.len()], lengths)])
}

fn reshape<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let wanted = place.ints_or_input(&importer.graph, "shape", 1)?.ok_or("no shape")?;
    let keeps_zeros = place.flag("allowzero", false)?;
    let (from, num) = (importer.graph.shape(input), importer.graph.values[input].len());
    let mut shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (at, &wanted_length) in wanted.iter().enumerate() {
        shape.push(match wanted_length {
            0 if !keeps_zeros => *from.get(at).ok_or("a 0 beyond the input's dimensions")?,
            -1 if open.is_none() => {
                open = Some(at);
                1
            }
            other => length(other)?,
        });
    }
    let known = super::num_elements(&shape, usize::MAX).ok_or("a shape that overflows")?;
    if let Some(at) = open {
        if known == 0 || num % known != 0 {
            return Err(format!("shape {wanted:?} of {from:?}"));
        }
        shape[at] = num / known;
    } else if known != num {
        return Err(format!("shape {wanted:?} of {from:?}"));
    }
    importer.reshape(place, input, &shape).map(|id| vec![id])
}

fn flatten<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input);
    let axis = place.int("axis")?.unwrap_or(1);
    let axis = match axis == shape.len() as i64 {
        true => shape.len(),
        false => axis_of(axis, shape.len())?,
    };
    let shape = [shape[..axis].iter().product(), shape[axis..].iter().product()];
    importer.reshape(place, input, &shape).map(|id| vec![id])
}

fn squeeze<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let axes = match place.ints_or_input(&importer.graph, "axes", 1)? {
        Some(axes) => axes_of(&axes, shape.len())?,
        None => (0..shape.len()).filter(|&at| shape[at] == 1).collect(),
    };
    if let Some(&axis) = axes.iter().find(|&&axis| shape[axis] != 1) {
        return Err(format!("axis {axis} of {shape:?} has not length 1"));
    }
    let kept = (0..shape.len()).filter(|at| !axes.contains(at)).map(|at| shape[at]);
    let kept: Vec<usize> = kept.collect();
    importer.reshape(place, input, &kept).map(|id| vec![id])
}

fn unsqueeze<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let axes = place.ints_or_input(&importer.graph, "axes", 1)?.ok_or("no axes")?;
    let mut rest = importer.graph.shape(input).iter();
    let rank = rest.len() + axes.len();
    let axes = axes_of(&axes, rank)?;
    let shape = (0..rank).map(|at| if axes.contains(&at) { Some(1) } else { rest.next().copied() });
    let shape: Vec<usize> = shape.collect::<Option<_>>().ok_or("axes beyond the dimensions")?;
    importer.reshape(place, input, &shape).map(|id| vec![id])
}

fn transpose<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let rank = importer.graph.shape(input).len();
    let order: Vec<usize> = match place.ints("perm")? {
        Some(order) => order.iter().map(|&at| axis_of(at, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).rev().collect(),
    };
    let all: Vec<i64> = order.iter().map(|&at| at as i64).collect();
    if order.len() != rank || axes_of(&all, rank).is_err() {
        return Err(format!("attribute perm is {order:?} for {rank} dimensions"));
    }
    importer.permute(place, input, order).map(|id| vec![id])
}

fn slice<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let from = importer.graph.shape(input).to_vec();
    let list = |name, at| place.ints_or_input(&importer.graph, name, at);
    let (starts, ends) =
        (list("starts", 1)?.ok_or("no starts")?, list("ends", 2)?.ok_or("no ends")?);
    let axes = list("axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list("steps", 4)?.unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err("starts, ends, axes and steps have other lengths".into());
    }
    axes_of(&axes, from.len())?;
    let (mut begin, mut step_of) = (vec![0_i64; from.len()], vec![1_i64; from.len()]);
    let mut shape = from.clone();
    for (at, &axis) in axes.iter().enumerate() {
        let axis = axis_of(axis, from.len())?;
        let (size, step) = (from[axis] as i64, steps[at]);
        let place_of = |value: i64| if value < 0 { value.saturating_add(size) } else { value };
        let (start, end) = (place_of(starts[at]), place_of(ends[at]));
        let (first, num) = match step {
            0 => return Err("a step of 0".into()),
            step if step > 0 => {
                let first = start.clamp(0, size);
                (
                    first,
                    (end.clamp(0, size) - first)
                        .max(0)
                        .cast_unsigned()
                        .div_ceil(step.unsigned_abs()),
                )
            }
            step => {
                let first = start.clamp(0, size - 1);
                let num = (first - end.clamp(-1, size - 1)).max(0).cast_unsigned();
                (first, num.div_ceil(step.unsigned_abs()))
            }
        };
        (begin[axis], step_of[axis], shape[axis]) = (first, step, num as usize);
    }
    let is_backward = step_of.iter().any(|&step| step < 0);
    if shape.contains(&0) || is_backward {
        return backward_slice(importer, place, &Backward { begin, step_of, shape });
    }
    if shape == from {
        return Ok(vec![input]);
    }
    let starts = begin.iter().map(|&start| start as usize).collect();
    let steps = step_of.iter().map(|&step| step as usize).collect();
    importer.view(place, View::Slice { starts, steps }, input, &shape).map(|id| vec![id])
}

struct Backward {
    begin: Vec<i64>,
    step_of: Vec<i64>,
    shape: Vec<usize>,
}

/// A slice of a constant in any direction.
fn backward_slice<'a>(
    importer: &mut Importer<'a>,
    place: &Place<'_, 'a>,
    slice: &Backward,
) -> Imported {
    let value = &importer.graph.values[place.input(0)?];
    let Some(data) = &value.constant else {
        return Err(format!(
            "a slice of {:?} to {:?} in steps of {:?}; forward ones that are not empty are covered",
            value.shape, slice.shape, slice.step_of
        ));
    };
    let strides = fold::row_major(&value.shape);
    let offset = strides.iter().zip(&slice.begin).map(|(stride, &at)| stride * at as usize).sum();
    let steps = strides.iter().zip(&slice.step_of);
    let strides: Vec<isize> =
        steps.map(|(stride, &step)| stride.cast_signed() * step as isize).collect();
    let data = fold::gather_data(data, offset, &strides, &slice.shape);
    let (name, element) = (value.name.clone(), value.element);
    let shape = slice.shape.clone();
    Ok(vec![importer.graph.add(Value { name, shape, element, constant: Some(data) })])
}

fn split<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let from = importer.graph.shape(input).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(0), from.len())?;
    let lengths: Vec<usize> = match place.ints_or_input(&importer.graph, "split", 1)? {
        Some(lengths) => lengths.iter().map(|&of| length(of)).collect::<Result<_, _>>()?,
        None => {
            let num = place.node.outputs.len();
            let num = place.int("num_outputs")?.map_or(Ok(num), length)?.max(1);
            let each = from[axis].div_ceil(num);
            let left = |at: usize| from[axis].saturating_sub(at.saturating_mul(each));
            (0..num.min(from[axis].max(1))).map(|at| left(at).min(each)).collect()
        }
    };
    let total = lengths.iter().try_fold(0_usize, |sum, &of| sum.checked_add(of));
    if total != Some(from[axis]) || lengths.contains(&0) {
        return Err(format!("parts of {lengths:?} of dimension {axis} of {from:?}"));
    }
    let mut start = 0;
    let mut outputs = Vec::with_capacity(lengths.len());
    for of in lengths {
        let (mut starts, mut shape) = (vec![0; from.len()], from.clone());
        (starts[axis], shape[axis]) = (start, of);
        let steps = vec![1; from.len()];
        outputs.push(importer.view(place, View::Slice { starts, steps }, input, &shape)?);
        start += of;
    }
    Ok(outputs)
}

fn expand<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let wanted = place.integers(&importer.graph, 1)?.ok_or("no shape")?;
    let wanted: Vec<usize> = wanted.iter().map(|&of| length(of)).collect::<Result<_, _>>()?;
    expand_to(importer, place, input, &wanted).map(|id| vec![id])
}

/// A value broadcast with a shape.
fn expand_to<'a>(
    importer: &mut Importer<'a>,
    place: &Place<'_, 'a>,
    input: Id,
    wanted: &[usize],
) -> Result<Id, Reason> {
    let from = importer.graph.shape(input);
    let shape =
        broadcast(&[from, wanted]).ok_or_else(|| format!("shape {wanted:?} of {from:?}"))?;
    if shape == from {
        return Ok(input);
    }
    importer.view(place, View::Expand, input, &shape)
}

fn tile<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let repeats = place.integers(&importer.graph, 1)?.ok_or("no repeats")?;
    let repeats: Vec<usize> = repeats.iter().map(|&of| length(of)).collect::<Result<_, _>>()?;
    let from = importer.graph.shape(input).to_vec();
    if repeats.len() != from.len() || repeats.contains(&0) {
        return Err(format!("repeats {repeats:?} of {from:?}"));
    }
    // [a, b] by [m, n]: [1, a, 1, b] is repeated as [m, a, n, b].
    if (0..from.len()).all(|at| repeats[at] == 1 || from[at] == 1) {
        let shape: Vec<usize> = (0..from.len()).map(|at| repeats[at] * from[at]).collect();
        return expand_to(importer, place, input, &shape).map(|id| vec![id]);
    }
    let mut current = input;
    for (axis, &num) in repeats.iter().enumerate().filter(|(_, num)| **num > 1) {
        if num > MAX_PARTS {
            return Err(format!("{num} repeats exceed the limit of {MAX_PARTS}"));
        }
        let mut shape = importer.graph.shape(current).to_vec();
        shape[axis] = shape[axis].checked_mul(num).ok_or("a shape that overflows")?;
        let element = importer.graph.values[current].element;
        let parts = vec![current; num];
        current = importer.operation(place, Operation::Concat { axis }, &parts, &shape, element)?;
    }
    Ok(vec![current])
}

/// The most repeats of one dimension.
const MAX_PARTS: usize = 256;

fn concat<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let parts = (0..place.inputs.len()).map(|at| place.input(at)).collect::<Result<Vec<_>, _>>()?;
    let first = *parts.first().ok_or("no inputs")?;
    let mut shape = importer.graph.shape(first).to_vec();
    let axis = axis_of(place.int("axis")?.ok_or("no attribute axis")?, shape.len())?;
    shape[axis] = 0;
    for &part in &parts {
        let of = importer.graph.shape(part);
        let is_alike =
            of.len() == shape.len() && (0..shape.len()).all(|at| at == axis || of[at] == shape[at]);
        if !is_alike {
            return Err(format!("parts of {:?} and {of:?}", importer.graph.shape(first)));
        }
        shape[axis] = shape[axis].checked_add(of[axis]).ok_or("a shape that overflows")?;
    }
    let element = importer.graph.values[first].element;
    // A part without elements changes nothing.
    let kept: Vec<Id> =
        parts.iter().copied().filter(|&part| importer.graph.shape(part)[axis] > 0).collect();
    match kept[..] {
        [only] => Ok(vec![only]),
        _ => importer
            .operation(place, Operation::Concat { axis }, &kept, &shape, element)
            .map(|id| vec![id]),
    }
}

fn dropout(place: &Place<'_, '_>) -> Imported {
    match place.optional(2) {
        Some(_) => Err("a dropout with a training mode".into()),
        None => Ok(vec![place.input(0)?]),
    }
}

/// DepthToSpace and SpaceToDepth.
pub(super) fn depth_space<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let &[n, c, h, w] = importer.graph.shape(input) else {
        return Err(format!("an input of {:?}", importer.graph.shape(input)));
    };
    let size = length(place.int("blocksize")?.ok_or("no attribute blocksize")?)?;
    let is_to_space = place.node.operator == "DepthToSpace";
    let area = size.checked_mul(size).filter(|&area| area > 0).ok_or("a block size of 0")?;
    let is_whole = if is_to_space { c % area == 0 } else { h % size == 0 && w % size == 0 };
    if !is_whole {
        return Err(format!("blocks of {size} of [{n}, {c}, {h}, {w}]"));
    }
    let (inner, order, outer) = match (is_to_space, place.text("mode")?) {
        (true, Some("CRD")) => {
            let c = c / area;
            ([n, c, size, size, h, w], [0, 1, 4, 2, 5, 3], [n, c, h * size, w * size])
        }
        (true, None | Some("DCR")) => {
            let c = c / area;
            ([n, size, size, c, h, w], [0, 3, 4, 1, 5, 2], [n, c, h * size, w * size])
        }
        (true, Some(mode)) => return Err(format!("mode {mode}")),
        (false, Some("CRD")) => (
            [n, c, h / size, size, w / size, size],
            [0, 1, 3, 5, 2, 4],
            [n, c * area, h / size, w / size],
        ),
        (false, _) => (
            [n, c, h / size, size, w / size, size],
            [0, 3, 5, 1, 2, 4],
            [n, c * area, h / size, w / size],
        ),
    };
    let split = importer.reshape(place, input, &inner)?;
    let moved = importer.permute(place, split, order.to_vec())?;
    importer.reshape(place, moved, &outer).map(|id| vec![id])
}
