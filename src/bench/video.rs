//! H.264 of cameras up to the network's input, on the CPU and on the engines of a GPU (NVDEC): one camera, and six at
//! once, each with a thread as live inputs have.

use std::sync::Barrier;
use std::time::Instant;

use openh264::OpenH264API;
use openh264::encoder::{BitRate, Encoder, EncoderConfig, FrameRate, IntraFramePeriod};
use openh264::formats::YUVBuffer;

use super::case::{Case, Times};
use super::letterbox::{input_shape, params};
use super::measure::Bench;
use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, InPlaceUploads, Stream};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::decompress::video::{DevicePicture, GpuVideo};
use det_post_ops::image::letterbox::cuda::{Kernels, enqueue_letterbox};
use det_post_ros::messages::{CompressedVideo, Image};
use det_post_ros::video::{Decoded, PictureDecoder, VideoDecoder, VideoMessage};
use det_post_types::{DeviceChoice, ElementType, Error, ErrorKind, FrameCrop, Header, Result};

const SIZE: [usize; 2] = [1920, 1080];
/// The most bytes of an image.
const MAX_BYTES: usize = 4 << 20;
/// Packets of a camera in a round, the first one a key frame.
const NUM_PACKETS: usize = 30;
/// Each measured; its figure is the mean of all images.
const NUM_ROUNDS: usize = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Cpu,
    Engines,
}

const ROWS: [(usize, By, &str); 4] = [
    (1, By::Cpu, "video 1920x1080 h264 to letterbox 640x640 f32, cpu, an image"),
    (1, By::Engines, "video 1920x1080 h264 to letterbox 640x640 f32, nvdec, an image"),
    (6, By::Cpu, "six videos 1920x1080 h264 to letterbox 640x640 f32, cpu, an image"),
    (6, By::Engines, "six videos 1920x1080 h264 to letterbox 640x640 f32, nvdec, an image"),
];

pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
    let rows = ROWS.into_iter().filter(|(.., name)| bench.wants(name)).collect::<Vec<_>>();
    if rows.is_empty() {
        return Ok(());
    }
    let packets = packets()?;
    for (num_cameras, by, name) in rows {
        if by == By::Engines
            && let Err(reason) = GpuVideo::open(choice(device))
        {
            return bench.print(&format!("no cases of NVDEC: {reason}\n"));
        }
        let mut walls = measure(device, &packets, num_cameras, by)?;
        bench.measured(Case::new(name), Times::of(&mut walls))?;
    }
    Ok(())
}

fn choice(device: &CudaDevice) -> DeviceChoice {
    Device::Cuda(device.clone()).choice()
}

/// Microseconds of an image in each round of cameras that work at once.
fn measure(
    device: &CudaDevice,
    packets: &[Vec<u8>],
    num_cameras: usize,
    by: By,
) -> Result<Vec<f64>> {
    let cameras = (0..num_cameras).map(|_| Camera::open(device, by));
    let cameras = cameras.collect::<Result<Vec<_>>>()?;
    let turn = &Barrier::new(num_cameras + 1);
    std::thread::scope(|scope| {
        let threads = cameras.into_iter().map(|mut camera| {
            scope.spawn(move || {
                let mut done = Ok(());
                // The first round makes decoders and memory. All take part in every turn, also after an error.
                for _ in 0..=NUM_ROUNDS {
                    turn.wait();
                    done = done.and_then(|()| camera.round(packets));
                    turn.wait();
                }
                done
            })
        });
        let threads: Vec<_> = threads.collect();
        let mut walls = Vec::new();
        for _ in 0..=NUM_ROUNDS {
            turn.wait();
            let start = Instant::now();
            turn.wait();
            let num_images = (num_cameras * packets.len()) as f64;
            walls.push(start.elapsed().as_secs_f64() * 1e6 / num_images);
        }
        let lost = || Error::new(ErrorKind::Device, "bench", "a thread of a camera panicked");
        let done = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(lost())));
        done.collect::<Result<Vec<()>>>()?;
        walls.remove(0);
        Ok(walls)
    })
}

/// A decoder, and what the images go through.
struct Camera {
    decoder: VideoDecoder,
    engines: Option<OnEngines>,
    memory: PayloadMemory,
    image: DeviceImage,
    network_input: DeviceTensor,
    kernels: Kernels,
    uploads: InPlaceUploads,
    stream: Stream,
}

impl Camera {
    fn open(device: &CudaDevice, by: By) -> Result<Self> {
        let stream = device.stream()?;
        let engines = match by {
            By::Cpu => None,
            By::Engines => {
                let (video, picture) = (GpuVideo::open(choice(device))?, DevicePicture::default());
                Some(OnEngines { video, picture })
            }
        };
        Ok(Self {
            decoder: VideoDecoder::default(),
            engines,
            memory: PayloadMemory::of(&Device::Cuda(device.clone())),
            image: DeviceImage::with_capacity(&stream, MAX_BYTES)?,
            network_input: DeviceTensor::zeros(&stream, ElementType::F32, &input_shape())?,
            kernels: Kernels::load(device)?,
            uploads: InPlaceUploads::new(&stream)?,
            stream,
        })
    }

    /// Decodes every packet and fills the network's input with its image, one after the other.
    fn round(&mut self, packets: &[Vec<u8>]) -> Result<()> {
        packets.iter().try_for_each(|packet| self.detect(packet))
    }

    fn detect(&mut self, packet: &[u8]) -> Result<()> {
        let Self { decoder, engines, memory, image, network_input, kernels, uploads, stream } =
            self;
        let written = &mut *memory;
        let other = engines.as_mut().map(|engines| engines as &mut dyn PictureDecoder);
        let decoded =
            decoder.decode_by(other, VideoMessage::Foxglove, packet, MAX_BYTES, |len| {
                written.reserve(len);
                written.set_len(len);
                written.bytes_mut()
            })?;
        uploads.scope(|scope| {
            match (decoded, engines) {
                (Decoded::Elsewhere(_), Some(engines)) => {
                    image.enqueue_copy(&engines.picture.view()?, scope)?;
                }
                _ => {
                    let message = Image::decode(memory.bytes())?;
                    image.enqueue_payload(&message.view()?, scope)?;
                }
            }
            enqueue_letterbox(stream, kernels, image, &params(), network_input)?;
            stream.synchronize()
        })
    }
}

/// The engines of the GPU.
struct OnEngines {
    video: GpuVideo,
    picture: DevicePicture,
}

impl PictureDecoder for OnEngines {
    fn decode(&mut self, units: &[u8], crop: FrameCrop) -> Result<()> {
        self.video.decode(units, crop, &mut self.picture)
    }

    fn reset(&mut self) {
        self.video.reset();
    }
}

/// Messages of a stream of 8 Mbit/s at 30 Hz: areas, edges and a little noise that move.
fn packets() -> Result<Vec<Vec<u8>>> {
    let config = EncoderConfig::new()
        .max_frame_rate(FrameRate::from_hz(30.0))
        .bitrate(BitRate::from_bps(8_000_000))
        .skip_frames(false)
        .scene_change_detect(false)
        .intra_frame_period(IntraFramePeriod::from_num_frames(NUM_PACKETS as u32));
    let failed = |cause: openh264::Error| {
        Error::new(ErrorKind::Argument, "bench", "an image is not encoded").with_source(cause)
    };
    let mut encoder =
        Encoder::with_api_config(OpenH264API::from_source(), config).map_err(failed)?;
    let mut random = super::inputs::Random::new(1);
    let [width, height] = SIZE;
    let mut packets = Vec::new();
    for number in 0..NUM_PACKETS {
        let mut planes = Vec::with_capacity(width * height * 3 / 2);
        for y in 0..height {
            for x in 0..width {
                let area = ((x + 4 * number) / 37 * 7 + (y / 23) * 13) % 97;
                planes.push((60 + area + random.below(5)) as u8);
            }
        }
        for plane in 0..2 {
            for y in 0..height / 2 {
                let sample = |x: usize| (100 + 20 * plane + (x + 2 * number + y) / 40 % 50) as u8;
                planes.extend((0..width / 2).map(sample));
            }
        }
        let data = encoder.encode(&YUVBuffer::from_vec(planes, width, height));
        let data = data.map_err(failed)?.to_vec();
        let mut message = Vec::new();
        let header = Header::default();
        CompressedVideo { header, data: &data, format: "h264" }.encode(&mut message)?;
        packets.push(message);
    }
    Ok(packets)
}
