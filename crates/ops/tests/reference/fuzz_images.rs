//! Mutated JPEG and PNG files: an error or an image, never a panic.
//!
//! `DET_POST_FUZZ_ITERATIONS` sets how many mutations are made of each file;
//! the seed is fixed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "tests say what they skipped and what they ran")]

use std::time::{Duration, Instant};

use det_post_ops::image::decompress::{DecodedImage, MAX_DECODE_TIME, decompress};
use det_post_testing::jpeg::{empty_scans, zero_scans};
use det_post_testing::shared_data::shared_data;
use det_post_types::ErrorKind;
use det_post_types::{CompressedFormat, CompressedView};

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

fn mutate(file: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = file.to_vec();
    for _ in 0..=random.below(6) {
        // Headers are short and decide the most: half of the hits go there.
        let reach = if random.below(2) == 0 { bytes.len().min(700) } else { bytes.len() };
        let at = random.below(reach);
        match random.below(6) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = [0x00, 0xFF, 0x7F, 0xD9, 0xDA, 0xC4][random.below(6)],
            2 => bytes[at] = random.below(256) as u8,
            3 => bytes.truncate(at.max(1)),
            // A part again and again: scans, tables, chunks.
            4 => {
                let len = random.below(400).min(bytes.len() - at);
                let part = bytes[at..at + len].repeat(1 + random.below(12));
                bytes.splice(at..at, part);
            }
            _ => {
                let from = random.below(bytes.len());
                let len = random.below(32).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
        }
    }
    bytes
}

fn fuzz(format: CompressedFormat, file: &[u8]) {
    let num_iterations = std::env::var("DET_POST_FUZZ_ITERATIONS")
        .ok()
        .and_then(|given| given.parse().ok())
        .unwrap_or(300);
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut decoded = DecodedImage::new();
    let (mut num_whole, mut num_limited, mut longest) = (0, 0, Duration::ZERO);
    for _ in 0..num_iterations {
        let data = mutate(file, &mut random);
        let start = Instant::now();
        match decompress(&CompressedView::new(format, &data), &mut decoded) {
            Ok(()) => {
                num_whole += 1;
                decoded.view().unwrap();
            }
            Err(error) if error.kind() == ErrorKind::DecodeLimit => num_limited += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Codec, "{error}"),
        }
        longest = longest.max(start.elapsed());
    }
    assert!(longest < MAX_DECODE_TIME + Duration::from_secs(1), "{longest:?}");
    println!(
        "{format:?}: {num_iterations} mutations, {num_whole} decoded, {num_limited} over a limit, \
         {longest:?} at most"
    );
}

#[test]
fn mutated_png_files() {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, 37, 23);
    encoder.set_color(png::ColorType::Rgb);
    let pixels: Vec<u8> = (0..37 * 23 * 3).map(|i| (i * i / 7) as u8).collect();
    encoder.write_header().unwrap().write_image_data(&pixels).unwrap();
    fuzz(CompressedFormat::Png, &file);
}

#[test]
fn mutated_jpeg_files() {
    let Some(data) = shared_data() else { return };
    let folder = data.join("images/nuscenes");
    let first = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).min().unwrap();
    fuzz(CompressedFormat::Jpeg, &std::fs::read(first).unwrap());
}

#[test]
fn mutated_progressive_jpeg_files() {
    let pixels: Vec<u8> = (0..97 * 61 * 3_u32).map(|i| (i * i / 97) as u8).collect();
    for scans in [4, 33] {
        let mut file = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut file, 80);
        encoder.set_progressive_scans(scans);
        encoder.encode(&pixels, 97, 61, jpeg_encoder::ColorType::Rgb).unwrap();
        fuzz(CompressedFormat::Jpeg, &file);
    }
    fuzz(CompressedFormat::Jpeg, &empty_scans(320, 240, 60));
    fuzz(CompressedFormat::Jpeg, &zero_scans(320, 240, 60));
}
