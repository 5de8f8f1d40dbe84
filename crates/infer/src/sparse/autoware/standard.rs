//! Standard nodes around the convolutions of Autoware's files.

use super::super::node;
use super::reader::{Column, Reader, Sites, Value};
use super::rulebook;
use crate::onnx::{AttributeValue, DataType, Node, Source, Tensor, ValueInfo};
use det_post_types::Result;

/// The largest constant of shapes, axes and indices.
const MAX_CONSTANT_BYTES: usize = 1 << 10;

/// What an input of the graph is, by its type and shape; `None` for rulebooks,
/// whose geometry is in the metadata.
pub(super) fn input(input: &ValueInfo<'_>) -> Option<Value> {
    let is_float = matches!(input.data_type, Some(DataType::F16 | DataType::F32));
    let channels = |channels: i64| usize::try_from(channels).ok().filter(|&num| num > 0);
    let indices =
        |columns: &[Column]| Value::Indices { of: Sites::Input, columns: columns.to_vec() };
    if input.name.starts_with(rulebook::PREFIX) {
        return None;
    }
    match input.shape.as_deref()? {
        &[_, _, Some(num)] if is_float => Some(Value::Points { channels: channels(num)? }),
        &[_, Some(num)] if is_float => Some(Value::Features { channels: channels(num)? }),
        [_] => Some(Value::Counts),
        [_, Some(3)] => Some(indices(&Column::IN_ORDER[1..])),
        [_, Some(4)] => Some(indices(&Column::IN_ORDER)),
        _ => None,
    }
}

impl<'a> Reader<'_, 'a> {
    /// Interprets a node of ONNX's own operator set.
    pub(super) fn standard(&mut self, node: &Node<'a>) -> Result<()> {
        let value = match node.operator {
            "Identity" => self.input(node, 0).cloned(),
            "Cast" => self.cast(node),
            "ReduceSum" => self.reduce_sum(node),
            "Div" => self.divide(node),
            "Unsqueeze" => self.unsqueeze(node),
            "Slice" => self.slice(node),
            "Gather" => self.gather(node),
            "Expand" => self.expand(node),
            "Concat" => self.concatenate(node),
            "Pad" => self.pad(node),
            "ConstantOfShape" => self.zeros(node),
            "Squeeze" => self.squeeze(node),
            "Split" => return self.split(node),
            "Mul" => self.scale(node),
            "Add" => match self.sum_of_indices(node) {
                Some(index) => Some(index),
                None => self.add(node)?,
            },
            "BatchNormalization" => self.batch_normalization(node)?,
            "Relu" => match self.input(node, 0) {
                Some(&Value::Sparse(tensor)) => {
                    Some(Value::Sparse(self.builder.relu(node.name(), tensor)?))
                }
                _ => None,
            },
            "ScatterND" => self.scatter_nd(node)?,
            "ScatterElements" => self.scatter_elements(node)?,
            "Transpose" => self.transpose(node)?,
            "Reshape" => return self.reshape(node),
            _ => None,
        };
        match value {
            Some(value) => {
                if matches!((node.operator, &value), ("Identity" | "Cast", Value::Sparse(_))) {
                    // One name for a tensor: what is folded into the convolution that
                    // writes it changes it under every name.
                    self.values.remove(node.inputs[0]);
                }
                self.values.insert(node::output(node)?, value);
                Ok(())
            }
            None => self.unknown(node),
        }
    }

    pub(super) fn input(&self, node: &Node<'_>, at: usize) -> Option<&Value> {
        self.values.get(*node.inputs.get(at)?)
    }

    /// Constant integers: an initializer or a node `Constant`.
    pub(super) fn ints(&self, node: &Node<'_>, at: usize) -> Option<Vec<i64>> {
        self.constant(node, at)?.ints().ok()
    }

    /// A constant of a few values: an initializer or a node `Constant`.
    pub(super) fn constant(&self, node: &Node<'_>, at: usize) -> Option<&Tensor<'a>> {
        let tensor = match self.graph.source(node.inputs.get(at)?)? {
            Source::Initializer(at) => &self.graph.initializers[at],
            Source::Node(at) => match self.graph.nodes[at].attribute("value")? {
                AttributeValue::Tensor(tensor) => tensor,
                _ => return None,
            },
            Source::Input(_) => return None,
        };
        Some(tensor).filter(|tensor| tensor.bytes.len() <= MAX_CONSTANT_BYTES)
    }

    fn cast(&self, node: &Node<'_>) -> Option<Value> {
        let value = self.input(node, 0)?;
        let is_f32 = node.attribute("to") == Some(&AttributeValue::Int(1));
        match value {
            Value::Indices { .. }
            | Value::Column { .. }
            | Value::LinearIndex { .. }
            | Value::Counts => Some(value.clone()),
            _ => is_f32.then(|| value.clone()),
        }
    }

    fn reduce_sum(&self, node: &Node<'_>) -> Option<Value> {
        let axes = match node.attribute("axes") {
            Some(AttributeValue::Ints(axes)) => axes.clone(),
            _ => self.ints(node, 1)?,
        };
        let keeps = node.attribute("keepdims") != Some(&AttributeValue::Int(0));
        match self.input(node, 0)? {
            &Value::Points { channels } if axes == [1] && !keeps => {
                Some(Value::PointSums { channels })
            }
            _ => None,
        }
    }

    fn divide(&self, node: &Node<'_>) -> Option<Value> {
        match (self.input(node, 0)?, self.input(node, 1)?) {
            (&Value::PointSums { channels }, Value::Counts) => Some(Value::Features { channels }),
            _ => None,
        }
    }

    fn unsqueeze(&self, node: &Node<'_>) -> Option<Value> {
        let axes = match node.attribute("axes") {
            Some(AttributeValue::Ints(axes)) => axes.clone(),
            _ => self.ints(node, 1)?,
        };
        match (self.input(node, 0)?, &axes[..]) {
            (Value::Counts, [1 | -1]) => Some(Value::Counts),
            (index @ Value::LinearIndex { .. }, [1 | -1]) => Some(index.clone()),
            (&Value::Column { of, column }, [1 | -1]) => {
                Some(Value::Indices { of, columns: vec![column] })
            }
            _ => None,
        }
    }
}
