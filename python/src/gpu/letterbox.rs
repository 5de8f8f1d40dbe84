//! Images to the inputs of networks.

use det_post_ops::device::cuda::{
    CudaDevice, DeviceBuffer, DeviceTensor, DeviceValues, Stream, TAIL_BYTES,
};
use det_post_ops::image::ImageLayout;
use det_post_ops::image::letterbox::LetterboxParams;
use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox_of};
use det_post_ops::image::resample::cuda::{
    DeviceMap, Kernels as ResampleKernels, enqueue_resample_of,
};
use det_post_ops::image::resample::{ResampleParams, SampleMap};
use det_post_types::{ElementType, Encoding, Letterbox, Size};
use half::f16;
use pyo3::prelude::*;

use super::{Sessions, complete, is_of, rounded_up};
use crate::array::{GpuInput, GpuScope};
use crate::error::raised;
use crate::image;
use crate::library::{concatenated, empty_like, part};

type Array<'py> = Bound<'py, PyAny>;

/// Kernels of images, and memory for images that are not read in place.
struct ImageSession {
    stream: Stream,
    letterbox: Kernels,
    resample: ResampleKernels,
    map: Option<DeviceMap>,
    copy: Option<DeviceBuffer<u8>>,
}

static IMAGES: Sessions<ImageSession> = Sessions::new();

impl ImageSession {
    fn new(gpu: u32) -> det_post::Result<Self> {
        let stream = CudaDevice::open(gpu)?.stream()?;
        let device = stream.device();
        let (letterbox, resample) = (Kernels::load(device)?, ResampleKernels::load(device)?);
        Ok(Self { letterbox, resample, stream, map: None, copy: None })
    }

    fn take(py: Python<'_>, gpu: u32) -> PyResult<Self> {
        match IMAGES.take(|session| is_of(&session.stream, gpu)) {
            Some(session) => Ok(session),
            None => py.detach(|| Self::new(gpu)).map_err(|error| raised(&error)),
        }
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

    /// Writes images to a batch of inputs, each by `write`, which queues the work on an image and
    /// its bytes, and waits.
    fn run<'py>(
        mut self,
        images: &[Array<'py>],
        encoding: Encoding,
        (element, network): (ElementType, Size),
        mut write: impl FnMut(
            &mut Self,
            usize,
            (ImageLayout, Option<&DeviceBuffer<u8>>),
            &mut DeviceTensor,
        ) -> det_post::Result<()>
        + Send,
    ) -> PyResult<Array<'py>> {
        let like = &images[0];
        let py = like.py();
        let stream = self.stream.clone();
        let one = [1, 3, network.height as usize, network.width as usize];
        let name = if element == ElementType::F16 { "float16" } else { "float32" };
        // Inputs behind each other begin at multiples of 16 bytes, or are joined afterwards.
        let element_bytes = if element == ElementType::F16 { 2 } else { 4 };
        let is_joined =
            images.len() > 1 && !(one.iter().product::<usize>() * element_bytes).is_multiple_of(16);
        let whole = [if is_joined { 0 } else { images.len() }, one[1], one[2], one[3]];
        let whole = empty_like(like, &whole, name)?;
        let mut places = Vec::new();
        for (index, image) in images.iter().enumerate() {
            let input = GpuInput::new("image", image, &stream)?;
            let (size, step) = image::size_and_step_on_gpu(&input, encoding)?;
            let layout = ImageLayout { size, step, encoding, big_endian: false };
            let num_bytes = step * encoding.num_rows(size.height);
            let place_of =
                if is_joined { empty_like(like, &one, name)? } else { part(&whole, index)? };
            let mut place = GpuInput::new("out", &place_of, &stream)?;
            places.push(place_of);
            GpuScope::run(&stream, |scope| {
                // At the end of an allocation there is no tail to read.
                let in_place = input.bytes(num_bytes + TAIL_BYTES, scope);
                let source = in_place.or_else(|_| input.bytes(num_bytes, scope))?;
                let values = match element {
                    ElementType::F16 => DeviceValues::F16(place.buffer::<f16, f16>(scope)?),
                    _ => DeviceValues::F32(place.buffer::<f32, f32>(scope)?),
                };
                py.detach(|| {
                    let mut tensor = DeviceTensor::of(&one, values)?;
                    let is_whole = source.len() > num_bytes;
                    if !is_whole {
                        self.copy(num_bytes + TAIL_BYTES)?.enqueue_copy(&source)?;
                    }
                    let bytes = is_whole.then_some(&source);
                    let written = write(&mut self, index, (layout, bytes), &mut tensor);
                    stream.synchronize()?;
                    written
                })
                .map_err(|error| raised(&error))
            })?;
        }
        IMAGES.put(self);
        if is_joined { complete(concatenated(&places)?, &stream) } else { Ok(whole) }
    }
}

/// The letterbox of images on a GPU: a batch of inputs; the placements are pushed to `placed`.
pub fn letterbox<'py>(
    gpu: u32,
    images: &[Array<'py>],
    encoding: Encoding,
    params: &LetterboxParams,
    input: (ElementType, Size),
    placed: &mut Vec<Letterbox>,
) -> PyResult<Array<'py>> {
    let session = ImageSession::take(images[0].py(), gpu)?;
    session.run(images, encoding, input, |session, _, (layout, bytes), tensor| {
        let ImageSession { stream, letterbox, copy, .. } = session;
        let Some(bytes) = bytes.or(copy.as_ref()) else { return Ok(()) };
        placed.push(enqueue_letterbox_of(stream, letterbox, (layout, bytes), params, tensor)?);
        Ok(())
    })
}

/// Images on a GPU warped to a batch of inputs: `map_of` makes the map of each, of its number and
/// size.
pub fn warp_affine<'py>(
    gpu: u32,
    images: &[Array<'py>],
    encoding: Encoding,
    params: &ResampleParams,
    input: (ElementType, Size),
    map_of: &(impl Fn(usize, Size) -> det_post::Result<SampleMap> + Sync),
) -> PyResult<Array<'py>> {
    let session = ImageSession::take(images[0].py(), gpu)?;
    session.run(images, encoding, input, |session, index, (layout, bytes), tensor| {
        let map = map_of(index, layout.size)?;
        let old = session.map.take();
        let map = DeviceMap::replacing(old, &session.stream, &map)?;
        let ImageSession { stream, resample, copy, .. } = session;
        let Some(bytes) = bytes.or(copy.as_ref()) else { return Ok(()) };
        enqueue_resample_of(stream, resample, (layout, bytes), &map, params, 0, tensor)?;
        session.map = Some(map);
        Ok(())
    })
}
