//! Video of pictures that tests make.
#![allow(dead_code, reason = "each suite uses its part")]

use det_post::runtime::video_decoder::{InputDecoder, VideoPlace};
use det_post_ops::device::Device;
use det_post_ops::image::decompress::video::{DevicePicture, GpuVideo};
use det_post_ros::messages::{CompressedImage, CompressedVideo, FfmpegPacket, Image};
use det_post_ros::video::{Decoded, VideoDecoder, VideoMessage, grown};
use det_post_types::{DeviceChoice, Header, Result, Size};
use openh264::OpenH264API;
use openh264::encoder::{
    BitRate, Encoder, EncoderConfig, FrameRate, IntraFramePeriod, RateControlMode,
};
use openh264::formats::YUVBuffer;

use super::require::{Need, skip};

/// The most bytes of a picture.
const MAX_BYTES: usize = 64 << 20;

/// A picture of 4:2:0: luma, then both chroma at half the size.
pub struct Picture {
    pub width: usize,
    pub height: usize,
    pub planes: Vec<u8>,
}

impl Picture {
    /// The picture of an image of encoding `rgb8`, BT.601 of limited range.
    pub fn of(image: &Image<'_>) -> Self {
        let [width, height] = [image.width as usize, image.height as usize];
        let pixel = |x: usize, y: usize| {
            let at = y * image.step as usize + 3 * x;
            [0, 1, 2].map(|channel| i32::from(image.data[at + channel]))
        };
        let dot = |[r, g, b]: [i32; 3], [kr, kg, kb]: [i32; 3], offset: i32| {
            (((kr * r + kg * g + kb * b + 128) >> 8) + offset).clamp(0, 255) as u8
        };
        let mut planes = Vec::with_capacity(width * height * 3 / 2);
        for y in 0..height {
            planes.extend((0..width).map(|x| dot(pixel(x, y), [66, 129, 25], 16)));
        }
        for weights in [[-38, -74, 112], [112, -94, -18]] {
            for y in (0..height).step_by(2) {
                planes.extend((0..width).step_by(2).map(|x| dot(pixel(x, y), weights, 128)));
            }
        }
        Self { width, height, planes }
    }

    /// A picture of a pattern that moves with its number.
    pub fn moving(width: usize, height: usize, number: usize) -> Self {
        let sample = |index: usize| {
            let (x, y) = (index % width, index / width);
            let is_square = (x + 3 * number) % width < width / 4 && y > height / 4;
            (if is_square { 200 } else { 60 + 2 * ((x / 4 + y / 4 + number) % 32) }) as u8
        };
        let planes = (0..width * height * 3 / 2).map(sample).collect();
        Self { width, height, planes }
    }
}

/// Packets of pictures of one size: every `key_period`-th is a key frame with its parameter sets.
pub fn encode(pictures: &[Picture], key_period: u32) -> Vec<Vec<u8>> {
    let config = EncoderConfig::new()
        .max_frame_rate(FrameRate::from_hz(10.0))
        .rate_control_mode(RateControlMode::Quality)
        .bitrate(BitRate::from_bps(4_000_000))
        .skip_frames(false)
        .scene_change_detect(false)
        .num_threads(1)
        .intra_frame_period(IntraFramePeriod::from_num_frames(key_period));
    let mut encoder = Encoder::with_api_config(OpenH264API::from_source(), config).unwrap();
    let mut packet = |picture: &Picture| {
        let Picture { width, height, planes } = picture;
        let source = YUVBuffer::from_vec(planes.clone(), *width, *height);
        encoder.encode(&source).unwrap().to_vec()
    };
    pictures.iter().map(&mut packet).collect()
}

/// A packet whose sequence parameter sets, of an encoder's baseline profile, state another `frame_crop_left_offset`, right,
/// top and bottom, in units of two pixels.
pub fn with_crop(packet: &[u8], crop: [u32; 4]) -> Vec<u8> {
    let starts = (0..packet.len()).filter(|at| packet[*at..].starts_with(&[0, 0, 1]));
    let starts: Vec<usize> = starts.chain([packet.len()]).collect();
    let mut all = Vec::new();
    for of in starts.windows(2) {
        let mut unit = &packet[of[0] + 3..of[1]];
        while let [rest @ .., 0] = unit {
            unit = rest;
        }
        all.extend([0, 0, 0, 1]);
        match unit[0] & 0x1f {
            7 => all.extend(cropped_set(unit, crop)),
            _ => all.extend(unit),
        }
    }
    all
}

fn cropped_set(unit: &[u8], crop: [u32; 4]) -> Vec<u8> {
    let mut bits = Vec::new();
    for (at, byte) in unit.iter().enumerate() {
        let is_escape = *byte == 3 && at > 2 && unit[at - 2..at] == [0, 0];
        bits.extend((0..8).rev().filter(|_| !is_escape).map(|bit| byte >> bit & 1 == 1));
    }
    // Where a number in the Exp-Golomb code ends.
    let after = |at: usize| at + 2 * bits[at..].iter().take_while(|bit| !**bit).count() + 1;
    let order = after(after(8 + 24));
    assert!(bits[order] || bits[order + 1], "order counts of type 0 or 2");
    let references = if bits[order] { after(after(order)) } else { after(order) };
    let flags = after(after(after(references) + 1));
    assert!(bits[flags], "pictures may be fields");
    let start = flags + 2;
    let end = if bits[start] { (0..4).fold(start + 1, |at, _| after(at)) } else { start + 1 };
    let last = bits.iter().rposition(|bit| *bit).unwrap();
    let mut changed = [&bits[..start], &[true]].concat();
    for value in crop.map(|offset| offset + 1) {
        let num = value.ilog2();
        changed.extend((0..num).map(|_| false).chain((0..=num).rev().map(|i| value >> i & 1 == 1)));
    }
    changed.extend(&bits[end..=last]);
    changed.resize(changed.len().next_multiple_of(8), false);
    let mut unit: Vec<u8> = Vec::new();
    for byte in
        changed.chunks(8).map(|of| of.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit)))
    {
        if byte <= 3 && unit.ends_with(&[0, 0]) {
            unit.push(3);
        }
        unit.push(byte);
    }
    unit
}

/// A message that carries a packet of a codec.
pub fn message(carrier: VideoMessage, header: Header<'_>, codec: &str, data: &[u8]) -> Vec<u8> {
    let mut cdr = Vec::new();
    let encoded = match carrier {
        VideoMessage::Foxglove => CompressedVideo { header, data, format: codec }.encode(&mut cdr),
        VideoMessage::Ffmpeg => {
            let encoding = &format!("{codec};yuv420p;bgr8;bgr8");
            FfmpegPacket { header, encoding, data, ..Default::default() }.encode(&mut cdr)
        }
        VideoMessage::CompressedImage => {
            CompressedImage { header, format: codec, data }.encode(&mut cdr)
        }
        VideoMessage::Image => {
            Image { header, encoding: codec, data, ..Default::default() }.encode(&mut cdr)
        }
    };
    encoded.unwrap();
    cdr
}

/// All ways in which a message carries a packet.
pub const CARRIERS: [VideoMessage; 4] = [
    VideoMessage::Foxglove,
    VideoMessage::Ffmpeg,
    VideoMessage::CompressedImage,
    VideoMessage::Image,
];

/// A picture as `nv12` without padding.
#[derive(Clone, PartialEq, Eq)]
pub struct Nv12 {
    pub size: Size,
    pub samples: Vec<u8>,
}

impl Nv12 {
    fn of_message(cdr: &[u8]) -> Result<Self> {
        let Image { width, height, data, encoding, step, .. } = Image::decode(cdr)?;
        assert_eq!((encoding, step), ("nv12", width));
        Ok(Self { size: Size::new(width, height), samples: data.to_vec() })
    }

    /// The planes: luma, then both chroma.
    pub fn planes(&self) -> Vec<u8> {
        let Size { width, height } = self.size;
        let (luma, chroma) = self.samples.split_at((width * height) as usize);
        let mut planes = luma.to_vec();
        for at in 0..2 {
            planes.extend(chroma.iter().skip(at).step_by(2));
        }
        planes
    }
}

/// Decodes packets, one by one.
pub trait Decode {
    fn picture(&mut self, packet: &[u8]) -> Result<Nv12>;
}

impl Decode for VideoDecoder {
    fn picture(&mut self, packet: &[u8]) -> Result<Nv12> {
        let carrier = VideoMessage::Foxglove;
        let cdr = message(carrier, Header::default(), "h264", packet);
        let mut image = Vec::new();
        self.decode_to(carrier, &cdr, MAX_BYTES, &mut image)?;
        Nv12::of_message(&image)
    }
}

/// Decodes packets on the engines of GPU 0.
pub struct OnGpu {
    decoder: InputDecoder,
    picture: DevicePicture,
    /// Pictures that the CPU has decoded in place of the GPU.
    pub num_on_cpu: usize,
}

impl OnGpu {
    /// `None` without such engines, with the reason recorded.
    pub fn open() -> Option<Self> {
        match GpuVideo::open(DeviceChoice::Cuda(0)) {
            Ok(_) => Some(Self::new()),
            Err(reason) => {
                skip(Need::Nvdec, reason);
                None
            }
        }
    }

    /// Another decoder, where [`Self::open`] has found that there are engines.
    pub fn new() -> Self {
        let place = VideoPlace::on_gpu("test", DeviceChoice::Cuda(0));
        Self { decoder: InputDecoder::new(place), picture: DevicePicture::default(), num_on_cpu: 0 }
    }
}

impl Decode for OnGpu {
    fn picture(&mut self, packet: &[u8]) -> Result<Nv12> {
        let carrier = VideoMessage::Foxglove;
        let cdr = message(carrier, Header::default(), "h264", packet);
        let (Self { decoder, picture, num_on_cpu }, mut image) = (self, Vec::new());
        match decoder.decode(carrier, &cdr, MAX_BYTES, picture, grown(&mut image))? {
            Decoded::Elsewhere(_) => {
                let view = picture.view()?;
                assert_eq!(view.step(), view.size().width as usize);
                Ok(Nv12 { size: view.size(), samples: Device::download(view.data())? })
            }
            Decoded::Message => {
                *num_on_cpu += 1;
                Nv12::of_message(&image)
            }
        }
    }
}
