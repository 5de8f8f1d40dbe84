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
mod studied;
mod study;
mod table;

pub use engine::DenseEngine;
pub use plan::{Buffer, Cost, Job, Kind, Plan, PlanOptions, Precision, Role, Step};
pub(crate) use studied::StudiedEngine;
pub(crate) use study::Study;
pub use table::Table;

use std::path::Path;

use plan::Ends;

use det_post_types::{
    ElementType, EngineOptions, Error, ErrorKind, NetworkPart, Result, TensorSpec,
};

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
    /// Reads a network of an ONNX file, as [`Self::new`] does: without the suppression at its end, and with the size of the image in
    /// place of an input `orig_target_sizes`.
    ///
    /// # Errors
    /// `Model` when the file cannot be read; the errors of [`Self::new`].
    pub fn of_file<'a>(
        path: &Path,
        part: NetworkPart,
        options: impl Into<PlanOptions<'a>>,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        Self::new(&bytes_of(path, part)?, options, shape_of)
    }

    /// Reads an ONNX file and lays it out for inputs of the shapes that `shape_of` gives.
    ///
    /// # Errors
    /// `Model` when the file is not of the format, and for the first node that is not covered: the message names its
    /// operator and name, and says why; for a name of a layer to keep that the file does not have, with the nearest
    /// ones, or that is part of no step; the errors of `shape_of`.
    pub fn new<'a>(
        bytes: &[u8],
        options: impl Into<PlanOptions<'a>>,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let PlanOptions { precision, keep_f32, channels_last_inputs, integers_as_floats } =
            options.into();
        let (mut graph, origin) = graph::import(bytes, keep_f32, shape_of)?;
        passes::run(&mut graph);
        check_kept(&graph, keep_f32)?;
        let elements = |specs: &[TensorSpec]| {
            specs.iter().map(|spec| spec.element.unwrap_or(ElementType::F32)).collect()
        };
        let (inputs, mut outputs): (Vec<_>, Vec<_>) =
            (elements(&origin.inputs), elements(&origin.outputs));
        for element in
            outputs.iter_mut().filter(|of| integers_as_floats && **of == ElementType::I32)
        {
            *element = ElementType::F32;
        }
        let shapes = |ids: &[usize]| ids.iter().map(|&id| graph.values[id].shape.clone()).collect();
        let (input_shapes, output_shapes) = (shapes(&graph.inputs), shapes(&graph.outputs));
        let plan =
            Plan::new(&mut graph, precision, &Ends { inputs, outputs, channels_last_inputs })?;
        Ok(Self {
            inputs: origin.inputs,
            input_shapes,
            outputs: origin.outputs,
            output_shapes,
            plan,
        })
    }
}

/// The options of each of the networks of a channel: each has the entries of
/// [`GpuEngineOptions::keep_f32`](det_post_types::GpuEngineOptions::keep_f32) that name its layers. Files are read only where there are
/// any.
///
/// # Errors
/// `Model` when a network cannot be read, and for an entry that names no layer of any, with the nearest.
pub fn options_of_networks<const N: usize>(
    options: &EngineOptions,
    networks: [&Path; N],
) -> Result<[EngineOptions; N]> {
    let mut all = std::array::from_fn(|_| options.clone());
    if !options.gpu.keep_f32.is_empty() {
        let bytes =
            networks.iter().map(|path| bytes_of(path, options.part)).collect::<Result<Vec<_>>>()?;
        let lists = graph::divided(&options.gpu.keep_f32, &bytes)?;
        all.iter_mut().zip(lists).for_each(|(options, list)| options.gpu.keep_f32 = list);
    }
    Ok(all)
}

/// The bytes of a network as it is laid out.
fn bytes_of(path: &Path, part: NetworkPart) -> Result<Vec<u8>> {
    crate::check_file(path)?;
    let unreadable = |cause: std::io::Error| {
        error(format!("cannot read the model {}", path.display())).with_source(cause)
    };
    match crate::target_sizes::adapted(path, part, None)? {
        Some(bytes) => Ok(bytes),
        None => std::fs::read(path).map_err(unreadable),
    }
}

/// Refuses entries of a list of kept layers that no node was made of.
fn check_kept(graph: &graph::Graph, keep_f32: &[String]) -> Result<()> {
    let mut is_there = vec![false; keep_f32.len()];
    for at in graph.nodes.iter().flat_map(|node| node.layer.kept_by()) {
        is_there[at] = true;
    }
    match is_there.iter().position(|is_there| !is_there) {
        None => Ok(()),
        Some(at) => refuse(format!(
            "engine.keep_f32: {:?} is part of no step: its result is a constant, or another layer computes it; \
             `det_post check --network FILE` lists the steps",
            keep_f32[at]
        )),
    }
}

fn error(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, STAGE, message)
}

fn refuse<T>(message: impl Into<String>) -> Result<T> {
    Err(error(message))
}
