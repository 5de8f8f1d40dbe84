//! Products of matrices and normalizations.

use std::sync::Arc;

use super::attributes::{Place, Reason, axis_of, length};
use super::importer::Importer;
use super::{Affine, Epilogue, Id, Operation, Reduction, broadcast};
use crate::dense::function::Function;

type Imported = Result<Vec<Id>, Reason>;

pub(super) fn matmul<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (mut a, mut b) = (place.input(0)?, place.input(1)?);
    let (shape_a, shape_b) = (importer.graph.shape(a).to_vec(), importer.graph.shape(b).to_vec());
    let (is_row, is_column) = (shape_a.len() == 1, shape_b.len() == 1);
    if is_row {
        a = importer.reshape(place, a, &[1, shape_a[0]])?;
    }
    if is_column {
        b = importer.reshape(place, b, &[shape_b[0], 1])?;
    }
    let product = product(importer, place, [a, b], None)?;
    let mut shape = importer.graph.shape(product).to_vec();
    let rank = shape.len();
    if is_column {
        shape.remove(rank - 1);
    }
    if is_row {
        shape.remove(rank - 2);
    }
    importer.reshape(place, product, &shape).map(|id| vec![id])
}

fn product<'a>(
    importer: &mut Importer<'a>,
    place: &Place<'_, 'a>,
    [a, b]: [Id; 2],
    bias: Option<Id>,
) -> Result<Id, Reason> {
    let (shape_a, shape_b) = (importer.graph.shape(a), importer.graph.shape(b));
    let refused = || format!("matrices {shape_a:?} and {shape_b:?}");
    let ([batch_a @ .., m, k], [batch_b @ .., of, n]) = (shape_a, shape_b) else {
        return Err(refused());
    };
    if k != of {
        return Err(refused());
    }
    let mut shape = broadcast(&[batch_a, batch_b]).ok_or_else(refused)?;
    shape.extend([*m, *n]);
    let num = *n;
    let bias = match bias {
        Some(bias) => bias,
        None => importer.graph.add_constant("", &[num], vec![0.0; num]),
    };
    importer.floats(place, Operation::Product(Epilogue::default()), &[a, b, bias], &shape)
}

pub(super) fn gemm<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let (mut a, mut b) = (place.input(0)?, place.input(1)?);
    if importer.graph.shape(a).len() != 2 || importer.graph.shape(b).len() != 2 {
        return Err("matrices of other than two dimensions".into());
    }
    if place.flag("transA", false)? {
        a = importer.permute(place, a, vec![1, 0])?;
    }
    if place.flag("transB", false)? {
        b = importer.permute(place, b, vec![1, 0])?;
    }
    let (alpha, beta) = (place.float("alpha", 1.0)?, place.float("beta", 1.0)?);
    if alpha != 1.0 {
        let alpha = importer.scalar(alpha);
        b = importer.function(place, Function::Mul, &[b, alpha])?;
    }
    let mut summand = place.optional(2);
    if let (Some(of), true) = (summand, beta != 1.0) {
        let beta = importer.scalar(beta);
        summand = Some(importer.function(place, Function::Mul, &[of, beta])?);
    }
    let num = importer.graph.shape(b)[1];
    let is_bias = |importer: &Importer<'a>, id: Id| {
        let value = &importer.graph.values[id];
        value.constant.is_some() && matches!(value.shape[..], [of] | [1, of] if of == num)
    };
    match summand {
        Some(of) if is_bias(importer, of) => {
            let bias = importer.reshape(place, of, &[num])?;
            product(importer, place, [a, b], Some(bias)).map(|id| vec![id])
        }
        Some(of) => {
            let product = product(importer, place, [a, b], None)?;
            importer.function(place, Function::Add, &[product, of]).map(|id| vec![id])
        }
        None => product(importer, place, [a, b], None).map(|id| vec![id]),
    }
}

/// The floats of a constant input with so many elements.
fn channel_values<'a>(
    importer: &Importer<'a>,
    place: &Place<'_, 'a>,
    at: usize,
    num: usize,
) -> Result<Arc<[f32]>, Reason> {
    let values =
        place.floats(&importer.graph, at)?.ok_or_else(|| format!("input {at} is missing"))?;
    match values.len() == num {
        true => Ok(values),
        false => Err(format!("input {at} has {} values for {num} channels", values.len())),
    }
}

pub(super) fn batch_norm<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let &num = shape.get(1).ok_or("an input of one dimension")?;
    if place.flag("training_mode", false)? || !place.flag("spatial", true)? {
        return Err("attribute training_mode or spatial".into());
    }
    let epsilon = f64::from(place.float("epsilon", 1e-5)?);
    let values = |at| channel_values(importer, place, at, num);
    let (gamma, beta, mean, variance) = (values(1)?, values(2)?, values(3)?, values(4)?);
    let scale = gamma.iter().zip(&*variance);
    let scale: Arc<[f64]> =
        scale.map(|(g, v)| f64::from(*g) / (f64::from(*v) + epsilon).sqrt()).collect();
    let shift = beta.iter().zip(&*mean).zip(&*scale);
    let shift = shift.map(|((b, m), s)| f64::from(*b) - f64::from(*m) * s).collect();
    let affine = Operation::Affine(Affine { axis: 1, scale, shift });
    importer.floats(place, affine, &[input], &shape).map(|id| vec![id])
}

pub(super) fn layer_norm<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let axis = axis_of(place.int("axis")?.unwrap_or(-1), shape.len())?;
    let epsilon = place.float("epsilon", 1e-5)?;
    let num: usize = shape[axis..].iter().product();
    let gamma = channel_values(importer, place, 1, num)?.to_vec();
    let beta = match place.optional(2) {
        Some(_) => channel_values(importer, place, 2, num)?.to_vec(),
        None => vec![0.0; num],
    };
    let rows: Vec<usize> = shape[..axis].iter().copied().chain([num]).collect();
    let input = importer.reshape(place, input, &rows)?;
    let gamma = importer.graph.add_constant("", &[num], gamma);
    let beta = importer.graph.add_constant("", &[num], beta);
    let operation = Operation::LayerNorm { epsilon };
    let output = importer.floats(place, operation, &[input, gamma, beta], &rows)?;
    importer.reshape(place, output, &shape).map(|id| vec![id])
}

/// Instance and group normalization: groups of channels are brought to mean 0 and variance 1.
pub(super) fn group_norm<'a>(importer: &mut Importer<'a>, place: &Place<'_, 'a>) -> Imported {
    let input = place.input(0)?;
    let shape = importer.graph.shape(input).to_vec();
    let [n, c, ref rest @ ..] = shape[..] else { return Err(format!("an input of {shape:?}")) };
    let is_instance = place.node.operator == "InstanceNormalization";
    let groups = if is_instance { c } else { length(place.int("num_groups")?.unwrap_or(0))? };
    if groups == 0 || c % groups != 0 {
        return Err(format!("{groups} groups of {c} channels"));
    }
    let by_channel = is_instance || place.set >= 21;
    let num = if by_channel { c } else { groups };
    let widened = |values: Arc<[f32]>| -> Arc<[f64]> {
        (0..c).map(|at| f64::from(values[at * num / c])).collect()
    };
    let scale = widened(channel_values(importer, place, 1, num)?);
    let shift = widened(channel_values(importer, place, 2, num)?);
    let epsilon = importer.scalar(place.float("epsilon", 1e-5)?);
    let area = rest.iter().product::<usize>() * (c / groups);
    let rows = importer.reshape(place, input, &[n, groups, area])?;
    let mean = |importer: &mut Importer<'a>, of| {
        let operation = Operation::Reduce { kind: Reduction::Mean, axes: vec![2], keeps: true };
        importer.floats(place, operation, &[of], &[n, groups, 1])
    };
    let center = mean(importer, rows)?;
    let centered = importer.function(place, Function::Sub, &[rows, center])?;
    let square = importer.function(place, Function::Mul, &[centered, centered])?;
    let variance = mean(importer, square)?;
    let variance = importer.function(place, Function::Add, &[variance, epsilon])?;
    let deviation = importer.function(place, Function::Sqrt, &[variance])?;
    let normal = importer.function(place, Function::Div, &[centered, deviation])?;
    let normal = importer.reshape(place, normal, &shape)?;
    let affine = Operation::Affine(Affine { axis: 1, scale, shift });
    importer.floats(place, affine, &[normal], &shape).map(|id| vec![id])
}
