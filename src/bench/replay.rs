//! Replays of cameras at full rate on a GPU, beside their network by itself: what reading, uploads,
//! decompression and post-processing add to a frame that is in flight beside the next.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::case::{Case, Times, wall};
use super::decode::SOURCE;
use super::decompress;
use super::inputs::TestImage;
use super::measure::Bench;
use crate::config::{ChannelKind, Config};
use crate::detectors::MAX_FRAMES_IN_FLIGHT;
use crate::detectors::image2d::YoloHead;
use crate::replay::{Replay, ReplayOptions};
use det_post_infer::device::DeviceEngine;
use det_post_ops::device::Device;
use det_post_ops::device::cuda::CudaDevice;
use det_post_ros::bag::{BagCompression, BagWriter, OfferedQos};
use det_post_ros::messages::{CompressedImage, Image, definition};
use det_post_types::{Encoding, Error, ErrorKind, Header, Result, Stamp};

/// Names the network of the demo camera, in the sources `models/camera.onnx`.
const NETWORK_VARIABLE: &str = "DET_POST_BENCH_NETWORK";
const NETWORK: &str = "models/camera.onnx";

const BY_ITSELF: &str = "replay: only the network of the demo camera, back to back";
const BATCH: usize = 6;
const IN_BATCH: &str = "replay: that network for six images at once, an image";
/// The share of the network's own rate that a replay must reach.
const MIN_SHARE: f64 = 0.9;
/// The share of each GPU of several that the rate must reach, as a share of the rate of one.
const MIN_SHARE_OF_GPUS: f64 = 0.95;

/// Images of a replay on one GPU, of all cameras: at least.
const NUM_IMAGES: usize = 200;
/// On several GPUs: longer, since ends of a replay do not divide by the number of GPUs. As many raw images
/// as `mapped_upload_mib` holds by default.
const NUM_RAW_IMAGES: usize = 300;
const NUM_JPEG_IMAGES: usize = 1200;
/// Each measured: their quantiles are of means over the frames.
const NUM_REPLAYS: usize = 3;

/// A recording to replay.
struct Recorded {
    name: &'static str,
    num_cameras: usize,
    /// Of all cameras, up to the next multiple of their number.
    num_images: usize,
    frames_in_flight: usize,
    is_compressed: bool,
}

/// Twelve cameras, on one GPU and on all where there are several.
const ON_GPUS: [OnGpus; 2] = [
    OnGpus {
        one: "replay: 300 images 1920x1080 bgr8, twelve cameras, one GPU",
        all: "replay: 300 images 1920x1080 bgr8, twelve cameras, all GPUs",
        is_compressed: false,
    },
    OnGpus {
        one: "replay: 1200 images 1600x900 jpeg, twelve cameras, one GPU",
        all: "replay: 1200 images 1600x900 jpeg, twelve cameras, all GPUs",
        is_compressed: true,
    },
];

struct OnGpus {
    one: &'static str,
    all: &'static str,
    is_compressed: bool,
}

const RECORDINGS: [Recorded; 4] = [
    Recorded {
        name: "replay: 200 images 1920x1080 bgr8, one camera",
        num_cameras: 1,
        num_images: NUM_IMAGES,
        frames_in_flight: 2,
        is_compressed: false,
    },
    Recorded {
        name: "replay: 200 images 1920x1080 bgr8, one camera, 4 in flight",
        num_cameras: 1,
        num_images: NUM_IMAGES,
        frames_in_flight: 4,
        is_compressed: false,
    },
    Recorded {
        name: "replay: 200 images 1920x1080 bgr8, one camera, 8 in flight",
        num_cameras: 1,
        num_images: NUM_IMAGES,
        frames_in_flight: 8,
        is_compressed: false,
    },
    Recorded {
        name: "replay: 204 images 1600x900 jpeg, six cameras",
        num_cameras: 6,
        num_images: NUM_IMAGES,
        frames_in_flight: 2,
        is_compressed: true,
    },
];

pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
    let of_gpus = ON_GPUS.iter().flat_map(|on| [on.one, on.all]);
    let names = RECORDINGS.iter().map(|recorded| recorded.name).chain(of_gpus);
    let mut names = names.chain([BY_ITSELF, IN_BATCH]);
    if !names.any(|name| bench.wants(name)) {
        return Ok(());
    }
    let network = std::env::var_os(NETWORK_VARIABLE).map_or_else(|| NETWORK.into(), PathBuf::from);
    let mut single = match back_to_back(device, &network, 1) {
        Ok(walls) => walls,
        Err(reason) => return bench.print(&format!("no cases of replay: {reason}\n")),
    };
    let single = Times::of(&mut single);
    bench.measured(Case::new(BY_ITSELF), single)?;
    match back_to_back(device, &network, BATCH) {
        Ok(mut walls) => bench.measured(Case::new(IN_BATCH), Times::of(&mut walls))?,
        Err(reason) => bench.print(&format!("no case of a batch: {reason}\n"))?,
    }
    for recorded in &RECORDINGS {
        if !bench.wants(recorded.name) {
            continue;
        }
        let folder = TemporaryFolder::new();
        recorded.write(&folder.0)?;
        let device = format!("cuda:{}", device.ordinal());
        let case = Case::new(recorded.name).with_bar(wall(None, single.p50 / MIN_SHARE));
        let config = config(&device, &network, recorded.num_cameras)?;
        bench.measured(case, replays(&folder.0, &config, recorded.frames_in_flight)?)?;
    }
    for on in &ON_GPUS {
        if bench.wants(on.one) || bench.wants(on.all) {
            on.measure(bench, device, &network)?;
        }
    }
    Ok(())
}

impl OnGpus {
    /// Cameras on one GPU and, placed by their loads, on all.
    fn measure(&self, bench: &mut Bench<'_>, device: &CudaDevice, network: &Path) -> Result<()> {
        let Self { one, all, is_compressed } = *self;
        let num_images = if is_compressed { NUM_JPEG_IMAGES } else { NUM_RAW_IMAGES };
        let recorded =
            Recorded { name: one, num_cameras: 12, num_images, frames_in_flight: 2, is_compressed };
        let folder = TemporaryFolder::new();
        recorded.write(&folder.0)?;
        let config_on = |device: &str| config(device, network, recorded.num_cameras);
        let on_one = config_on(&format!("cuda:{}", device.ordinal()))?;
        let on_one = replays(&folder.0, &on_one, recorded.frames_in_flight)?;
        bench.measured(Case::new(one), on_one)?;
        let num_gpus = Device::usable_gpus().len();
        if num_gpus < 2 {
            return bench.print("no case of several GPUs: this machine has one\n");
        }
        let bar = wall(None, on_one.p50 / (MIN_SHARE_OF_GPUS * num_gpus as f64));
        // As many networks on each GPU as on the one.
        let frames_in_flight = (num_gpus * recorded.frames_in_flight).min(MAX_FRAMES_IN_FLIGHT);
        let on_all = replays(&folder.0, &config_on("auto")?, frames_in_flight)?;
        bench.measured(Case::new(all).with_bar(bar), on_all)
    }
}

/// Microseconds of a frame: the time from the end of the first frames to the end of the last one,
/// by the number of frames between. Networks are loaded and closed outside of it; the first frames
/// of each camera, as many as are in flight, prepare its JPEG engines and record graphs.
fn replays(folder: &Path, config: &Config, frames_in_flight: usize) -> Result<Times> {
    let num_warm_up = (config.channels.len() * frames_in_flight) as u32;
    let mut walls = vec![];
    for _ in 0..NUM_REPLAYS {
        let options =
            ReplayOptions { frames_in_flight: Some(frames_in_flight), ..ReplayOptions::default() };
        let replay = Replay::open(folder, config, options)?;
        let (mut start, mut end, mut num_frames) = (Instant::now(), Instant::now(), 0_u32);
        replay.run(|frame| {
            num_frames += 1;
            end = Instant::now();
            if num_frames == num_warm_up {
                start = end;
            }
            frame.result.as_ref().map(drop).map_err(|dropped| failed(&dropped.to_string()))
        })?;
        let num_measured = num_frames.saturating_sub(num_warm_up).max(1);
        walls.push((end - start).as_secs_f64() * 1e6 / f64::from(num_measured));
    }
    Ok(Times::of(&mut walls))
}

/// Microseconds of an image in runs of the network for this many, each a mean of as many runs as
/// a replay has frames.
fn back_to_back(device: &CudaDevice, network: &Path, batch: usize) -> Result<Vec<f64>> {
    let config = config(&format!("cuda:{}", device.ordinal()), network, 1)?;
    let Some(ChannelKind::Camera(camera)) = config.channels.first().map(|channel| &channel.kind)
    else {
        return Err(failed("the demo has no camera"));
    };
    let stream = &device.stream()?;
    let mut engine = DeviceEngine::load(&camera.model_path, &camera.engine, stream, |input| {
        let [_, channels, height, width] = YoloHead::input_shape(&camera.facts, input)?;
        Ok(vec![batch, channels, height, width])
    })?;
    let mut walls = vec![];
    for _ in 0..NUM_REPLAYS {
        let start = Instant::now();
        (0..NUM_IMAGES).try_for_each(|_| engine.enqueue())?;
        stream.synchronize()?;
        walls.push(start.elapsed().as_secs_f64() * 1e6 / (NUM_IMAGES * batch) as f64);
    }
    Ok(walls)
}

/// Cameras with the network, which has to run on the GPU.
fn config(device: &str, network: &Path, num_cameras: usize) -> Result<Config> {
    Config::load(&[], &parameters(device, network, num_cameras))
}

fn parameters(device: &str, network: &Path, num_cameras: usize) -> Vec<String> {
    let mut parameters = vec![format!("device:={device}")];
    for camera in 0..num_cameras {
        parameters.extend([
            format!("c{camera}.input:={}", topic(camera)),
            format!("c{camera}.head:=demo_camera"),
            format!("c{camera}.model_path:={}", network.display()),
            format!("c{camera}.engine.provider:=cuda"),
        ]);
    }
    parameters
}

fn topic(camera: usize) -> String {
    format!("/camera_{camera}")
}

impl Recorded {
    /// Writes the images of all cameras in turn.
    fn write(&self, folder: &Path) -> Result<()> {
        let mut bag = BagWriter::create(folder, BagCompression::None)?;
        let type_name = if self.is_compressed { CompressedImage::TYPE } else { Image::TYPE };
        let text = definition(type_name).ok_or_else(|| failed("a message without definition"))?;
        let add = |camera| bag.add_topic(&topic(camera), type_name, &text, OfferedQos::default());
        let topics = (0..self.num_cameras).map(add).collect::<Result<Vec<_>>>()?;
        let images = (0..self.num_cameras).map(|camera| self.image(camera));
        let images = images.collect::<Result<Vec<_>>>()?;
        let mut message = vec![];
        for frame in 0..self.num_images.next_multiple_of(self.num_cameras) {
            let camera = frame % self.num_cameras;
            let stamp = Stamp::from_nanos(1_000_000_000 + 10_000_000 * frame as i64);
            self.encode(&images[camera], stamp, &mut message)?;
            bag.write(topics[camera], stamp, &message)?;
        }
        bag.finish().map(drop)
    }

    fn image(&self, camera: usize) -> Result<Vec<u8>> {
        if self.is_compressed {
            return decompress::jpeg_image(camera as u32);
        }
        Ok(TestImage::new(SOURCE, Encoding::Bgr8).view()?.data().to_vec())
    }

    fn encode(&self, data: &[u8], stamp: Stamp, message: &mut Vec<u8>) -> Result<()> {
        let header = Header { stamp, frame_id: "camera" };
        if self.is_compressed {
            return CompressedImage { header, format: "jpeg", data }.encode(message);
        }
        let encoding = "bgr8";
        let step = Encoding::Bgr8.row_bytes(SOURCE.width) as u32;
        let (height, width) = (SOURCE.height, SOURCE.width);
        Image { header, height, width, encoding, is_bigendian: false, step, data }.encode(message)
    }
}

/// A folder that is removed.
struct TemporaryFolder(PathBuf);

impl TemporaryFolder {
    fn new() -> Self {
        let name = format!("det_post-bench-replay-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // A recording of 1.9 GB stays behind at worst.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn failed(message: &str) -> Error {
    Error::new(ErrorKind::Device, "bench", message)
}
