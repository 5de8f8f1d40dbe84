//! From the features of sites to the map, in Autoware's files.

use super::super::onnx::{AttributeValue, Node};
use super::super::{node, refuse};
use super::{Map, Reader, Value};
use crate::error::Result;

impl<'a> Reader<'_, 'a> {
    pub(super) fn zeros(&self, node: &Node<'_>) -> Option<Value> {
        let is_zero = match node.attribute("value") {
            None => true,
            Some(AttributeValue::Tensor(tensor)) => tensor.is_zero(),
            Some(_) => false,
        };
        is_zero.then(|| Value::Zeros { dims: self.ints(node, 0) })
    }

    /// `ScatterND` of the features of sites to zeros [1, grid, channels].
    pub(super) fn scatter(&mut self, node: &Node<'a>) -> Result<Option<Value>> {
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

    /// `Reshape` of a dense tensor to the map, or of counts to a column.
    pub(super) fn reshape(&mut self, node: &Node<'a>) -> Result<()> {
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
