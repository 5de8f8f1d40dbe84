//! Mutated messages: nothing panics, and decoding allocates nothing that is
//! larger than the message, whatever lengths it claims. What is let through
//! goes on into the first ops of a frame.
//!
//! The mutations are a function of only their number, so a failure is found
//! again by its number. `DET_POST_FUZZ_ITERATIONS` sets how many are made
//! (100,000 without it).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use super::allocator::LARGEST_OF_THREAD;
use crate::common::{cpu_time, memory, messages, shared_data};
use det_post::Result;
use det_post_infer::{Engine, External};
use det_post_ops::cloud::unpack::{UnpackParams, unpack};
use det_post_ops::image::letterbox::{self, LetterboxParams, letterbox};
use det_post_ros::messages::{
    CameraInfo, Clock, CompressedImage, Detection2DArray, Detection3DArray, Image, PointCloud2,
    TensorList, TfMessage,
};
use det_post_ros::tf::{self, TfBuffer, TfLimits};
use det_post_ros::truth;
use det_post_types::{
    Box2d, Box3d, CameraModel, ChannelOrder, ElementType, Evidence, Header, Normalization,
    Placement, PointChannel, Points, ReceivedTensors, Resize, Size, Stamp, Tensor, Truth2d,
    Truth3d,
};
use messages::Message;
use std::sync::LazyLock;
use std::time::Duration;

/// Enough for the text of an error, which may quote names of the message.
const MAX_ERROR_ALLOCATION: usize = 4096;

/// Most that the process may grow by over all mutations. The tests of this program run at the
/// same time.
const MAX_GROWTH: usize = 512 << 20;

/// Most CPU time that one mutation may take, decoding and first ops.
const MAX_CPU_TIME: Duration = Duration::from_secs(1);

/// Marsaglia's 64-bit xorshift.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`; 0 when that is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 11) as usize % bound.max(1)
    }
}

/// Decodes everything there is in a message of any type.
fn decode(decoder: usize, cdr: &[u8], buffer: &mut TfBuffer) -> Result<()> {
    match decoder {
        0 => Image::decode(cdr)?.view().map(drop),
        1 => CompressedImage::decode(cdr)?.view().map(drop),
        2 => camera_model(&CameraInfo::decode(cdr)?),
        3 => {
            let view = PointCloud2::decode(cdr)?.view()?;
            if view.num_points() > 0 {
                std::hint::black_box(view.row(view.height() - 1));
            }
            Ok(())
        }
        4 => TfMessage::decode(cdr)?.transforms.try_for_each(|transform| {
            let transform = transform?;
            let isometry = tf::isometry(transform.translation, transform.rotation)?;
            let (parent, child) = (transform.header.frame_id, transform.child_frame_id);
            let stamp = transform.header.stamp;
            buffer.insert(parent, child, stamp, isometry, false)?;
            buffer.lookup(parent, child, stamp).map(drop)
        }),
        5 => Detection2DArray::decode(cdr)?.detections.try_for_each(|d| d.map(drop)),
        6 => Detection3DArray::decode(cdr)?.detections.try_for_each(|d| d.map(drop)),
        7 => Clock::decode(cdr).map(drop),
        // Truth comes as two messages, of which the other one is good.
        8 => truth::decode_3d(cdr, &TRUTH[1].cdr).map(drop),
        9 => truth::decode_3d(&TRUTH[0].cdr, cdr).map(drop),
        10 => truth::decode_2d(cdr, &TRUTH[3].cdr).map(drop),
        11 => truth::decode_2d(&TRUTH[2].cdr, cdr).map(drop),
        _ => tensors(&TensorList::decode(cdr)?.tensors),
    }
}

/// Copies the tensors, and names one that is not there.
fn tensors(tensors: &ReceivedTensors<'_>) -> Result<()> {
    let mut engine = External::new(&["boxes".to_owned(), "labels".to_owned()]);
    engine.receive(tensors)?;
    for index in 0..2 {
        std::hint::black_box(engine.output(index)?.values().len());
    }
    Ok(())
}

/// What is made of a calibration: pixels that are finite, whatever it contains.
fn camera_model(info: &CameraInfo<'_>) -> Result<()> {
    let camera = CameraModel::new(&info.calibration())?;
    let Size { width, height } = camera.image_size();
    for (u, v) in [(0, 0), (width - 1, height - 1), (width / 2, height / 3)] {
        let pixel = [f64::from(u), f64::from(v)];
        let raw = camera.raw_from_rectified(pixel);
        let ray = camera.undistort(pixel);
        assert!(raw.iter().chain(&ray).flatten().all(|value| value.is_finite()), "{info:?}");
    }
    Ok(())
}

const NUM_DECODERS: usize = 13;

/// Truth in space and its companion, truth in an image and its companion.
static TRUTH: LazyLock<[Message; 4]> = LazyLock::new(|| {
    let header = Header { stamp: Stamp::from_ros(1_700_000_001, 250_000_003), frame_id: "map" };
    let objects = [("car", 7), ("pedestrian", 4_000_000_000)];
    let in_space = objects.map(|(class_name, track_id)| Truth3d {
        class_name,
        track_id,
        bbox: Box3d {
            center: [12.5, -3.25, 0.75],
            length_m: 4.5,
            width_m: 1.75,
            height_m: 1.5,
            yaw_rad: -2.7,
        },
        velocity_mps: [8.25, -0.5],
        evidence: Evidence::Points(117),
        visibility: 0.625,
    });
    let in_image = objects.map(|(class_name, track_id)| Truth2d {
        class_name,
        track_id,
        bbox: Box2d::new(3.5, 20.0, 34.5, 60.5),
        visibility: 0.375,
        truncation: 0.25,
        num_pixels: 640,
    });
    let mut cdr: [Vec<u8>; 4] = Default::default();
    let [space, beside_space, image, beside_image] = &mut cdr;
    truth::encode_3d(&header, &in_space, space, beside_space).unwrap();
    truth::encode_2d(&header, &in_image, image, beside_image).unwrap();
    let mut number = 0;
    cdr.map(|cdr| {
        number += 1;
        let topic = format!("truth {number}");
        Message { bag: "truth".into(), type_name: topic.clone(), topic, cdr }
    })
});

/// One message of every type that is decoded, and some that are not.
fn built() -> Vec<Message> {
    let mut built = messages::built();
    let mut clock = Vec::new();
    Clock { clock: Stamp::from_ros(1_700_000_001, 250_000_003) }.encode(&mut clock).unwrap();
    let copies = TRUTH.iter().map(|Message { bag, topic, type_name, cdr }| {
        let [bag, topic, type_name] = [bag, topic, type_name].map(String::clone);
        Message { bag, topic, type_name, cdr: cdr.clone() }
    });
    let type_name = Clock::TYPE.to_owned();
    built.extend(copies);
    built.push(Message { bag: "built".into(), topic: type_name.clone(), type_name, cdr: clock });
    built
}

/// The first ops of a frame, on what a decoder let through.
struct FirstOps {
    letterbox: LetterboxParams,
    workspace: letterbox::Workspace,
    input: Tensor,
    unpack: UnpackParams,
    points: Points,
}

impl FirstOps {
    fn new() -> Self {
        Self {
            letterbox: LetterboxParams {
                placement: Placement::Center,
                channel_order: ChannelOrder::Bgr,
                normalization: Normalization { alpha: [1.0; 3], beta: [0.0; 3] },
                pad_value: 114.0,
                resize: Resize::Antialias,
            },
            workspace: letterbox::Workspace::new(),
            input: Tensor::zeros(ElementType::F32, &[1, 3, 24, 40]).unwrap(),
            unpack: UnpackParams {
                channels: vec![PointChannel::Intensity],
                intensity_scale: 1.0,
                range: None,
            },
            points: Points::with_capacity(4, 1000),
        }
    }

    fn run(&mut self, decoder: usize, cdr: &[u8]) -> Result<()> {
        match decoder {
            0 => {
                let view = Image::decode(cdr)?.view()?;
                letterbox(&view, &self.letterbox, &mut self.workspace, &mut self.input).map(drop)
            }
            3 => {
                let view = PointCloud2::decode(cdr)?.view()?;
                unpack(&view, &self.unpack, &mut self.points)?;
                assert!(self.points.values().iter().all(|value| value.is_finite()));
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn decoder_of(type_name: &str) -> usize {
    match type_name {
        Image::TYPE => 0,
        CompressedImage::TYPE => 1,
        CameraInfo::TYPE => 2,
        PointCloud2::TYPE => 3,
        TfMessage::TYPE => 4,
        Detection2DArray::TYPE => 5,
        Detection3DArray::TYPE => 6,
        Clock::TYPE => 7,
        "truth 1" => 8,
        "truth 2" => 9,
        "truth 3" => 10,
        "truth 4" => 11,
        TensorList::TYPE => 12,
        _ => 0,
    }
}

/// Decodes and checks the size of the largest allocation, which `LARGEST_OF_THREAD` holds
/// afterwards. Returns whether the message was accepted.
fn check(decoder: usize, cdr: &[u8], buffer: &mut TfBuffer, what: impl std::fmt::Debug) -> bool {
    LARGEST_OF_THREAD.set(0);
    let result = decode(decoder, cdr, buffer);
    if let Err(error) = &result {
        std::hint::black_box(error.to_string());
    }
    let largest = LARGEST_OF_THREAD.get();
    assert!(
        largest <= cdr.len().max(MAX_ERROR_ALLOCATION),
        "{what:?}: decoder {decoder} allocated {largest} bytes for a message of {}",
        cdr.len()
    );
    result.is_ok()
}

fn small_buffer() -> TfBuffer {
    // A few frames, so that what the buffer itself holds stays small.
    TfBuffer::new(TfLimits { max_frames: 8, max_samples_per_edge: 8, ..TfLimits::default() })
}

/// The largest recorded message that is mutated: each mutation copies it.
const MAX_SEED_LEN: usize = 512 << 10;

/// The built messages, and of the recorded ones the first of each topic.
fn seeds() -> Vec<Message> {
    let mut seeds = built();
    if let Some(root) = shared_data::shared_data() {
        for message in messages::recorded(&root) {
            let known = |seed: &Message| seed.bag == message.bag && seed.topic == message.topic;
            if message.cdr.len() <= MAX_SEED_LEN && !seeds.iter().any(known) {
                seeds.push(message);
            }
        }
    }
    seeds
}

const LENGTHS: [u32; 12] = [
    0,
    1,
    2,
    7,
    255,
    65_535,
    65_536,
    0x00ff_ffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
];

/// One to four mutations; most of them near the head, where the lengths are.
pub(super) fn mutate(cdr: &mut Vec<u8>, seeds: &[Message], random: &mut Random) {
    for _ in 0..=random.below(4) {
        let reach = if random.below(4) == 0 { cdr.len() } else { cdr.len().min(512) };
        let at = random.below(reach);
        match random.below(7) {
            0 => {
                if let Some(byte) = cdr.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = cdr.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            2 => cdr.truncate(at),
            3 => {
                let aligned = at & !3;
                let length = match random.below(3) {
                    0 => cdr.len() as u32,
                    1 => random.below(cdr.len() + 8) as u32,
                    _ => LENGTHS[random.below(LENGTHS.len())],
                };
                if let Some(field) = cdr.get_mut(aligned..aligned + 4) {
                    field.copy_from_slice(&length.to_le_bytes());
                }
            }
            4 => {
                let other = &seeds[random.below(seeds.len())].cdr;
                let from = random.below(other.len().min(512));
                let len = random.below((other.len() - from).min(256));
                let end = (at + len).min(cdr.len());
                cdr.splice(at..end, other[from..from + len].iter().copied());
            }
            5 => {
                let len = random.below(16);
                cdr.splice(at..at, (0..len).map(|_| 0));
            }
            _ => {
                if let Some(byte) = cdr.get_mut(1) {
                    *byte = random.below(4) as u8;
                }
            }
        }
    }
}

/// The number of mutations.
pub(super) fn iterations() -> u64 {
    match std::env::var("DET_POST_FUZZ_ITERATIONS") {
        Ok(text) => text.parse().expect("DET_POST_FUZZ_ITERATIONS is a number"),
        Err(_) => 100_000,
    }
}

#[test]
fn mutated_messages_are_decoded_or_refused() {
    let num_iterations = iterations();
    let seeds = seeds();
    let mut buffer = small_buffer();
    let mut first_ops = FirstOps::new();
    let (mut num_accepted, mut num_served) = (0, 0);
    let (mut longest, mut largest) = (Duration::ZERO, 0);
    let resident = memory::resident();
    let mut cdr = Vec::new();
    for iteration in 0..num_iterations {
        let mut random = Random::new(iteration);
        let seed = &seeds[random.below(seeds.len())];
        cdr.clear();
        cdr.extend_from_slice(&seed.cdr);
        mutate(&mut cdr, &seeds, &mut random);
        // Now and then a message comes under the name of another type.
        let decoder = match random.below(8) {
            0 => random.below(NUM_DECODERS),
            _ => decoder_of(&seed.type_name),
        };
        let start = cpu_time::of_thread();
        let is_accepted = check(decoder, &cdr, &mut buffer, iteration);
        num_accepted += u64::from(is_accepted);
        largest = largest.max(LARGEST_OF_THREAD.get());
        if is_accepted {
            num_served += u64::from(first_ops.run(decoder, &cdr).is_ok());
        }
        longest = longest.max(cpu_time::of_thread() - start);
        if iteration % 64 == 0 {
            buffer.clear();
        }
    }
    let growth = memory::resident().saturating_sub(resident);
    println!(
        "{num_iterations} mutations of {} messages, {num_accepted} decoded, {num_served} served, \
         longest {longest:?} of CPU time, largest allocation of a decoder {largest} bytes, growth {growth} bytes",
        seeds.len()
    );
    assert!(longest < MAX_CPU_TIME, "{longest:?}");
    assert!(growth < MAX_GROWTH, "grew by {growth} bytes");
    // A harness that only ever meets refusals, or none, would prove little.
    assert!(num_accepted * 20 > num_iterations, "{num_accepted} accepted");
    assert!(num_accepted * 20 < num_iterations * 19, "{num_accepted} accepted");
    assert!(num_served * 2 > num_accepted && num_served < num_accepted, "{num_served} served");
}

#[test]
fn every_truncation_is_decoded_or_refused() {
    let mut buffer = small_buffer();
    for message in built() {
        for len in 0..=message.cdr.len() {
            for decoder in 0..NUM_DECODERS {
                let what = (&message.type_name, len);
                let accepted = check(decoder, &message.cdr[..len], &mut buffer, what);
                if decoder == decoder_of(&message.type_name) && len + 4 <= message.cdr.len() {
                    assert!(!accepted || message.cdr.len() == len, "{what:?} lacks a field");
                }
            }
        }
    }
}

#[test]
fn every_length_field_is_checked() {
    let mut buffer = small_buffer();
    for message in built() {
        let decoder = decoder_of(&message.type_name);
        for at in (0..message.cdr.len().saturating_sub(3)).step_by(4) {
            for length in LENGTHS {
                let mut cdr = message.cdr.clone();
                cdr[at..at + 4].copy_from_slice(&length.to_le_bytes());
                check(decoder, &cdr, &mut buffer, (&message.type_name, at, length));
            }
        }
    }
}
