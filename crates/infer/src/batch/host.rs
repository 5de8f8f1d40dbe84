//! Batches of networks on the CPU.

use std::sync::Arc;
use std::time::Duration;

use super::{Batch, BatchSlot, Member, Work, check_open, item_spec};
use crate::Engine;
use det_post_types::{Dim, ElementType, Error, ErrorKind, Result, Tensor, TensorSpec, TensorView};

/// The outputs of a run, by position.
pub type Outputs<'a> = dyn Fn(usize) -> Result<TensorView<'a>> + 'a;

/// A network on the CPU with one input: of one detector, or shared by several.
pub struct HostNetwork {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    name: String,
    engine: Runner,
}

enum Runner {
    Own(Box<dyn Engine>),
    Shared(Member<HostWork>),
}

impl HostNetwork {
    /// A network of one detector.
    pub fn own(engine: Box<dyn Engine>) -> Self {
        Self {
            inputs: engine.inputs().to_vec(),
            outputs: engine.outputs().to_vec(),
            name: engine.name().to_owned(),
            engine: Runner::Own(engine),
        }
    }

    /// A place in a batch, whose network `load` loads. `shape_of` gives the shape of the input
    /// of one member, with a first dimension of 1.
    ///
    /// # Errors
    /// Returns the errors of `load` and `shape_of`; `Model` for a network whose batch is fixed, or
    /// that has another number of inputs than one.
    pub fn shared(
        (slot, place): (&BatchSlot<HostWork>, usize),
        load: impl FnOnce() -> Result<Box<dyn Engine>> + Send + 'static,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>> + Send + 'static,
    ) -> Result<Self> {
        let num_places = slot.num_places();
        let start =
            || Batch::start(num_places, move || HostWork::new(load()?, num_places, shape_of));
        let batch: Arc<Batch<HostWork>> = slot.running(|_| true, start)?;
        let (inputs, outputs, name) = batch.with(|HostWork { engine, .. }| {
            let items = |specs: &[TensorSpec]| specs.iter().map(item_spec).collect();
            let name = format!("{}, a batch of {num_places}", engine.name());
            (items(engine.inputs()), items(engine.outputs()), name)
        });
        Ok(Self { inputs, outputs, name, engine: Runner::Shared(batch.join(place)?) })
    }

    /// Its input, as a member of a batch sees it.
    pub fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    /// Its outputs, as a member of a batch sees them.
    pub fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    /// Name and version of the engine.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether other detectors take part in its runs.
    pub fn is_shared(&self) -> bool {
        matches!(self.engine, Runner::Shared(_))
    }

    /// Gives the input of the next run. A network that is not shared runs.
    ///
    /// # Errors
    /// `Inference` when the run fails or the input does not fit; `Argument` until the previous
    /// frame has left.
    pub fn enter(&mut self, input: &TensorView<'_>) -> Result<()> {
        match &mut self.engine {
            Runner::Own(engine) => engine.run(&[*input]),
            Runner::Shared(member) => member.enter(|work| work.enter(member.place(), input)),
        }
    }

    /// Waits for the run, at most `limit` for other members, and calls `read` with its outputs.
    ///
    /// # Errors
    /// `Inference` when the run failed, and those of `read`.
    pub fn leave<T>(
        &mut self,
        limit: Duration,
        read: impl FnOnce(&Outputs<'_>) -> Result<T>,
    ) -> Result<T> {
        match &self.engine {
            Runner::Own(engine) => read(&|index| engine.output(index)),
            Runner::Shared(member) => member.leave(limit, |work| {
                let work = &*work;
                read(&|index| work.output(member.place(), index))
            }),
        }
    }
}

/// A network on the CPU and the input of its next run.
pub struct HostWork {
    engine: Box<dyn Engine>,
    /// The inputs of the members that have entered, in the order in which they did.
    input: Tensor,
    /// The shape of the input of a run: its first dimension is the number of items.
    shape: Vec<usize>,
    /// Whether the batch of the network is fixed: it runs for all places, entered or not.
    is_fixed: bool,
    entered: Vec<usize>,
    /// The places of the last run, in its order.
    ran: Vec<usize>,
    /// The shapes of the outputs of one member.
    output_shapes: Vec<Vec<usize>>,
}

impl HostWork {
    fn new(
        engine: Box<dyn Engine>,
        num_places: usize,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let [spec] = engine.inputs() else {
            let message = format!(
                "a network of a batch must have one input, found {}",
                engine.inputs().len()
            );
            return Err(Error::new(ErrorKind::Model, super::STAGE, message));
        };
        let specs = engine.inputs().iter().chain(engine.outputs());
        specs.into_iter().try_for_each(|spec| check_open(spec, num_places))?;
        let mut shape = shape_of(&item_spec(spec))?;
        shape[0] = num_places;
        let element = spec.element.unwrap_or(ElementType::F32);
        let is_fixed = matches!(spec.shape.as_deref(), Some([Dim::Fixed(_), ..]));
        let mut work = Self {
            input: Tensor::zeros(element, &shape)?,
            shape,
            is_fixed,
            entered: Vec::with_capacity(num_places),
            ran: Vec::with_capacity(num_places),
            output_shapes: vec![Vec::new(); engine.outputs().len()],
            engine,
        };
        // Shows whether the network takes a batch.
        work.entered.extend(0..num_places);
        work.run()?;
        Ok(work)
    }

    fn num_places(&self) -> usize {
        self.input.shape()[0]
    }

    fn enter(&mut self, place: usize, input: &TensorView<'_>) -> Result<()> {
        let (num_values, index) = (self.input.len() / self.num_places(), self.entered.len());
        if input.values().len() != num_values || index == self.num_places() {
            let message = format!(
                "{:?} as input {index} of {:?}, places {:?} have entered",
                input.shape(),
                self.input.shape(),
                self.entered
            );
            return Err(Error::new(ErrorKind::Inference, super::STAGE, message));
        }
        self.input.write_at(index * num_values, input.values())?;
        self.entered.push(place);
        Ok(())
    }

    /// An output of the last run, of one member.
    fn output(&self, place: usize, index: usize) -> Result<TensorView<'_>> {
        let item = self.ran.iter().rposition(|ran| *ran == place);
        let whole = self.engine.output(index)?;
        let shape = &self.output_shapes[index];
        let num_values: usize = shape.iter().product();
        let values =
            item.and_then(|item| whole.values().get(item * num_values..(item + 1) * num_values));
        let values =
            values.ok_or_else(|| failed(format!("output {index} has no place {place}")))?;
        TensorView::new(shape, values)
    }
}

impl Work for HostWork {
    fn run(&mut self) -> Result<()> {
        std::mem::swap(&mut self.entered, &mut self.ran);
        self.entered.clear();
        let num_places = self.num_places();
        let num_items = if self.is_fixed { num_places } else { self.ran.len() };
        self.shape[0] = num_items;
        let num_values = self.input.len() / num_places * num_items;
        let values = self.input.view().values().get(0..num_values);
        let values = values.ok_or_else(|| failed(format!("{num_items} items of {num_places}")))?;
        self.engine.run(&[TensorView::new(&self.shape, values)?])?;
        for (index, shape) in self.output_shapes.iter_mut().enumerate() {
            // An output of another type than engines give is not read.
            let Ok(found) = self.engine.output(index).map(|output| output.shape()) else {
                continue;
            };
            if found.first() != Some(&num_items) {
                let spec = &self.engine.outputs()[index];
                let message = format!("{spec} is {found:?} for a batch of {num_items}");
                return Err(Error::new(ErrorKind::Model, super::STAGE, message));
            }
            shape.clear();
            shape.push(1);
            shape.extend(&found[1..]);
        }
        Ok(())
    }
}

fn failed(message: String) -> Error {
    Error::new(ErrorKind::Inference, super::STAGE, message)
}
