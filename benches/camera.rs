//! Decoding JPEG files and letterboxing, on one thread, beside OpenCV. `det_post bench` measures every
//! operation.
//!
//! `benches/peers/letterbox_opencv.py` puts OpenCV beside `letterbox/…`, `jpeg_opencv.py` beside
//! `jpeg/…`: the files of the folder that `DET_POST_BENCH_JPEG` names.

#![allow(missing_docs, reason = "the macros of criterion make items without")]
#![allow(clippy::expect_used, reason = "a bench may end on a broken fixture")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use det_post_ops::image::decompress::{DecodedImage, decompress};
use det_post_ops::image::letterbox::{LetterboxParams, Workspace, letterbox};
use det_post_types::{
    ChannelOrder, CompressedFormat, CompressedView, ElementType, Encoding, ImageView,
    Normalization, Placement, Resize, Size, Tensor,
};

fn noise(len: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn letterbox_1080p(c: &mut Criterion) {
    let params = LetterboxParams {
        placement: Placement::Center,
        channel_order: ChannelOrder::Rgb,
        normalization: Normalization { alpha: [1.0 / 255.0; 3], beta: [0.0; 3] },
        pad_value: 114.0,
        resize: Resize::Bilinear,
    };
    let size = Size::new(1920, 1080);
    let cases = [
        ("bgr8_f32", Encoding::Bgr8, ElementType::F32),
        ("bgr8_f16", Encoding::Bgr8, ElementType::F16),
        ("rgba8_f32", Encoding::Rgba8, ElementType::F32),
        ("mono8_f32", Encoding::Mono8, ElementType::F32),
        ("mono16_f32", Encoding::Mono16, ElementType::F32),
        ("uyvy_f32", Encoding::Uyvy, ElementType::F32),
        ("nv12_f32", Encoding::Nv12, ElementType::F32),
        ("bayer_rggb8_f32", Encoding::BayerRggb8, ElementType::F32),
    ];
    let mut group = c.benchmark_group("letterbox_1080p_to_640");
    for (name, encoding, element) in cases {
        let step = encoding.row_bytes(size.width);
        let data = noise(step * encoding.num_rows(size.height));
        let image = ImageView::new(size, step, encoding, false, &data).expect("a valid image");
        let mut out = Tensor::zeros(element, &[1, 3, 640, 640]).expect("a float tensor");
        let mut workspace = Workspace::new();
        group.bench_function(name, |b| {
            b.iter(|| letterbox(black_box(&image), &params, &mut workspace, &mut out));
        });
    }
    group.finish();
}

fn jpeg(c: &mut Criterion) {
    let Some(folder) = std::env::var_os("DET_POST_BENCH_JPEG") else { return };
    let mut group = c.benchmark_group("jpeg");
    for entry in std::fs::read_dir(folder).expect("a folder of JPEG files") {
        let path = entry.expect("a readable folder").path();
        let data = std::fs::read(&path).expect("a readable file");
        let file = CompressedView::new(CompressedFormat::Jpeg, &data);
        let mut decoded = DecodedImage::new();
        group.bench_function(
            path.file_stem().map_or_else(String::new, |stem| stem.to_string_lossy().into_owned()),
            |b| {
                b.iter(|| decompress(black_box(&file), &mut decoded).expect("a sound file"));
            },
        );
    }
    group.finish();
}

criterion_group!(benches, jpeg, letterbox_1080p);
criterion_main!(benches);
