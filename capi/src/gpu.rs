//! Suppression and letterbox of arrays in the memory of a GPU, and what other operations need for
//! such arrays.
//!
//! They run on streams of their own: after the work that is queued on the caller's stream when a
//! call begins, and before what is queued there after the call. What the `unsafe` blocks rely on
//! is the contract of the header: the arrays are as long as stated and stay unchanged until the
//! call returns, and the caller's stream is one of this GPU.

use det_post::Result;
use det_post_ops::arrays::candidates::cuda::{Columns, DeviceArrays, DeviceClasses, Workspace};
use det_post_ops::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, In, InPlaceUploads, Plain, Stream,
};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox};
use det_post_ops::nms::cuda::{Capacity, Suppressible, Suppression};
use det_post_ops::shared::DeviceCandidates;
use det_post_types::{
    Box2d, Box3d, Candidate, DeviceBytes, ElementType, ImageView, Kept, Letterbox, RotatedBox2d,
};

use super::call::{Call, In as Values};
use super::tensors::Tensor;

/// A GPU, with kernels and memory of the operations on it.
pub(super) struct Gpu {
    device: CudaDevice,
    /// The driver's handle of the caller's stream.
    pub(super) caller: u64,
    pub(super) aligned: Option<Session<Box2d>>,
    pub(super) rotated: Option<Session<RotatedBox2d>>,
    pub(super) in_space: Option<Session<Box3d>>,
    letterbox: Option<LetterboxSession>,
}

/// Addresses of boxes, scores and, or 0, classes in the memory of a GPU.
#[derive(Clone, Copy)]
pub(super) struct Addresses {
    pub(super) boxes: u64,
    pub(super) scores: u64,
    pub(super) classes: u64,
    pub(super) num_boxes: usize,
    pub(super) box_len: usize,
}

/// Survivors in the memory of a GPU.
pub(super) struct OnDevice {
    pub(super) indices: u64,
    pub(super) scores: u64,
    pub(super) num: usize,
}

/// The most classes with thresholds of their own.
const NUM_CLASSES: usize = 256;

/// The capacity of memory for so many values: few sizes serve all calls.
pub(super) fn rounded_up(num: usize) -> usize {
    num.max(1024).checked_next_power_of_two().unwrap_or(num)
}

/// Lets later work of the caller's stream begin after that of `stream`; after an error, waits.
fn settle<R>(stream: &Stream, caller: u64, ran: Result<R>) -> Result<R> {
    // SAFETY: a live stream of this GPU, by the contract of this file.
    let settled = ran.and_then(|ran| unsafe { stream.precede(caller) }.map(|()| ran));
    if settled.is_err() {
        // The arrays may be freed when the call returns. This reports the same error again.
        let _ = stream.synchronize();
    }
    settled
}

/// Lets a stream, whose memory is freed when its work is done, wait for what the caller's stream
/// still reads there.
pub(super) fn finish(stream: &Stream, caller: u64) -> Result<()> {
    // SAFETY: a live stream of this GPU, by the contract of this file.
    unsafe { stream.follow(caller) }
}

/// Runs work that queues on `stream`, and may wait for it, between the work of the caller's stream
/// before the call and after it.
pub(super) fn in_order<R>(
    stream: &Stream,
    caller: u64,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    // SAFETY: a live stream of this GPU, by the contract of this file.
    unsafe { stream.follow(caller)? };
    let ran = work();
    settle(stream, caller, ran)
}

/// Values of the caller in the memory of a GPU, which work of `stream` within [`in_order`] reads.
pub(super) fn values_of<'call, T: Plain>(
    _: &'call Call,
    stream: &Stream,
    values: Values<T>,
    len: usize,
) -> Result<In<'call, T>> {
    // SAFETY: as many values, by the contract of this file, which are read before the caller's
    // later work.
    unsafe { In::borrow(stream.device(), values.number(), len) }
}

/// A tensor of the caller in the memory of a GPU, float32, float16 or int8, as [`values_of`].
pub(super) fn tensor_of(call: &Call, stream: &Stream, tensor: &Tensor) -> Result<DeviceTensor> {
    let (element, shape, address) = tensor.on_device(call)?;
    let len = shape.iter().product();
    // SAFETY: as in `values_of`; the buffers are only read.
    let values = unsafe {
        match element {
            ElementType::F16 => DeviceValues::F16(DeviceBuffer::borrow(stream, address, len)?),
            ElementType::I8 => DeviceValues::I8(DeviceBuffer::borrow(stream, address, len)?),
            _ => DeviceValues::F32(DeviceBuffer::borrow(stream, address, len)?),
        }
    };
    DeviceTensor::of(shape, values)
}

impl Gpu {
    /// A stream for the memory of an operation.
    pub(super) fn stream(&self) -> Result<Stream> {
        self.device.stream()
    }

    pub(super) fn new(device: CudaDevice) -> Self {
        let (aligned, rotated, in_space) = (None, None, None);
        Self { device, caller: 0, aligned, rotated, in_space, letterbox: None }
    }

    /// Suppresses boxes in the memory of this GPU. `session` is one of its own, taken.
    pub(super) fn suppress<B>(
        &self,
        session: &mut Option<Session<B>>,
        arrays: &Addresses,
        nms: &B::Nms,
    ) -> Result<OnDevice>
    where
        B: Columns + Copy + Suppressible,
        B::Nms: Clone + PartialEq,
        Candidate<B>: Plain,
    {
        let capacity = rounded_up(arrays.num_boxes);
        let fits = |of: &Session<B>| of.nms == *nms && of.candidates.capacity() == capacity;
        let session = match session.take() {
            Some(of_before) if fits(&of_before) => session.insert(of_before),
            other => {
                other.map(|of_before| finish(&of_before.stream, self.caller)).transpose()?;
                session.insert(Session::new(&self.device, nms, capacity)?)
            }
        };
        let ran = session.run(arrays, self.caller);
        settle(&session.stream, self.caller, ran)
    }

    /// Resizes an image in the memory of this GPU. The address of the input of the network, and
    /// the placement of the image.
    pub(super) fn letterbox(
        &mut self,
        image: &ImageView<'_, DeviceBytes<'_>>,
        params: &LetterboxParams,
        (element, shape): (ElementType, &[usize; 4]),
    ) -> Result<(u64, Letterbox)> {
        let num_bytes = rounded_up(image.data().len());
        let fits = |of: &LetterboxSession| {
            of.image.capacity() == num_bytes
                && (of.tensor.element(), of.tensor.shape()) == (element, &shape[..])
        };
        let session = match self.letterbox.take() {
            Some(of_before) if fits(&of_before) => self.letterbox.insert(of_before),
            other => {
                other.map(|of_before| finish(&of_before.stream, self.caller)).transpose()?;
                let made = LetterboxSession::new(&self.device, num_bytes, (element, shape))?;
                self.letterbox.insert(made)
            }
        };
        let LetterboxSession { stream, uploads, image: copy, kernels, tensor } = session;
        let ran = uploads
            .scope(|scope| copy.enqueue_copy(image, scope))
            .and_then(|()| enqueue_letterbox(stream, kernels, copy, params, tensor));
        let placed = settle(stream, self.caller, ran)?;
        let address = match tensor.values_mut() {
            DeviceValues::F32(values) => values.address(),
            DeviceValues::F16(values) => values.address(),
            DeviceValues::I8(values) => values.address(),
        };
        Ok((address, placed))
    }
}

/// Kernels and memory of a suppression.
pub(super) struct Session<B: Suppressible> {
    stream: Stream,
    nms: B::Nms,
    arrays: Workspace<B>,
    candidates: DeviceCandidates<B>,
    suppression: Suppression<B>,
    kept: Vec<Kept>,
    indices: DeviceBuffer<u64>,
    scores: DeviceBuffer<f32>,
}

impl<B> Session<B>
where
    B: Columns + Copy + Suppressible,
    B::Nms: Clone,
    Candidate<B>: Plain,
{
    fn new(device: &CudaDevice, nms: &B::Nms, capacity: usize) -> Result<Self> {
        let stream = device.stream()?;
        let limits = Capacity { candidates: capacity, classes: NUM_CLASSES };
        Ok(Self {
            nms: nms.clone(),
            arrays: Workspace::new(&stream)?,
            candidates: DeviceCandidates::with_capacity(&stream, capacity)?,
            suppression: Suppression::new(&stream, nms, limits)?,
            kept: Vec::new(),
            indices: DeviceBuffer::zeros(&stream, capacity)?,
            scores: DeviceBuffer::zeros(&stream, capacity)?,
            stream,
        })
    }

    /// Queues the suppression, waits for its survivors, and queues their copies to the arrays of
    /// the result.
    fn run(&mut self, of: &Addresses, caller: u64) -> Result<OnDevice> {
        let Addresses { num_boxes, box_len, .. } = *of;
        let (stream, device) = (&self.stream, self.stream.device());
        // SAFETY: a live stream of this GPU, by the contract of this file.
        unsafe { stream.follow(caller)? };
        // SAFETY: arrays of these lengths, by the contract of this file, which are read before
        // the wait for the survivors or that of `settle`.
        let (boxes, scores, classes) = unsafe {
            let classes = match of.classes {
                0 => DeviceClasses::None,
                classes => DeviceClasses::I32(In::borrow(device, classes, num_boxes)?),
            };
            let boxes = In::borrow(device, of.boxes, num_boxes * box_len)?;
            (boxes, In::borrow(device, of.scores, num_boxes)?, classes)
        };
        let arrays = DeviceArrays { boxes, num_columns: box_len, scores, classes };
        self.arrays.enqueue(&arrays, &mut self.candidates)?;
        self.suppression.enqueue(&self.candidates)?;
        self.suppression.read_kept(&mut self.kept)?;
        self.arrays.check_classes()?;
        let (kept, _) = self.suppression.kept();
        let indices = self.indices.output(stream)?.split_at(self.kept.len());
        let scores = self.scores.output(stream)?.split_at(self.kept.len());
        self.arrays.enqueue_survivors(kept, indices[0], scores[0])?;
        let (indices, scores) = (self.indices.address(), self.scores.address());
        Ok(OnDevice { indices, scores, num: self.kept.len() })
    }
}

/// Kernels and memory of a letterbox.
struct LetterboxSession {
    stream: Stream,
    uploads: InPlaceUploads,
    image: DeviceImage,
    kernels: Kernels,
    tensor: DeviceTensor,
}

impl LetterboxSession {
    fn new(
        device: &CudaDevice,
        num_bytes: usize,
        (element, shape): (ElementType, &[usize; 4]),
    ) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self {
            uploads: InPlaceUploads::new(&stream)?,
            image: DeviceImage::with_capacity(&stream, num_bytes)?,
            kernels: Kernels::load(device)?,
            tensor: DeviceTensor::zeros(&stream, element, shape)?,
            stream,
        })
    }
}
