//! Elements by index, and constants that are computed of sizes.

use super::attributes::{Place, Reason, axis_of, length};
use super::importer::Importer;
use super::{Data, Element, Id, Operation, Value, View, fold};
use crate::onnx::AttributeValue;

type Imported = Result<Vec<Id>, Reason>;

/// The most elements of a constant that a range or a shape makes.
const MAX_MADE: usize = 1 << 24;

pub(super) fn import<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    match place.node.operator {
        "Gather" => gather(importer, place),
        "GatherElements" => gather_elements(importer, place),
        "GridSample" => grid_sample(importer, place),
        "Range" => range(importer, place),
        "ConstantOfShape" => constant_of_shape(importer, place),
        "TopK" => top_k(importer, place),
        _ => arg_max(importer, place),
    }
}

fn gather<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, indices) = (place.input(0)?, place.input(1)?);
    let from = importer.graph.shape(input).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(0), from.len())?;
    let index_shape = importer.graph.shape(indices).to_vec();
    let mut shape = from[..axis].to_vec();
    shape.extend(&index_shape);
    shape.extend(&from[axis + 1..]);
    let Some(Data::Integers(list)) = importer.graph.values[indices].constant.clone() else {
        check_indices(importer, indices, from[axis])?;
        let element = importer.graph.values[input].element;
        let operation = Operation::Gather { axis, of_elements: false };
        return importer
            .operation(place, operation, &[input, indices], &shape, element)
            .map(|id| vec![id]);
    };
    let list: Vec<usize> =
        list.iter().map(|&at| axis_of(at, from[axis])).collect::<Result<_, _>>()?;
    // Steps of one size are a slice.
    let step = if list.len() > 1 { list[1].checked_sub(list[0]) } else { Some(1) };
    let is_slice = step.is_some_and(|step| {
        step > 0 && list.windows(2).all(|pair| pair[1].checked_sub(pair[0]) == Some(step))
    });
    if let (true, Some(step), Some(&first)) = (is_slice, step, list.first()) {
        let (mut starts, mut steps) = (vec![0; from.len()], vec![1; from.len()]);
        let mut sliced = from.clone();
        (starts[axis], steps[axis], sliced[axis]) = (first, step, list.len());
        let slice = match sliced == from {
            true => input,
            false => importer.view(place, View::Slice { starts, steps }, input, &sliced)?,
        };
        return importer.reshape(place, slice, &shape).map(|id| vec![id]);
    }
    let value = &importer.graph.values[input];
    if let Some(data) = &value.constant {
        let strides = fold::row_major(&from);
        let (outer, inner): (usize, usize) =
            (from[..axis].iter().product(), from[axis + 1..].iter().product());
        if outer.saturating_mul(list.len()).saturating_mul(inner) > MAX_MADE {
            return Err(format!("a constant of {shape:?}"));
        }
        let places = (0..outer).flat_map(|o| {
            let (list, stride) = (&list, strides[axis]);
            let row = o * from[axis] * stride;
            list.iter().flat_map(move |at| (0..inner).map(move |i| row + at * stride + i))
        });
        let data = match data {
            Data::Floats(values) => Data::Floats(places.map(|at| values[at]).collect()),
            Data::Integers(values) => Data::Integers(places.map(|at| values[at]).collect()),
        };
        let (name, element) = (value.name.clone(), value.element);
        return Ok(vec![importer.graph.add(Value { name, shape, element, constant: Some(data) })]);
    }
    let element = value.element;
    let list = list.iter().map(|&at| at as i64).collect();
    let indices = importer.integers(&index_shape, list);
    let operation = Operation::Gather { axis, of_elements: false };
    importer.operation(place, operation, &[input, indices], &shape, element).map(|id| vec![id])
}

fn gather_elements<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, indices) = (place.input(0)?, place.input(1)?);
    let from = importer.graph.shape(input).to_vec();
    let shape = importer.graph.shape(indices).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(0), from.len())?;
    let is_within = |at: usize| at == axis || shape[at] <= from[at];
    if shape.len() != from.len() || !(0..from.len()).all(is_within) {
        return Err(format!("indices of {shape:?} for {from:?}"));
    }
    check_indices(importer, indices, from[axis])?;
    let element = importer.graph.values[input].element;
    let operation = Operation::Gather { axis, of_elements: true };
    importer.operation(place, operation, &[input, indices], &shape, element).map(|id| vec![id])
}

/// Refuses integers that are no indices of a dimension.
fn check_indices(importer: &Importer<'_>, indices: Id, length: usize) -> Result<(), Reason> {
    let value = &importer.graph.values[indices];
    match &value.constant {
        Some(Data::Integers(list)) => list.iter().try_for_each(|&at| axis_of(at, length).map(drop)),
        _ if value.element == Element::Integer => Ok(()),
        _ => Err(format!("indices {} that are no integers", value.name)),
    }
}

fn grid_sample<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (input, grid) = (place.input(0)?, place.input(1)?);
    let (&[n, c, ..], &[items, rows, columns, 2]) =
        (importer.graph.shape(input), importer.graph.shape(grid))
    else {
        let shapes = [input, grid].map(|id| importer.graph.shape(id));
        return Err(format!("a map and a grid of {shapes:?}"));
    };
    if items != n || importer.graph.shape(input).len() != 4 {
        return Err(format!("{items} grids for an input of {:?}", importer.graph.shape(input)));
    }
    let is_linear = match place.text("mode")?.unwrap_or("linear") {
        "bilinear" | "linear" => true,
        "nearest" => false,
        mode => return Err(format!("mode {mode}")),
    };
    let has_border = match place.text("padding_mode")?.unwrap_or("zeros") {
        "zeros" => false,
        "border" => true,
        mode => return Err(format!("attribute padding_mode is {mode}")),
    };
    let aligns_corners = place.flag("align_corners", false)?;
    let operation = Operation::GridSample { is_linear, has_border, aligns_corners };
    importer.floats(place, operation, &[input, grid], &[n, c, rows, columns]).map(|id| vec![id])
}

fn range<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let of = |at: usize| -> Result<Data, Reason> {
        let value = &importer.graph.values[place.input(at)?];
        let data = value.constant.clone().filter(|data| data.len() == 1);
        data.ok_or_else(|| format!("input {} is not a constant of one element", value.name))
    };
    let (start, limit, delta) = (of(0)?, of(1)?, of(2)?);
    let value =
        |shape, element, data| Value { name: String::new(), shape, element, constant: Some(data) };
    if let (Data::Integers(start), Data::Integers(limit), Data::Integers(delta)) =
        (&start, &limit, &delta)
    {
        let (start, limit, delta) = (start[0], limit[0], delta[0]);
        let span = i128::from(limit) - i128::from(start);
        let num = match delta {
            0 => return Err("a step of 0".into()),
            delta => span.div_euclid(delta.into()) + i128::from(span.rem_euclid(delta.into()) != 0),
        };
        // The quotient is rounded up whatever the sign of the step.
        let num =
            if delta < 0 { (-span + i128::from(-delta) - 1) / i128::from(-delta) } else { num };
        let num = usize::try_from(num.max(0)).ok().filter(|&num| num <= MAX_MADE);
        let num = num.ok_or("a range of too many elements")?;
        let list: Vec<i64> = (0..num as i64).map(|at| start + at * delta).collect();
        return Ok(vec![importer.graph.add(value(
            vec![num],
            Element::Integer,
            Data::Integers(list.into()),
        ))]);
    }
    let (start, limit, delta) = (start.to_floats()[0], limit.to_floats()[0], delta.to_floats()[0]);
    let num = ((f64::from(limit) - f64::from(start)) / f64::from(delta)).ceil().max(0.0);
    if !num.is_finite() || num > MAX_MADE as f64 {
        return Err("a range of too many elements".into());
    }
    let list: Vec<f32> = (0..num as usize).map(|at| start + at as f32 * delta).collect();
    Ok(vec![importer.graph.add(value(vec![list.len()], Element::Float, Data::Floats(list.into())))])
}

fn constant_of_shape<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let shape = place.integers(&importer.graph, 0)?.ok_or("no shape")?;
    let shape: Vec<usize> = shape.iter().map(|&of| length(of)).collect::<Result<_, _>>()?;
    let one = match place.node.attribute("value") {
        None => Value {
            name: String::new(),
            shape: vec![1],
            element: Element::Float,
            constant: Some(Data::Floats([0.0].into())),
        },
        Some(AttributeValue::Tensor(tensor)) => super::constants::constant(tensor, "")?,
        Some(_) => return Err("attribute value is not a tensor".into()),
    };
    if one.len() != 1 {
        return Err("attribute value has not one element".into());
    }
    if super::num_elements(&shape, MAX_MADE).is_none() {
        return Err(format!("a constant of {shape:?}"));
    }
    let one = importer.graph.add(Value { shape: vec![], ..one });
    if shape.is_empty() {
        return Ok(vec![one]);
    }
    importer.view(place, View::Expand, one, &shape).map(|id| vec![id])
}

fn top_k<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let mut shape = importer.graph.shape(input).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(-1), shape.len())?;
    let largest = place.flag("largest", true)?;
    if !place.flag("sorted", true)? {
        return Err("attribute sorted is 0: the order is not defined".into());
    }
    let k = match place.set < 10 {
        true => place.int("k")?,
        false => place.integers(&importer.graph, 1)?.and_then(|list| list.first().copied()),
    };
    let k = length(k.ok_or("no k")?)?;
    if k > shape[axis] || k == 0 {
        return Err(format!("the {k} largest of {}", shape[axis]));
    }
    shape[axis] = k;
    let values = importer.floats(place, Operation::TopK { axis, largest }, &[input], &shape)?;
    let indices = importer.graph.add(Value {
        name: place.node.outputs.get(1).copied().unwrap_or_default().to_owned(),
        shape,
        element: Element::Integer,
        constant: None,
    });
    if let Some(node) = importer.graph.nodes.last_mut() {
        node.outputs.push(indices);
    }
    Ok(vec![values, indices])
}

fn arg_max<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let mut shape = importer.graph.shape(input).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(0), shape.len())?;
    let is_last = place.flag("select_last_index", false)?;
    let is_smallest = place.node.operator == "ArgMin";
    let keeps = place.flag("keepdims", true)?;
    shape[axis] = 1;
    let operation = Operation::ArgMax { axis, is_smallest, is_last };
    let output = importer.operation(place, operation, &[input], &shape, Element::Integer)?;
    if !keeps {
        shape.remove(axis);
    }
    importer.reshape(place, output, &shape).map(|id| vec![id])
}
