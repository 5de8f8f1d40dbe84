//! The decoder of a surround channel on arrays: feature maps to all queries.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use det_post::config::ChannelKind;
use det_post::detectors::surround::Step;
use det_post::detectors::surround::on_arrays::{
    ArrayCamera, Queries, ViewDecoder as Decoder, ViewSizes,
};
use det_post_infer::view_decoder::QueryBuffers;
use det_post_ops::device::Device;
use det_post_ops::device::cuda::Stream;
use det_post_types::DeviceChoice;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::argument::matrix;
use crate::array::{GpuInput, Input, Output, gpu_of};
use crate::channel::chosen;
use crate::detector::isometry;
use crate::error::raised;
use crate::gpu::{finished, is_of};
use crate::library::empty_like;

type Array<'py> = Bound<'py, PyAny>;

/// The decoder of a surround channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct ViewDecoder {
    decoder: Mutex<Decoder>,
    sizes: ViewSizes,
    /// Of a decoder on a GPU.
    stream: Option<Stream>,
    class_names: Vec<String>,
    description: String,
}

/// The queries of a frame on the CPU.
struct Copied {
    boxes: Vec<f32>,
    logits: Vec<f32>,
    quality: Option<Vec<f32>>,
}

impl Copied {
    fn of(queries: &Queries<'_>) -> Self {
        Self {
            boxes: queries.boxes.to_vec(),
            logits: queries.logits.to_vec(),
            quality: queries.quality.map(<[f32]>::to_vec),
        }
    }
}

/// What a frame is to the one before.
fn step_of(interval: Option<f64>, current_from_past: Option<[[f64; 4]; 4]>) -> PyResult<Step> {
    match (interval, current_from_past) {
        (None, None) => Ok(Step::First),
        (Some(interval), Some(matrix)) => {
            let elapsed = Duration::try_from_secs_f64(interval).unwrap_or_default();
            if elapsed.is_zero() {
                let message = format!("interval is {interval}; seconds above 0 are required");
                return Err(PyValueError::new_err(message));
            }
            Ok(Step::Next { current_from_previous: isometry(&matrix)?, elapsed })
        }
        _ => Err(PyValueError::new_err("interval and current_from_past are given together or not")),
    }
}

impl ViewDecoder {
    fn locked(&self) -> MutexGuard<'_, Decoder> {
        self.decoder.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_cpu<'py>(
        &self,
        py: Python<'py>,
        maps: &[Array<'py>],
        step: Step,
    ) -> PyResult<Bound<'py, PyDict>> {
        let inputs =
            maps.iter().map(|map| Input::new("maps", map)).collect::<PyResult<Vec<_>>>()?;
        let tensors = inputs.iter().map(Input::tensor).collect::<PyResult<Vec<_>>>()?;
        let copied =
            py.detach(|| self.locked().run(&tensors, step).map(|queries| Copied::of(&queries)));
        let Copied { boxes, logits, quality } = copied.map_err(|error| raised(&error))?;
        let ViewSizes { num_queries, num_classes, box_len, .. } = self.sizes;
        let (found, like) = (PyDict::new(py), &maps[0]);
        found.set_item("boxes", Output::of(boxes, &[num_queries, box_len], like)?)?;
        found.set_item("logits", Output::of(logits, &[num_queries, num_classes], like)?)?;
        if let Some(quality) = quality {
            found.set_item("quality", Output::of(quality, &[num_queries, 2], like)?)?;
        }
        Ok(found)
    }

    fn on_gpu<'py>(
        &self,
        py: Python<'py>,
        maps: &[Array<'py>],
        step: Step,
        stream: &Stream,
    ) -> PyResult<Bound<'py, PyDict>> {
        let inputs = maps.iter().map(|map| GpuInput::new("maps", map, stream));
        let inputs = inputs.collect::<PyResult<Vec<_>>>()?;
        let ViewSizes { num_queries, num_classes, box_len, has_quality, .. } = self.sizes;
        let names = [("boxes", box_len), ("logits", num_classes), ("quality", 2)];
        let found = PyDict::new(py);
        let mut results = Vec::new();
        for (name, columns) in &names[..2 + usize::from(has_quality)] {
            let array = empty_like(&maps[0], &[num_queries, *columns], "float32")?;
            results.push(GpuInput::new("result", &array, stream)?);
            found.set_item(name, array)?;
        }
        finished(py, stream, |scope| {
            let tensors = inputs.iter().map(|input| input.tensor(scope));
            let tensors = tensors.collect::<PyResult<Vec<_>>>()?;
            let mut buffers = results.iter_mut().map(|result| result.buffer::<f32, f32>(scope));
            let mut next = || {
                let missing = || PyValueError::new_err("a result is missing");
                buffers.next().ok_or_else(missing)?
            };
            let (boxes, logits) = (next()?, next()?);
            let quality = has_quality.then(next).transpose()?;
            let mut queries = QueryBuffers { boxes, logits, quality };
            py.detach(|| self.locked().enqueue(&tensors, step, &mut queries))
                .map_err(|error| raised(&error))
        })?;
        Ok(found)
    }
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl ViewDecoder {
    #[new]
    #[pyo3(signature = (config, overrides, channel, device, library))]
    fn new(
        py: Python<'_>,
        config: Vec<PathBuf>,
        overrides: Vec<String>,
        channel: Option<String>,
        device: &str,
        library: Option<PathBuf>,
    ) -> PyResult<Self> {
        let device: DeviceChoice =
            device.parse().map_err(|error: det_post::Error| raised(&error))?;
        let found = chosen(&config, &overrides, channel.as_deref(), library)?;
        let ChannelKind::Surround(surround) = &found.kind else {
            let message = format!("channel {} has one sensor: its head has no views", found.name);
            return Err(PyValueError::new_err(message));
        };
        let opened = py.detach(|| {
            let device = Device::open(device)?;
            Ok((Decoder::open(surround, &device)?, device.to_string()))
        });
        let (decoder, device) = opened.map_err(|error: det_post::Error| raised(&error))?;
        Ok(Self {
            sizes: *decoder.sizes(),
            stream: decoder.stream().cloned(),
            class_names: found.kind.class_names().to_vec(),
            description: format!("{} on {device}", found.name),
            decoder: Mutex::new(decoder),
        })
    }

    /// The names of the classes.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.class_names.clone()
    }

    /// The number of cameras.
    #[getter]
    fn num_cameras(&self) -> usize {
        self.sizes.num_cameras
    }

    /// Width and height of the network's images, to whose pixels matrices lead.
    #[getter]
    fn input_size(&self) -> (u32, u32) {
        (self.sizes.input_size.width, self.sizes.input_size.height)
    }

    /// The number of feature maps of a frame.
    #[getter]
    fn num_maps(&self) -> usize {
        self.sizes.num_maps
    }

    /// The number of queries.
    #[getter]
    fn num_queries(&self) -> usize {
        self.sizes.num_queries
    }

    /// Whether frames use those before.
    #[getter]
    fn has_memory(&self) -> bool {
        self.sizes.has_memory
    }

    fn __repr__(&self) -> String {
        format!("<det_post.ViewDecoder {}>", self.description)
    }

    /// Sets the cameras of the next frames.
    ///
    /// image_from_base: per camera 3 or 4 rows of 4 numbers, from points of the base frame in metres to
    /// (u * z, v * z, z) in pixels of the network's image (lidar2img); intrinsics: 3 by 3, needed by
    /// heads of kind streampetr; present: False for a camera without maps, which no other kind reads.
    #[pyo3(signature = (image_from_base, *, intrinsics=None, present=None))]
    fn set_cameras(
        &self,
        image_from_base: Vec<Vec<Vec<f64>>>,
        intrinsics: Option<Vec<Vec<Vec<f64>>>>,
        present: Option<Vec<bool>>,
    ) -> PyResult<()> {
        let num = image_from_base.len();
        let lens = [intrinsics.as_ref().map(Vec::len), present.as_ref().map(Vec::len)];
        if lens.into_iter().flatten().any(|len| len != num) {
            let message =
                format!("{num} matrices, intrinsics and present {lens:?}: as many are required");
            return Err(PyValueError::new_err(message));
        }
        let camera = |index: usize| {
            let of_camera = intrinsics.as_ref().map(|all| matrix("intrinsics", &all[index]));
            Ok(ArrayCamera {
                image_from_base: matrix("image_from_base", &image_from_base[index])?,
                intrinsics: of_camera.transpose()?,
                is_present: present.as_ref().is_none_or(|all| all[index]),
            })
        };
        let cameras = (0..num).map(camera).collect::<PyResult<Vec<_>>>()?;
        self.locked().set_cameras(&cameras).map_err(|error| raised(&error))
    }

    /// Decodes a frame: all queries, before any threshold.
    ///
    /// maps: the outputs of the backbone in its order, float32, float16 or, with decoder.map_scales, int8,
    /// [cameras, C, H, W] or in the head's feature_layout, maybe with a leading 1; on the CPU or on the
    /// decoder's GPU. Channels last and blocks of 32 channels are read where they are.
    /// interval: seconds since the frame before; current_from_past: a 4 by 4 matrix from its base frame to
    /// the current one, as nested lists. Without both the memory of past frames is forgotten.
    ///
    /// Returns a dict of arrays of the library of the first map and on its device: logits, float32
    /// [Q, classes]; boxes, float32 [Q, 11] for decode_query, of heads of kind streampetr [Q, 10] for
    /// decode_streampetr; quality, float32 [Q, 2], where the network has it.
    #[pyo3(signature = (maps, *, interval=None, current_from_past=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        maps: Vec<Array<'py>>,
        interval: Option<f64>,
        current_from_past: Option<[[f64; 4]; 4]>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let step = step_of(interval, current_from_past)?;
        let Some(first) = maps.first() else {
            return Err(PyValueError::new_err("maps is empty"));
        };
        match (gpu_of("maps", first)?, &self.stream) {
            (None, None) => self.on_cpu(py, &maps, step),
            (Some(gpu), Some(stream)) if is_of(stream, gpu) => self.on_gpu(py, &maps, step, stream),
            (found, _) => {
                let found = found.map_or("the CPU".into(), |gpu| format!("cuda:{gpu}"));
                let message = format!("maps are on {found}; the decoder is {}", self.description);
                Err(PyValueError::new_err(message))
            }
        }
    }

    /// A copy of the memory of the last frame: a dict of numpy arrays of float32, empty without one.
    /// Of Sparse4D: boxes [K, 11], features [K, C], confidence [K]; of StreamPETR: embedding [M, C],
    /// reference_point [M, 3], pose [M, 4, 4], velocity [M, 2], age [M] in seconds. Boxes and points are in
    /// the base frame of that frame.
    fn memory<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let parts = py.detach(|| self.locked().memory()).map_err(|error| raised(&error))?;
        let from_dlpack = py.import("numpy")?.getattr("from_dlpack")?;
        let memory = PyDict::new(py);
        for part in parts {
            memory.set_item(part.name, Output::by(part.values, &part.shape, &from_dlpack)?)?;
        }
        Ok(memory)
    }

    /// Replaces the memory by one that memory() has returned, of a decoder of the same files, in
    /// host memory; an empty dict forgets.
    fn set_memory(&self, py: Python<'_>, memory: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut inputs = Vec::new();
        for (name, array) in memory.iter() {
            inputs.push((name.extract::<String>()?, Input::new("memory", &array)?));
        }
        let parts = inputs.iter().map(|(name, input)| Ok((name.as_str(), input.values::<f32>()?)));
        let parts = parts.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.locked().set_memory(&parts)).map_err(|error| raised(&error))
    }

    /// Forgets past frames.
    fn reset(&self) {
        self.locked().forget();
    }
}
