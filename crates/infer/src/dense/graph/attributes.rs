//! The attributes and inputs of a node of the file.

use std::sync::Arc;

use super::{Data, Graph, Id, Layer};
use crate::onnx::{AttributeValue, Node};

/// Why a node is not covered.
pub(super) type Reason = String;

/// A node of the file while it is imported.
pub(super) struct Place<'n, 'a> {
    pub(super) node: &'n Node<'a>,
    /// Operator, name, and whether it keeps 32-bit floats.
    pub(super) layer: Layer,
    /// `None` where an input is left out.
    pub(super) inputs: Vec<Option<Id>>,
    /// The version of ONNX's own operator set.
    pub(super) set: i64,
}

impl Place<'_, '_> {
    /// An input that the operator needs.
    pub(super) fn input(&self, at: usize) -> Result<Id, Reason> {
        self.optional(at).ok_or_else(|| format!("input {at} is missing"))
    }

    /// An input that may be left out.
    pub(super) fn optional(&self, at: usize) -> Option<Id> {
        self.inputs.get(at).copied().flatten()
    }

    /// The integers of an input; `None` where it is left out.
    pub(super) fn integers(&self, graph: &Graph, at: usize) -> Result<Option<Arc<[i64]>>, Reason> {
        let Some(id) = self.optional(at) else { return Ok(None) };
        let value = &graph.values[id];
        match &value.constant {
            Some(Data::Integers(values)) => Ok(Some(values.clone())),
            Some(Data::Floats(_)) => {
                Err(format!("input {}: floats instead of integers", value.name))
            }
            None => Err(format!("input {} depends on the inputs of the network", value.name)),
        }
    }

    /// The floats of an input; `None` where it is left out or has no elements.
    pub(super) fn floats(&self, graph: &Graph, at: usize) -> Result<Option<Arc<[f32]>>, Reason> {
        let Some(id) = self.optional(at) else { return Ok(None) };
        let value = &graph.values[id];
        match &value.constant {
            Some(data) if data.len() == 0 => Ok(None),
            Some(data) => Ok(Some(data.to_floats())),
            None => Err(format!("input {} depends on the inputs of the network", value.name)),
        }
    }

    /// An integer attribute.
    pub(super) fn int(&self, name: &str) -> Result<Option<i64>, Reason> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(format!("attribute {name} is not an integer")),
        }
    }

    /// An attribute that is 0 or 1.
    pub(super) fn flag(&self, name: &str, default: bool) -> Result<bool, Reason> {
        match self.int(name)? {
            None => Ok(default),
            Some(0) => Ok(false),
            Some(1) => Ok(true),
            Some(value) => Err(format!("attribute {name} is {value}; 0 and 1 are defined")),
        }
    }

    /// A float attribute.
    pub(super) fn float(&self, name: &str, default: f32) -> Result<f32, Reason> {
        match self.node.attribute(name) {
            None => Ok(default),
            Some(AttributeValue::Float(value)) => Ok(*value),
            Some(_) => Err(format!("attribute {name} is not a float")),
        }
    }

    /// A text attribute.
    pub(super) fn text(&self, name: &str) -> Result<Option<&str>, Reason> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Text(value)) => Ok(Some(value)),
            Some(_) => Err(format!("attribute {name} is not text")),
        }
    }

    /// An attribute of integers.
    pub(super) fn ints(&self, name: &str) -> Result<Option<&[i64]>, Reason> {
        match self.node.attribute(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(values)) => Ok(Some(values)),
            Some(_) => Err(format!("attribute {name} is not a list of integers")),
        }
    }

    /// Integers that older operator sets have as an attribute and newer ones as an input.
    pub(super) fn ints_or_input(
        &self,
        graph: &Graph,
        name: &str,
        at: usize,
    ) -> Result<Option<Vec<i64>>, Reason> {
        match self.ints(name)? {
            Some(values) => Ok(Some(values.to_vec())),
            None => Ok(self.integers(graph, at)?.map(|values| values.to_vec())),
        }
    }
}

/// An axis of a rank, which counts from the end where it is negative.
pub(super) fn axis_of(axis: i64, rank: usize) -> Result<usize, Reason> {
    let found = if axis < 0 { axis.checked_add(rank as i64) } else { Some(axis) };
    let found = found.and_then(|axis| usize::try_from(axis).ok()).filter(|&axis| axis < rank);
    found.ok_or_else(|| format!("axis {axis} of {rank} dimensions"))
}

/// Axes of a rank, ascending, each once.
pub(super) fn axes_of(axes: &[i64], rank: usize) -> Result<Vec<usize>, Reason> {
    let mut found = axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    found.sort_unstable();
    if found.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("axes {axes:?} name a dimension twice"));
    }
    Ok(found)
}

/// A length or count that is not negative.
pub(super) fn length(value: i64) -> Result<usize, Reason> {
    usize::try_from(value).map_err(|_| format!("{value} where a length is expected"))
}
