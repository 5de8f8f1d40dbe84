//! The channels of a configuration on arrays: images or points in, detections out.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use det_post::types::{
    CloudView, Detection2d, Detections, DeviceChoice, Encoding, FrameReport, Header, ImagePayload,
    PointField, PointFields, Stamp,
};
use det_post::{Config, Detector, FrameInput, FrameSet, open_detector};
use nalgebra::{Isometry3, Matrix3, Rotation3, Translation3, UnitQuaternion};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::array::{Input, Output};
use crate::error::raised;
use crate::image;

type Array<'py> = Bound<'py, PyAny>;

/// A detector and the names of its classes.
struct Channel {
    detector: Mutex<Box<dyn Detector>>,
    class_names: Vec<String>,
    description: String,
}

impl Channel {
    /// Opens a channel, the only one of the configuration where none is named.
    fn open(
        py: Python<'_>,
        files: &[PathBuf],
        overrides: &[String],
        channel: Option<&str>,
        device: &str,
    ) -> PyResult<Self> {
        let device: DeviceChoice =
            device.parse().map_err(|error: det_post::Error| raised(&error))?;
        let config = Config::load(files, overrides).map_err(|error| raised(&error))?;
        let names = config.channels.iter().map(|channel| channel.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let found = match channel {
            Some(name) => config.channel(name),
            None if config.channels.len() == 1 => config.channels.first(),
            None => None,
        };
        let Some(found) = found else {
            let message = format!("channel is {channel:?}; the configuration has {names}");
            return Err(PyValueError::new_err(message));
        };
        if found.is_isolated {
            let message = format!("channel {} is isolated: det_post.replay runs it", found.name);
            return Err(PyValueError::new_err(message));
        }
        let detector = py
            .detach(|| {
                let mut detector = open_detector(found, device)?;
                detector.warm_up()?;
                Ok(detector)
            })
            .map_err(|error: det_post::Error| raised(&error))?;
        let info = detector.info();
        let description = format!("{} on {}, {}", found.name, info.device, info.engine_name);
        let class_names = found.kind.class_names().to_vec();
        Ok(Self { detector: Mutex::new(detector), class_names, description })
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
struct Found {
    boxes: Vec<f32>,
    num_columns: usize,
    scores: Vec<f32>,
    classes: Vec<i64>,
    velocities: Option<Vec<f32>>,
}

impl Found {
    fn of(detections: &Detections<'_>) -> Self {
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
            }
        }
        match detections {
            Detections::Boxes2d(found) => columns(found, |b| [b.x1, b.y1, b.x2, b.y2]),
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
            },
        }
    }

    fn arrays<'py>(self, like: &Array<'py>) -> PyResult<Bound<'py, PyDict>> {
        let num = self.scores.len();
        let arrays = PyDict::new(like.py());
        arrays.set_item("boxes", Output::of(self.boxes, &[num, self.num_columns], like)?)?;
        arrays.set_item("scores", Output::of(self.scores, &[num], like)?)?;
        arrays.set_item("classes", Output::of(self.classes, &[num], like)?)?;
        if let Some(velocities) = self.velocities {
            arrays.set_item("velocities", Output::of(velocities, &[num, 2], like)?)?;
        }
        Ok(arrays)
    }
}

fn stamp_of(seconds: f64) -> Stamp {
    Stamp::from_nanos((seconds * 1e9).round() as i64)
}

/// A camera channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct Camera(Channel);

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl Camera {
    #[new]
    #[pyo3(signature = (config, overrides, channel, device))]
    fn new(
        py: Python<'_>,
        config: Vec<PathBuf>,
        overrides: Vec<String>,
        channel: Option<String>,
        device: &str,
    ) -> PyResult<Self> {
        Ok(Self(Channel::open(py, &config, &overrides, channel.as_deref(), device)?))
    }

    /// The names of the classes.
    #[getter]
    fn class_names(&self) -> Vec<String> {
        self.0.class_names.clone()
    }

    fn __repr__(&self) -> String {
        format!("<det_post.Camera {}>", self.0.description)
    }

    /// Detects objects in an image: see det_post.ops.letterbox for images and encodings.
    ///
    /// Returns a dict of arrays, best first: boxes, float32 [N, 4] (left, top, right, bottom in
    /// pixels of the image) or [N, 5] (centre, width, height, angle); scores, float32 [N];
    /// classes, int64 [N].
    #[pyo3(signature = (image, *, encoding="rgb8"))]
    fn process<'py>(&self, image: &Array<'py>, encoding: &str) -> PyResult<Bound<'py, PyDict>> {
        let encoding = Encoding::from_ros(encoding).map_err(|error| raised(&error))?;
        let pixels = Input::new("image", image)?;
        let view = image::view(&pixels, encoding)?;
        let input = FrameInput::image(Header::default(), ImagePayload::Raw(view));
        self.0.detect(image.py(), input)?.arrays(image)
    }
}

/// A LiDAR channel of a configuration.
#[pyclass(frozen, subclass, module = "det_post._ops")]
pub struct Lidar(Channel);

#[pymethods]
#[expect(clippy::needless_pass_by_value, reason = "lists from Python are made for the call")]
impl Lidar {
    #[new]
    #[pyo3(signature = (config, overrides, channel, device))]
    fn new(
        py: Python<'_>,
        config: Vec<PathBuf>,
        overrides: Vec<String>,
        channel: Option<String>,
        device: &str,
    ) -> PyResult<Self> {
        Ok(Self(Channel::open(py, &config, &overrides, channel.as_deref(), device)?))
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
    /// points: float32 [N, C]; fields: the names of the C columns. stamp: seconds; transform: a
    /// 4 by 4 matrix from the sensor to a fixed frame at that time, as nested lists or
    /// matrix.tolist(). Networks that merge past sweeps need both; without a transform a sweep
    /// stands alone.
    ///
    /// Returns a dict of arrays, best first: boxes, float32 [N, 7] (centre, length, width, height,
    /// yaw in the frame of the points); scores, float32 [N]; classes, int64 [N]; and velocities,
    /// float32 [N, 2], where the network gives them.
    #[pyo3(signature = (points, fields=vec!["x".into(), "y".into(), "z".into(), "intensity".into()], *, stamp=0.0, transform=None))]
    fn process<'py>(
        &self,
        points: &Array<'py>,
        fields: Vec<String>,
        stamp: f64,
        transform: Option<[[f64; 4]; 4]>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let input = Input::new("points", points)?;
        let &[num_points, num_columns] = input.shape() else {
            return Err(input.refuse(&"[N, C] is needed"));
        };
        if !input.is::<f32>() || num_columns != fields.len() {
            let reason = format!("float32 [N, {}] is needed for {fields:?}", fields.len());
            return Err(input.refuse(&reason));
        }
        const FLOAT32: u8 = 7;
        let mut columns = PointFields::new();
        for (offset, name) in (0..).step_by(4).zip(&fields) {
            let field = PointField { name, offset, datatype: FLOAT32, count: 1 };
            columns.push(field).map_err(|error| raised(&error))?;
        }
        let size = |size| u32::try_from(size).map_err(|_| input.refuse(&"too many points"));
        let row_step = size(4 * num_columns * num_points)?;
        let data = input.bytes()?;
        let steps = [size(4 * num_columns)?, row_step];
        let is_big_endian = cfg!(target_endian = "big");
        let cloud = CloudView::new([size(num_points)?, 1], steps, is_big_endian, columns, data)
            .map_err(|error| raised(&error))?;
        let header = Header { stamp: stamp_of(stamp), frame_id: "" };
        let frame = FrameInput::cloud(header, &cloud);
        let frame = match transform {
            Some(matrix) => frame.with_pose(isometry(&matrix)?),
            None => frame,
        };
        self.0.detect(points.py(), frame)?.arrays(points)
    }

    /// Forgets past sweeps.
    fn reset(&self) -> PyResult<()> {
        let mut detector = self.0.detector.lock().unwrap_or_else(PoisonError::into_inner);
        detector.reset().map_err(|error| raised(&error))
    }
}

/// A rigid transform from its matrix.
fn isometry(rows: &[[f64; 4]; 4]) -> PyResult<Isometry3<f64>> {
    let rotation = Matrix3::from_fn(|row, column| rows[row][column]);
    let is_rigid = rows[3] == [0.0, 0.0, 0.0, 1.0]
        && (rotation * rotation.transpose() - Matrix3::identity()).amax() < 1e-4
        && rotation.determinant() > 0.0
        && rows.iter().flatten().all(|value| value.is_finite());
    if !is_rigid {
        let message = format!("transform is {rows:?}; a rotation and a translation are needed");
        return Err(PyValueError::new_err(message));
    }
    let rotation = Rotation3::from_matrix_unchecked(rotation);
    let translation = Translation3::new(rows[0][3], rows[1][3], rows[2][3]);
    Ok(Isometry3::from_parts(translation, UnitQuaternion::from_rotation_matrix(&rotation)))
}
