//! An engine on the CPU that writes down what the layers of its network write.

use std::path::{Path, PathBuf};

use super::study::Study;
use super::{DenseEngine, Network, PlanOptions, bytes_of, graph};
use crate::Engine;
use det_post_types::{EngineOptions, GpuEngineOptions, LayerStudy, Result, TensorSpec, TensorView};

/// Dense layers on the CPU under study, laid out for the shapes that its inputs have.
pub(crate) struct StudiedEngine {
    model: PathBuf,
    bytes: Vec<u8>,
    gpu: GpuEngineOptions,
    study: LayerStudy,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    engine: Option<DenseEngine>,
}

impl StudiedEngine {
    /// Reads an ONNX file.
    ///
    /// # Errors
    /// `Model` when it cannot be read or is not of the format.
    pub(crate) fn load(model: &Path, options: &EngineOptions, study: &LayerStudy) -> Result<Self> {
        let bytes = bytes_of(model, options.part)?;
        let (inputs, outputs) = graph::tensors(&bytes)?;
        Ok(Self {
            model: model.to_owned(),
            bytes,
            gpu: options.gpu.clone(),
            study: study.clone(),
            inputs,
            outputs,
            engine: None,
        })
    }

    /// The engine for inputs of these shapes.
    fn engine(&mut self, inputs: &[TensorView<'_>]) -> Result<&mut DenseEngine> {
        let is_laid_out = self.engine.as_ref().is_some_and(|engine| {
            let shapes = &engine.network().input_shapes;
            shapes.iter().map(Vec::as_slice).eq(inputs.iter().map(TensorView::shape))
        });
        if !is_laid_out {
            let shape_of = |spec: &TensorSpec| {
                let at = self.inputs.iter().position(|other| other.name == spec.name);
                match at.and_then(|at| inputs.get(at)) {
                    Some(input) => Ok(input.shape().to_vec()),
                    None => Err(super::error(format!("input {spec} is missing"))),
                }
            };
            let network = Network::new(&self.bytes, PlanOptions::from(&self.gpu), &shape_of)?;
            let study = Study::begin(&self.study, &self.model, NAME, &network);
            self.engine = Some(DenseEngine::new(network)?.with_study(study));
        }
        self.engine.as_mut().ok_or_else(|| super::error("nothing is laid out"))
    }
}

const NAME: &str = "dense layers on the CPU, 16-bit floats rounded where they are stored";

impl Engine for StudiedEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.engine(inputs)?.run(inputs)
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        match &self.engine {
            Some(engine) => engine.output(index),
            None => Err(super::error(format!("no output {index}: nothing ran"))),
        }
    }

    fn name(&self) -> &str {
        NAME
    }
}
