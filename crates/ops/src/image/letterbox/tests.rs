use half::f16;
use proptest::prelude::*;

use super::*;
use det_post_types::ElementType;

pub(super) const PLACEMENTS: [Placement; 4] =
    [Placement::Center, Placement::TopLeft, Placement::Stretch, Placement::CropTop];

pub(super) const ENCODINGS: [Encoding; 14] = [
    Encoding::Rgb8,
    Encoding::Bgr8,
    Encoding::Rgba8,
    Encoding::Bgra8,
    Encoding::Mono8,
    Encoding::Mono16,
    Encoding::Uyvy,
    Encoding::Yuy2,
    Encoding::Nv12,
    Encoding::Nv21,
    Encoding::BayerRggb8,
    Encoding::BayerBggr8,
    Encoding::BayerGbrg8,
    Encoding::BayerGrbg8,
];

/// One pixel of an image as red, green, blue, by the definition of its
/// encoding and without any of the code under test; colours of YUV are not
/// rounded to whole numbers.
pub(super) fn naive_rgb(image: &ImageView<'_>, x: usize, y: usize) -> [f32; 3] {
    let (row, height) = (image.row(y), image.size().height as usize);
    let yuv = |luma: u8, u: u8, v: u8| {
        let (luma, u, v) = ((f64::from(luma) - 16.0).max(0.0), f64::from(u), f64::from(v));
        let (luma, u, v) = (luma * 1.164, u - 128.0, v - 128.0);
        [luma + 1.596 * v, luma - 0.813 * v - 0.391 * u, luma + 2.018 * u]
            .map(|c| c.clamp(0.0, 255.0) as f32)
    };
    let chroma = |i: usize| image.row(height + y / 2)[x / 2 * 2 + i];
    let packed = |i: usize| row[x / 2 * 4 + i];
    let bytes = |at: [usize; 3], len: usize| at.map(|i| f32::from(row[x * len + i]));
    match image.encoding() {
        Encoding::Rgb8 => bytes([0, 1, 2], 3),
        Encoding::Bgr8 => bytes([2, 1, 0], 3),
        Encoding::Rgba8 => bytes([0, 1, 2], 4),
        Encoding::Bgra8 => bytes([2, 1, 0], 4),
        Encoding::Mono8 => [f32::from(row[x]); 3],
        Encoding::Mono16 => {
            let [a, b] = [row[2 * x], row[2 * x + 1]];
            let value = if image.is_big_endian() { [a, b] } else { [b, a] };
            [f32::from(u16::from_be_bytes(value)) / 257.0; 3]
        }
        Encoding::Uyvy => yuv(row[2 * x + 1], packed(0), packed(2)),
        Encoding::Yuy2 => yuv(row[2 * x], packed(1), packed(3)),
        Encoding::Nv12 => yuv(row[x], chroma(0), chroma(1)),
        Encoding::Nv21 => yuv(row[x], chroma(1), chroma(0)),
        bayer => naive_bayer(image, bayer, x as i64, y as i64),
    }
}

/// Averages, for each colour, the samples of it among the pixel itself, else
/// among its neighbours: the four beside it if any has the colour, else all.
fn naive_bayer(image: &ImageView<'_>, encoding: Encoding, x: i64, y: i64) -> [f32; 3] {
    let pattern = match encoding {
        Encoding::BayerRggb8 => [[0, 1], [1, 2]],
        Encoding::BayerBggr8 => [[2, 1], [1, 0]],
        Encoding::BayerGbrg8 => [[1, 2], [0, 1]],
        _ => [[1, 0], [2, 1]],
    };
    let mirror = |i: i64, len: u32| {
        let last = i64::from(len) - 1;
        if i < 0 {
            -i
        } else if i > last {
            2 * last - i
        } else {
            i
        }
    };
    let colour_at = |x: i64, y: i64| pattern[(y & 1) as usize][(x & 1) as usize];
    let sample = |x: i64, y: i64| {
        let (x, y) = (mirror(x, image.size().width), mirror(y, image.size().height));
        f64::from(image.row(y as usize)[x as usize])
    };
    std::array::from_fn(|colour| {
        let rings: [&[(i64, i64)]; 3] =
            [&[(0, 0)], &[(-1, 0), (1, 0), (0, -1), (0, 1)], &[(-1, -1), (1, -1), (-1, 1), (1, 1)]];
        for ring in rings {
            let samples: Vec<f64> = ring
                .iter()
                .filter(|(dx, dy)| colour_at(x + dx, y + dy) == colour)
                .map(|(dx, dy)| sample(x + dx, y + dy))
                .collect();
            if !samples.is_empty() {
                let mean = samples.iter().sum::<f64>() / samples.len() as f64;
                return (mean + 0.5).floor() as f32;
            }
        }
        0.0
    })
}

/// The op by its definition, pixel by pixel, positions in f64.
fn naive(image: &ImageView<'_>, params: &LetterboxParams, network: Size) -> Vec<f64> {
    let placed = Letterbox::new(image.size(), network, params.placement);
    let position = |i: u32, content: u32, source: u32| {
        let at = (f64::from(i) + 0.5) * f64::from(source) / f64::from(content) - 0.5;
        let at = at.clamp(0.0, f64::from(source - 1));
        let first = at.floor();
        (first as usize, (first as usize + 1).min(source as usize - 1), at - first)
    };
    let [left, top] = placed.content_origin;
    let mut out = Vec::new();
    for plane in 0..3 {
        let channel = if params.channel_order == ChannelOrder::Rgb { plane } else { 2 - plane };
        for y in 0..network.height {
            for x in 0..network.width {
                let (cx, cy) = (x.wrapping_add_signed(-left), y.wrapping_add_signed(-top));
                let inside = cx < placed.content.width && cy < placed.content.height;
                let value = if inside {
                    let (x0, x1, wx) = position(cx, placed.content.width, image.size().width);
                    let (y0, y1, wy) = position(cy, placed.content.height, image.size().height);
                    let at = |x, y| f64::from(naive_rgb(image, x, y)[channel]);
                    (at(x0, y0) * (1.0 - wx) + at(x1, y0) * wx) * (1.0 - wy)
                        + (at(x0, y1) * (1.0 - wx) + at(x1, y1) * wx) * wy
                } else {
                    f64::from(params.pad_value)
                };
                let n = params.normalization;
                out.push(value * f64::from(n.alpha[plane]) + f64::from(n.beta[plane]));
            }
        }
    }
    out
}

pub(super) fn noise(len: usize, mut state: u32) -> Vec<u8> {
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Dirty memory, so that a value not written shows.
pub(super) fn dirty(element: ElementType, network: Size) -> Tensor {
    let shape = vec![1, 3, network.height as usize, network.width as usize];
    let num = shape.iter().product();
    match element {
        ElementType::F16 => Tensor::F16 { shape, values: vec![f16::NAN; num] },
        _ => Tensor::F32 { shape, values: vec![f32::NAN; num] },
    }
}

pub(super) fn values(tensor: &Tensor) -> Vec<f32> {
    match tensor {
        Tensor::F32 { values, .. } => values.clone(),
        Tensor::F16 { values, .. } => values.iter().map(|v| v.to_f32()).collect(),
    }
}

const UNCHANGED: Normalization = Normalization { alpha: [1.0; 3], beta: [0.0; 3] };

pub(super) fn params(placement: Placement, channel_order: ChannelOrder) -> LetterboxParams {
    LetterboxParams {
        placement,
        channel_order,
        normalization: UNCHANGED,
        pad_value: 114.0,
        resize: Resize::Bilinear,
    }
}

fn check_against_naive(
    image: &ImageView<'_>,
    params: &LetterboxParams,
    network: Size,
    workspace: &mut Workspace,
) {
    let mut out = dirty(ElementType::F32, network);
    let placed = letterbox(image, params, workspace, &mut out).unwrap();
    assert_eq!(placed, Letterbox::new(image.size(), network, params.placement));
    let expected = naive(image, params, network);
    let found = values(&out);
    assert_eq!(found.len(), expected.len());
    let is_yuv = [Encoding::Uyvy, Encoding::Yuy2, Encoding::Nv12, Encoding::Nv21]
        .contains(&image.encoding());
    let tolerance = if is_yuv { 0.501 } else { 1e-4 };
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let close = (f64::from(found) - expected).abs() < tolerance;
        assert!(close, "{image:?} {params:?} {network:?} at {i}: {found}, {expected}");
    }
    let mut half = dirty(ElementType::F16, network);
    letterbox(image, params, workspace, &mut half).unwrap();
    let rounded: Vec<f32> = found.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
    assert_eq!(values(&half), rounded);
}

#[test]
fn every_encoding_and_placement_equals_the_definition() {
    let sizes = [(22, 14), (2, 2), (38, 6)];
    let networks = [Size::new(13, 17), Size::new(32, 16), Size::new(22, 14), Size::new(1, 1)];
    let mut workspace = Workspace::new();
    for (encoding, seed) in ENCODINGS.into_iter().zip(1..) {
        for (width, height) in sizes {
            let step = encoding.row_bytes(width) + 5;
            let data = noise(step * encoding.num_rows(height), seed);
            for network in networks {
                for placement in PLACEMENTS {
                    for (order, big) in [(ChannelOrder::Rgb, false), (ChannelOrder::Bgr, true)] {
                        let size = Size::new(width, height);
                        let image = ImageView::new(size, step, encoding, big, &data).unwrap();
                        let params = params(placement, order);
                        check_against_naive(&image, &params, network, &mut workspace);
                    }
                }
            }
        }
    }
}

#[test]
fn an_image_of_its_own_size_passes_unchanged() {
    let data = noise(3 * 7 * 5, 3);
    let image = ImageView::new(Size::new(7, 5), 21, Encoding::Rgb8, false, &data).unwrap();
    let mut out = dirty(ElementType::F32, image.size());
    let params = params(Placement::Center, ChannelOrder::Rgb);
    letterbox(&image, &params, &mut Workspace::new(), &mut out).unwrap();
    let planes: Vec<f32> = (0..3)
        .flat_map(|plane| data.iter().skip(plane).step_by(3).map(|&v| f32::from(v)))
        .collect();
    assert_eq!(values(&out), planes);
}

#[test]
fn planes_are_normalised_apart_and_padding_with_them() {
    let image = ImageView::new(Size::new(4, 2), 12, Encoding::Bgr8, false, &[30; 24]).unwrap();
    let normalization = Normalization { alpha: [0.5, 2.0, 4.0], beta: [1.0, -1.0, 0.25] };
    for order in [ChannelOrder::Rgb, ChannelOrder::Bgr] {
        let params =
            LetterboxParams { normalization, pad_value: 10.0, ..params(Placement::TopLeft, order) };
        let mut out = dirty(ElementType::F32, Size::new(4, 3));
        letterbox(&image, &params, &mut Workspace::new(), &mut out).unwrap();
        let out = values(&out);
        for (plane, (inside, outside)) in
            [(16.0, 6.0), (59.0, 19.0), (120.25, 40.25)].iter().enumerate()
        {
            assert_eq!(out[12 * plane], *inside);
            assert_eq!(out[12 * plane + 11], *outside);
        }
    }
}

/// Made with OpenCV 5.0.0: `cvtColor` with `COLOR_YUV2RGB_UYVY`, the same with
/// `COLOR_YUV2RGB_NV12`.
#[test]
fn yuv_is_converted_as_opencv_does() {
    let cases = [
        ([16, 128, 128], [0, 0, 0]),
        ([235, 128, 128], [255, 255, 255]),
        ([0, 0, 255], [203, 0, 0]),
        ([255, 255, 0], [74, 255, 255]),
        ([81, 90, 240], [254, 0, 0]),
        ([145, 54, 34], [0, 255, 1]),
        ([41, 240, 110], [0, 0, 255]),
        ([126, 37, 201], [245, 104, 0]),
        ([200, 130, 77], [133, 255, 218]),
    ];
    for ([y, u, v], rgb) in cases {
        let size = Size::new(2, 2);
        for (encoding, data) in [
            (Encoding::Uyvy, vec![u, y, v, y, u, y, v, y]),
            (Encoding::Yuy2, vec![y, u, y, v, y, u, y, v]),
            (Encoding::Nv12, vec![y, y, y, y, u, v]),
            (Encoding::Nv21, vec![y, y, y, y, v, u]),
        ] {
            let step = encoding.row_bytes(2);
            let image = ImageView::new(size, step, encoding, false, &data).unwrap();
            let params = params(Placement::Stretch, ChannelOrder::Rgb);
            let mut out = dirty(ElementType::F32, size);
            letterbox(&image, &params, &mut Workspace::new(), &mut out).unwrap();
            let planes: Vec<f32> = rgb.iter().flat_map(|&c: &u8| [f32::from(c); 4]).collect();
            assert_eq!(values(&out), planes, "{encoding:?} {y} {u} {v}");
        }
    }
}

#[test]
fn a_constant_image_stays_exact() {
    for (source, network) in [((31, 17), (64, 48)), ((640, 48), (99, 7))] {
        let size = Size::new(source.0, source.1);
        let step = 3 * source.0 as usize;
        let data = vec![201; step * source.1 as usize];
        let image = ImageView::new(size, step, Encoding::Rgb8, false, &data).unwrap();
        let mut out = dirty(ElementType::F32, Size::new(network.0, network.1));
        let params = params(Placement::Stretch, ChannelOrder::Rgb);
        letterbox(&image, &params, &mut Workspace::new(), &mut out).unwrap();
        assert!(values(&out).iter().all(|&v| v == 201.0));
    }
}

#[test]
fn positions_are_exact() {
    let tap = |first, weight| cpu::Tap { first, weight };
    // (i, content, source, tap)
    for (i, content, source, expected) in [
        (0, 640, 1920, tap(1, 0.0)),
        (639, 640, 1920, tap(1918, 0.0)),
        (0, 2, 4, tap(0, 0.5)),
        (1, 2, 4, tap(2, 0.5)),
        (0, 4, 2, tap(0, 0.0)),
        (1, 4, 2, tap(0, 0.25)),
        (3, 4, 2, tap(1, 0.0)),
        (4, 5, 1, tap(0, 0.0)),
        (0, 1, 3, tap(1, 0.0)),
        (32_767, 32_768, 32_768, tap(32_767, 0.0)),
        (0, 1, 32_768, tap(16_383, 0.5)),
    ] {
        assert_eq!(cpu::tap(i, content, source), expected, "{i} of {content} from {source}");
    }
}

#[test]
fn buffers_are_taken_once() {
    let data = noise(2 * 64 * 32, 9);
    let image = ImageView::new(Size::new(64, 32), 128, Encoding::Uyvy, false, &data).unwrap();
    let params = params(Placement::Center, ChannelOrder::Rgb);
    let mut workspace = Workspace::new();
    let mut out = dirty(ElementType::F16, Size::new(40, 40));
    letterbox(&image, &params, &mut workspace, &mut out).unwrap();
    let memory = |w: &Workspace| {
        let floats = [w.blended.as_ptr(), w.unrounded.as_ptr()];
        (w.columns.as_ptr(), floats, w.blended.capacity(), w.unrounded.capacity())
    };
    let (first, before) = (out.clone(), memory(&workspace));
    letterbox(&image, &params, &mut workspace, &mut out).unwrap();
    assert_eq!((out, memory(&workspace)), (first, before));
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    let image = ImageView::new(Size::new(1, 1), 3, Encoding::Rgb8, false, &[0; 3]).unwrap();
    let params = params(Placement::Center, ChannelOrder::Rgb);
    for shape in [&[1, 3, 0, 4][..], &[1, 3, 4], &[3, 4, 4], &[1, 1, 4, 4], &[2, 3, 4, 4], &[]] {
        let mut out = Tensor::zeros(ElementType::F32, shape).unwrap();
        let error = letterbox(&image, &params, &mut Workspace::new(), &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{shape:?}");
    }
    // 1x32768 to cover 4x4 is 4x131072.
    let tall = vec![0; 3 * 32_768];
    let tall = ImageView::new(Size::new(1, 32_768), 3, Encoding::Rgb8, false, &tall).unwrap();
    let mut out = Tensor::zeros(ElementType::F32, &[1, 3, 4, 4]).unwrap();
    let crop = LetterboxParams { placement: Placement::CropTop, ..params };
    let error = letterbox(&tall, &crop, &mut Workspace::new(), &mut out).unwrap_err();
    assert!(error.message().contains("have 4x131072"), "{error}");
    let mut short = Tensor::F32 { shape: vec![1, 3, 4, 4], values: vec![0.0; 47] };
    assert!(letterbox(&image, &params, &mut Workspace::new(), &mut short).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_size_equals_the_definition(
        (width, height) in (1_u32..40, 1_u32..40),
        (network_width, network_height) in (1_u32..40, 1_u32..40),
        placement in prop::sample::select(PLACEMENTS.to_vec()),
        encoding in prop::sample::select(ENCODINGS.to_vec()),
        seed: u32,
    ) {
        let step = encoding.row_bytes(width) + (seed % 7) as usize;
        let data = noise(step * encoding.num_rows(height), seed);
        let image = ImageView::new(Size::new(width, height), step, encoding, false, &data);
        prop_assume!(image.is_ok());
        check_against_naive(
            &image.unwrap(),
            &params(placement, ChannelOrder::Bgr),
            Size::new(network_width, network_height),
            &mut Workspace::new(),
        );
    }
}
