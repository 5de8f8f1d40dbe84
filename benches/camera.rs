#![allow(missing_docs)] // the macros of criterion document nothing
//! Camera ops on one thread: letterbox from every wire encoding, decoding of
//! YOLO heads.
//!
//! `benches/peers/letterbox_opencv.py` puts OpenCV beside `letterbox/…`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use det_post::ops::letterbox::{LetterboxParams, Workspace, letterbox};
use det_post::types::{
    ChannelOrder, ElementType, Encoding, ImageView, Normalization, Placement, Size, Tensor,
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
        let image = ImageView::new(size, step, encoding, false, &data).expect("a valid picture");
        let mut out = Tensor::zeros(element, &[1, 3, 640, 640]).expect("a float tensor");
        let mut workspace = Workspace::new();
        group.bench_function(name, |b| {
            b.iter(|| letterbox(black_box(&image), &params, &mut workspace, &mut out));
        });
    }
    group.finish();
}

criterion_group!(benches, letterbox_1080p);
criterion_main!(benches);
