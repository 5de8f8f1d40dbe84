//! Standard nodes around the convolutions of Autoware's files.

use super::super::onnx::{AttributeValue, DataType, Node, Source, ValueInfo};
use super::super::operation::GridAxes;
use super::super::{node, refuse};
use super::{Map, Reader, Sites, Value};
use crate::error::Result;

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
        [GridAxes::Zyx, GridAxes::Xyz, GridAxes::Yxz]
            .into_iter()
            .find(|axes| axes.of_zyx() == [a, b, c])
    }
}

/// What an input of the graph is, by its type and shape.
pub(super) fn input(input: &ValueInfo<'_>) -> Option<Value> {
    let is_float = matches!(input.data_type, Some(DataType::F16 | DataType::F32));
    let channels = |channels: i64| usize::try_from(channels).ok().filter(|&num| num > 0);
    let indices =
        |columns: &[Column]| Value::Indices { of: Sites::Input, columns: columns.to_vec() };
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
            "Add" => self.add(node)?,
            "BatchNormalization" => self.batch_normalization(node)?,
            "Relu" => match self.input(node, 0) {
                Some(&Value::Sparse(tensor)) => {
                    Some(Value::Sparse(self.builder.relu(node.name(), tensor)?))
                }
                _ => None,
            },
            "ScatterND" => self.scatter(node)?,
            "Transpose" => self.transpose(node)?,
            "Reshape" => return self.reshape(node),
            _ => None,
        };
        match value {
            Some(value) => {
                self.values.insert(node::output(node)?, value);
                Ok(())
            }
            None => self.unknown(node),
        }
    }

    fn input(&self, node: &Node<'_>, at: usize) -> Option<&Value> {
        self.values.get(*node.inputs.get(at)?)
    }

    /// Constant integers: an initializer or a node `Constant`.
    fn ints(&self, node: &Node<'_>, at: usize) -> Option<Vec<i64>> {
        let name = node.inputs.get(at)?;
        match self.graph.source(name)? {
            Source::Initializer(at) => self.graph.initializers[at].ints().ok(),
            Source::Node(at) => match self.graph.nodes[at].attribute("value")? {
                AttributeValue::Tensor(tensor) => tensor.ints().ok(),
                _ => None,
            },
            Source::Input(_) => None,
        }
    }

    fn cast(&self, node: &Node<'_>) -> Option<Value> {
        let value = self.input(node, 0)?;
        let is_f32 = node.attribute("to") == Some(&AttributeValue::Int(1));
        match value {
            Value::Indices { .. } | Value::Column { .. } | Value::Counts => Some(value.clone()),
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
            (&Value::Column { of, column }, [1 | -1]) => {
                Some(Value::Indices { of, columns: vec![column] })
            }
            _ => None,
        }
    }

    /// `Slice` along one axis: the first channels of points, or columns.
    fn slice(&self, node: &Node<'_>) -> Option<Value> {
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
    fn gather(&self, node: &Node<'_>) -> Option<Value> {
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
    fn expand(&self, node: &Node<'_>) -> Option<Value> {
        match self.input(node, 0)? {
            column @ Value::Column { .. } => Some(column.clone()),
            _ => None,
        }
    }

    /// `Concat` of columns; zeros are the batch.
    fn concatenate(&self, node: &Node<'_>) -> Option<Value> {
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
    fn pad(&self, node: &Node<'_>) -> Option<Value> {
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

    fn zeros(&self, node: &Node<'_>) -> Option<Value> {
        let is_zero = match node.attribute("value") {
            None => true,
            Some(AttributeValue::Tensor(tensor)) => tensor.is_zero(),
            Some(_) => false,
        };
        is_zero.then(|| Value::Zeros { dims: self.ints(node, 0) })
    }

    /// `Add` of two tensors of sites, or of a bias.
    fn add(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([a, b], _) = node::inputs(node, 0)?;
        let (first, second) = (self.values.get(a), self.values.get(b));
        let name = node.name();
        let (tensor, written, bias) = match (first, second) {
            (Some(&Value::Sparse(a)), Some(&Value::Sparse(b))) => {
                return Ok(Some(Value::Sparse(self.builder.add(name, [a, b])?)));
            }
            (Some(&Value::Sparse(tensor)), None) => (tensor, a, b),
            (None, Some(&Value::Sparse(tensor))) => (tensor, b, a),
            _ => return Ok(None),
        };
        let channels = self.builder.channels_of(tensor);
        let bias = self.constants.per_channel(node, bias, channels)?;
        let scale = vec![1.0; channels];
        let shift: Vec<f64> = bias.iter().map(|&bias| bias.into()).collect();
        self.builder.fold(name, tensor, &scale, &shift)?;
        // What was written before the bias exists no more.
        self.values.remove(written);
        Ok(Some(Value::Sparse(tensor)))
    }

    fn batch_normalization(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([input, parameters @ ..], _) = node::inputs::<5>(node, 0)?;
        let Some(&Value::Sparse(tensor)) = self.values.get(input) else { return Ok(None) };
        let channels = self.builder.channels_of(tensor);
        let mut read = |name| self.constants.per_channel(node, name, channels);
        let [gamma, beta, mean, variance] = parameters;
        let (gamma, beta) = (read(gamma)?, read(beta)?);
        let (mean, variance) = (read(mean)?, read(variance)?);
        let epsilon = match node.attribute("epsilon") {
            None => 1e-5,
            Some(&AttributeValue::Float(epsilon)) if epsilon >= 0.0 => f64::from(epsilon),
            Some(_) => return refuse(format!("{node}: attribute epsilon is not a positive float")),
        };
        if let Some(at) = variance.iter().position(|&v| f64::from(v) + epsilon <= 0.0) {
            return refuse(format!("{node}: variance {at} is {}", variance[at]));
        }
        let scale: Vec<f64> = gamma
            .iter()
            .zip(&*variance)
            .map(|(&gamma, &variance)| f64::from(gamma) / (f64::from(variance) + epsilon).sqrt())
            .collect();
        let shift: Vec<f64> =
            (0..channels).map(|c| f64::from(beta[c]) - f64::from(mean[c]) * scale[c]).collect();
        self.builder.fold(node.name(), tensor, &scale, &shift)?;
        self.values.remove(input);
        Ok(Some(Value::Sparse(tensor)))
    }

    /// `ScatterND` of the features of sites to zeros [1, grid, channels].
    fn scatter(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([zeros, indices, updates], _) = node::inputs(node, 0)?;
        let Some(&Value::Sparse(tensor)) = self.values.get(updates) else { return Ok(None) };
        let Some(Value::Indices { of, columns }) = self.values.get(indices) else {
            return self.not_understood(node, indices, "coordinates");
        };
        let (of, columns) = (*of, columns.clone());
        let level = self.level_of_indices(node, of, &columns)?;
        if level != self.builder.level_index_of(tensor) {
            return refuse(format!("{node}: features and coordinates are of different levels"));
        }
        let Some(Value::Zeros { dims }) = self.values.get(zeros) else {
            return self.not_understood(node, zeros, "zeros");
        };
        let [s0, s1, s2] = self.builder.level(level).shape.map(i64::from);
        let expected = [1, s0, s1, s2, self.builder.channels_of(tensor) as i64];
        match dims {
            Some(dims) if *dims != expected => {
                refuse(format!("{node}: zeros of {dims:?}; {expected:?} is expected"))
            }
            _ => Ok(Some(Value::Dense { tensor, order: [0, 2, 3, 4, 1] })),
        }
    }

    fn transpose(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let Some(&Value::Dense { tensor, order }) = self.input(node, 0) else { return Ok(None) };
        let Some(AttributeValue::Ints(dims)) = node.attribute("perm") else {
            return refuse(format!("{node}: attribute perm is missing"));
        };
        if dims.len() != 5 || (0..5).any(|dim| !dims.contains(&dim)) {
            return refuse(format!("{node}: attribute perm is {dims:?}, no permutation of 5"));
        }
        let mut transposed = [0; 5];
        for (to, &from) in transposed.iter_mut().zip(dims) {
            *to = order[from as usize];
        }
        Ok(Some(Value::Dense { tensor, order: transposed }))
    }

    /// `Reshape` of a dense tensor to the map, or of counts to a column.
    fn reshape(&mut self, node: &Node<'a>) -> Result<()> {
        let shape = self.ints(node, 1);
        let output = node::output(node)?;
        let (tensor, order) = match self.input(node, 0) {
            Some(Value::Counts) if shape.as_deref() == Some(&[-1, 1]) => {
                self.values.insert(output, Value::Counts);
                return Ok(());
            }
            Some(&Value::Dense { tensor, order }) => (tensor, order),
            _ => return self.unknown(node),
        };
        let [0, 1, depth, rows, columns] = order else {
            return refuse(format!(
                "{node}: its input has the dimensions {order:?} of [batch, channels, grid]; \
                 batch and channels have to come first"
            ));
        };
        let axes = [depth, rows, columns].map(|dim| dim - 2);
        let grid = self.builder.level_of(tensor).shape;
        let [depth, rows, columns] = axes.map(|axis| i64::from(grid[axis]));
        let expected = [1, self.builder.channels_of(tensor) as i64 * depth, rows, columns];
        // One dimension may be left open; 0 copies that of the input.
        let fits = |shape: &[i64]| {
            let open = shape.iter().filter(|&&dim| dim == -1).count();
            let mut dims = shape.iter().zip(expected);
            let equal = dims.all(|(&dim, expected)| dim == expected || dim == -1)
                || (shape.first() == Some(&0) && shape[1..] == expected[1..]);
            shape.len() == 4 && open <= 1 && equal
        };
        match shape {
            Some(shape) if fits(&shape) => {}
            Some(shape) => {
                return refuse(format!("{node}: a shape of {shape:?}; {expected:?} is expected"));
            }
            None => return refuse(format!("{node}: its shape is not a constant")),
        }
        if let Some(Map { name, .. }) = self.map.replace(Map { name: output, tensor, axes }) {
            return refuse(format!("{node}: a second map beside {name}"));
        }
        Ok(())
    }
}
