//! Operations on constants.

use std::sync::Arc;

use super::{Data, Value, View};
use crate::dense::function::Function;

/// Strides of a shape in row-major order.
pub(in super::super) fn row_major(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at] * shape[at];
    }
    strides
}

/// Elements at `offset` plus strides, in the row-major order of `shape`. All of them have to be there.
pub(super) fn gather<T: Copy>(
    values: &[T],
    offset: usize,
    strides: &[isize],
    shape: &[usize],
) -> Vec<T> {
    let num = shape.iter().product();
    let mut gathered = Vec::with_capacity(num);
    let mut index = vec![0_usize; shape.len()];
    let mut at = offset.cast_signed();
    for _ in 0..num {
        gathered.push(values[at.cast_unsigned()]);
        for axis in (0..shape.len()).rev() {
            index[axis] += 1;
            at += strides[axis];
            if index[axis] < shape[axis] {
                break;
            }
            at -= strides[axis] * shape[axis].cast_signed();
            index[axis] = 0;
        }
    }
    gathered
}

/// As [`gather`], of data.
pub(super) fn gather_data(data: &Data, offset: usize, strides: &[isize], shape: &[usize]) -> Data {
    match data {
        Data::Floats(values) => Data::Floats(gather(values, offset, strides, shape).into()),
        Data::Integers(values) => Data::Integers(gather(values, offset, strides, shape).into()),
    }
}

fn signed(strides: &[usize]) -> Vec<isize> {
    strides.iter().map(|stride| stride.cast_signed()).collect()
}

/// Strides with which a shape is read as a larger one, aligned at the last dimension.
fn broadcast_strides(shape: &[usize], to: &[usize]) -> Vec<isize> {
    let own = row_major(shape);
    let missing = to.len() - shape.len();
    let stride = |at: usize| match at.checked_sub(missing) {
        Some(at) if shape[at] != 1 => own[at].cast_signed(),
        _ => 0,
    };
    (0..to.len()).map(stride).collect()
}

/// A view of a constant.
pub(in super::super) fn view(data: &Data, from: &[usize], view: &View, to: &[usize]) -> Data {
    let strides = row_major(from);
    match view {
        View::Reshape => data.clone(),
        View::Permute(order) => {
            let strides: Vec<usize> = order.iter().map(|&at| strides[at]).collect();
            gather_data(data, 0, &signed(&strides), to)
        }
        View::Slice { starts, steps } => {
            let offset = starts.iter().zip(&strides).map(|(start, stride)| start * stride).sum();
            let strides: Vec<usize> =
                strides.iter().zip(steps).map(|(stride, step)| stride * step).collect();
            gather_data(data, offset, &signed(&strides), to)
        }
        View::Expand => gather_data(data, 0, &broadcast_strides(from, to), to),
    }
}

/// Constants one after another along an axis.
pub(super) fn concat(parts: &[&Value], axis: usize, shape: &[usize]) -> Option<Data> {
    let outer: usize = shape[..axis].iter().product();
    let inner: usize = shape[axis + 1..].iter().product();
    let lists = parts.iter().map(|part| (part.shape[axis] * inner, part.constant.as_ref()));
    let is_float = parts.iter().any(|part| matches!(part.constant, Some(Data::Floats(_))));
    if is_float {
        let mut joined = Vec::with_capacity(shape.iter().product());
        let lists: Vec<(usize, Arc<[f32]>)> =
            lists.map(|(len, data)| Some((len, data?.to_floats()))).collect::<Option<_>>()?;
        for at in 0..outer {
            lists
                .iter()
                .for_each(|(len, data)| joined.extend_from_slice(&data[at * len..][..*len]));
        }
        return Some(Data::Floats(joined.into()));
    }
    let mut joined = Vec::with_capacity(shape.iter().product());
    let lists: Vec<(usize, &Arc<[i64]>)> = lists
        .map(|(len, data)| match data {
            Some(Data::Integers(values)) => Some((len, values)),
            _ => None,
        })
        .collect::<Option<_>>()?;
    for at in 0..outer {
        lists.iter().for_each(|(len, data)| joined.extend_from_slice(&data[at * len..][..*len]));
    }
    Some(Data::Integers(joined.into()))
}

/// A function of constants, which are broadcast to `shape`; `None` where it is not defined for them.
pub(in super::super) fn elementwise(
    function: Function,
    inputs: &[&Value],
    shape: &[usize],
) -> Option<Data> {
    let widened = |value: &&Value| {
        let data = value.constant.as_ref()?;
        let strides = broadcast_strides(&value.shape, shape);
        Some(gather_data(data, 0, &strides, shape))
    };
    let data: Vec<Data> = inputs.iter().map(widened).collect::<Option<_>>()?;
    let num = shape.iter().product();
    let all: Option<Vec<&Arc<[i64]>>> = data
        .iter()
        .map(|data| match data {
            Data::Integers(values) => Some(values),
            Data::Floats(_) => None,
        })
        .collect();
    if let Some(lists) = all {
        let get = |list: usize, at: usize| lists.get(list).map_or(0, |values| values[at]);
        let values = (0..num).map(|at| integer(function, get(0, at), get(1, at), get(2, at)));
        return values.collect::<Option<Vec<i64>>>().map(|values| Data::Integers(values.into()));
    }
    if matches!(function, Function::Mod | Function::ToInteger) {
        return None;
    }
    let lists: Vec<Arc<[f32]>> = data.iter().map(Data::to_floats).collect();
    let get = |list: usize, at: usize| lists.get(list).map_or(0.0, |values| values[at]);
    let values = (0..num).map(|at| function.of(get(0, at), get(1, at), get(2, at)));
    if function.is_condition() {
        let values = values.map(|value| i64::from(value != 0.0));
        return Some(Data::Integers(values.collect()));
    }
    Some(Data::Floats(values.collect()))
}

/// Functions of integers as ONNX defines them.
fn integer(function: Function, a: i64, b: i64, c: i64) -> Option<i64> {
    Some(match function {
        Function::Neg => a.checked_neg()?,
        Function::Abs => a.checked_abs()?,
        Function::Add => a.checked_add(b)?,
        Function::Sub => a.checked_sub(b)?,
        Function::Mul => a.checked_mul(b)?,
        Function::Div => a.checked_div(b)?,
        Function::Mod => match a.checked_rem(b)? {
            rest if rest != 0 && (rest < 0) != (b < 0) => rest + b,
            rest => rest,
        },
        Function::Pow => a.checked_pow(u32::try_from(b).ok()?)?,
        Function::Min => a.min(b),
        Function::Max => a.max(b),
        Function::Relu => a.max(0),
        Function::Not => i64::from(a == 0),
        Function::Equal => i64::from(a == b),
        Function::Greater => i64::from(a > b),
        Function::Less => i64::from(a < b),
        Function::GreaterOrEqual => i64::from(a >= b),
        Function::LessOrEqual => i64::from(a <= b),
        Function::And => i64::from(a != 0 && b != 0),
        Function::Or => i64::from(a != 0 || b != 0),
        Function::Where => {
            if a != 0 {
                b
            } else {
                c
            }
        }
        _ => return None,
    })
}
