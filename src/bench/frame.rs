//! Whole frames: what is around a camera's network, and the pipelines from the
//! message to the detections with networks that take no time.

use super::case::Case;
use super::decode::{HeadOutput, Kind, OnCpu, SOURCE};
use super::fixed::Network;
use super::inputs::TestImage;
use super::letterbox::{input_shape, params};
use super::lidar::{Cloud, maps_of_a_head, scan};
use super::measure::Bench;
use crate::config::{CameraConfig, ChannelConfig, ChannelKind, Config, LidarConfig};
use crate::detectors::{Detector, FrameInput, FrameSet, image2d, pillars};
use det_post_ops::device::Device;
use det_post_ops::image::letterbox::{Workspace, letterbox};
use det_post_types::{
    ElementType, Encoding, Error, ErrorKind, FrameReport, Header, ImagePayload, Result, Tensor,
};

/// Without what is between: the network, and on a GPU the upload.
const AROUND: &str = "camera frame but network and upload, 1920x1080 bgr8, yolov5, 200";
const CAMERA: &str = "camera frame but network, 1920x1080 bgr8, yolov5, 200 candidates";
const LIDAR: &str = "lidar frame but networks, 200k points, 5x480x480";
/// From payloads in a mapped recording.
const MAPPED_CAMERA: &str =
    "camera frame but network, mapped recording, 1920x1080 bgr8, yolov5, 200";
const MAPPED_LIDAR: &str = "lidar frame but networks, mapped recording, 200k points, 5x480x480";

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    if [AROUND, CAMERA, MAPPED_CAMERA].iter().any(|name| bench.wants(name)) {
        camera(bench, device)?;
    }
    if bench.wants(LIDAR) || bench.wants(MAPPED_LIDAR) {
        lidar(bench, device)?;
    }
    Ok(())
}

fn camera(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    let test_image = TestImage::new(SOURCE, Encoding::Bgr8);
    let output = HeadOutput::new(Kind::V5, ElementType::F32, 200);
    if bench.wants(AROUND) {
        match device {
            Device::Cpu => around_on_cpu(bench, &test_image, &output)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::around(bench, device, &test_image, &output)?,
        }
    }
    if bench.wants(CAMERA) || bench.wants(MAPPED_CAMERA) {
        let config = camera_config()?;
        let network = Network {
            input: ("images", input_shape().to_vec()),
            outputs: output.tensors.into_iter().map(|tensor| ("output", tensor)).collect(),
        };
        let mut detector: Box<dyn Detector> = match device {
            Device::Cpu => Box::new(<image2d::CpuDetector>::new(&config, network.on_cpu())?),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => {
                let stream = &device.stream()?;
                let engine = network.on_device(stream)?;
                Box::new(<image2d::CudaDetector>::new(&config, stream, engine)?)
            }
        };
        let payload = ImagePayload::Raw(test_image.view()?);
        let input = [Some(FrameInput::image(Header::default(), payload))];
        let frame = FrameSet::single(&input);
        let mut detect = || detector.detect(&frame, &mut FrameReport::new()).map(drop);
        if bench.wants(CAMERA) {
            bench.host(Case::new(CAMERA), &mut detect)?;
        }
        #[cfg(feature = "cuda")]
        if let Device::Cuda(device) = device {
            cuda::mapped_camera(bench, device, &test_image, detector.as_mut())?;
        }
    }
    Ok(())
}

fn around_on_cpu(bench: &mut Bench<'_>, test_image: &TestImage, output: &HeadOutput) -> Result<()> {
    let image = test_image.view()?;
    let mut workspace = Workspace::new();
    let mut input = Tensor::zeros(ElementType::F32, &input_shape())?;
    let mut rest = <OnCpu>::new(output);
    bench.host(Case::new(AROUND), || {
        letterbox(&image, &params(), &mut workspace, &mut input)?;
        rest.gather(output)
    })
}

fn lidar(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    let config = lidar_config()?;
    let [encoder, head] = lidar_networks(&config);
    let mut detector: Box<dyn Detector> = match device {
        Device::Cpu => {
            Box::new(pillars::CpuDetector::new(&config, encoder.on_cpu(), head.on_cpu())?)
        }
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => {
            let stream = &device.stream()?;
            let (encoder, head) = (encoder.on_device(stream)?, head.on_device(stream)?);
            Box::new(pillars::CudaDetector::new(&config, stream, encoder, head)?)
        }
    };
    let cloud = Cloud::of(&scan());
    #[cfg(feature = "cuda")]
    if let Device::Cuda(device) = device {
        cuda::mapped_lidar(bench, device, &cloud, detector.as_mut())?;
    }
    if !bench.wants(LIDAR) {
        return Ok(());
    }
    let cloud = &cloud.view()?;
    let input = [Some(FrameInput::cloud(Header::default(), cloud))];
    let frame = FrameSet::single(&input);
    bench.host(Case::new(LIDAR), || detector.detect(&frame, &mut FrameReport::new()).map(drop))
}

/// The encoder and the network of a CenterPoint.
fn lidar_networks(config: &LidarConfig) -> [Network; 2] {
    const NUM_CHANNELS: usize = 32;
    let facts = &config.facts;
    let (num_voxels, num_features) = (facts.voxel_capacity, facts.num_features());
    let [nx, ny, _] = facts.grid.grid_size().map(|n| n as usize);
    let encoded = Tensor::F32 {
        shape: vec![num_voxels, NUM_CHANNELS],
        values: vec![0.5; num_voxels * NUM_CHANNELS],
    };
    let encoder = Network {
        input: ("input_features", vec![num_voxels, facts.max_points_per_voxel, num_features]),
        outputs: vec![("pillar_features", encoded)],
    };
    let [heatmap, reg, height, dim, rot] = maps_of_a_head();
    let vel = reg.clone();
    let head = Network {
        input: ("spatial_features", vec![1, NUM_CHANNELS, ny, nx]),
        outputs: vec![
            ("reg", reg),
            ("height", height),
            ("dim", dim),
            ("rot", rot),
            ("vel", vel),
            ("heatmap", heatmap),
        ],
    };
    [encoder, head]
}

/// A channel with the shipped defaults, each sweep by itself.
fn lidar_config() -> Result<LidarConfig> {
    let more = ["c.encoder_path:=e", "c.densification.num_past_sweeps:=0"];
    match channel("centerpoint_autoware", &more)?.kind {
        ChannelKind::Lidar(config) => Ok(*config),
        ChannelKind::Camera(_) | ChannelKind::Surround(_) => Err(of_another_sensor()),
    }
}

/// A channel with the shipped defaults.
fn camera_config() -> Result<CameraConfig> {
    match channel("yolov5", &[])?.kind {
        ChannelKind::Camera(config) => Ok(*config),
        ChannelKind::Lidar(_) | ChannelKind::Surround(_) => Err(of_another_sensor()),
    }
}

fn channel(head: &str, more: &[&str]) -> Result<ChannelConfig> {
    let head = format!("c.head:={head}");
    let parameters = ["c.input:=/i", &head, "c.model_path:=m"];
    let parameters = parameters.iter().chain(more).map(|&parameter| parameter.to_owned());
    let config = Config::load(&[], &parameters.collect::<Vec<_>>())?;
    config.channels.into_iter().next().ok_or_else(of_another_sensor)
}

fn of_another_sensor() -> Error {
    Error::new(ErrorKind::Config, "bench", "a shipped head is of another sensor")
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::case::wall;
    use super::super::decode::cuda::Steps;
    use super::super::mapped::MappedPayloads;
    use super::{
        AROUND, Bench, Case, Cloud, Detector, ElementType, FrameInput, FrameReport, FrameSet,
        HeadOutput, Header, ImagePayload, MAPPED_CAMERA, MAPPED_LIDAR, Result, TestImage,
        input_shape, params,
    };
    use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Graph};
    use det_post_ops::image::DeviceImage;
    use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox};

    /// Two launches and one wait, as a frame has them.
    pub(super) fn around(
        bench: &mut Bench<'_>,
        device: &CudaDevice,
        test_image: &TestImage,
        output: &HeadOutput,
    ) -> Result<()> {
        let stream = &device.stream()?;
        let view = test_image.view()?;
        let kernels = Kernels::load(device)?;
        let mut image = DeviceImage::with_capacity(stream, view.data().len())?;
        let mut out = DeviceTensor::zeros(stream, ElementType::F32, &input_shape())?;
        image.enqueue_upload(&view)?;
        let before = Graph::capture(stream, || {
            enqueue_letterbox(stream, &kernels, &image, &params(), &mut out).map(|_| ())
        })?;
        let mut steps = <Steps>::new(stream, output)?;
        let after = Graph::capture(stream, || steps.gather())?;
        let enqueue = || before.enqueue().and_then(|()| after.enqueue());
        let case = Case::new(AROUND).with_bar(wall(None, 30.0));
        bench.device(case, stream, enqueue, || steps.read())
    }

    /// Frames of images in a mapped file.
    pub(super) fn mapped_camera(
        bench: &mut Bench<'_>,
        device: &CudaDevice,
        test_image: &TestImage,
        detector: &mut dyn Detector,
    ) -> Result<()> {
        if !bench.wants(MAPPED_CAMERA) {
            return Ok(());
        }
        let mapped = MappedPayloads::new(device, test_image.view()?.data())?;
        let mut run = 0;
        bench.frames(Case::new(MAPPED_CAMERA).with_bar(wall(None, 180.0)), || {
            run += 1;
            let payload = ImagePayload::Raw(test_image.view_of(mapped.payload(run))?);
            let input = [Some(FrameInput::image(Header::default(), payload))];
            detector.detect(&FrameSet::single(&input), &mut FrameReport::new()).map(drop)
        })
    }

    /// Frames of clouds in a mapped file.
    pub(super) fn mapped_lidar(
        bench: &mut Bench<'_>,
        device: &CudaDevice,
        cloud: &Cloud,
        detector: &mut dyn Detector,
    ) -> Result<()> {
        if !bench.wants(MAPPED_LIDAR) {
            return Ok(());
        }
        let mapped = MappedPayloads::new(device, cloud.view()?.data())?;
        let mut run = 0;
        bench.frames(Case::new(MAPPED_LIDAR).with_bar(wall(None, 260.0)), || {
            run += 1;
            let cloud = &Cloud::view_of(mapped.payload(run))?;
            let input = [Some(FrameInput::cloud(Header::default(), cloud))];
            detector.detect(&FrameSet::single(&input), &mut FrameReport::new()).map(drop)
        })
    }
}
