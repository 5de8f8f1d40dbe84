//! JPEG files on the engines of a GPU: the bytes of the CPU decoder, one by one and in batches;
//! files for the CPU; mutated files.
#![expect(clippy::print_stdout, reason = "tests say what the engines refused")]

use std::fs;

use det_post_ops::device::cuda::{InPlaceUploads, Stream};
use det_post_ops::image::DeviceImage;
use det_post_ops::image::decompress::cuda::{JpegDecoder, layout};
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_types::{
    CompressedFormat, CompressedView, FrameReport, ImageDecoder, ImagePayload, JpegDevice,
    JpegOptions, Size,
};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};

use super::camera_pipeline::{Mirror, config};
use crate::common::detect::in_image;
use crate::common::require::{Need, skip};
use crate::common::shared_data::shared_data;
use det_post_testing::random::Random;

const GPU: JpegOptions = JpegOptions { device: JpegDevice::Gpu, library: None };

/// Waves and noise: all coefficients occur, most are small.
fn pixels(random: &mut Random, size: Size, num_channels: usize) -> Vec<u8> {
    let columns = size.width as usize * num_channels;
    let num = columns * size.height as usize;
    let wave = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let phase = (row * row) as f32 / 900.0 + column as f32 / 23.0 + (i % num_channels) as f32;
        128.0 + 90.0 * phase.sin()
    };
    (0..num).map(|i| (wave(i) + random.below(30) as f32) as u8).collect()
}

fn jpeg(
    random: &mut Random,
    size: Size,
    sampling: Option<SamplingFactor>,
    restart: u16,
) -> Vec<u8> {
    let (color, num_channels) =
        if sampling.is_some() { (ColorType::Rgb, 3) } else { (ColorType::Luma, 1) };
    let pixels = pixels(random, size, num_channels);
    let mut file = Vec::new();
    let mut encoder = Encoder::new(&mut file, 60 + random.below(40) as u8);
    if let Some(sampling) = sampling {
        encoder.set_sampling_factor(sampling);
    }
    if restart > 0 {
        encoder.set_restart_interval(restart);
    }
    encoder.encode(&pixels, size.width as u16, size.height as u16, color).unwrap();
    file
}

fn view(data: &[u8]) -> CompressedView<'_> {
    CompressedView::new(CompressedFormat::Jpeg, data)
}

/// Decoder and uploads on a stream; `None` without a GPU, its engines or nvJPEG.
fn decoder() -> Option<(Stream, JpegDecoder, InPlaceUploads)> {
    let stream = det_post_testing::gpu()?.stream().unwrap();
    match JpegDecoder::new(&stream, &GPU) {
        Ok(decoder) => {
            let uploads = InPlaceUploads::new(&stream).unwrap();
            Some((stream, decoder, uploads))
        }
        Err(reason) => {
            skip(Need::NvJpeg, reason);
            None
        }
    }
}

/// Decodes files in one batch and compares them with the CPU. Returns whether the engines
/// decode them: small or odd images may be for the CPU.
fn check(
    (stream, decoder, uploads): &mut (Stream, JpegDecoder, InPlaceUploads),
    files: &[Vec<u8>],
    what: &str,
) -> bool {
    let planes: Vec<_> = files
        .iter()
        .map(|file| decoder.planes(&view(file)).unwrap_or_else(|| panic!("{what}: for the CPU")))
        .collect();
    let layouts: Vec<_> = planes.iter().map(layout).collect();
    let mut images: Vec<_> = layouts
        .iter()
        .map(|layout| {
            let num_bytes = layout.step * layout.size.height as usize;
            DeviceImage::with_capacity(stream, num_bytes).unwrap()
        })
        .collect();
    let decoded = uploads.scope(|scope| {
        let file_of = |index: usize| Some((&files.get(index)?[..], planes[index]));
        decoder.enqueue(&mut images, file_of, scope).unwrap()
    });
    if !decoded {
        println!("{what}: refused by the engines");
        return false;
    }
    for (index, ((file, layout), image)) in files.iter().zip(&layouts).zip(&images).enumerate() {
        let mut expected = DecodedImage::new();
        decompress(&view(file), &mut expected).unwrap();
        let expected = expected.view().unwrap();
        assert_eq!(image.layout().unwrap(), *layout);
        assert_eq!((layout.size, layout.encoding), (expected.size(), expected.encoding()));
        let found = image.bytes().read().unwrap();
        let differences: Vec<i32> = found
            .iter()
            .zip(expected.data())
            .map(|(found, expected)| i32::from(*found) - i32::from(*expected))
            .collect();
        let largest = differences.iter().map(|d| d.abs()).max();
        let num = differences.iter().filter(|d| **d != 0).count();
        assert_eq!(num, 0, "{what}: file {index} of {layout:?}: at most {largest:?}");
    }
    true
}

const SAMPLINGS: [Option<SamplingFactor>; 4] =
    [Some(SamplingFactor::F_1_1), Some(SamplingFactor::F_2_1), Some(SamplingFactor::F_2_2), None];

#[test]
fn images_of_every_sampling_and_size_equal_those_of_the_cpu() {
    let Some(mut engines) = decoder() else { return };
    let mut random = Random::new(31);
    let sizes =
        [(1600, 900), (1280, 720), (640, 481), (197, 131), (64, 64), (17, 9), (16, 8), (1, 1)];
    for (width, height) in sizes {
        for sampling in SAMPLINGS {
            for restart in [0, 3] {
                let file = jpeg(&mut random, Size::new(width, height), sampling, restart);
                let what = format!("{width}x{height} {sampling:?} restart {restart}");
                let is_decoded = check(&mut engines, &[file], &what);
                assert!(is_decoded || width < 64, "{what}: refused");
            }
        }
    }
}

#[test]
fn a_batch_of_different_images_equals_those_of_the_cpu() {
    let Some(mut engines) = decoder() else { return };
    let mut random = Random::new(32);
    for num in [6, 1, 16, 3] {
        let files: Vec<_> = (0..num)
            .map(|i| {
                let size = Size::new(200 + 40 * i as u32, 120 + 8 * i as u32);
                jpeg(&mut random, size, SAMPLINGS[i % 4], 0)
            })
            .collect();
        assert!(check(&mut engines, &files, &format!("batch of {num}")));
    }
    let Some(data) = shared_data() else { return };
    let files: Vec<_> = fs::read_dir(data.join("images/nuscenes"))
        .unwrap()
        .map(|entry| fs::read(entry.unwrap().path()).unwrap())
        .collect();
    assert_eq!(files.len(), 6);
    assert!(check(&mut engines, &files, "nuScenes"));
}

#[test]
fn files_for_the_cpu_are_decoded_there_and_counted() {
    let Some((stream, mut decoder, _)) = decoder() else { return };
    let mut random = Random::new(33);
    let size = Size::new(96, 64);
    let good = jpeg(&mut random, size, Some(SamplingFactor::F_2_2), 0);
    let mut progressive = Vec::new();
    let mut encoder = Encoder::new(&mut progressive, 80);
    encoder.set_progressive(true);
    let rgb = pixels(&mut random, size, 3);
    encoder.encode(&rgb, 96, 64, ColorType::Rgb).unwrap();
    let narrow = jpeg(&mut random, size, Some(SamplingFactor::F_4_1), 0);
    for (name, file) in [("progressive", &progressive), ("4:1:1", &narrow)] {
        assert_eq!(decoder.planes(&view(file)), None, "{name}");
    }
    assert_eq!(decoder.planes(&view(&good[..good.len() - 2])), None, "truncated");

    let config = det_post::config::CameraConfig { jpeg: GPU, ..config("yolov8", &[]) };
    let engine = |stream: &Stream| {
        let mirror = Box::new(Mirror::new("yolov8", 300));
        let shape = det_post_infer::device::fixed_shape;
        det_post_infer::device::DeviceEngine::on_host(mirror, stream, shape).unwrap()
    };
    let mut on_gpu =
        <det_post::detectors::image2d::CudaDetector>::new(&config, &stream, engine(&stream))
            .unwrap();
    let mut on_cpu = <det_post::detectors::image2d::CpuDetector>::new(
        &config,
        Box::new(Mirror::new("yolov8", 300)),
    )
    .unwrap();
    let of = |report: &FrameReport| ImageDecoder::ALL.map(|decoder| report.images(decoder));
    for (file, expected) in [(&good, [0, 1]), (&progressive, [1, 0]), (&narrow, [1, 0])] {
        let payload = ImagePayload::Compressed(view(file));
        let found = in_image(&mut on_gpu, &payload).unwrap();
        assert_eq!(of(&found.report), expected);
        let reference = in_image(&mut on_cpu, &payload).unwrap();
        assert_eq!(of(&reference.report), [1, 0]);
        assert_eq!(found.detections, reference.detections);
        assert!(!found.detections.is_empty());
    }
    let cut = ImagePayload::Compressed(view(&good[..good.len() / 2]));
    let error = in_image(&mut on_gpu, &cut).unwrap_err();
    assert_eq!(error.kind(), det_post::ErrorKind::Codec);
    let payload = ImagePayload::Compressed(view(&good));
    let before = stream.num_waits();
    assert_eq!(of(&in_image(&mut on_gpu, &payload).unwrap().report), [0, 1]);
    // One for the frame, unless it is complete when the host asks, and one by the engine on the
    // host for its input.
    let num_waits = stream.num_waits() - before;
    assert!((1..=2).contains(&num_waits), "{num_waits} waits");
}

/// One of the files with up to five changes, half of them in its header.
fn mutated(random: &mut Random, files: &[Vec<u8>]) -> Vec<u8> {
    let mut file = files[random.below(files.len())].clone();
    for _ in 0..=random.below(5) {
        let reach = if random.below(2) == 0 { file.len().min(700) } else { file.len() };
        let at = random.below(reach);
        match random.below(4) {
            0 => file[at] ^= 1 << random.below(8),
            1 => file[at] = [0x00, 0xFF, 0x7F, 0xD9, 0xDA, 0xC4][random.below(6)],
            2 => {
                let part = file[at..file.len().min(at + random.below(200))].to_vec();
                file.splice(at..at, part);
            }
            _ => file[at] = random.below(256) as u8,
        }
    }
    file
}

/// A batch is decoded or refused as a whole; whatever its damaged files become, the others
/// are those of the CPU.
#[test]
fn mutated_files_do_not_touch_the_others_of_their_batch() {
    let Some((stream, mut decoder, uploads)) = decoder() else { return };
    let mut random = Random::new(35);
    let size = Size::new(197, 131);
    let files = SAMPLINGS.map(|sampling| jpeg(&mut random, size, sampling, 0));
    let pixels = files.each_ref().map(|file| {
        let mut decoded = DecodedImage::new();
        decompress(&view(file), &mut decoded).unwrap();
        decoded.view().unwrap().data().to_vec()
    });
    let (mut num_decoded, mut num_refused) = (0, 0);
    for iteration in 0..500 {
        let damaged = random.below(files.len());
        let mut batch = files.clone();
        batch[damaged] = mutated(&mut random, &files);
        let planes = batch.each_ref().map(|file| decoder.planes(&view(file)));
        let Some(planes) = planes.iter().copied().collect::<Option<Vec<_>>>() else { continue };
        let num_bytes = |index: usize| {
            let layout = layout(&planes[index]);
            layout.step * layout.size.height as usize
        };
        if num_bytes(damaged) > 1 << 22 {
            continue;
        }
        let image = |index| DeviceImage::with_capacity(&stream, num_bytes(index)).unwrap();
        let mut images: Vec<_> = (0..batch.len()).map(image).collect();
        let is_decoded = uploads.scope(|scope| {
            let file_of = |index: usize| Some((&batch.get(index)?[..], planes[index]));
            decoder.enqueue(&mut images, file_of, scope).unwrap()
        });
        stream.synchronize().unwrap_or_else(|error| panic!("mutation {iteration}: {error}"));
        if !is_decoded {
            num_refused += 1;
            continue;
        }
        num_decoded += 1;
        for index in (0..batch.len()).filter(|&index| index != damaged) {
            let found = images[index].bytes().read().unwrap();
            assert!(found.starts_with(&pixels[index]), "mutation {iteration}: file {index}");
        }
    }
    println!("{num_decoded} batches decoded, {num_refused} refused");
    assert!(num_decoded > 0);
}

/// Without the library `gpu` is an error that names it, and `auto` decodes on the CPU.
#[test]
fn a_missing_library_is_named_or_replaced_by_the_cpu() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let library = Some(std::path::PathBuf::from("/no/such/libnvjpeg.so.13"));
    let on_gpu = JpegOptions { device: JpegDevice::Gpu, library: library.clone() };
    let error = JpegDecoder::new(&stream, &on_gpu).err().unwrap();
    assert_eq!(error.kind(), det_post::ErrorKind::Device);
    assert!(error.to_string().contains("/no/such/libnvjpeg.so.13"), "{error}");
    let either = JpegOptions { device: JpegDevice::Auto, library };
    let mut decoder = JpegDecoder::new(&stream, &either).unwrap();
    let file = jpeg(&mut Random::new(36), Size::new(64, 64), Some(SamplingFactor::F_2_2), 0);
    assert_eq!(decoder.planes(&view(&file)), None);
}

#[test]
fn mutated_files_leave_the_engines_usable() {
    let Some(mut engines) = decoder() else { return };
    let mut random = Random::new(34);
    let files: Vec<_> = SAMPLINGS
        .map(|sampling| jpeg(&mut random, Size::new(197, 131), sampling, 0))
        .into_iter()
        .collect();
    let num_iterations: usize = std::env::var("DET_POST_FUZZ_ITERATIONS")
        .ok()
        .and_then(|given| given.parse().ok())
        .unwrap_or(2000);
    let (mut num_decoded, mut num_refused) = (0, 0);
    for iteration in 0..num_iterations {
        let file = mutated(&mut random, &files);
        let (stream, decoder, uploads) = &mut engines;
        if let Some(planes) = decoder.planes(&view(&file)) {
            let layout = layout(&planes);
            let num_bytes = layout.step * layout.size.height as usize;
            if num_bytes > 1 << 25 {
                continue;
            }
            let mut images = [DeviceImage::with_capacity(stream, num_bytes).unwrap()];
            let is_decoded = uploads.scope(|scope| {
                decoder.enqueue(&mut images, |_| Some((&file[..], planes)), scope).unwrap()
            });
            stream.synchronize().unwrap_or_else(|error| panic!("mutation {iteration}: {error}"));
            if is_decoded { num_decoded += 1 } else { num_refused += 1 }
        }
        if iteration % 500 == 0 {
            assert!(check(&mut engines, &files, "after mutations"));
        }
    }
    assert!(check(&mut engines, &files, "after mutations"));
    assert!(num_decoded > 0);
    println!("{num_iterations} mutations, {num_decoded} decoded, {num_refused} refused");
}
