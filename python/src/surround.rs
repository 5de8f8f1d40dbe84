//! A channel of several cameras on arrays.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use det_post::config::ChannelKind;
use det_post::detectors::{FrameInput, MAX_INPUTS, Payload};
use det_post::runtime::Sequence;
use det_post::runtime::channel::Channel;
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::tf::TfBuffer;
use det_post_types::{
    CameraCalibration, DeviceBytes, DeviceChoice, Encoding, Header, ImagePayload, ImageView, Size,
    Stamp,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{GpuInput, Input, gpu_of};
use crate::channel::chosen;
use crate::detector::{Found, isometry, stamp_of};
use crate::error::raised;
use crate::gpu::is_of;
use crate::image;

type Array<'py> = Bound<'py, PyAny>;

/// A surround channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct Surround {
    opened: Mutex<Opened>,
    /// Follows the streams of arrays on the detector's GPU; `None` on the CPU.
    stream: Option<Stream>,
    class_names: Vec<String>,
    inputs: Vec<String>,
    description: String,
}

/// The channel, and what is known of its cameras.
struct Opened {
    channel: Channel,
    transforms: TfBuffer,
    calibrations: [Option<CameraCalibration>; MAX_INPUTS],
}

/// An image of a call, until the call returns.
enum Source {
    Host(Input),
    Gpu(GpuInput),
}

/// A view of a [`Source`].
enum View<'a> {
    Host(ImageView<'a>),
    Gpu(ImageView<'a, DeviceBytes<'a>>),
}

impl Opened {
    fn open(
        config: &det_post::config::ChannelConfig,
        device: DeviceChoice,
    ) -> det_post::Result<Self> {
        let mut config = config.clone();
        config.device = device;
        let mut channel = Channel::open(&config)?;
        channel.warm_up()?;
        let mut transforms = TfBuffer::default();
        if let Some(path) = config.kind.transforms_path() {
            for StaticTransform { parent, child, parent_from_child } in read_transforms(path)? {
                transforms.insert(&parent, &child, Stamp::default(), parent_from_child, true)?;
            }
        }
        let calibrations =
            std::array::from_fn(|input| channel.calibration_of_file(input).map(|c| (**c).clone()));
        Ok(Self { channel, transforms, calibrations })
    }

    fn detect(&mut self, stamps: &[Stamp], views: &[Option<View<'_>>]) -> det_post::Result<Found> {
        let Self { channel, transforms, calibrations } = self;
        let mut inputs = [const { None }; MAX_INPUTS];
        for (index, view) in views.iter().enumerate() {
            let Some(view) = view else { continue };
            let calibration = calibrations[index].as_ref();
            let frame_id = calibration.map_or("", |camera| camera.frame_id.as_str());
            let image = match view {
                View::Host(view) => ImagePayload::Raw(*view),
                View::Gpu(view) => ImagePayload::OnDevice(*view),
            };
            let header = Header { stamp: stamps[index], frame_id };
            let input = FrameInput::new(header, Payload::Image(image));
            inputs[index] = Some(FrameInput { calibration, ..input });
        }
        let lookup = |to: &str, from: &str, at: Stamp| transforms.lookup(to, from, at);
        channel.submit(&mut inputs[..views.len()], Some(&lookup))?;
        channel.collect().map(|found| Found::of(&found.detections))
    }
}

impl Surround {
    fn locked(&self) -> std::sync::MutexGuard<'_, Opened> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image of a camera, imported.
    fn source(&self, image: &Array<'_>) -> PyResult<Source> {
        let Some(gpu) = gpu_of("image", image)? else {
            return Input::new("image", image).map(Source::Host);
        };
        match self.stream.as_ref().filter(|stream| is_of(stream, gpu)) {
            Some(stream) => GpuInput::new("image", image, stream).map(Source::Gpu),
            None => Err(PyValueError::new_err(format!(
                "image is on cuda:{gpu}; the channel is {}",
                self.description
            ))),
        }
    }

    fn view<'a>(&'a self, source: &'a Source, encoding: Encoding) -> PyResult<View<'a>> {
        match (source, &self.stream) {
            (Source::Gpu(image), Some(stream)) => {
                image::view_on_gpu(image, encoding, stream).map(View::Gpu)
            }
            (Source::Host(image), _) => image::view(image, encoding).map(View::Host),
            (Source::Gpu(image), None) => Err(image.refuse(&"the channel is on the CPU")),
        }
    }

    fn check_input(&self, input: usize) -> PyResult<()> {
        let num = self.inputs.len();
        if input < num {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("input is {input}; the channel has {num}, from 0")))
    }
}

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl Surround {
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
        if !matches!(found.kind, ChannelKind::Surround(_)) {
            let message = format!("channel {} has one sensor: Camera or Lidar runs it", found.name);
            return Err(PyValueError::new_err(message));
        }
        let (opened, stream, place) = py
            .detach(|| {
                let opened = Opened::open(&found, device)?;
                let info = opened.channel.detector_info();
                let device = info.map_or(DeviceChoice::Cpu, |info| info.device);
                let stream = match device {
                    DeviceChoice::Cuda(gpu) => Some(CudaDevice::open(gpu)?.stream()?),
                    DeviceChoice::Auto | DeviceChoice::Cpu => None,
                };
                let engine = info.map(|info| info.engine_name.clone()).unwrap_or_default();
                Ok((opened, stream, format!("{device}, {engine}")))
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        Ok(Self {
            opened: Mutex::new(opened),
            stream,
            class_names: found.kind.class_names().to_vec(),
            inputs: found.inputs.iter().map(|input| input.topic.clone()).collect(),
            description: format!("{} on {place}", found.name),
        })
    }

    /// The names of the classes.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.class_names.clone()
    }

    /// The topics of the cameras, in the order of images.
    #[getter]
    fn inputs(&self) -> Vec<String> {
        self.inputs.clone()
    }

    fn __repr__(&self) -> String {
        format!("<det_post.Surround {}>", self.description)
    }

    /// Sets the calibration of a camera, as sensor_msgs/CameraInfo has it; later frames use it.
    ///
    /// input: the camera's position among inputs. size: width and height of the calibrated image.
    /// intrinsics (k), rectification (r) and projection (p): rows of numbers, 9, 9 and 12;
    /// by default rectification is the identity and projection the intrinsics.
    /// distortion_model and distortion (d): none by default. frame_id: the camera's frame, to which
    /// set_transform leads.
    #[pyo3(signature = (input, *, size, intrinsics, frame_id, distortion_model="plumb_bob", distortion=vec![], rectification=None, projection=None))]
    #[expect(clippy::too_many_arguments, reason = "options by name")]
    fn set_camera(
        &self,
        input: usize,
        size: (u32, u32),
        intrinsics: [f64; 9],
        frame_id: String,
        distortion_model: &str,
        distortion: Vec<f64>,
        rectification: Option<[f64; 9]>,
        projection: Option<[f64; 12]>,
    ) -> PyResult<()> {
        self.check_input(input)?;
        let [fx, s, cx, _, fy, cy, ..] = intrinsics;
        let identity = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        let of_intrinsics = [fx, s, cx, 0.0, 0.0, fy, cy, 0.0, 0.0, 0.0, 1.0, 0.0];
        self.locked().calibrations[input] = Some(CameraCalibration {
            frame_id,
            size: Size::new(size.0, size.1),
            distortion_model: distortion_model.to_owned(),
            distortion,
            intrinsics,
            rectification: rectification.unwrap_or(identity),
            projection: projection.unwrap_or(of_intrinsics),
            binning: [1, 1],
            region: [0; 4],
        });
        Ok(())
    }

    /// Adds a transform of a child frame in its parent: a 4 by 4 matrix, as nested lists or
    /// matrix.tolist(). stamp: seconds; None: it holds at all times. Networks with a memory need
    /// the motion of the vehicle in their fixed frame around the stamp of every frame.
    #[pyo3(signature = (parent, child, matrix, *, stamp=None))]
    fn set_transform(
        &self,
        parent: &str,
        child: &str,
        matrix: [[f64; 4]; 4],
        stamp: Option<f64>,
    ) -> PyResult<()> {
        let motion = isometry(&matrix)?;
        let at = stamp.map(stamp_of).unwrap_or_default();
        let mut opened = self.locked();
        let set = opened.transforms.insert(parent, child, at, motion, stamp.is_none());
        set.map(drop).map_err(|error| raised(&error))
    }

    /// Detects objects in the images of the cameras.
    ///
    /// images: one per camera in the order of inputs, of an encoding as det_post.ops.letterbox has
    /// them, on the CPU or the detector's GPU; None for a camera that is missing, which
    /// sync.min_cameras must allow. stamp: seconds; stamps: of each camera, where they differ.
    ///
    /// Returns a dict of arrays of the library of the first image and on its device, best first:
    /// boxes, float32 [N, 7] (centre, length, width, height, yaw in the channel's target_frame);
    /// scores, float32 [N]; classes, int64 [N]; and velocities, float32 [N, 2], where the network
    /// gives them.
    #[pyo3(signature = (images, *, encoding="rgb8", stamp=0.0, stamps=None))]
    fn process<'py>(
        &self,
        py: Python<'py>,
        images: Vec<Option<Array<'py>>>,
        encoding: &str,
        stamp: f64,
        stamps: Option<Vec<f64>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
        let stamps = stamps.unwrap_or_else(|| vec![stamp; images.len()]);
        let num = self.inputs.len();
        if images.len() != num || stamps.len() != num {
            let (images, stamps) = (images.len(), stamps.len());
            let message =
                format!("{images} images and {stamps} stamps; the channel has {num} inputs");
            return Err(PyValueError::new_err(message));
        }
        let Some(like) = images.iter().flatten().next() else {
            return Err(PyValueError::new_err("every image is None; at least one is required"));
        };
        let stamps: Vec<Stamp> = stamps.into_iter().map(stamp_of).collect();
        let sources = images.iter().map(|image| image.as_ref().map(|image| self.source(image)));
        let sources = sources.map(Option::transpose).collect::<PyResult<Vec<_>>>()?;
        let views = sources
            .iter()
            .map(|source| source.as_ref().map(|source| self.view(source, encoding)).transpose());
        let views = views.collect::<PyResult<Vec<_>>>()?;
        let detected = py.detach(|| self.locked().detect(&stamps, &views));
        let found = detected.map_err(|error| raised(&error))?;
        let stream =
            self.stream.as_ref().filter(|_| gpu_of("image", like).is_ok_and(|gpu| gpu.is_some()));
        found.arrays(like, stream)
    }

    /// Forgets past frames and stamped transforms. Calibrations and static transforms stay.
    fn reset(&self, py: Python<'_>) {
        py.detach(|| {
            let mut opened = self.locked();
            opened.transforms.forget_after(Stamp::from_nanos(i64::MIN));
            opened.channel.set_sequence(Sequence::StartsOver);
        });
    }
}
