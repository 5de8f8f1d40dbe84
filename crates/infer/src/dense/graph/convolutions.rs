//! Convolutions, poolings, pads.

use super::attributes::{Place, Reason, length};
use super::importer::Importer;
use super::{Convolution, Element, Epilogue, Id, Operation, Pool, Transposed};

type Imported = Result<Vec<Id>, Reason>;

/// The largest stride, dilation, pad or kernel.
const MAX_SIZE: usize = 1 << 12;
/// The rows and columns that a pooling has less of.
const MAX_SIDE: usize = 1 << 14;

/// Stride, dilation and pads of a window of two dimensions; one of one dimension has height 1.
struct Sizes {
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    pads: [usize; 4],
}

/// A pair of an attribute; of one dimension, the height gets `default`.
fn pair(
    place: &Place<'_, '_>,
    name: &str,
    rank: usize,
    default: usize,
) -> Result<[usize; 2], Reason> {
    let values = place.ints(name)?.unwrap_or(&[]);
    let sizes =
        values.iter().map(|&of| length(of).and_then(bounded)).collect::<Result<Vec<_>, _>>()?;
    match (&sizes[..], rank) {
        ([], _) => Ok([default; 2]),
        (&[width], 1) => Ok([default, width]),
        (&[height, width], 2) => Ok([height, width]),
        _ => Err(format!("attribute {name} is {values:?} for {rank} dimensions")),
    }
}

fn bounded(size: usize) -> Result<usize, Reason> {
    match size <= MAX_SIZE {
        true => Ok(size),
        false => Err(format!("a size of {size} exceeds the limit of {MAX_SIZE}")),
    }
}

/// Sizes of a window over pictures of `size`, height and width.
fn sizes(
    place: &Place<'_, '_>,
    rank: usize,
    size: [usize; 2],
    kernel: [usize; 2],
) -> Result<Sizes, Reason> {
    let stride = pair(place, "strides", rank, 1)?;
    let dilation = pair(place, "dilations", rank, 1)?;
    if stride.contains(&0) || dilation.contains(&0) || kernel.contains(&0) {
        return Err("a stride, dilation or kernel of 0".into());
    }
    kernel.iter().try_for_each(|&of| bounded(of).map(drop))?;
    let explicit = place.ints("pads")?.unwrap_or(&[]);
    let pads = match (place.text("auto_pad")?.unwrap_or("NOTSET"), rank) {
        ("NOTSET", _) => {
            let pads = explicit.iter().map(|&of| length(of).and_then(bounded));
            match (&pads.collect::<Result<Vec<_>, _>>()?[..], rank) {
                ([], _) => [0; 4],
                (&[left, right], 1) => [0, left, 0, right],
                (&[top, left, bottom, right], 2) => [top, left, bottom, right],
                _ => return Err(format!("attribute pads is {explicit:?}")),
            }
        }
        ("VALID", _) => [0; 4],
        (mode @ ("SAME_UPPER" | "SAME_LOWER"), _) => {
            let total = |at: usize| {
                let reach = (kernel[at] - 1) * dilation[at] + 1;
                let last = (size[at].div_ceil(stride[at]).max(1) - 1) * stride[at];
                (last + reach).saturating_sub(size[at])
            };
            let (height, width) = (total(0), total(1));
            let first =
                |total: usize| if mode == "SAME_UPPER" { total / 2 } else { total.div_ceil(2) };
            let (top, left) = (first(height), first(width));
            [top, left, height - top, width - left]
        }
        (mode, _) => return Err(format!("attribute auto_pad is {mode}")),
    };
    Ok(Sizes { kernel, stride, dilation, pads })
}

impl Sizes {
    /// Height and width of what a window gives over a picture; `None` where none fits.
    fn output(&self, size: [usize; 2], rounds_up: bool) -> Option<[usize; 2]> {
        let along = |at: usize| {
            let padded = size[at] + self.pads[at] + self.pads[at + 2];
            let steps = padded.checked_sub((self.kernel[at] - 1) * self.dilation[at] + 1)?;
            let mut num = steps / self.stride[at] + 1;
            if rounds_up && steps % self.stride[at] != 0 {
                // A window that begins in what was added behind is left out.
                num += usize::from(num * self.stride[at] < size[at] + self.pads[at]);
            }
            Some(num)
        };
        Some([along(0)?, along(1)?])
    }
}

/// The input as pictures, and how many dimensions they have in the file.
fn pictures<'a>(
    importer: &mut Importer<'a>,
    place: &Place<'_, 'a>,
    input: Id,
) -> Result<(Id, usize), Reason> {
    match *importer.graph.shape(input) {
        [_, _, _, _] => Ok((input, 2)),
        [n, c, l] => Ok((importer.reshape(place, input, &[n, c, 1, l])?, 1)),
        ref other => Err(format!("an input of {other:?}; one and two dimensions are covered")),
    }
}

/// What was computed of [`pictures`], in the dimensions of the file.
fn restored<'a>(
    importer: &mut Importer<'a>,
    place: &Place<'_, 'a>,
    output: Id,
    rank: usize,
) -> Imported {
    if rank == 2 {
        return Ok(vec![output]);
    }
    let [n, c, _, l] = four(importer.graph.shape(output))?;
    importer.reshape(place, output, &[n, c, l]).map(|id| vec![id])
}

fn four(shape: &[usize]) -> Result<[usize; 4], Reason> {
    shape.try_into().map_err(|_| format!("{shape:?} where four dimensions are expected"))
}

/// The weight as one of pictures.
fn weight<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Result<Id, Reason> {
    let weight = place.input(1)?;
    if importer.graph.values[weight].constant.is_none() {
        return Err("a weight that depends on the inputs of the network".into());
    }
    Ok(pictures(importer, place, weight)?.0)
}

/// The bias, or zeros.
fn bias<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>, num: usize) -> Result<Id, Reason> {
    match place.optional(2) {
        None => Ok(importer.graph.add_constant("", &[num], vec![0.0; num])),
        Some(bias) if importer.graph.values[bias].constant.is_none() => {
            Err("a bias that depends on the inputs of the network".into())
        }
        Some(bias) if importer.graph.shape(bias) == [num] => Ok(bias),
        Some(bias) => Err(format!("a bias of {:?} for {num} channels", importer.graph.shape(bias))),
    }
}

pub(super) fn conv<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, rank) = pictures(importer, place, place.input(0)?)?;
    let weight = weight(importer, place)?;
    let [n, c, h, w] = four(importer.graph.shape(input))?;
    let [m, per_group, kh, kw] = four(importer.graph.shape(weight))?;
    let groups = length(place.int("group")?.unwrap_or(1))?;
    if groups == 0 || m % groups != 0 || per_group.checked_mul(groups) != Some(c) {
        return Err(format!(
            "{groups} groups, weight [{m}, {per_group}, {kh}, {kw}], {c} channels"
        ));
    }
    let sizes = sizes(place, rank, [h, w], [kh, kw])?;
    let stated = pair(place, "kernel_shape", rank, kh.min(1))?;
    if place.ints("kernel_shape")?.is_some() && stated != [kh, kw] {
        return Err(format!("attribute kernel_shape is {stated:?} for a weight of [{kh}, {kw}]"));
    }
    let [oh, ow] = sizes.output([h, w], false).ok_or("a kernel larger than the input")?;
    let bias = bias(importer, place, m)?;
    let Sizes { stride, dilation, pads, .. } = sizes;
    let epilogue = Epilogue::default();
    let conv = Convolution { stride, dilation, pads, groups, upsample: 1, epilogue };
    let operation = Operation::Convolution(conv);
    let output = importer.floats(place, operation, &[input, weight, bias], &[n, m, oh, ow])?;
    restored(importer, place, output, rank)
}

pub(super) fn transposed<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, rank) = pictures(importer, place, place.input(0)?)?;
    let weight = weight(importer, place)?;
    let [n, c, h, w] = four(importer.graph.shape(input))?;
    let [of, per_group, kh, kw] = four(importer.graph.shape(weight))?;
    let groups = length(place.int("group")?.unwrap_or(1))?;
    if groups == 0 || of != c || c % groups != 0 {
        return Err(format!(
            "{groups} groups, weight [{of}, {per_group}, {kh}, {kw}], {c} channels"
        ));
    }
    if let Some(shape) = place.ints("output_shape")? {
        return Err(format!("attribute output_shape is {shape:?}"));
    }
    if !matches!(place.text("auto_pad")?, None | Some("NOTSET" | "VALID")) {
        return Err("attribute auto_pad".into());
    }
    let Sizes { stride, dilation, pads, .. } = sizes(place, rank, [h, w], [kh, kw])?;
    let added = pair(place, "output_padding", rank, 0)?;
    let along = |at: usize, size: usize, kernel: usize| {
        let whole = (size - 1) * stride[at] + (kernel - 1) * dilation[at] + 1 + added[at];
        whole.checked_sub(pads[at] + pads[at + 2]).filter(|&length| length > 0)
    };
    if h == 0 || w == 0 {
        return Err("an input without elements".into());
    }
    let (oh, ow) = along(0, h, kh).zip(along(1, w, kw)).ok_or("pads larger than the output")?;
    let m = per_group.checked_mul(groups).ok_or("a shape that overflows")?;
    let bias = bias(importer, place, m)?;
    let epilogue = Epilogue::default();
    let conv = Transposed { stride, dilation, pads, output_padding: added, groups, epilogue };
    let operation = Operation::Transposed(conv);
    let output = importer.floats(place, operation, &[input, weight, bias], &[n, m, oh, ow])?;
    restored(importer, place, output, rank)
}

pub(super) fn pool<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, rank) = pictures(importer, place, place.input(0)?)?;
    let [n, c, h, w] = four(importer.graph.shape(input))?;
    let is_max = place.node.operator == "MaxPool";
    if place.ints("kernel_shape")?.is_none() {
        return Err("no attribute kernel_shape".into());
    }
    if place.flag("storage_order", false)? {
        return Err("attribute storage_order is 1".into());
    }
    if h.max(w) >= MAX_SIDE {
        return Err(format!(
            "an input of {h} rows and {w} columns; less than {MAX_SIDE} are covered"
        ));
    }
    let kernel = pair(place, "kernel_shape", rank, 1)?;
    let sizes = sizes(place, rank, [h, w], kernel)?;
    let rounds_up = place.flag("ceil_mode", false)?;
    let [oh, ow] = sizes.output([h, w], rounds_up).ok_or("a kernel larger than the input")?;
    let counts_pads = place.flag("count_include_pad", false)?;
    let Sizes { stride, dilation, pads, .. } = sizes;
    if pads[0].max(pads[2]) >= kernel[0] * dilation[0]
        || pads[1].max(pads[3]) >= kernel[1] * dilation[1]
    {
        return Err(format!("pads {pads:?} of a kernel of {kernel:?}"));
    }
    let pool = Pool { is_max, kernel, stride, dilation, pads, counts_pads, rounds_up };
    let output = importer.floats(place, Operation::Pool(pool), &[input], &[n, c, oh, ow])?;
    restored(importer, place, output, rank)
}

/// Constants around the input, one axis after another.
pub(super) fn pad<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let mut current = place.input(0)?;
    let mode = place.text("mode")?.unwrap_or("constant");
    if mode != "constant" {
        return Err(format!("mode {mode}"));
    }
    let value = match place.set < 11 {
        true => place.float("value", 0.0)?,
        false => {
            place.floats(&importer.graph, 2)?.and_then(|list| list.first().copied()).unwrap_or(0.0)
        }
    };
    let name = if place.set < 11 { "pads" } else { "" };
    let pads = place.ints_or_input(&importer.graph, name, 1)?.ok_or("no pads")?;
    let rank = importer.graph.shape(current).len();
    let axes: Vec<usize> = match place.integers(&importer.graph, 3)? {
        Some(axes) => {
            let each = axes.iter().map(|&axis| super::attributes::axis_of(axis, rank));
            each.collect::<Result<_, _>>()?
        }
        None => (0..rank).collect(),
    };
    if pads.len() != 2 * axes.len() {
        return Err(format!("pads {pads:?} for {} dimensions", axes.len()));
    }
    for (at, &axis) in axes.iter().enumerate() {
        let ends = [pads[at], pads[at + axes.len()]];
        let mut parts = Vec::new();
        let mut shape = importer.graph.shape(current).to_vec();
        let mut total = shape[axis];
        for (end, &of) in ends.iter().enumerate() {
            let num = length(of).and_then(bounded)?;
            if num > 0 {
                shape[axis] = num;
                let one = importer.scalar(value);
                parts.push((end, importer.view(place, super::View::Expand, one, &shape)?));
                total += num;
            }
        }
        if parts.is_empty() {
            continue;
        }
        let mut list = vec![current];
        for (end, part) in parts {
            list.insert(if end == 0 { 0 } else { list.len() }, part);
        }
        shape[axis] = total;
        let operation = Operation::Concat { axis };
        current = importer.operation(place, operation, &list, &shape, Element::Float)?;
    }
    Ok(vec![current])
}
