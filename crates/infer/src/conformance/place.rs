//! A node of a file, as rules see it.

use std::cell::Cell;

use super::scope::Scope;
use super::shapes::Shapes;
use crate::onnx::{Model, Node};

/// What all nodes of a file are compared with.
pub(super) struct Checker<'a, 'm> {
    pub(super) bytes: &'a [u8],
    pub(super) model: &'m Model<'a>,
    /// The version of ONNX's own operator set.
    pub(super) set: i64,
    pub(super) with_shapes: bool,
    pub(super) shapes: Shapes,
    /// Whether shapes decide about a node.
    pub(super) is_open: Cell<bool>,
}

/// A node where it is: what rules ask.
pub(super) struct Place<'c, 'a, 'm> {
    pub(super) checker: &'c Checker<'a, 'm>,
    pub(super) scope: &'c Scope<'c, 'a>,
    pub(super) node: &'c Node<'a>,
}
