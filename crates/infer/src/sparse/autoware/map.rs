//! From the features of sites to the map, in Autoware's files.

use super::super::{node, refuse};
use super::reader::{Map, Reader, Sites, Value};
use crate::onnx::{AttributeValue, Node};
use det_post_types::Result;

impl<'a> Reader<'_, 'a> {
    /// `ConstantOfShape` of zeros.
    pub(super) fn zeros(&self, node: &Node<'_>) -> Option<Value> {
        let is_zero = match node.attribute("value") {
            None => true,
            Some(AttributeValue::Tensor(tensor)) => tensor.is_zero(),
            Some(_) => false,
        };
        is_zero.then(|| Value::Zeros { dims: self.ints(node, 0) })
    }

    /// `ScatterND` of the features of sites to zeros [1, grid, channels].
    pub(super) fn scatter_nd(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
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

    /// `ScatterElements` of the features of sites to zeros [cells, channels].
    pub(super) fn scatter_elements(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
        let ([zeros, index, updates], _) = node::inputs(node, 0)?;
        let Some(&Value::Sparse(tensor)) = self.values.get(updates) else { return Ok(None) };
        let level = self.builder.level_index_of(tensor);
        let [s0, s1, s2] = self.builder.level(level).shape.map(i64::from);
        let strides = match self.values.get(index) {
            Some(Value::LinearIndex { of: Sites::Level(of), strides }) if *of == level => strides,
            _ => return self.not_understood(node, index, "linear indices of the level"),
        };
        let expected = [s0 * s1 * s2, s1 * s2, s2, 1];
        if *strides != expected {
            return refuse(format!(
                "{node}: linear indices with the strides {strides:?}; {expected:?} is expected"
            ));
        }
        if !matches!(node.attribute("axis"), None | Some(AttributeValue::Int(0))) {
            return refuse(format!("{node}: attribute axis is not 0"));
        }
        if !matches!(node.attribute("reduction"), None | Some(AttributeValue::Text("none"))) {
            return refuse(format!("{node}: attribute reduction is not none"));
        }
        let expected = [s0 * s1 * s2, self.builder.channels_of(tensor) as i64];
        match self.values.get(zeros) {
            Some(Value::Zeros { dims: Some(dims) }) if *dims == expected => {
                Ok(Some(Value::Rows(tensor)))
            }
            _ => self.not_understood(node, zeros, &format!("zeros of {expected:?}")),
        }
    }

    pub(super) fn transpose(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
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

    /// Checks the shape of a `Reshape`: one dimension may be left open, and 0
    /// keeps that of the input.
    fn check_reshape(&self, node: &Node<'_>, expected: &[i64]) -> Result<()> {
        let Some(shape) = self.ints(node, 1) else {
            return refuse(format!("{node}: its shape is not a constant"));
        };
        let num_open = shape.iter().filter(|&&dim| dim == -1).count();
        let dims = shape.iter().zip(expected).enumerate();
        let mut fits = shape.len() == expected.len() && num_open <= 1;
        for (at, (&dim, &expected)) in dims {
            // The batch is the first dimension of the input as well.
            fits &= dim == expected || dim == -1 || (at == 0 && dim == 0 && expected == 1);
        }
        if fits {
            return Ok(());
        }
        refuse(format!("{node}: a shape of {shape:?}; {expected:?} is expected"))
    }

    /// `Reshape` of a dense tensor to the map, of rows to a dense tensor, or of
    /// counts to a column.
    pub(super) fn reshape(&mut self, node: &Node<'a>) -> Result<()> {
        let output = node::output(node)?;
        let (tensor, order) = match self.input(node, 0) {
            Some(Value::Counts) if self.ints(node, 1).as_deref() == Some(&[-1, 1]) => {
                self.values.insert(output, Value::Counts);
                return Ok(());
            }
            Some(&Value::Rows(tensor)) => {
                let [s0, s1, s2] = self.builder.level_of(tensor).shape.map(i64::from);
                let channels = self.builder.channels_of(tensor) as i64;
                self.check_reshape(node, &[1, s0, s1, s2, channels])?;
                self.values.insert(output, Value::Dense { tensor, order: [0, 2, 3, 4, 1] });
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
        self.check_reshape(node, &expected)?;
        if let Some(Map { name, .. }) = self.map.replace(Map { name: output, tensor, axes }) {
            return refuse(format!("{node}: a second map beside {name}"));
        }
        Ok(())
    }
}
