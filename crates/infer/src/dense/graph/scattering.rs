//! Elements that are set at indices.

use super::attributes::{Place, Reason, axis_of, length};
use super::importer::Importer;
use super::{Data, Element, Id, Operation, fold};
use crate::dense::function::Function;

type Imported = Result<Vec<Id>, Reason>;

/// The most values that are set or kept.
const MAX_ELEMENTS: usize = 1 << 24;

pub(super) fn import<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    match place.node.operator {
        "OneHot" => one_hot(importer, place),
        _ => scatter_nd(importer, place),
    }
}

/// Of each index, one value at its place along the axis, another one elsewhere. An index counts from the end
/// where it is negative.
fn one_hot<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (indices, values) = (place.input(0)?, place.input(2)?);
    if importer.graph.values[indices].element != Element::Integer {
        return Err("indices that are no integers".into());
    }
    let depth = place.integers(&importer.graph, 1)?.filter(|depth| depth.len() == 1);
    let depth = length(depth.ok_or("no depth")?[0])?;
    if depth > MAX_ELEMENTS {
        return Err(format!("a depth of {depth} exceeds the limit of {MAX_ELEMENTS}"));
    }
    let mut shape = importer.graph.shape(indices).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(-1), shape.len() + 1)?;
    shape.insert(axis, 1);
    let number = |importer: &mut Importer<'a>, value| importer.integers(&[], vec![value]);
    let (zero, all) = (number(importer, 0), number(importer, depth as i64));
    let is_behind = importer.function(place, Function::Less, &[indices, zero])?;
    let from_end = importer.function(place, Function::Add, &[indices, all])?;
    let found = importer.function(place, Function::Where, &[is_behind, from_end, indices])?;
    let found = importer.reshape(place, found, &shape)?;
    let mut along = vec![1; shape.len()];
    along[axis] = depth;
    let places = importer.integers(&along, (0..depth as i64).collect());
    let is_there = importer.function(place, Function::Equal, &[found, places])?;
    let value = &importer.graph.values[values];
    let (off, on) = match &value.constant {
        Some(Data::Floats(list)) if list.len() == 2 => {
            let (off, on) = (list[0], list[1]);
            (importer.scalar(off), importer.scalar(on))
        }
        Some(Data::Integers(list)) if list.len() == 2 => {
            let (off, on) = (list[0], list[1]);
            (number(importer, off), number(importer, on))
        }
        _ => return Err(format!("values {}: two constants are covered", value.name)),
    };
    importer.function(place, Function::Where, &[is_there, on, off]).map(|id| vec![id])
}

/// Slices of a tensor at constant indices become others: of all values one after another, the elements of
/// the result.
fn scatter_nd<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (data, updates) = (place.input(0)?, place.input(2)?);
    if let Some(reduction) = place.text("reduction")?.filter(|reduction| *reduction != "none") {
        return Err(format!("attribute reduction is {reduction}"));
    }
    let elements = [data, updates].map(|id| importer.graph.values[id].element);
    if elements[0] != elements[1] {
        return Err("data and updates of different types".into());
    }
    let indices = place.integers(&importer.graph, 1)?.ok_or("no indices")?;
    let of_indices = importer.graph.shape(place.input(1)?).to_vec();
    let shape = importer.graph.shape(data).to_vec();
    let fits = |(depth, _): &(&usize, &[usize])| (1..=shape.len()).contains(*depth);
    let Some((&depth, outer)) = of_indices.split_last().filter(fits) else {
        return Err(format!("indices of {of_indices:?} for data of {shape:?}"));
    };
    let [kept, set] = [data, updates].map(|id| importer.graph.values[id].len());
    if importer.graph.shape(updates) != [outer, &shape[depth..]].concat() {
        let found = importer.graph.shape(updates);
        return Err(format!("updates of {found:?} at indices of {of_indices:?}"));
    }
    if kept.saturating_add(set) > MAX_ELEMENTS {
        return Err(format!("{kept} values of which {set} are set"));
    }
    let (strides, slice) = (fold::row_major(&shape), shape[depth..].iter().product::<usize>());
    let mut places: Vec<i64> = (0..kept as i64).collect();
    for (number, index) in indices.chunks(depth).enumerate() {
        let mut first = 0;
        for (axis, &at) in index.iter().enumerate() {
            first += axis_of(at, shape[axis])? * strides[axis];
        }
        for (within, to) in places[first..first + slice].iter_mut().enumerate() {
            *to = (kept + number * slice + within) as i64;
        }
    }
    let flat = importer.reshape(place, data, &[kept])?;
    let of_updates = importer.reshape(place, updates, &[set])?;
    let concat = Operation::Concat { axis: 0 };
    let all = importer.operation(place, concat, &[flat, of_updates], &[kept + set], elements[0])?;
    let places = importer.integers(&[kept], places);
    let gather = Operation::Gather { axis: 0, of_elements: true };
    let chosen = importer.operation(place, gather, &[all, places], &[kept], elements[0])?;
    importer.reshape(place, chosen, &shape).map(|id| vec![id])
}
