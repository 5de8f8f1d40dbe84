//! Frames of a drive as messages of a recording.

use super::instances;
use super::merged::append_moved;
use crate::{Drive, Pose, RenderedImage, Scan, SeenByCameras};
use det_post_ros::bag::{BagWriter, Durability, OfferedQos};
use det_post_ros::messages::{
    CameraInfo, Clock, CompressedImage, Detection2DArray, Detection3DArray, Image, PointCloud2,
    TfMessage, TransformStamped, definition,
};
use det_post_ros::tf::isometry;
use det_post_ros::truth::{self, ATTRIBUTES_SUFFIX};
use det_post_types::{Error, ErrorKind, Header, PointField, PointFields, Result, Size, Stamp};

/// Quality of the JPEGs, of 100.
const JPEG_QUALITY: u8 = 90;
/// Names, offsets and `PointField` datatypes of a point.
const POINT_FIELDS: [(&str, u32, u8); 6] =
    [("x", 0, 7), ("y", 4, 7), ("z", 8, 7), ("intensity", 12, 7), ("ring", 16, 4), ("time", 20, 7)];
/// Bytes from a point to the next.
const POINT_STEP: usize = 24;

/// The topic of the clouds of all LiDARs.
const MERGED_CLOUD: &str = "/lidar/points";
/// The frame of the vehicle.
const VEHICLE_FRAME: &str = "base_link";
/// The topic of the truth around the vehicle.
const SURROUND_TRUTH: &str = "/truth/surround";

/// How images are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// `sensor_msgs/Image`, rgb8.
    Raw,
    /// `sensor_msgs/CompressedImage`, JPEG.
    Jpeg,
}

/// The topics of a LiDAR.
struct LidarTopics {
    frame_id: String,
    points: usize,
    truth: usize,
    attributes: usize,
}

/// The clouds of all LiDARs as one.
struct MergedCloud {
    topic: usize,
    data: Vec<u8>,
}

/// The topics of a camera.
struct CameraTopics {
    frame_id: String,
    image: usize,
    info: usize,
    truth: usize,
    attributes: usize,
    instances: Option<usize>,
}

/// The topics of the truth around the vehicle.
struct SurroundTopics {
    truth: usize,
    attributes: usize,
}

/// Renders frames of a drive and records them. Its memory is used again from
/// frame to frame.
pub(super) struct Recorder<'a> {
    drive: &'a Drive,
    bag: BagWriter,
    format: ImageFormat,
    tf: usize,
    tf_static: usize,
    clock: usize,
    lidars: Vec<LidarTopics>,
    /// The clouds of all LiDARs.
    merged: Option<MergedCloud>,
    cameras: Vec<CameraTopics>,
    /// With several cameras.
    surround: Option<SurroundTopics>,
    scan: Scan,
    image: RenderedImage,
    seen: SeenByCameras,
    payload: Vec<u8>,
    message: Vec<u8>,
    attributes: Vec<u8>,
}

impl<'a> Recorder<'a> {
    /// Declares all topics of the recording.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn create(
        drive: &'a Drive,
        mut bag: BagWriter,
        format: ImageFormat,
    ) -> Result<Self> {
        let mut add = |topic: String, type_name: &str, qos: OfferedQos| {
            let text = definition(type_name).ok_or_else(|| {
                Error::new(ErrorKind::Argument, "simulate", format!("no type {type_name}"))
            })?;
            bag.add_topic(&topic, type_name, &text, qos)
        };
        let usual = OfferedQos::default();
        let latched = OfferedQos { depth: 1, durability: Durability::TransientLocal, ..usual };
        let clock = add("/clock".into(), Clock::TYPE, usual)?;
        let tf_static = add("/tf_static".into(), TfMessage::TYPE, latched)?;
        let tf = add("/tf".into(), TfMessage::TYPE, OfferedQos { depth: 100, ..usual })?;
        let mut lidars = Vec::new();
        for i in 0..drive.rig().lidars.len() {
            let topic = format!("/truth/lidar_{i}");
            lidars.push(LidarTopics {
                frame_id: lidar_frame(i),
                points: add(format!("/lidar_{i}/points"), PointCloud2::TYPE, usual)?,
                truth: add(topic.clone(), Detection3DArray::TYPE, usual)?,
                attributes: add(topic + ATTRIBUTES_SUFFIX, PointCloud2::TYPE, usual)?,
            });
        }
        let merged = match drive.rig().has_merged_cloud {
            true => {
                let topic = add(MERGED_CLOUD.into(), PointCloud2::TYPE, usual)?;
                Some(MergedCloud { topic, data: Vec::new() })
            }
            false => None,
        };
        let (image_suffix, image_type) = match format {
            ImageFormat::Raw => ("", Image::TYPE),
            ImageFormat::Jpeg => ("/compressed", CompressedImage::TYPE),
        };
        let mut cameras = Vec::new();
        for i in 0..drive.rig().cameras.len() {
            let topic = format!("/truth/camera_{i}");
            let masks = drive.rig().has_masks.then(|| format!("{topic}{}", instances::SUFFIX));
            cameras.push(CameraTopics {
                frame_id: camera_frame(i),
                image: add(format!("/camera_{i}/image{image_suffix}"), image_type, usual)?,
                info: add(format!("/camera_{i}/camera_info"), CameraInfo::TYPE, usual)?,
                truth: add(topic.clone(), Detection2DArray::TYPE, usual)?,
                attributes: add(topic + ATTRIBUTES_SUFFIX, PointCloud2::TYPE, usual)?,
                instances: masks.map(|topic| add(topic, Image::TYPE, usual)).transpose()?,
            });
        }
        let surround = match cameras.len() {
            0 | 1 => None,
            _ => Some(SurroundTopics {
                truth: add(SURROUND_TRUTH.into(), Detection3DArray::TYPE, usual)?,
                attributes: add(
                    format!("{SURROUND_TRUTH}{ATTRIBUTES_SUFFIX}"),
                    PointCloud2::TYPE,
                    usual,
                )?,
            }),
        };
        Ok(Self {
            drive,
            bag,
            format,
            tf,
            tf_static,
            clock,
            lidars,
            merged,
            cameras,
            surround,
            scan: Scan::default(),
            image: RenderedImage::default(),
            seen: SeenByCameras::default(),
            payload: Vec::new(),
            message: Vec::new(),
            attributes: Vec::new(),
        })
    }

    /// Records where the sensors sit.
    pub(super) fn mounts(&mut self, log_time: Stamp) -> Result<()> {
        let rig = self.drive.rig();
        let header = Header { stamp: log_time, frame_id: VEHICLE_FRAME };
        let lidars = rig.lidars.iter().zip(&self.lidars).map(|(mount, topics)| TransformStamped {
            header,
            child_frame_id: &topics.frame_id,
            translation: mount.position_m,
            rotation: level_quaternion(mount.yaw_rad),
        });
        let cameras = rig.cameras.iter().zip(&self.cameras).map(|(mount, topics)| {
            // From x right, y down, z ahead to x ahead, y left, z up, then the yaw.
            let [_, _, z, w] = level_quaternion(mount.yaw_rad);
            let (plus, minus) = (0.5 * (w + z), 0.5 * (w - z));
            TransformStamped {
                header,
                child_frame_id: &topics.frame_id,
                translation: mount.position_m,
                rotation: [-plus, minus, -minus, plus],
            }
        });
        let transforms: Vec<_> = lidars.chain(cameras).collect();
        TfMessage::encode(&transforms, &mut self.message)?;
        self.bag.write(self.tf_static, log_time, &self.message)
    }

    /// Records the time and where the vehicle is.
    pub(super) fn transform(&mut self, log_time: Stamp) -> Result<()> {
        Clock { clock: log_time }.encode(&mut self.message)?;
        self.bag.write(self.clock, log_time, &self.message)?;
        let Pose { position_m, yaw_rad, .. } = self.drive.ego(log_time);
        let transform = TransformStamped {
            header: Header { stamp: log_time, frame_id: "map" },
            child_frame_id: VEHICLE_FRAME,
            translation: position_m,
            rotation: level_quaternion(yaw_rad),
        };
        TfMessage::encode(&[transform], &mut self.message)?;
        self.bag.write(self.tf, log_time, &self.message)
    }

    /// Renders and records a scan with its truth.
    pub(super) fn scan(&mut self, lidar: usize, index: u64, log_time: Stamp) -> Result<()> {
        self.drive.cloud(lidar, index, &mut self.scan);
        let topics = &self.lidars[lidar];
        let stamp = self.drive.rig().scan_stamp(index);
        let header = Header { stamp, frame_id: &topics.frame_id };
        write_points(&self.scan, self.drive.rig().has_moving_scans, &mut self.payload);
        cloud(header, &self.payload)?.encode(&mut self.message)?;
        self.bag.write(topics.points, log_time, &self.message)?;
        if let Some(MergedCloud { topic, data }) = &mut self.merged {
            if lidar == 0 {
                data.clear();
            }
            let mount = &self.drive.rig().lidars[lidar];
            let mount = isometry(mount.position_m, level_quaternion(mount.yaw_rad))?;
            append_moved(&self.payload, POINT_STEP, &mount, data);
            if lidar + 1 == self.lidars.len() {
                let header = Header { stamp, frame_id: VEHICLE_FRAME };
                cloud(header, data)?.encode(&mut self.message)?;
                self.bag.write(*topic, log_time, &self.message)?;
            }
        }
        let truth = &self.scan.truth;
        truth::encode_3d(&header, truth, &mut self.message, &mut self.attributes)?;
        self.bag.write(topics.truth, log_time, &self.message)?;
        self.bag.write(topics.attributes, log_time, &self.attributes)
    }

    /// Renders and records an image with its calibration and its truth.
    pub(super) fn image(&mut self, camera: usize, index: u64, log_time: Stamp) -> Result<()> {
        self.drive.image(camera, index, &mut self.image);
        let topics = &self.cameras[camera];
        let stamp = self.drive.rig().image_stamp(index);
        let header = Header { stamp, frame_id: &topics.frame_id };
        encode_image(&header, &self.image, self.format, &mut self.payload, &mut self.message)?;
        self.bag.write(topics.image, log_time, &self.message)?;
        camera_info(&header, self.drive).encode(&mut self.message)?;
        self.bag.write(topics.info, log_time, &self.message)?;
        let truth = &self.image.truth;
        truth::encode_2d(&header, truth, &mut self.message, &mut self.attributes)?;
        self.bag.write(topics.truth, log_time, &self.message)?;
        self.bag.write(topics.attributes, log_time, &self.attributes)?;
        if let Some(topic) = topics.instances {
            instances::encode(&header, &self.image, &mut self.payload, &mut self.message)?;
            self.bag.write(topic, log_time, &self.message)?;
        }
        self.surround_truth(camera, index, log_time)
    }

    /// Adds the truth of an image to that around the vehicle, and records it after the last
    /// camera: images with an index follow each other.
    fn surround_truth(&mut self, camera: usize, index: u64, log_time: Stamp) -> Result<()> {
        let Some(topics) = &self.surround else { return Ok(()) };
        if camera == 0 {
            self.seen.clear();
        }
        self.seen.add(&self.image.truth);
        if camera + 1 < self.cameras.len() {
            return Ok(());
        }
        let stamp = self.drive.rig().image_stamp(index);
        let header = Header { stamp, frame_id: VEHICLE_FRAME };
        let objects = self.drive.surround_truth(index, &self.seen);
        truth::encode_3d(&header, &objects, &mut self.message, &mut self.attributes)?;
        self.bag.write(topics.truth, log_time, &self.message)?;
        self.bag.write(topics.attributes, log_time, &self.attributes)
    }

    /// Closes the recording.
    ///
    /// # Errors
    /// `Io` when the system refuses.
    pub(super) fn finish(self) -> Result<()> {
        self.bag.finish()
    }
}

fn lidar_frame(index: usize) -> String {
    format!("lidar_{index}")
}

fn camera_frame(index: usize) -> String {
    format!("camera_{index}_optical_frame")
}

/// A turn about the vertical as a quaternion x, y, z, w.
fn level_quaternion(yaw_rad: f64) -> [f64; 4] {
    let (sin, cos) = libm::sincos(0.5 * yaw_rad);
    [0.0, 0.0, sin, cos]
}

/// The message of points.
fn cloud<'a>(header: Header<'a>, data: &'a [u8]) -> Result<PointCloud2<'a>> {
    let mut fields = PointFields::new();
    for (name, offset, datatype) in POINT_FIELDS {
        fields.push(PointField { name, offset, datatype, count: 1 })?;
    }
    Ok(PointCloud2 {
        header,
        height: 1,
        width: (data.len() / POINT_STEP) as u32,
        fields,
        is_bigendian: false,
        point_step: POINT_STEP as u32,
        row_step: data.len() as u32,
        data,
        is_dense: true,
    })
}

fn write_points(scan: &Scan, is_moving: bool, data: &mut Vec<u8>) {
    data.clear();
    data.reserve(scan.points.len() * POINT_STEP);
    for point in &scan.points {
        let position = if is_moving { point.measured } else { point.position };
        let [x, y, z] = position.map(f32::to_le_bytes);
        let mut bytes = [0; POINT_STEP];
        for (offset, value) in [(0, x), (4, y), (8, z), (12, point.intensity.to_le_bytes())] {
            bytes[offset..offset + 4].copy_from_slice(&value);
        }
        bytes[16..18].copy_from_slice(&point.ring.to_le_bytes());
        bytes[20..24].copy_from_slice(&point.time_s.to_le_bytes());
        data.extend_from_slice(&bytes);
    }
}

fn encode_image(
    header: &Header<'_>,
    image: &RenderedImage,
    format: ImageFormat,
    payload: &mut Vec<u8>,
    message: &mut Vec<u8>,
) -> Result<()> {
    let Size { width, height } = image.size;
    match format {
        ImageFormat::Raw => {
            let image = Image {
                header: *header,
                height,
                width,
                encoding: "rgb8",
                is_bigendian: false,
                step: 3 * width,
                data: &image.rgb,
            };
            image.encode(message)
        }
        ImageFormat::Jpeg => {
            payload.clear();
            let encoder = jpeg_encoder::Encoder::new(&mut *payload, JPEG_QUALITY);
            let (columns, rows) = (width as u16, height as u16);
            encoder.encode(&image.rgb, columns, rows, jpeg_encoder::ColorType::Rgb).map_err(
                |error| {
                    let message = format!("an image of {width}x{height} is no JPEG");
                    Error::new(ErrorKind::Codec, "simulate", message).with_source(error)
                },
            )?;
            CompressedImage { header: *header, format: "jpeg", data: payload }.encode(message)
        }
    }
}

/// A pinhole without distortion. The principal point is given as OpenCV counts,
/// the middle of pixel `i` at `i`.
fn camera_info<'a>(header: &Header<'a>, drive: &Drive) -> CameraInfo<'a> {
    let rig = drive.rig();
    let Size { width, height } = rig.image_size;
    let focal = rig.focal_px();
    let [cx, cy] = rig.principal_px().map(|value| value - 0.5);
    CameraInfo {
        header: *header,
        height,
        width,
        distortion_model: "plumb_bob",
        d: vec![0.0; 5],
        k: [focal, 0.0, cx, 0.0, focal, cy, 0.0, 0.0, 1.0],
        r: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        p: [focal, 0.0, cx, 0.0, 0.0, focal, cy, 0.0, 0.0, 0.0, 1.0, 0.0],
        ..CameraInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use det_post_ros::bag::BagCompression;

    #[test]
    fn camera_mounts_turn_the_optical_axes() {
        let options = Options { num_cameras: 5, ..Options::default() };
        let drive = Drive::new(1, &options).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let bag = BagWriter::create(&folder.path().join("bag"), BagCompression::None).unwrap();
        let mut recorder = Recorder::create(&drive, bag, ImageFormat::Raw).unwrap();
        recorder.mounts(crate::START).unwrap();
        let transforms = TfMessage::decode(&recorder.message).unwrap().transforms;
        let cameras = transforms.map(Result::unwrap).skip(1);
        for (found, mount) in cameras.zip(&drive.rig().cameras) {
            let [x, y, z, w] = found.rotation;
            let quaternion = nalgebra::Quaternion::new(w, x, y, z);
            assert!((quaternion.norm() - 1.0).abs() < 1e-12);
            let turn = nalgebra::UnitQuaternion::from_quaternion(quaternion);
            let difference = turn.to_rotation_matrix().matrix() - mount.base_from_optical();
            assert!(difference.norm() < 1e-12, "{difference}");
        }
    }
}
