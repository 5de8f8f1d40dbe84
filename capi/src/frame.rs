//! The inputs of a frame, in the memory of the caller.

use nalgebra::Isometry3;

use super::call::{Address, Call, In, Text};
use super::status::Failure;
use super::tensors::{Bytes, Tensor, TensorMemory};
use det_post::Error;
use det_post::detectors::{FrameInput, MAX_INPUTS, Payload};
use det_post_ros::messages::CompressedImage as CompressedMessage;
use det_post_ros::tf::isometry;
use det_post_types::{
    CameraCalibration as Calibration, CloudView, DeviceBytes, Encoding, Header, ImagePayload,
    ImageView, PointField as Field, PointFields, ReceivedTensors, Size, Stamp, TensorEntries,
};

/// The input is missing from the frame, which `sync.min_inputs` must allow.
pub const INPUT_NONE: u32 = 0;
/// Raw images: `image`.
pub const INPUT_IMAGE: u32 = 1;
/// Compressed images: `compressed_image`.
pub const INPUT_COMPRESSED_IMAGE: u32 = 2;
/// Point clouds: `cloud`.
pub const INPUT_CLOUD: u32 = 3;
/// Outputs of a network that runs elsewhere: `tensors`.
pub const INPUT_TENSORS: u32 = 4;

/// An image, as `sensor_msgs/Image` describes it.
#[repr(C)]
pub struct Image {
    /// Pixels per row.
    pub width: u32,
    /// Rows.
    pub height: u32,
    /// Bytes from row to row.
    pub step: usize,
    /// Name of the encoding in ROS, such as `bgr8`, `nv12` or `bayer_rggb8`.
    pub encoding: Text,
    /// 1 if 16-bit samples are big-endian, else 0.
    pub is_bigendian: u32,
    /// The rows; padding after the last one may be missing.
    pub bytes: Bytes,
}

/// A compressed image, as `sensor_msgs/CompressedImage` describes it.
#[repr(C)]
pub struct CompressedImage {
    /// `jpeg`, `png`, or a text that contains one of them; empty: by the first bytes.
    pub format: Text,
    /// The file.
    pub bytes: Bytes,
}

/// A field of points, as `sensor_msgs/PointField` describes it.
#[repr(C)]
pub struct PointField {
    /// Name, such as `x` or `intensity`.
    pub name: Text,
    /// Bytes from the start of the point.
    pub offset: u32,
    /// Type: 1 to 8 for int8, uint8, int16, uint16, int32, uint32, float32, float64.
    pub datatype: u32,
    /// Number of values.
    pub count: u32,
}

/// A point cloud, as `sensor_msgs/PointCloud2` describes it.
#[repr(C)]
pub struct Cloud {
    /// Points per row.
    pub width: u32,
    /// Rows; 1 for an unorganised cloud.
    pub height: u32,
    /// Bytes from point to point.
    pub point_step: u32,
    /// Bytes from row to row.
    pub row_step: u32,
    /// 1 if values are big-endian, else 0.
    pub is_bigendian: u32,
    /// The fields.
    pub fields: In<PointField>,
    /// Number of `fields`, up to 32.
    pub num_fields: usize,
    /// The points.
    pub bytes: Bytes,
}

/// One input of a frame. `kind` says which of the pointers is read.
#[repr(C)]
pub struct Input {
    /// One of `DET_POST_INPUT_…`.
    pub kind: u32,
    /// Acquisition time in nanoseconds since the epoch of the clock that stamped the data.
    pub stamp_ns: i64,
    /// Coordinate frame of the data; `NULL`: no name.
    pub frame_id: Text,
    /// Of `DET_POST_INPUT_IMAGE`.
    pub image: In<Image>,
    /// Of `DET_POST_INPUT_COMPRESSED_IMAGE`.
    pub compressed_image: In<CompressedImage>,
    /// Of `DET_POST_INPUT_CLOUD`.
    pub cloud: In<Cloud>,
    /// Of `DET_POST_INPUT_TENSORS`.
    pub tensors: In<Tensor>,
    /// Number of `tensors`, up to 16.
    pub num_tensors: usize,
    /// 1 if `bytes.data` of the image or cloud is a device pointer, to memory of the detector's
    /// GPU; 0 for host memory. The bytes are copied on the GPU; when the call returns, they have
    /// been read.
    pub is_on_device: u32,
    /// Of device pointers: the CUDA stream whose queued work writes the bytes (`cudaStream_t` or
    /// `CUstream`), which the detector waits for on the GPU; `NULL` is the default stream.
    pub stream: Address,
}

/// The inputs of one frame, in the order of the configuration. The stamp of the frame is
/// the reference input's.
#[repr(C)]
pub struct Frame {
    /// The inputs.
    pub inputs: In<Input>,
    /// Number of `inputs`; the detector fixes it.
    pub num_inputs: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The calibration of a camera, as `sensor_msgs/CameraInfo` states it. Matrices are row by row.
#[repr(C)]
pub struct CameraCalibration {
    /// Coordinate frame of the camera.
    pub frame_id: Text,
    /// Pixels per row of the image that was calibrated, at full resolution.
    pub width: u32,
    /// Rows of that image.
    pub height: u32,
    /// Name of the distortion model, such as `plumb_bob`.
    pub distortion_model: Text,
    /// Coefficients of the distortion model.
    pub distortion: In<f64>,
    /// Number of `distortion`, up to 1024.
    pub num_distortion: usize,
    /// 3x3 intrinsic matrix of the raw image: `k`.
    pub intrinsics: [f64; 9],
    /// 3x3 rectification rotation: `r`.
    pub rectification: [f64; 9],
    /// 3x4 projection matrix of the rectified image: `p`.
    pub projection: [f64; 12],
    /// Pixels of the full resolution that one pixel covers, along x and y; 0 is the same as 1.
    pub binning: [u32; 2],
    /// Left edge, top edge, width and height of the part of the full resolution that the image
    /// shows; all 0 for all of it.
    pub region: [u32; 4],
}

/// A transform of a child frame in its parent.
#[repr(C)]
pub struct Transform {
    /// Name of the parent.
    pub parent: Text,
    /// Name of the child.
    pub child: Text,
    /// Time in nanoseconds; not read if `is_static`.
    pub stamp_ns: i64,
    /// Origin of the child in the parent: x, y, z in metres.
    pub translation: [f64; 3],
    /// Rotation as a quaternion x, y, z, w.
    pub rotation: [f64; 4],
    /// 1 if it holds at all times, else 0.
    pub is_static: u32,
}

/// The data of an input, checked.
#[expect(clippy::large_enum_variant, reason = "on the stack, so that a frame allocates nothing")]
pub(super) enum View<'a> {
    Image(ImagePayload<'a>),
    Cloud(CloudView<'a>),
    CloudOnDevice(CloudView<'a, DeviceBytes<'a>>),
    Tensors(ReceivedTensors<'a>),
}

impl View<'_> {
    /// As the payload of a frame.
    pub(super) fn payload(&self) -> Payload<'_> {
        match self {
            Self::Image(image) => Payload::Image(*image),
            Self::Cloud(cloud) => Payload::Cloud(cloud),
            Self::CloudOnDevice(cloud) => Payload::CloudOnDevice(cloud),
            Self::Tensors(tensors) => Payload::Tensors(tensors),
        }
    }
}

impl Image {
    fn encoding(&self, call: &Call) -> Result<Encoding, Failure> {
        Ok(Encoding::from_ros(call.text(self.encoding, "image.encoding")?)?)
    }

    /// A checked view.
    pub(super) fn view<'call>(&self, call: &'call Call) -> Result<ImageView<'call>, Failure> {
        let (size, encoding) = (Size::new(self.width, self.height), self.encoding(call)?);
        let bytes = self.bytes.read(call)?;
        Ok(ImageView::new(size, self.step, encoding, self.is_bigendian != 0, bytes)?)
    }

    /// A checked view of an image in the memory of a GPU.
    pub(super) fn device_view<'call>(
        &self,
        call: &'call Call,
        stream: u64,
    ) -> Result<ImageView<'call, DeviceBytes<'call>>, Failure> {
        let (size, encoding) = (Size::new(self.width, self.height), self.encoding(call)?);
        let bytes = call.device_bytes(self.bytes.data, self.bytes.num_bytes, stream)?;
        Ok(ImageView::on_device(size, self.step, encoding, self.is_bigendian != 0, bytes)?)
    }
}

impl Cloud {
    fn fields<'call>(&self, call: &'call Call) -> Result<PointFields<'call>, Failure> {
        let mut fields = PointFields::new();
        for field in call.slice(self.fields, self.num_fields, "cloud.fields")? {
            let name = call.text(field.name, "cloud.fields.name")?;
            // No type has the number 0.
            let datatype = u8::try_from(field.datatype).unwrap_or_default();
            fields.push(Field { name, offset: field.offset, datatype, count: field.count })?;
        }
        Ok(fields)
    }

    fn view<'call>(&self, call: &'call Call) -> Result<CloudView<'call>, Failure> {
        let [size, steps] = [[self.width, self.height], [self.point_step, self.row_step]];
        let (fields, bytes) = (self.fields(call)?, self.bytes.read(call)?);
        Ok(CloudView::new(size, steps, self.is_bigendian != 0, fields, bytes)?)
    }

    fn device_view<'call>(
        &self,
        call: &'call Call,
        stream: u64,
    ) -> Result<CloudView<'call, DeviceBytes<'call>>, Failure> {
        let [size, steps] = [[self.width, self.height], [self.point_step, self.row_step]];
        let bytes = call.device_bytes(self.bytes.data, self.bytes.num_bytes, stream)?;
        let fields = self.fields(call)?;
        Ok(CloudView::on_device(size, steps, self.is_bigendian != 0, fields, bytes)?)
    }
}

impl Input {
    /// Its data; `None` for an input that the frame lacks.
    fn view<'a>(
        &self,
        call: &'a Call,
        tensors: Option<(&TensorEntries, &'a TensorMemory)>,
    ) -> Result<Option<View<'a>>, Failure> {
        let takes_device = matches!(self.kind, INPUT_IMAGE | INPUT_CLOUD);
        if self.is_on_device > u32::from(takes_device) {
            let message = "input.is_on_device may be 1 only for raw images and clouds";
            return Err(Failure::argument(message));
        }
        Ok(Some(match (self.kind, tensors) {
            (INPUT_NONE, _) => return Ok(None),
            (INPUT_IMAGE, _) => {
                let image = call.one(self.image, "input.image")?;
                View::Image(match self.is_on_device {
                    0 => ImagePayload::Raw(image.view(call)?),
                    _ => ImagePayload::OnDevice(image.device_view(call, self.stream.number())?),
                })
            }
            (INPUT_COMPRESSED_IMAGE, _) => {
                let image = call.one(self.compressed_image, "input.compressed_image")?;
                let format = call.text(image.format, "compressed_image.format")?;
                let data = image.bytes.read(call)?;
                let message = CompressedMessage { header: Header::default(), format, data };
                View::Image(ImagePayload::Compressed(message.view()?))
            }
            (INPUT_CLOUD, _) => {
                let cloud = call.one(self.cloud, "input.cloud")?;
                match self.is_on_device {
                    0 => View::Cloud(cloud.view(call)?),
                    _ => View::CloudOnDevice(cloud.device_view(call, self.stream.number())?),
                }
            }
            (INPUT_TENSORS, Some((entries, memory))) => {
                View::Tensors(ReceivedTensors::new(*entries, memory.bytes())?)
            }
            (other, _) => {
                return Err(Failure::argument(format!(
                    "input.kind is {other}, which is not known"
                )));
            }
        }))
    }

    /// The data of an input that is no part of a frame; its tensors are copied to `memory`.
    pub(super) fn view_alone<'a>(
        &self,
        call: &'a Call,
        memory: &'a mut TensorMemory,
    ) -> Result<Option<View<'a>>, Failure> {
        memory.clear();
        match self.kind {
            INPUT_TENSORS => {
                let entries = memory.add(call, self)?;
                Ok(Some(View::Tensors(ReceivedTensors::new(entries, memory.bytes())?)))
            }
            _ => self.view(call, None),
        }
    }

    pub(super) fn header<'call>(&self, call: &'call Call) -> Result<Header<'call>, Failure> {
        let frame_id = call.text_or_null(self.frame_id, "input.frame_id")?.unwrap_or_default();
        Ok(Header { stamp: Stamp::from_nanos(self.stamp_ns), frame_id })
    }
}

impl Frame {
    /// Runs work on the inputs with the calibrations of their cameras. Without poses.
    pub(super) fn visit<R>(
        &self,
        call: &Call,
        memory: &mut TensorMemory,
        calibrations: &[Option<Calibration>; MAX_INPUTS],
        work: impl FnOnce(&mut [Option<FrameInput<'_>>]) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("frame.reserved is not 0"));
        }
        let inputs = call.slice(self.inputs, self.num_inputs, "frame.inputs")?;
        if inputs.len() > MAX_INPUTS {
            let message = format!("{} inputs exceed the limit of {MAX_INPUTS}", inputs.len());
            return Err(Failure::argument(message));
        }
        memory.clear();
        let mut entries = [const { None }; MAX_INPUTS];
        for (entries, input) in entries.iter_mut().zip(inputs) {
            *entries = match input.kind {
                INPUT_TENSORS => Some(memory.add(call, input)?),
                _ => None,
            };
        }
        let mut views = [const { None }; MAX_INPUTS];
        for ((view, input), entries) in views.iter_mut().zip(inputs).zip(&entries) {
            *view = input.view(call, entries.as_ref().map(|entries| (entries, &*memory)))?;
        }
        let mut frame = [const { None }; MAX_INPUTS];
        for (index, input) in inputs.iter().enumerate() {
            let Some(view) = &views[index] else { continue };
            let calibration = calibrations[index].as_ref();
            let input = FrameInput::new(input.header(call)?, view.payload());
            frame[index] = Some(FrameInput { calibration, ..input });
        }
        work(&mut frame[..inputs.len()])
    }
}

impl CameraCalibration {
    /// The calibration, owned.
    pub(super) fn read(&self, call: &Call) -> Result<Calibration, Failure> {
        let frame_id = call.text_or_null(self.frame_id, "calibration.frame_id")?;
        let model = call.text(self.distortion_model, "calibration.distortion_model")?;
        let num = self.num_distortion;
        if num > Calibration::MAX_COEFFICIENTS {
            let most = Calibration::MAX_COEFFICIENTS;
            let message = format!("{num} distortion coefficients exceed the limit of {most}");
            return Err(Failure::argument(message));
        }
        Ok(Calibration {
            frame_id: frame_id.unwrap_or_default().to_owned(),
            size: Size::new(self.width, self.height),
            distortion_model: model.to_owned(),
            distortion: call.slice(self.distortion, num, "calibration.distortion")?.to_vec(),
            intrinsics: self.intrinsics,
            rectification: self.rectification,
            projection: self.projection,
            binning: self.binning.map(|binning| binning.max(1)),
            region: self.region,
        })
    }
}

impl Transform {
    /// The motion from the child to the parent.
    pub(super) fn parent_from_child(&self) -> Result<Isometry3<f64>, Error> {
        isometry(self.translation, self.rotation)
    }
}
