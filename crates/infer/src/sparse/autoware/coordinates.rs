//! Coordinates in Autoware's files: which column is which axis.

use super::super::node;
use super::reader::{Column, Reader, Sites, Value};
use crate::onnx::{AttributeValue, Node};
use det_post_types::Result;

/// Coordinates of a few columns.
fn indices(of: Sites, columns: Vec<Column>) -> Option<Value> {
    (columns.len() <= Column::IN_ORDER.len()).then_some(Value::Indices { of, columns })
}

impl<'a> Reader<'_, 'a> {
    /// `Slice` along one axis: the first channels of points, or columns.
    pub(super) fn slice(&self, node: &Node<'_>) -> Option<Value> {
        let one = |at| match self.ints(node, at)?[..] {
            [value] => Some(value),
            _ => None,
        };
        let (start, end, axis) = (one(1)?, one(2)?, one(3)?);
        let step = if node.inputs.len() > 4 { one(4)? } else { 1 };
        match self.input(node, 0)? {
            &Value::Points { channels } if (start, step) == (0, 1) && (axis == 2 || axis == -1) => {
                let channels = channels.min(usize::try_from(end).ok()?);
                (channels > 0).then_some(Value::Points { channels })
            }
            Value::Indices { of, columns } if axis == 1 || axis == -1 => {
                let num = columns.len() as i64;
                let columns = match step {
                    1 => {
                        let place = |at: i64| if at < 0 { at.saturating_add(num) } else { at };
                        let [start, end] = [start, end].map(|at| place(at).clamp(0, num) as usize);
                        columns.get(start..end)?.to_vec()
                    }
                    -1 if (start == -1 || start >= num - 1) && end < -num => {
                        columns.iter().rev().copied().collect()
                    }
                    _ => return None,
                };
                indices(*of, columns)
            }
            _ => None,
        }
    }

    /// `Gather` of columns by constant numbers.
    pub(super) fn gather(&self, node: &Node<'_>) -> Option<Value> {
        let Value::Indices { of, columns } = self.input(node, 0)? else { return None };
        let by_column = matches!(node.attribute("axis"), Some(AttributeValue::Int(1 | -1)));
        let chosen = self.ints(node, 1).filter(|_| by_column)?;
        let column = |&at: &i64| {
            let at = if at < 0 { at.checked_add(columns.len() as i64)? } else { at };
            columns.get(usize::try_from(at).ok()?).copied()
        };
        let chosen = chosen.iter().map(column).collect::<Option<Vec<_>>>()?;
        match chosen[..] {
            [column] if self.constant(node, 1)?.dims.is_empty() => {
                Some(Value::Column { of: *of, column })
            }
            _ => indices(*of, chosen),
        }
    }

    /// `Expand` of a column to the length that it has.
    pub(super) fn expand(&self, node: &Node<'_>) -> Option<Value> {
        match self.input(node, 0)? {
            value @ (Value::Column { .. } | Value::LinearIndex { .. }) => Some(value.clone()),
            _ => None,
        }
    }

    /// `Concat` of columns; zeros are the batch.
    pub(super) fn concatenate(&self, node: &Node<'_>) -> Option<Value> {
        if !matches!(node.attribute("axis"), Some(AttributeValue::Int(1 | -1))) {
            return None;
        }
        let (mut whose, mut joined) = (None, Vec::new());
        for at in 0..node.inputs.len().min(Column::IN_ORDER.len() + 1) {
            match self.input(node, at)? {
                Value::Indices { of, columns } if whose.is_none_or(|whose| whose == *of) => {
                    whose = Some(*of);
                    joined.extend(columns);
                }
                Value::Zeros { .. } => joined.push(Column::Batch),
                _ => return None,
            }
        }
        indices(whose?, joined)
    }

    /// `Pad` with a batch column in front.
    pub(super) fn pad(&self, node: &Node<'_>) -> Option<Value> {
        let Value::Indices { of, columns } = self.input(node, 0)? else { return None };
        let is_zero = match node.inputs.get(2).filter(|name| !name.is_empty()) {
            Some(name) => self.graph.initializer(name).is_some_and(|value| value.is_zero()),
            None => true,
        };
        let is_constant =
            matches!(node.attribute("mode"), None | Some(AttributeValue::Text("constant")));
        let adds_batch = self.ints(node, 1)? == [0, 1, 0, 0] && is_zero && is_constant;
        let columns = std::iter::once(Column::Batch).chain(columns.iter().copied()).collect();
        indices(*of, columns).filter(|_| adds_batch)
    }

    /// `Squeeze` of coordinates with one column.
    pub(super) fn squeeze(&self, node: &Node<'_>) -> Option<Value> {
        let axes = self.ints(node, 1)?;
        match self.input(node, 0)? {
            Value::Indices { of, columns } if matches!(axes[..], [1 | -1]) => match columns[..] {
                [column] => Some(Value::Column { of: *of, column }),
                _ => None,
            },
            _ => None,
        }
    }

    /// `Split` of coordinates into their columns.
    pub(super) fn split(&mut self, node: &Node<'a>) -> Result<()> {
        let Some(Value::Indices { of, columns }) = self.input(node, 0) else {
            return self.unknown(node);
        };
        let (of, columns) = (*of, columns.clone());
        let by_column = matches!(node.attribute("axis"), Some(AttributeValue::Int(1 | -1)));
        let is_even = node.inputs.len() < 2
            || self.ints(node, 1).is_some_and(|sizes| sizes.iter().all(|&size| size == 1));
        if !by_column || !is_even || node.outputs.len() != columns.len() {
            return self.unknown(node);
        }
        for (&output, column) in node.outputs.iter().zip(columns) {
            self.values.insert(output, Value::Indices { of, columns: vec![column] });
        }
        Ok(())
    }

    /// `Mul` of linear indices by a constant.
    pub(super) fn scale(&self, node: &Node<'_>) -> Option<Value> {
        let ([_, _], _) = node::inputs::<2>(node, 0).ok()?;
        let at = (0..2).find(|&at| self.linear_index(node, at).is_some())?;
        let (of, strides) = self.linear_index(node, at)?;
        let [factor] = self.ints(node, 1 - at)?[..] else { return None };
        let mut scaled = [0; 4];
        for (scaled, stride) in scaled.iter_mut().zip(strides) {
            *scaled = stride.checked_mul(factor)?;
        }
        Some(Value::LinearIndex { of, strides: scaled })
    }

    /// `Add` of two linear indices.
    pub(super) fn sum_of_indices(&self, node: &Node<'_>) -> Option<Value> {
        let (of, a) = self.linear_index(node, 0)?;
        let (_, b) = self.linear_index(node, 1).filter(|(other, _)| *other == of)?;
        let mut strides = [0; 4];
        for (sum, (a, b)) in strides.iter_mut().zip(a.into_iter().zip(b)) {
            *sum = a.checked_add(b)?;
        }
        Some(Value::LinearIndex { of, strides })
    }

    /// An input as a linear index: a column counts once.
    fn linear_index(&self, node: &Node<'_>, at: usize) -> Option<(Sites, [i64; 4])> {
        match *self.input(node, at)? {
            Value::LinearIndex { of, strides } => Some((of, strides)),
            Value::Column { of, column } => {
                let place = match column {
                    Column::Batch => 0,
                    Column::Axis(axis) => axis + 1,
                };
                Some((of, std::array::from_fn(|at| i64::from(at == place))))
            }
            _ => None,
        }
    }
}
