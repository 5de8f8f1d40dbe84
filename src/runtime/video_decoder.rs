//! The decoder of an input's video: on the CPU, or on the engines of the channel's GPU.

use crate::config::ChannelConfig;
use crate::detectors::DetectorInfo;
use det_post_ops::image::decompress::video::{DevicePicture, GpuVideo};
use det_post_ros::video::{Decoded, PictureDecoder, VideoDecoder, VideoMessage};
use det_post_types::{DeviceChoice, Error, ErrorKind, FrameCrop, Result, VideoDevice};

/// Where the video of a channel is decoded.
#[derive(Clone, Debug, Default)]
pub struct VideoPlace {
    /// The channel, for the log.
    channel: String,
    /// A GPU whose engines decode it; `None`: the CPU.
    gpu: Option<DeviceChoice>,
}

impl VideoPlace {
    /// The engines of a GPU, which the first packet opens. If that fails, the CPU decodes, with the reason in the log.
    pub fn on_gpu(channel: &str, gpu: DeviceChoice) -> Self {
        Self { channel: channel.to_owned(), gpu: Some(gpu) }
    }

    /// The place for a channel: the engines of its GPU where the configuration does not say otherwise. A separate process
    /// takes images from memory of the host.
    pub(super) fn of(config: &ChannelConfig, info: Option<&DetectorInfo>) -> Self {
        match info.and_then(DetectorInfo::gpu) {
            Some(gpu) if config.video_decoder != VideoDevice::Cpu => {
                Self::on_gpu(&config.name, DeviceChoice::Cuda(gpu))
            }
            _ => Self::default(),
        }
    }

    /// Checks that the engines of the channel's GPU decode video, where the configuration asks for them.
    ///
    /// # Errors
    /// `Config` with the reason.
    pub(super) fn check(config: &ChannelConfig, info: Option<&DetectorInfo>) -> Result<()> {
        let Some(info) = info.filter(|_| config.video_decoder == VideoDevice::Gpu) else {
            return Ok(());
        };
        let reason = match info.gpu() {
            Some(gpu) => match GpuVideo::open(DeviceChoice::Cuda(gpu)) {
                Ok(_) => return Ok(()),
                Err(error) => error.message().to_owned(),
            },
            None => format!("frames run on {} in another process or on the CPU", info.device_name),
        };
        let message =
            format!("{}.decode_video: \"gpu\": {reason}; allowed are auto, cpu", config.name);
        Err(Error::new(ErrorKind::Config, "channel", message))
    }
}

/// Decodes the packets of an input in their order. Where the engines of a GPU do not decode a stream, or fail, the CPU
/// decodes it from the next key frame on.
#[derive(Default)]
pub struct InputDecoder {
    channel: String,
    decoder: VideoDecoder,
    gpu: Gpu,
    /// Damaged pictures one behind the other.
    num_damaged: u32,
}

/// The decoder on a GPU.
#[derive(Default)]
enum Gpu {
    #[default]
    None,
    /// It is opened with the first packet.
    NotOpened(DeviceChoice),
    Open(Box<GpuVideo>),
}

impl InputDecoder {
    /// A decoder in a place.
    pub fn new(place: VideoPlace) -> Self {
        let VideoPlace { channel, gpu } = place;
        Self { channel, gpu: gpu.map_or(Gpu::None, Gpu::NotOpened), ..Self::default() }
    }

    /// As [`VideoDecoder::decode`]: to a message, or, with [`Decoded::Elsewhere`], to `picture`.
    ///
    /// # Errors
    /// As [`VideoDecoder::decode`]; `Device` and `DeviceLost` once, for a picture at which the GPU fails.
    pub fn decode<'c, 'm>(
        &mut self,
        message: VideoMessage,
        cdr: &'c [u8],
        max_bytes: usize,
        picture: &mut DevicePicture,
        memory: impl FnOnce(usize) -> &'m mut [u8],
    ) -> Result<Decoded<'c>> {
        let (decoder, mut gpu) = self.parts(picture);
        decoder.decode_by(gpu.as_mut().map(|gpu| gpu as _), message, cdr, max_bytes, memory)
    }

    /// As [`Self::decode`], for a picture that is not needed itself.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn skip(
        &mut self,
        message: VideoMessage,
        cdr: &[u8],
        max_bytes: usize,
        picture: &mut DevicePicture,
    ) -> Result<()> {
        let (decoder, mut gpu) = self.parts(picture);
        decoder.skip_by(gpu.as_mut().map(|gpu| gpu as _), message, cdr, max_bytes)
    }

    /// The decoder, and that of the GPU, which is opened.
    fn parts<'a>(
        &'a mut self,
        picture: &'a mut DevicePicture,
    ) -> (&'a mut VideoDecoder, Option<OnGpu<'a>>) {
        let Self { channel, decoder, gpu, num_damaged } = self;
        if let Gpu::NotOpened(choice) = *gpu {
            *gpu = open(channel, choice);
        }
        let has_gpu = matches!(gpu, Gpu::Open(_));
        (decoder, has_gpu.then_some(OnGpu { channel, gpu, num_damaged, picture }))
    }
}

fn open(channel: &str, choice: DeviceChoice) -> Gpu {
    match GpuVideo::open(choice) {
        Ok(video) => {
            tracing::info!("channel {channel}: video is decoded by {} (NVDEC)", video.device());
            Gpu::Open(Box::new(video))
        }
        Err(reason) => {
            tracing::info!("channel {channel}: video is decoded on the CPU: {reason}");
            Gpu::None
        }
    }
}

/// The decoder of a GPU and where its picture goes.
struct OnGpu<'a> {
    channel: &'a str,
    gpu: &'a mut Gpu,
    num_damaged: &'a mut u32,
    picture: &'a mut DevicePicture,
}

/// Damaged pictures one behind the other, each a key frame but the first, after which the CPU decodes.
const MAX_DAMAGED: u32 = 3;

impl PictureDecoder for OnGpu<'_> {
    fn decode(&mut self, units: &[u8], crop: FrameCrop) -> Result<()> {
        let Gpu::Open(video) = self.gpu else {
            return Err(Error::new(ErrorKind::Device, "video", "the decoder of the GPU has ended"));
        };
        let error = match video.decode(units, crop, self.picture) {
            Ok(()) => {
                *self.num_damaged = 0;
                return Ok(());
            }
            Err(error) => error,
        };
        let is_damaged = error.kind() == ErrorKind::VideoCodec;
        *self.num_damaged += u32::from(is_damaged);
        if is_damaged && *self.num_damaged < MAX_DAMAGED {
            return Err(error);
        }
        let channel = self.channel;
        tracing::warn!("channel {channel}: video is decoded on the CPU from now on: {error}");
        *self.gpu = Gpu::None;
        Err(if is_damaged {
            Error::new(ErrorKind::Device, "video", error.message())
        } else {
            error
        })
    }

    fn reset(&mut self) {
        if let Gpu::Open(video) = self.gpu {
            video.reset();
        }
    }
}
