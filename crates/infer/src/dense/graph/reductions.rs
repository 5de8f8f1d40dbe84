//! Softmax and reductions over axes.

use super::attributes::{Place, Reason, axes_of, axis_of};
use super::importer::Importer;
use super::{Id, Operation, Reduction};
use crate::dense::function::Function;

type Imported = Result<Vec<Id>, Reason>;

pub(super) fn softmax<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let default = if place.set < 13 { 1 } else { -1 };
    let axis = axis_of(place.int("axis")?.unwrap_or(default), shape.len())?;
    // Before set 13 all dimensions from the axis on are one.
    let rows: Vec<usize> = match place.set < 13 {
        true => shape[..axis].iter().copied().chain([shape[axis..].iter().product()]).collect(),
        false => shape.clone(),
    };
    let input = importer.reshape(place, input, &rows)?;
    let output = match place.node.operator {
        "Softmax" => importer.floats(place, Operation::Softmax { axis }, &[input], &rows)?,
        _ => {
            let reduced = |importer: &mut Importer<'a>, kind, of| {
                let mut shape = rows.clone();
                shape[axis] = 1;
                let operation = Operation::Reduce { kind, axes: vec![axis], keeps: true };
                importer.floats(place, operation, &[of], &shape)
            };
            let largest = reduced(importer, Reduction::Max, input)?;
            let below = importer.function(place, Function::Sub, &[input, largest])?;
            let exponential = importer.function(place, Function::Exp, &[below])?;
            let sum = reduced(importer, Reduction::Sum, exponential)?;
            let logarithm = importer.function(place, Function::Log, &[sum])?;
            importer.function(place, Function::Sub, &[below, logarithm])?
        }
    };
    importer.reshape(place, output, &shape).map(|id| vec![id])
}

pub(super) fn global_pool<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let mut shape = importer.graph.shape(input).to_vec();
    if shape.len() < 3 {
        return Err(format!("an input of {shape:?}"));
    }
    let axes = (2..shape.len()).collect();
    shape[2..].fill(1);
    let kind = match place.node.operator {
        "GlobalMaxPool" => Reduction::Max,
        _ => Reduction::Mean,
    };
    let operation = Operation::Reduce { kind, axes, keeps: true };
    importer.floats(place, operation, &[input], &shape).map(|id| vec![id])
}

pub(super) fn reduce<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let keeps = place.flag("keepdims", true)?;
    let axes = place.ints_or_input(&importer.graph, "axes", 1)?.filter(|axes| !axes.is_empty());
    let axes = match axes {
        Some(axes) => axes_of(&axes, shape.len())?,
        None if place.flag("noop_with_empty_axes", false)? => return Ok(vec![input]),
        None => (0..shape.len()).collect(),
    };
    if axes.is_empty() {
        return Ok(vec![input]);
    }
    if axes.iter().any(|&axis| shape[axis] == 0) {
        return Err(format!("a reduction of nothing, of {shape:?}"));
    }
    let kind = match place.node.operator {
        "ReduceSum" => Reduction::Sum,
        "ReduceMean" => Reduction::Mean,
        "ReduceMax" => Reduction::Max,
        _ => Reduction::Min,
    };
    let reduced =
        shape.iter().enumerate().filter_map(|(at, &length)| match (axes.contains(&at), keeps) {
            (true, true) => Some(1),
            (true, false) => None,
            (false, _) => Some(length),
        });
    let reduced: Vec<usize> = reduced.collect();
    let operation = Operation::Reduce { kind, axes, keeps };
    importer.floats(place, operation, &[input], &reduced).map(|id| vec![id])
}
