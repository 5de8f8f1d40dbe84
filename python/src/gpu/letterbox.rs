//! Images to the inputs of networks.

use det_post_ops::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Stream, TAIL_BYTES,
};
use det_post_ops::image::ImageLayout;
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox_of};
use det_post_types::{ElementType, Encoding, Letterbox};
use half::f16;
use pyo3::prelude::*;

use super::{Sessions, is_of, rounded_up};
use crate::array::{GpuInput, GpuScope};
use crate::error::raised;
use crate::image;
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// Kernels of the letterbox, and memory for images that are not read in place.
struct LetterboxSession {
    stream: Stream,
    kernels: Kernels,
    copy: Option<DeviceBuffer<u8>>,
}

static LETTERBOX: Sessions<LetterboxSession> = Sessions::new();

impl LetterboxSession {
    fn new(gpu: u32) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        Ok(Self { kernels: Kernels::load(stream.device())?, stream, copy: None })
    }

    /// Memory for so many bytes.
    fn copy(&mut self, num_bytes: usize) -> det_post::Result<&mut DeviceBuffer<u8>> {
        let buffer = match self.copy.take() {
            Some(buffer) if buffer.len() >= num_bytes => buffer,
            // The sizes double: smaller buffers, which the stream keeps, are as much together.
            _ => DeviceBuffer::zeros(&self.stream, rounded_up(num_bytes))?,
        };
        Ok(self.copy.insert(buffer))
    }
}

/// The letterbox of an image on a GPU: the input of a network, and the placement.
pub fn letterbox<'py>(
    gpu: u32,
    image: &Array<'py>,
    encoding: Encoding,
    params: &LetterboxParams,
    (element, shape): (ElementType, [usize; 4]),
) -> PyResult<(Array<'py>, Letterbox)> {
    let py = image.py();
    let mut session = match LETTERBOX.take(|session| is_of(&session.stream, gpu)) {
        Some(session) => session,
        None => py.detach(|| LetterboxSession::new(gpu)).map_err(|error| raised(&error))?,
    };
    let stream = session.stream.clone();
    let input = GpuInput::new("image", image, &stream)?;
    let (size, step) = image::size_and_step_on_gpu(&input, encoding)?;
    let layout = ImageLayout { size, step, encoding, big_endian: false };
    let num_bytes = step * encoding.num_rows(size.height);
    let name = if element == ElementType::F16 { "float16" } else { "float32" };
    let out = empty_like(image, &shape, name)?;
    let mut out_input = GpuInput::new("out", &out, &stream)?;
    let placed = GpuScope::run(&stream, |scope| {
        // At the end of an allocation there is no tail to read.
        let in_place = input.bytes(num_bytes + TAIL_BYTES, scope);
        let source = in_place.or_else(|_| input.bytes(num_bytes, scope))?;
        let values = match element {
            ElementType::F16 => DeviceValues::F16(out_input.buffer::<f16, f16>(scope)?),
            _ => DeviceValues::F32(out_input.buffer::<f32, f32>(scope)?),
        };
        py.detach(|| {
            let mut tensor = DeviceTensor::of(&shape, values)?;
            if source.len() == num_bytes {
                session.copy(num_bytes + TAIL_BYTES)?.enqueue_copy(&source)?;
            }
            let LetterboxSession { kernels, copy, .. } = &session;
            let bytes = copy.as_ref().filter(|_| source.len() == num_bytes).unwrap_or(&source);
            let image = (layout, bytes);
            let placed = enqueue_letterbox_of(&stream, kernels, image, params, &mut tensor);
            stream.synchronize()?;
            placed
        })
        .map_err(|error| raised(&error))
    })?;
    LETTERBOX.put(session);
    Ok((out, placed))
}
