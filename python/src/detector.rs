//! The channels of a configuration on arrays: images or points in, detections out.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use det_post::detectors::Payload;
use det_post::{Detector, FrameInput, FrameSet, open_detector};
use det_post_ops::device::cuda::{CudaDevice, Stream};
use det_post_types::{
    CloudView, Detection2d, Detections, DeviceChoice, Encoding, FrameReport, Header, ImagePayload,
    PointField, PointFields, Stamp,
};
use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{GpuInput, Input, gpu_of};
use crate::channel::chosen;
use crate::column::Column;
use crate::error::raised;
use crate::gpu::is_of;
use crate::image;
use crate::masks::pixels_of;

type Array<'py> = Bound<'py, PyAny>;

/// A detector and the names of its classes.
struct Channel {
    detector: Mutex<Box<dyn Detector>>,
    /// Follows the streams of arrays on the detector's GPU; `None` on the CPU.
    stream: Option<Stream>,
    class_names: Vec<String>,
    description: String,
}

impl Channel {
    /// Opens a channel, the only one of the configuration where none is named; `library` is the
    /// ONNX Runtime of a configuration that names none.
    fn open(
        py: Python<'_>,
        files: &[PathBuf],
        overrides: &[String],
        channel: Option<&str>,
        device: &str,
        library: Option<PathBuf>,
    ) -> PyResult<Self> {
        let device: DeviceChoice =
            device.parse().map_err(|error: det_post::Error| raised(&error))?;
        let found = chosen(files, overrides, channel, library)?;
        let (detector, stream) = py
            .detach(|| {
                let mut detector = open_detector(&found, device)?;
                detector.warm_up()?;
                let stream = match detector.info().device {
                    DeviceChoice::Cuda(gpu) => Some(CudaDevice::open(gpu)?.stream()?),
                    DeviceChoice::Auto | DeviceChoice::Cpu => None,
                };
                Ok((detector, stream))
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        let info = detector.info();
        let description = format!("{} on {}, {}", found.name, info.device, info.engine_name);
        let class_names = found.kind.class_names().to_vec();
        Ok(Self { detector: Mutex::new(detector), stream, class_names, description })
    }

    /// The stream for an array on the detector's GPU; `None` for one on the CPU.
    ///
    /// # Errors
    /// `ValueError` for an array on a GPU that is not the detector's.
    fn stream_of(&self, name: &str, array: &Array<'_>) -> PyResult<Option<&Stream>> {
        let Some(gpu) = gpu_of(name, array)? else { return Ok(None) };
        let stream = self.stream.as_ref().filter(|stream| is_of(stream, gpu));
        stream.map(Some).ok_or_else(|| {
            let message = format!("{name} is on cuda:{gpu}; the channel is {}", self.description);
            PyValueError::new_err(message)
        })
    }

    /// Detects without the interpreter's lock; calls from several threads wait for each other.
    fn detect(&self, py: Python<'_>, input: FrameInput<'_>) -> PyResult<Found> {
        let detected = py.detach(|| {
            let mut detector = self.detector.lock().unwrap_or_else(PoisonError::into_inner);
            let inputs = [Some(input)];
            let mut report = FrameReport::new();
            detector.detect(&FrameSet::single(&inputs), &mut report).map(|found| Found::of(&found))
        });
        detected.map_err(|error| raised(&error))
    }
}

/// Detections as columns.
pub struct Found {
    boxes: Vec<f32>,
    num_columns: usize,
    scores: Vec<f32>,
    classes: Vec<i64>,
    velocities: Option<Vec<f32>>,
    /// Number, rows and columns of the masks, and their pixels.
    masks: Option<([usize; 3], Vec<u8>)>,
    /// Keypoints of a detection, and x, y and score of all.
    keypoints: Option<(usize, Vec<f32>)>,
}

impl Found {
    /// Columns of detections.
    pub fn of(detections: &Detections<'_>) -> Self {
        fn columns<B: Copy, const K: usize>(
            detections: &[Detection2d<B>],
            numbers: impl Fn(B) -> [f32; K],
        ) -> Found {
            Found {
                boxes: detections.iter().flat_map(|found| numbers(found.bbox)).collect(),
                num_columns: K,
                scores: detections.iter().map(|found| found.score).collect(),
                classes: detections.iter().map(|found| i64::from(found.class)).collect(),
                velocities: None,
                masks: None,
                keypoints: None,
            }
        }
        match detections {
            Detections::Boxes2d(found) => columns(found, |b| [b.x1, b.y1, b.x2, b.y2]),
            Detections::Masked2d(found, masks) => Self {
                masks: Some(pixels_of(masks)),
                ..columns(found, |b| [b.x1, b.y1, b.x2, b.y2])
            },
            Detections::Keypoints2d(found, keypoints) => Self {
                keypoints: Some((
                    keypoints.num_per_detection,
                    keypoints
                        .all
                        .iter()
                        .flat_map(|point| [point.x, point.y, point.score])
                        .collect(),
                )),
                ..columns(found, |b| [b.x1, b.y1, b.x2, b.y2])
            },
            Detections::RotatedBoxes2d(found) => {
                columns(found, |b| [b.cx, b.cy, b.width, b.height, b.angle_rad])
            }
            Detections::Boxes3d(found) => Self {
                boxes: found
                    .iter()
                    .flat_map(|found| {
                        let b = &found.object.bbox;
                        let [x, y, z] = b.center;
                        [x, y, z, b.length_m, b.width_m, b.height_m, b.yaw_rad]
                    })
                    .collect(),
                num_columns: 7,
                scores: found.iter().map(|found| found.score).collect(),
                classes: found.iter().map(|found| i64::from(found.class)).collect(),
                velocities: found
                    .iter()
                    .map(|found| found.object.velocity_mps)
                    .collect::<Option<Vec<_>>>()
                    .map(|velocities| velocities.into_iter().flatten().collect()),
                masks: None,
                keypoints: None,
            },
        }
    }

    /// Arrays of the library of `like`: on the GPU of the stream, or on the CPU.
    pub fn arrays<'py>(
        self,
        like: &Array<'py>,
        stream: Option<&Stream>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let array_of = |column: Column, shape: &[usize]| match stream {
            Some(stream) => column.on_gpu(shape, (like, stream)),
            None => column.on_host(shape, like),
        };
        let num = self.scores.len();
        let arrays = PyDict::new(like.py());
        let boxes = array_of(Column::F32(self.boxes), &[num, self.num_columns])?;
        arrays.set_item("boxes", boxes)?;
        arrays.set_item("scores", array_of(Column::F32(self.scores), &[num])?)?;
        arrays.set_item("classes", array_of(Column::I64(self.classes), &[num])?)?;
        if let Some(velocities) = self.velocities {
            arrays.set_item("velocities", array_of(Column::F32(velocities), &[num, 2])?)?;
        }
        if let Some((shape, pixels)) = self.masks {
            arrays.set_item("masks", array_of(Column::U8(pixels), &shape)?)?;
        }
        if let Some((num_keypoints, numbers)) = self.keypoints {
            let shape = [num, num_keypoints, 3];
            arrays.set_item("keypoints", array_of(Column::F32(numbers), &shape)?)?;
        }
        Ok(arrays)
    }
}

/// A time in seconds.
pub fn stamp_of(seconds: f64) -> Stamp {
    Stamp::from_nanos((seconds * 1e9).round() as i64)
}

/// A camera channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct Camera(Channel);

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl Camera {
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
        Ok(Self(Channel::open(py, &config, &overrides, channel.as_deref(), device, library)?))
    }

    /// The names of the classes.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.0.class_names.clone()
    }

    fn __repr__(&self) -> String {
        format!("<det_post.Camera {}>", self.0.description)
    }

    /// Detects objects in an image: see det_post.ops.letterbox for images and encodings. An image
    /// on a GPU is one on the detector's; it is read after what its library has queued.
    ///
    /// Returns a dict of arrays of the image's library and on its device, best first: boxes, float32 [N, 4] (left, top, right, bottom in
    /// pixels of the image) or [N, 5] (centre, width, height, angle); scores, float32 [N];
    /// classes, int64 [N]; of networks with masks, masks, uint8 [M, height, width], 1 inside: of the
    /// first M detections, which are all unless mask_capacity_bytes is reached.
    #[pyo3(signature = (image, *, encoding="rgb8"))]
    fn process<'py>(&self, image: &Array<'py>, encoding: &str) -> PyResult<Bound<'py, PyDict>> {
        let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
        let detect = |payload: ImagePayload<'_>| {
            self.0.detect(image.py(), FrameInput::image(Header::default(), payload))
        };
        let stream = self.0.stream_of("image", image)?;
        let found = if let Some(stream) = stream {
            let pixels = GpuInput::new("image", image, stream)?;
            detect(ImagePayload::OnDevice(image::view_on_gpu(&pixels, encoding, stream)?))?
        } else {
            let pixels = Input::new("image", image)?;
            detect(ImagePayload::Raw(image::view(&pixels, encoding)?))?
        };
        found.arrays(image, stream)
    }
}

/// A LiDAR channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct Lidar(Channel);

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl Lidar {
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
        Ok(Self(Channel::open(py, &config, &overrides, channel.as_deref(), device, library)?))
    }

    /// The names of the classes.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.0.class_names.clone()
    }

    fn __repr__(&self) -> String {
        format!("<det_post.Lidar {}>", self.0.description)
    }

    /// Detects objects in a sweep.
    ///
    /// points: float32 [N, C], on the CPU or the detector's GPU; fields: the names of the C
    /// columns. stamp: seconds; transform: a 4 by 4 matrix from the sensor to a fixed frame at that
    /// time, as nested lists or matrix.tolist(). Networks that merge past sweeps need both; without
    /// a transform a sweep is processed by itself.
    ///
    /// Returns a dict of arrays of the library of the points and on their device, best first:
    /// boxes, float32 [N, 7] (centre, length, width, height, yaw in the frame of the points);
    /// scores, float32 [N]; classes, int64 [N]; and velocities, float32 [N, 2], where the network
    /// gives them.
    #[pyo3(signature = (points, fields=vec!["x".into(), "y".into(), "z".into(), "intensity".into()], *, stamp=0.0, transform=None))]
    fn process<'py>(
        &self,
        points: &Array<'py>,
        fields: Vec<String>,
        stamp: f64,
        transform: Option<[[f64; 4]; 4]>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let header = Header { stamp: stamp_of(stamp), frame_id: "" };
        let pose = transform.map(|matrix| isometry(&matrix)).transpose()?;
        let detect = |payload: Payload<'_>| {
            let frame = FrameInput::new(header, payload);
            let frame = match pose {
                Some(pose) => frame.with_pose(pose),
                None => frame,
            };
            self.0.detect(points.py(), frame)
        };
        let is_big_endian = cfg!(target_endian = "big");
        let stream = self.0.stream_of("points", points)?;
        let found = if let Some(stream) = stream {
            let input = GpuInput::new("points", points, stream)?;
            let layout = cloud_layout(input.shape(), input.is::<f32>(), &fields);
            let (size, steps, columns) = layout.map_err(|reason| input.refuse(&reason))?;
            let data = input.device_bytes(stream)?;
            let cloud = CloudView::on_device(size, steps, is_big_endian, columns, data)
                .map_err(|error| raised(&error))?;
            detect(Payload::CloudOnDevice(&cloud))?
        } else {
            let input = Input::new("points", points)?;
            let layout = cloud_layout(input.shape(), input.is::<f32>(), &fields);
            let (size, steps, columns) = layout.map_err(|reason| input.refuse(&reason))?;
            let cloud = CloudView::new(size, steps, is_big_endian, columns, input.bytes()?)
                .map_err(|error| raised(&error))?;
            detect(Payload::Cloud(&cloud))?
        };
        found.arrays(points, stream)
    }

    /// Forgets past sweeps.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        // A sweep that is being processed holds the detector for all of its time.
        let reset = || self.0.detector.lock().unwrap_or_else(PoisonError::into_inner).reset();
        py.detach(reset).map_err(|error| raised(&error))
    }
}

/// Size, steps and fields of a cloud in an array of this shape.
///
/// # Errors
/// What is needed, when shape or type of the elements is another.
fn cloud_layout<'a>(
    shape: &[usize],
    is_f32: bool,
    fields: &'a [String],
) -> Result<([u32; 2], [u32; 2], PointFields<'a>), String> {
    const FLOAT32: u8 = 7;
    let num_points = match *shape {
        [num_points, num_columns] if is_f32 && num_columns == fields.len() => num_points,
        _ => return Err(format!("float32 [N, {}] is required for {fields:?}", fields.len())),
    };
    let mut columns = PointFields::new();
    for (offset, name) in (0..).step_by(4).zip(fields) {
        let field = PointField { name, offset, datatype: FLOAT32, count: 1 };
        columns.push(field).map_err(|error| error.to_string())?;
    }
    let point_step = 4 * fields.len();
    let too_many = |_| {
        let max_points = u32::MAX as usize / point_step.max(1);
        format!(
            "{num_points} points of {} columns exceed the limit of {max_points} points",
            fields.len()
        )
    };
    let size = |size: usize| u32::try_from(size).map_err(too_many);
    let steps = [size(point_step)?, size(point_step.saturating_mul(num_points))?];
    Ok(([size(num_points)?, 1], steps, columns))
}

/// A rigid transform from its matrix.
pub fn isometry(rows: &[[f64; 4]; 4]) -> PyResult<Isometry3<f64>> {
    let rotation = Matrix3::from_fn(|row, column| rows[row][column]);
    let is_rigid = rows[3] == [0.0, 0.0, 0.0, 1.0]
        && (rotation * rotation.transpose() - Matrix3::identity()).amax() < 1e-4
        && rotation.determinant() > 0.0
        && rows.iter().flatten().all(|value| value.is_finite());
    if !is_rigid {
        let message = format!("transform is {rows:?}; a rotation and a translation are required");
        return Err(PyValueError::new_err(message));
    }
    let rotation = Rotation3::from_matrix_unchecked(rotation);
    let translation = Translation3::new(rows[0][3], rows[1][3], rows[2][3]);
    Ok(Isometry3::from_parts(translation, UnitQuaternion::from_rotation_matrix(&rotation)))
}
