//! The engine on the CPU: for tests, and to compare a GPU with.

use std::path::Path;

use det_post_ops::dense::HostArena;
use det_post_ops::dense::{Region, Window};
use half::f16;

use super::plan::Role;
use super::{Network, PlanOptions, STAGE, Study, run};
use crate::Engine;
use det_post_types::{
    ElementType, Error, ErrorKind, NetworkPart, Result, TensorSpec, TensorValues, TensorView,
};

/// The values of an output.
enum Output {
    F32(Vec<f32>),
    F16(Vec<f16>),
    I32(Vec<i32>),
}

/// A network of dense layers on the CPU.
pub struct DenseEngine {
    network: Network,
    arena: HostArena,
    outputs: Vec<Option<Output>>,
    name: String,
    study: Option<Study>,
}

impl DenseEngine {
    /// Loads an ONNX file for inputs of the shapes that `shape_of` gives.
    ///
    /// # Errors
    /// `Model` when the file cannot be read or the network is not covered.
    pub fn load<'a>(
        path: &Path,
        options: impl Into<PlanOptions<'a>>,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        Self::new(Network::of_file(path, NetworkPart::Whole, options, shape_of)?)
    }

    /// Prepares a network.
    ///
    /// # Errors
    /// `Argument` when there is not enough memory.
    pub fn new(network: Network) -> Result<Self> {
        let arena = run::arena(&network.plan)?;
        let outputs = network.outputs.iter().map(|_| None).collect();
        Ok(Self {
            network,
            arena,
            outputs,
            name: "dense layers on the CPU".to_owned(),
            study: None,
        })
    }

    /// Writes down what every step of every run writes.
    pub(super) fn with_study(self, study: Study) -> Self {
        Self { study: Some(study), ..self }
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    fn write_inputs(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        for (number, buffer) in self.network.plan.buffers().iter().enumerate() {
            let Role::Input(position) = buffer.role else { continue };
            let region = run::whole(number, buffer);
            match inputs.get(position).map(TensorView::values) {
                Some(TensorValues::F32(values)) => self.arena.write(&region, values)?,
                Some(TensorValues::F16(values)) => {
                    let wide: Vec<f32> = values.iter().map(|value| value.to_f32()).collect();
                    self.arena.write(&region, &wide)?;
                }
                _ => return Err(failed("an input that holds no floats")),
            }
        }
        Ok(())
    }

    fn read_outputs(&mut self) -> Result<()> {
        for (number, buffer) in self.network.plan.buffers().iter().enumerate() {
            let Role::Output(position) = buffer.role else { continue };
            let window = window(&self.network.output_shapes[position])?;
            let region = Region { buffer: number, window };
            self.outputs[position] = Some(match buffer.element {
                ElementType::F16 => {
                    let values = self.arena.read(&region)?.into_iter().map(f16::from_f32).collect();
                    Output::F16(values)
                }
                ElementType::I32 => Output::I32(self.arena.read_indices(&region)?),
                _ => Output::F32(self.arena.read(&region)?),
            });
        }
        Ok(())
    }
}

fn window(shape: &[usize]) -> Result<Window> {
    Window::contiguous(shape).ok_or_else(|| failed("an output of more than 6 dimensions"))
}

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Inference, STAGE, message)
}

impl Engine for DenseEngine {
    fn inputs(&self) -> &[TensorSpec] {
        &self.network.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.network.outputs
    }

    fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
        self.outputs.iter_mut().for_each(|output| *output = None);
        let shapes = &self.network.input_shapes;
        let fits = inputs.len() == shapes.len()
            && inputs.iter().zip(shapes).all(|(input, shape)| input.shape() == shape);
        if !fits {
            let found: Vec<&[usize]> = inputs.iter().map(|input| input.shape()).collect();
            return Err(failed(format!("inputs of {found:?}; {shapes:?} are laid out")));
        }
        self.write_inputs(inputs)?;
        for (at, step) in self.network.plan.steps().iter().enumerate() {
            run::step(&mut self.arena, step)
                .map_err(|cause| failed(format!("{} failed", step.name)).with_source(cause))?;
            if let Some(study) = &self.study {
                study.see(at, |target| self.arena.read(target))?;
            }
        }
        self.read_outputs()
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        let Some(Some(output)) = self.outputs.get(index) else {
            return Err(failed(format!("no output {index}: nothing ran")));
        };
        let values = match output {
            Output::F32(values) => TensorValues::F32(values),
            Output::F16(values) => TensorValues::F16(values),
            Output::I32(values) => TensorValues::I32(values),
        };
        TensorView::new(&self.network.output_shapes[index], values)
    }

    fn name(&self) -> &str {
        &self.name
    }
}
