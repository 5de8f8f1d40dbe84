//! What the layers of a network write, and an engine on the CPU that says so.

use std::path::{Path, PathBuf};

use det_post_ops::dense::Region;

use super::{DenseEngine, Kind, Network, Precisions, bytes_of, graph};
use crate::Engine;
use det_post_types::{
    ElementType, EngineOptions, GpuEngineOptions, LayerStudy, Result, StudiedLayer, StudiedNetwork,
    TensorSpec, TensorView,
};

/// The part of a study that a network writes.
pub(crate) struct Study {
    study: LayerStudy,
    model: PathBuf,
    /// By step: numbers of layers and the windows that they write.
    writes: Vec<Vec<(usize, Vec<Region>)>>,
}

impl Study {
    /// Adds a network to a study.
    pub(crate) fn begin(study: &LayerStudy, model: &Path, engine: &str, network: &Network) -> Self {
        let (mut layers, mut writes) = (Vec::new(), Vec::new());
        let buffers = network.plan.buffers();
        for step in network.plan.steps() {
            let parts = match &step.kind {
                Kind::Pointwise(jobs) => {
                    jobs.iter().map(|job| (&job.name, &job.layers, job.targets.clone())).collect()
                }
                kind => vec![(&step.name, &step.layers, kind.targets())],
            };
            let mut of_step = Vec::new();
            for (name, of_file, mut targets) in parts {
                targets.retain(|target| buffers[target.buffer].element != ElementType::I32);
                let Some(first) = targets.first() else { continue };
                of_step.push((layers.len(), targets.clone()));
                layers.push(StudiedLayer {
                    name: name.to_string(),
                    layers: of_file.iter().map(|name| name.to_string()).collect(),
                    kernel: step.kind.shown(),
                    products: step.kind.products(),
                    stored: buffers[first.buffer].element,
                    largest: 0.0,
                    num_not_finite: 0,
                });
            }
            writes.push(of_step);
        }
        let model = model.to_owned();
        study.begin(StudiedNetwork { model: model.clone(), engine: engine.to_owned(), layers });
        Self { study: study.clone(), model, writes }
    }

    /// Adds what a step has written; `read` gives the values of a window.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn see(
        &self,
        step: usize,
        read: impl Fn(&Region) -> Result<Vec<f32>>,
    ) -> Result<()> {
        for (layer, targets) in self.writes.get(step).into_iter().flatten() {
            for target in targets {
                self.study.see(&self.model, *layer, &read(target)?);
            }
        }
        Ok(())
    }
}

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
        let bytes = bytes_of(model)?;
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
            let network = Network::new(&self.bytes, Precisions::from(&self.gpu), &shape_of)?;
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
