mod lenses;

use half::f16;
use proptest::prelude::*;

use super::*;
use det_post_types::{ElementType, Letterbox, Placement, Resize};

const PLACEMENTS: [Placement; 4] =
    [Placement::CropTop, Placement::Center, Placement::TopLeft, Placement::Stretch];

const UNCHANGED: Normalization = Normalization { alpha: [1.0; 3], beta: [0.0; 3] };

fn params(channel_order: ChannelOrder) -> ResampleParams {
    ResampleParams { channel_order, normalization: UNCHANGED, pad_value: 7.0 }
}

fn noise(len: usize, mut state: u32) -> Vec<u8> {
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Dirty memory for `num` images, so that a value not written shows.
fn dirty(element: ElementType, num: usize, network: Size) -> Tensor {
    let shape = vec![num, 3, network.height as usize, network.width as usize];
    let len = shape.iter().product();
    match element {
        ElementType::F16 => Tensor::F16 { shape, values: vec![f16::NAN; len] },
        _ => Tensor::F32 { shape, values: vec![f32::NAN; len] },
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    match tensor {
        Tensor::F32 { values, .. } => values.clone(),
        Tensor::F16 { values, .. } => values.iter().map(|v| v.to_f32()).collect(),
    }
}

/// The input image that an image gives.
fn run(image: &ImageView<'_>, map: &SampleMap, params: &ResampleParams) -> Vec<f32> {
    let mut out = dirty(ElementType::F32, 1, map.network());
    resample(image, map, params, &mut Workspace::new(), 0, &mut out).unwrap();
    values(&out)
}

/// The image as rgb8, every pixel by [`letterbox`](crate::image::letterbox) at its own size.
fn as_rgb(image: &ImageView<'_>) -> Vec<f32> {
    use crate::image::letterbox::{LetterboxParams, Workspace, letterbox};
    let params = LetterboxParams {
        placement: Placement::Stretch,
        channel_order: ChannelOrder::Rgb,
        normalization: UNCHANGED,
        pad_value: 0.0,
        resize: Resize::Bilinear,
    };
    let mut out = dirty(ElementType::F32, 1, image.size());
    letterbox(image, &params, &mut Workspace::new(), &mut out).unwrap();
    values(&out)
}

/// The weights of Pillow's bilinear filter around a position, in f64.
fn triangle(position: f64, reach: f64, len: u32) -> Vec<f64> {
    let weights = (0..len).map(|k| (1.0 - (f64::from(k) - position).abs() / reach).max(0.0));
    let sum: f64 = weights.clone().sum();
    weights.map(|weight| weight / sum).collect()
}

/// The image by its definition: positions, filter and sums in f64.
fn naive(
    image: &ImageView<'_>,
    network: Size,
    reach: [f64; 2],
    position: impl Fn(u32, u32) -> Option<[f64; 2]>,
) -> Vec<f64> {
    let (pixels, Size { width, height }) = (as_rgb(image), image.size());
    let len = (width * height) as usize;
    let mut out = vec![7.0; 3 * (network.width * network.height) as usize];
    let is_seen = |[x, y]: &[f64; 2]| {
        let inside = |at: f64, len: u32| at >= -0.5 && at <= f64::from(len) - 0.5;
        inside(*x, width) && inside(*y, height)
    };
    for y in 0..network.height {
        for x in 0..network.width {
            let Some([at_x, at_y]) = position(x, y).filter(is_seen) else { continue };
            let across = triangle(at_x, reach[0], width);
            let down = triangle(at_y, reach[1], height);
            for channel in 0..3 {
                let mut sum = 0.0;
                for (j, wy) in down.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                    for (k, wx) in across.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                        let sample = pixels[channel * len + j * width as usize + k];
                        sum += wx * wy * f64::from(sample);
                    }
                }
                let at = (channel as u32 * network.height + y) * network.width + x;
                out[at as usize] = sum;
            }
        }
    }
    out
}

fn assert_near(found: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len());
    for (i, (&found, expected)) in found.iter().zip(expected).enumerate() {
        let apart = (f64::from(found) - expected).abs();
        assert!(apart < tolerance, "{what} at {i}: {found}, {expected}");
    }
}

fn reach_of(placed: &Letterbox, resize: Resize) -> [f64; 2] {
    let Letterbox { source, content, .. } = placed;
    let scale = [
        f64::from(source.width) / f64::from(content.width),
        f64::from(source.height) / f64::from(content.height),
    ];
    match resize {
        Resize::Bilinear => [1.0; 2],
        Resize::Antialias | Resize::Antialias8Bit => scale.map(|scale| scale.max(1.0)),
    }
}

#[test]
fn every_placement_equals_the_filter_in_f64() {
    let data = noise(3 * 57 * 41, 5);
    let image = ImageView::new(Size::new(57, 41), 171, Encoding::Rgb8, false, &data).unwrap();
    for network in [Size::new(20, 9), Size::new(33, 33), Size::new(80, 70), Size::new(57, 41)] {
        for placement in PLACEMENTS {
            for resize in [Resize::Bilinear, Resize::Antialias] {
                let placed = Letterbox::new(image.size(), network, placement);
                let map = SampleMap::of_placement(&placed, resize).unwrap();
                let [columns, rows] = placed.visible();
                let position = |x, y| {
                    (columns.contains(&x) && rows.contains(&y))
                        .then(|| placed.source_position([x, y]))
                };
                let expected = naive(&image, network, reach_of(&placed, resize), position);
                let found = run(&image, &map, &params(ChannelOrder::Rgb));
                assert_near(&found, &expected, 5e-3, &format!("{network:?} {placement:?}"));
            }
        }
    }
}

/// Made with Pillow 13.0.0: `resize((12, 9), BILINEAR)` of an 8-bit image, which rounds to
/// integers after each axis.
const PILLOW: [u8; 108] = [
    109, 113, 119, 124, 119, 117, 138, 152, 125, 150, 132, 104, 134, 134, 130, 126, 116, 130, 109,
    128, 113, 121, 114, 102, 162, 145, 140, 149, 102, 156, 132, 144, 120, 95, 122, 119, 166, 141,
    107, 108, 103, 127, 121, 141, 115, 141, 157, 125, 147, 115, 92, 127, 137, 121, 122, 112, 133,
    107, 129, 107, 94, 113, 114, 155, 148, 144, 160, 112, 144, 136, 135, 137, 125, 156, 129, 162,
    143, 105, 107, 97, 133, 121, 144, 120, 116, 130, 123, 143, 123, 94, 123, 136, 117, 120, 110,
    140, 107, 127, 117, 109, 114, 106, 148, 149, 140, 170, 130, 125,
];

#[test]
fn an_image_is_shrunk_as_pillow_does() {
    let data: Vec<u8> = (0..31 * 23).map(|i: u32| ((i * i * 7 + i * 13) % 256) as u8).collect();
    let image = ImageView::new(Size::new(31, 23), 31, Encoding::Mono8, false, &data).unwrap();
    let placed = Letterbox::new(image.size(), Size::new(12, 9), Placement::Stretch);
    let map = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
    let found = run(&image, &map, &params(ChannelOrder::Rgb));
    let (first, others) = found.split_at(PILLOW.len());
    assert_near(first, &PILLOW.map(f64::from), 1.0, "Pillow");
    assert_eq!(others, [first, first].concat());
}

#[test]
fn bilinear_equals_letterbox() {
    let data = noise(3 * 64 * 48, 6);
    let image = ImageView::new(Size::new(64, 48), 192, Encoding::Bgr8, false, &data).unwrap();
    for placement in PLACEMENTS {
        use crate::image::letterbox::{LetterboxParams, Workspace, letterbox};
        let network = Size::new(40, 40);
        let placed = Letterbox::new(image.size(), network, placement);
        let map = SampleMap::of_placement(&placed, Resize::Bilinear).unwrap();
        let ResampleParams { channel_order, normalization, pad_value } = params(ChannelOrder::Rgb);
        let resize = Resize::Bilinear;
        let params = LetterboxParams { placement, channel_order, normalization, pad_value, resize };
        let mut expected = dirty(ElementType::F32, 1, network);
        letterbox(&image, &params, &mut Workspace::new(), &mut expected).unwrap();
        let expected: Vec<f64> = values(&expected).into_iter().map(f64::from).collect();
        let found = run(&image, &map, &self::params(ChannelOrder::Rgb));
        assert_near(&found, &expected, 5e-3, &format!("{placement:?}"));
    }
}

#[test]
fn both_ways_of_reading_give_the_same_bits() {
    let size = Size::new(90, 60);
    for (encoding, seed) in [(Encoding::Rgb8, 1), (Encoding::Mono16, 2), (Encoding::Yuy2, 3)] {
        let step = encoding.row_bytes(size.width);
        let data = noise(step * encoding.num_rows(size.height), seed);
        let image = ImageView::new(size, step, encoding, false, &data).unwrap();
        for placement in PLACEMENTS {
            let placed = Letterbox::new(size, Size::new(37, 30), placement);
            let map = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
            let params = params(ChannelOrder::Bgr);
            assert_eq!(run(&image, &map, &params), run(&image, &map.per_pixel(), &params));
        }
    }
}

#[test]
fn images_are_written_side_by_side() {
    let size = Size::new(20, 12);
    let data = noise(3 * 20 * 12, 8);
    let image = ImageView::new(size, 60, Encoding::Rgb8, false, &data).unwrap();
    let placed = Letterbox::new(size, Size::new(8, 4), Placement::CropTop);
    let map = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
    let params = params(ChannelOrder::Rgb);
    let single = run(&image, &map, &params);
    for element in [ElementType::F32, ElementType::F16] {
        let mut out = dirty(element, 3, map.network());
        resample(&image, &map, &params, &mut Workspace::new(), 1, &mut out).unwrap();
        let found = values(&out);
        let [before, written, after] = [0, 1, 2].map(|n| &found[n * 96..(n + 1) * 96]);
        assert!(before.iter().chain(after).all(|v| v.is_nan()));
        let rounded = |&v: &f32| match element {
            ElementType::F16 => f16::from_f32(v).to_f32(),
            _ => v,
        };
        assert_eq!(written, single.iter().map(rounded).collect::<Vec<_>>());
    }
}

#[test]
fn planes_are_normalised_apart_and_swapped() {
    let image = ImageView::new(Size::new(4, 2), 12, Encoding::Bgr8, false, &[30; 24]).unwrap();
    let normalization = Normalization { alpha: [0.5, 2.0, 4.0], beta: [1.0, -1.0, 0.25] };
    let placed = Letterbox::new(image.size(), Size::new(4, 3), Placement::TopLeft);
    let map = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
    for channel_order in [ChannelOrder::Rgb, ChannelOrder::Bgr] {
        let params = ResampleParams { channel_order, normalization, pad_value: 10.0 };
        let out = run(&image, &map, &params);
        for (plane, (inside, outside)) in
            [(16.0, 6.0), (59.0, 19.0), (120.25, 40.25)].iter().enumerate()
        {
            assert_eq!(out[12 * plane], *inside);
            assert_eq!(out[12 * plane + 11], *outside);
        }
    }
}

#[test]
fn buffers_are_taken_once() {
    let size = Size::new(64, 32);
    let data = noise(2 * 64 * 32, 9);
    let image = ImageView::new(size, 128, Encoding::Uyvy, false, &data).unwrap();
    let placed = Letterbox::new(size, Size::new(20, 10), Placement::CropTop);
    let separable = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
    for map in [separable.per_pixel(), separable] {
        let mut workspace = Workspace::new();
        let mut out = dirty(ElementType::F16, 1, map.network());
        let params = params(ChannelOrder::Rgb);
        resample(&image, &map, &params, &mut workspace, 0, &mut out).unwrap();
        let memory = |w: &Workspace| {
            let floats = [&w.weights, &w.row_sums, &w.unrounded];
            let floats = floats.map(|floats| (floats.as_ptr(), floats.capacity()));
            (floats, w.columns.as_ptr(), w.rgb.as_ptr(), w.rgb.capacity())
        };
        let (first, before) = (out.clone(), memory(&workspace));
        resample(&image, &map, &params, &mut workspace, 0, &mut out).unwrap();
        assert_eq!((out, memory(&workspace)), (first, before));
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let size = Size::new(8, 8);
    let image = ImageView::new(size, 24, Encoding::Rgb8, false, &[0; 192]).unwrap();
    let placed = Letterbox::new(size, Size::new(4, 4), Placement::Stretch);
    let map = SampleMap::of_placement(&placed, Resize::Antialias).unwrap();
    let other = Letterbox::new(Size::new(9, 8), Size::new(4, 4), Placement::Stretch);
    let other = SampleMap::of_placement(&other, Resize::Antialias).unwrap();
    let shape = [2, 3, 4, 4];
    for (map, index, shape, part) in [
        (&map, 2, &shape[..], "must be image 2 of [N, 3, 4, 4]"),
        (&map, 0, &shape[1..], "found [3, 4, 4]"),
        (&map, 0, &[1, 3, 4, 5], "found [1, 3, 4, 5]"),
        (&map, 0, &[1, 1, 4, 4], "found [1, 1, 4, 4]"),
        (&other, 0, &shape, "an image of 8x8 does not fit a map of images of 9x8"),
    ] {
        let mut out = Tensor::zeros(ElementType::F32, shape).unwrap();
        let params = params(ChannelOrder::Rgb);
        let error = resample(&image, map, &params, &mut Workspace::new(), index, &mut out);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), det_post_types::ErrorKind::Argument);
        assert!(error.message().contains(part), "{part}: {error}");
    }
    let mut short = Tensor::F32 { shape: vec![1, 3, 4, 4], values: vec![0.0; 47] };
    let params = params(ChannelOrder::Rgb);
    assert!(resample(&image, &map, &params, &mut Workspace::new(), 0, &mut short).is_err());
    for (source, network, part) in [
        ((330, 8), (10, 8), "33.00 x 1.00 source pixels"),
        ((8, 8), (0, 8), "inf x 1.00 source pixels"),
        ((40_000, 8), (40_000, 8), "40000x8 pixels into 40000x8"),
    ] {
        let [source, network] = [source, network].map(|(w, h)| Size::new(w, h));
        let placed = Letterbox { source, network, content_origin: [0, 0], content: network };
        let error = SampleMap::of_placement(&placed, Resize::Bilinear).unwrap_err();
        assert!(error.message().contains(part), "{part}: {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_size_equals_the_filter_in_f64(
        (width, height) in (1_u32..40, 1_u32..40),
        (network_width, network_height) in (1_u32..40, 1_u32..40),
        placement in prop::sample::select(PLACEMENTS.to_vec()),
        resize in prop::sample::select(vec![Resize::Bilinear, Resize::Antialias]),
        seed: u32,
    ) {
        let data = noise((width * height) as usize, seed);
        let size = Size::new(width, height);
        let image = ImageView::new(size, width as usize, Encoding::Mono8, false, &data).unwrap();
        let placed = Letterbox::new(size, Size::new(network_width, network_height), placement);
        let map = SampleMap::of_placement(&placed, resize);
        prop_assume!(map.is_ok());
        let [columns, rows] = placed.visible();
        let position = |x, y| {
            (columns.contains(&x) && rows.contains(&y)).then(|| placed.source_position([x, y]))
        };
        let expected = naive(&image, placed.network, reach_of(&placed, resize), position);
        let found = run(&image, &map.unwrap(), &params(ChannelOrder::Bgr));
        assert_near(&found, &expected, 5e-3, &format!("{placed:?} {resize:?}"));
    }
}
