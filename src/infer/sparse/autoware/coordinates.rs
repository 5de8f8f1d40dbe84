//! Coordinates in Autoware's files: which column is which axis.

use super::super::onnx::{AttributeValue, Node, Source};
use super::super::operation::GridAxes;
use super::{Reader, Value};

/// A column of coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    /// The number of the scene, which is 0.
    Batch,
    /// An axis: of z y x in the graph's input, else of the grid.
    Axis(usize),
}

impl Column {
    /// The batch, then the axes in their order.
    pub(super) const IN_ORDER: [Self; 4] =
        [Self::Batch, Self::Axis(0), Self::Axis(1), Self::Axis(2)];

    /// What the axes of the grid are, from columns of the graph's input.
    pub(super) fn grid_axes(columns: &[Self]) -> Option<GridAxes> {
        let [Self::Batch, Self::Axis(a), Self::Axis(b), Self::Axis(c)] = *columns else {
            return None;
        };
        GridAxes::ALL.into_iter().find(|axes| axes.of_zyx() == [a, b, c])
    }
}

impl Reader<'_, '_> {
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
                Some(Value::Indices { of: *of, columns })
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
        let is_scalar = match self.graph.source(node.inputs[1])? {
            Source::Initializer(at) => self.graph.initializers[at].dims.is_empty(),
            Source::Node(at) => matches!(
                self.graph.nodes[at].attribute("value"),
                Some(AttributeValue::Tensor(tensor)) if tensor.dims.is_empty()
            ),
            Source::Input(_) => false,
        };
        match chosen[..] {
            [column] if is_scalar => Some(Value::Column { of: *of, column }),
            _ => Some(Value::Indices { of: *of, columns: chosen }),
        }
    }

    /// `Expand` of a column to the length that it has.
    pub(super) fn expand(&self, node: &Node<'_>) -> Option<Value> {
        match self.input(node, 0)? {
            column @ Value::Column { .. } => Some(column.clone()),
            _ => None,
        }
    }

    /// `Concat` of columns; zeros are the batch.
    pub(super) fn concatenate(&self, node: &Node<'_>) -> Option<Value> {
        if !matches!(node.attribute("axis"), Some(AttributeValue::Int(1 | -1))) {
            return None;
        }
        let (mut whose, mut joined) = (None, Vec::new());
        for at in 0..node.inputs.len() {
            match self.input(node, at)? {
                Value::Indices { of, columns } if whose.is_none_or(|whose| whose == *of) => {
                    whose = Some(*of);
                    joined.extend(columns);
                }
                Value::Zeros { .. } => joined.push(Column::Batch),
                _ => return None,
            }
        }
        Some(Value::Indices { of: whose?, columns: joined }).filter(|_| node.inputs.len() <= 4)
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
        adds_batch.then_some(Value::Indices { of: *of, columns })
    }
}
