//! Batches of networks on a GPU.
//!
//! The network has a separate stream. Each member writes its item of the input and reads its
//! items of the outputs in its own stream; events order these. The run is always of the whole
//! batch, so that it can be one CUDA graph: the items of members that have not entered are
//! those of an earlier run, and are not read.

use std::path::Path;
use std::time::Duration;

use super::host::NumBytes;
use super::network::{Network, failed, model_error};
use super::runner::Runner;
use crate::batch::{Batch, BatchSlot, Member, Work, check_open, item_spec};
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Event, Stream};
use det_post_types::{EngineOptions, Result, TensorSpec};

/// A network on a GPU whose first dimension is the batch.
pub struct DeviceWork {
    // Dropped first: works in the memory of the tensors.
    runner: Runner,
    network: Network,
    stream: Stream,
    /// Recorded behind the last run.
    ran: Event,
}

impl DeviceWork {
    fn load(
        model: &Path,
        options: &EngineOptions,
        device: &CudaDevice,
        num_places: usize,
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let stream = device.stream()?;
        let batch_shape = |spec: &TensorSpec| {
            check_open(spec, num_places)?;
            let mut shape = shape_of(&item_spec(spec))?;
            shape[0] = num_places;
            Ok(shape)
        };
        let (runner, network) = Runner::load(model, options, &stream, batch_shape)?;
        let Network { outputs, output_specs, .. } = &network;
        for (spec, output) in output_specs.iter().zip(outputs) {
            if let Some(output) = output
                && output.shape().first() != Some(&num_places)
            {
                let found = output.shape();
                let message = format!("output {spec} is {found:?} for a batch of {num_places}");
                return Err(model_error(message));
            }
        }
        let ran = Event::new(&stream)?;
        Ok(Self { runner, network, stream, ran })
    }
}

impl Work for DeviceWork {
    fn run(&mut self) -> Result<()> {
        self.runner.enqueue(&mut self.network, 0)?;
        self.ran.record(&self.stream)
    }
}

/// A place in a batch.
pub(super) struct DeviceMember {
    member: Member<DeviceWork>,
    stream: Stream,
    /// Recorded behind the work that writes the input, and behind that which reads the outputs.
    written: Event,
    read: Event,
    /// The outputs that are copied, since their items are not aligned.
    copied: Vec<usize>,
    copies: NumBytes,
}

impl DeviceMember {
    /// Enters a batch, whose network is loaded if it is not yet.
    pub(super) fn join(
        model: &Path,
        options: &EngineOptions,
        stream: &Stream,
        (slot, place): (&BatchSlot<DeviceWork>, usize),
        shape_of: impl Fn(&TensorSpec) -> Result<Vec<usize>> + Send + 'static,
    ) -> Result<(Self, Network)> {
        let device = stream.device();
        let num_places = slot.num_places();
        let start = || {
            let (model, options, device) = (model.to_owned(), options.clone(), device.clone());
            Batch::start(num_places, move || {
                DeviceWork::load(&model, &options, &device, num_places, shape_of)
            })
        };
        let is_here = |work: &mut DeviceWork| work.stream.device().ordinal() == device.ordinal();
        let batch = slot.running(is_here, start)?;
        let (network, copied, copies) = batch.with(|work| work.items(place, num_places, stream))?;
        let (written, read) = (Event::new(stream)?, Event::new(stream)?);
        let member = batch.join(place)?;
        Ok((Self { member, stream: stream.clone(), written, read, copied, copies }, network))
    }

    /// Enters the next run after the work that the stream has so far.
    pub(super) fn enter(&mut self) -> Result<()> {
        self.written.record(&self.stream)?;
        self.member.enter(|work| work.stream.wait_for(&self.written))
    }

    /// Waits on the host until the run is queued, at most `limit` for other members, and queues
    /// `then` behind it.
    pub(super) fn leave(
        &mut self,
        network: &mut Network,
        limit: Duration,
        then: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let Self { member, stream, read, copied, .. } = self;
        member.leave(limit, |work| {
            stream.wait_for(&work.ran)?;
            for &index in copied.iter() {
                let whole = work.network.outputs.get(index).and_then(Option::as_ref);
                let item = network.outputs.get_mut(index).and_then(Option::as_mut);
                if let Some((item, whole)) = item.zip(whole) {
                    item.enqueue_copy_of_item(whole, member.place())?;
                }
            }
            then()?;
            read.record(stream)?;
            work.stream.wait_for(read)
        })
    }

    pub(super) fn copies(&self) -> NumBytes {
        self.copies
    }
}

impl DeviceWork {
    /// The tensors of a member, the outputs that are copied, and its part of the copies between
    /// host and device.
    fn items(
        &self,
        place: usize,
        num_places: usize,
        stream: &Stream,
    ) -> Result<(Network, Vec<usize>, NumBytes)> {
        let Network { name, input_specs, output_specs, inputs, outputs } = &self.network;
        let input = |input: &DeviceTensor| {
            let not_aligned =
                || failed(format!("the items of {:?} are not aligned", input.shape()));
            input.item(place, stream)?.ok_or_else(not_aligned)
        };
        let mut copied = Vec::new();
        let mut output = |(index, output): (usize, &Option<DeviceTensor>)| {
            let Some(output) = output else { return Ok(None) };
            if let Some(item) = output.item(place, stream)? {
                return Ok(Some(item));
            }
            copied.push(index);
            DeviceTensor::zeros(stream, output.element(), &output.item_shape().0).map(Some)
        };
        let network = Network {
            name: format!("{name}, a batch of {num_places}"),
            input_specs: input_specs.iter().map(item_spec).collect(),
            output_specs: output_specs.iter().map(item_spec).collect(),
            inputs: inputs.iter().map(input).collect::<Result<_>>()?,
            outputs: outputs.iter().enumerate().map(&mut output).collect::<Result<_>>()?,
        };
        let NumBytes { to_host, to_device } = self.runner.copies();
        let copies = NumBytes { to_host: to_host / num_places, to_device: to_device / num_places };
        Ok((network, copied, copies))
    }
}
