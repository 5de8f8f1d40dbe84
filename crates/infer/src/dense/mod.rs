//! Networks of dense layers of our own: the engine `cuda`.
//!
//! An ONNX file becomes a graph of typed operations between values whose shapes are known; passes fold
//! constants and fuse what follows and precedes a convolution; a [`Plan`] gives every value a window of a buffer and
//! lists the steps, each one launch. The same plan runs on the CPU, by the references of the operations
//! ([`DenseEngine`]), and on a GPU.

mod engine;
mod function;
mod graph;
mod passes;
mod plan;
mod program;
mod run;
mod table;

pub use engine::DenseEngine;
pub use plan::{Buffer, Cost, Job, Kind, Plan, Precision, Role, Step};
pub use table::Table;

use std::path::Path;

use det_post_types::{Error, ErrorKind, Result, TensorSpec};

/// The stage of errors.
const STAGE: &str = "dense";

/// A network with its plan.
#[derive(Clone, Debug)]
pub struct Network {
    /// Inputs with the dimensions of the file.
    pub inputs: Vec<TensorSpec>,
    /// Shapes of the inputs.
    pub input_shapes: Vec<Vec<usize>>,
    /// Outputs with the shapes that follow.
    pub outputs: Vec<TensorSpec>,
    /// Shapes of the outputs.
    pub output_shapes: Vec<Vec<usize>>,
    /// The plan.
    pub plan: Plan,
}

impl Network {
    /// Reads an ONNX file, as [`Self::new`] does: without the suppression at its end, and with the size of the image in
    /// place of an input `orig_target_sizes`.
    ///
    /// # Errors
    /// `Model` when the file cannot be read; the errors of [`Self::new`].
    pub fn of_file(
        path: &Path,
        precision: Precision,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        crate::check_file(path)?;
        let unreadable = |cause: std::io::Error| {
            error(format!("cannot read the model {}", path.display())).with_source(cause)
        };
        let bytes = match crate::target_sizes::adapted(path)? {
            Some(bytes) => bytes,
            None => std::fs::read(path).map_err(unreadable)?,
        };
        Self::new(&bytes, precision, shape_of)
    }

    /// Reads an ONNX file and lays it out for inputs of the shapes that `shape_of` gives.
    ///
    /// # Errors
    /// `Model` when the file is not of the format, and for the first node that is not covered: the message names its
    /// operator and name, and says why; the errors of `shape_of`.
    pub fn new(
        bytes: &[u8],
        precision: Precision,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let (mut graph, origin) = graph::import(bytes, shape_of)?;
        passes::run(&mut graph);
        let elements = |specs: &[TensorSpec]| {
            specs
                .iter()
                .map(|spec| spec.element.unwrap_or(det_post_types::ElementType::F32))
                .collect()
        };
        let (inputs, outputs): (Vec<_>, Vec<_>) =
            (elements(&origin.inputs), elements(&origin.outputs));
        let shapes = |ids: &[usize]| ids.iter().map(|&id| graph.values[id].shape.clone()).collect();
        let (input_shapes, output_shapes) = (shapes(&graph.inputs), shapes(&graph.outputs));
        let plan = Plan::new(&mut graph, precision, &inputs, &outputs)?;
        Ok(Self {
            inputs: origin.inputs,
            input_shapes,
            outputs: origin.outputs,
            output_shapes,
            plan,
        })
    }
}

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(error(message))
}
