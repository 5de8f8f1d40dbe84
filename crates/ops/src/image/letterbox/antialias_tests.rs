use half::f16;
use proptest::prelude::*;

use super::tests::{ENCODINGS, PLACEMENTS, dirty, naive_rgb, noise, params, values};
use super::*;
use det_post_types::ElementType;

/// The op by its definition, pixel by pixel, weights and sums in f64.
fn naive(image: &ImageView<'_>, params: &LetterboxParams, network: Size) -> Vec<f64> {
    let placed = Letterbox::new(image.size(), network, params.placement);
    let Size { width, height } = image.size();
    let weights = |i: u32, content: u32, source: u32| -> Vec<f64> {
        let scale = f64::from(source) / f64::from(content);
        let center = (f64::from(i) + 0.5) * scale;
        let weight = |k: u32| (1.0 - (f64::from(k) + 0.5 - center).abs() / scale.max(1.0)).max(0.0);
        let sum: f64 = (0..source).map(weight).sum();
        (0..source).map(|k| weight(k) / sum).collect()
    };
    let rgb: Vec<[f32; 3]> = (0..height as usize)
        .flat_map(|y| (0..width as usize).map(move |x| naive_rgb(image, x, y)))
        .collect();
    let [left, top] = placed.content_origin;
    let mut out = Vec::new();
    for plane in 0..3 {
        let channel = if params.channel_order == ChannelOrder::Rgb { plane } else { 2 - plane };
        for y in 0..network.height {
            for x in 0..network.width {
                let (cx, cy) = (x.wrapping_add_signed(-left), y.wrapping_add_signed(-top));
                if cx >= placed.content.width || cy >= placed.content.height {
                    out.push(f64::from(params.pad_value));
                    continue;
                }
                let of_columns = weights(cx, placed.content.width, width);
                let of_rows = weights(cy, placed.content.height, height);
                let row = |y: usize| -> f64 {
                    let pixels = &rgb[y * width as usize..][..width as usize];
                    let samples = pixels.iter().map(|pixel| f64::from(pixel[channel]));
                    samples.zip(&of_columns).map(|(sample, weight)| sample * weight).sum()
                };
                out.push((0..height as usize).map(|y| row(y) * of_rows[y]).sum());
            }
        }
    }
    out
}

fn run(image: &ImageView<'_>, params: &LetterboxParams, network: Size) -> Vec<f32> {
    let mut out = dirty(ElementType::F32, network);
    let mut workspace = Workspace::new();
    letterbox(image, params, &mut workspace, &mut out).unwrap();
    let found = values(&out);
    // No row of another image is taken.
    let step = image.encoding().row_bytes(image.size().width);
    let data = vec![7; step * image.encoding().num_rows(image.size().height)];
    let other = ImageView::new(image.size(), step, image.encoding(), false, &data).unwrap();
    letterbox(&other, params, &mut workspace, &mut out).unwrap();
    letterbox(image, params, &mut workspace, &mut out).unwrap();
    assert_eq!(values(&out), found);
    let mut half = dirty(ElementType::F16, network);
    letterbox(image, params, &mut workspace, &mut half).unwrap();
    let rounded: Vec<f32> = found.iter().map(|&v| f16::from_f32(v).to_f32()).collect();
    assert_eq!(values(&half), rounded);
    found
}

fn check(image: &ImageView<'_>, placement: Placement, order: ChannelOrder, network: Size) {
    let of = |resize| LetterboxParams { resize, ..params(placement, order) };
    let expected = naive(image, &of(Resize::Antialias), network);
    let is_yuv = [Encoding::Uyvy, Encoding::Yuy2, Encoding::Nv12, Encoding::Nv21]
        .contains(&image.encoding());
    // Samples of YUV are rounded. In 8 bits samples of mono16 are, too, and both sums.
    let samples = if is_yuv { 0.501 } else { 0.0 };
    for (resize, tolerance) in
        [(Resize::Antialias, samples + 1e-4), (Resize::Antialias8Bit, samples + 1.51)]
    {
        let found = run(image, &of(resize), network);
        assert_eq!(found.len(), expected.len());
        for (i, (&found, &expected)) in found.iter().zip(&expected).enumerate() {
            let close = (f64::from(found) - expected).abs() < tolerance;
            assert!(close, "{image:?} {resize:?} {network:?} at {i}: {found}, {expected}");
            assert!(resize == Resize::Antialias || found == found.trunc(), "{found}");
        }
    }
}

#[test]
fn every_encoding_and_placement_equals_the_definition() {
    for (encoding, seed) in ENCODINGS.into_iter().zip(1..) {
        for (width, height) in [(22, 14), (2, 2)] {
            let step = encoding.row_bytes(width) + 5;
            let data = noise(step * encoding.num_rows(height), seed);
            for (placement, big) in PLACEMENTS.into_iter().zip([false, true, false, true]) {
                for network in [Size::new(5, 4), Size::new(13, 17), Size::new(1, 1)] {
                    let size = Size::new(width, height);
                    let image = ImageView::new(size, step, encoding, big, &data).unwrap();
                    let order = [ChannelOrder::Rgb, ChannelOrder::Bgr][usize::from(big)];
                    check(&image, placement, order, network);
                }
            }
        }
    }
}

/// Made with Pillow 11.3.0: `resize` with `BILINEAR` of an image of mode `RGB`. Every one of 300
/// random sizes was equal, too.
#[test]
fn eight_bits_are_those_of_pillow() {
    type Row = ((u32, u32), (u32, u32), u32, &'static [u8]);
    let rows: [Row; 4] = [
        (
            (7, 5),
            (3, 2),
            1,
            &[82, 98, 115, 161, 119, 100, 170, 174, 124, 97, 136, 162, 144, 162, 97, 138, 143, 91],
        ),
        (
            (13, 9),
            (2, 3),
            2,
            &[
                149, 141, 132, 125, 118, 137, 121, 142, 153, 129, 130, 137, 118, 146, 133, 139,
                140, 129,
            ],
        ),
        (
            (4, 3),
            (5, 4),
            3,
            &[
                60, 140, 223, 157, 111, 222, 181, 99, 115, 172, 81, 66, 193, 40, 202, 109, 171,
                194, 187, 95, 156, 163, 75, 119, 106, 84, 114, 109, 81, 150, 122, 175, 186, 200,
                130, 162, 144, 103, 136, 55, 92, 118, 55, 83, 111, 93, 151, 200, 191, 203, 236,
                130, 175, 159, 34, 101, 76, 50, 46, 100,
            ],
        ),
        (
            (5, 11),
            (5, 2),
            4,
            &[
                115, 124, 104, 160, 119, 161, 98, 103, 150, 116, 88, 135, 171, 121, 116, 136, 106,
                137, 201, 120, 133, 92, 126, 137, 95, 123, 117, 158, 134, 53,
            ],
        ),
    ];
    for ((width, height), (columns, lines), seed, expected) in rows {
        let step = 3 * width as usize;
        let data = noise(step * height as usize, seed);
        let size = Size::new(width, height);
        let image = ImageView::new(size, step, Encoding::Rgb8, false, &data).unwrap();
        let resize = Resize::Antialias8Bit;
        let params = LetterboxParams { resize, ..params(Placement::Stretch, ChannelOrder::Rgb) };
        let found = run(&image, &params, Size::new(columns, lines));
        let planes: Vec<f32> = (0..3)
            .flat_map(|plane| expected.iter().skip(plane).step_by(3).map(|&v| f32::from(v)))
            .collect();
        assert_eq!(found, planes, "{size:?}");
    }
}

#[test]
fn an_image_of_its_own_size_passes_unchanged_and_a_constant_one_stays() {
    let (size, network) = (Size::new(7, 5), Size::new(3, 9));
    let data = noise(3 * 7 * 5, 3);
    let image = ImageView::new(size, 21, Encoding::Rgb8, false, &data).unwrap();
    let constant = [201; 105];
    let constant = ImageView::new(size, 21, Encoding::Rgb8, false, &constant).unwrap();
    for resize in [Resize::Antialias, Resize::Antialias8Bit] {
        let params = LetterboxParams { resize, ..params(Placement::Stretch, ChannelOrder::Rgb) };
        let planes: Vec<f32> = (0..3)
            .flat_map(|plane| data.iter().skip(plane).step_by(3).map(|&v| f32::from(v)))
            .collect();
        assert_eq!(run(&image, &params, size), planes);
        let found = run(&constant, &params, network);
        assert!(found.iter().all(|value| (value - 201.0).abs() < 1e-4), "{found:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_size_equals_the_definition(
        (width, height) in (1_u32..24, 1_u32..24),
        (network_width, network_height) in (1_u32..16, 1_u32..16),
        placement in prop::sample::select(PLACEMENTS.to_vec()),
        encoding in prop::sample::select(ENCODINGS.to_vec()),
        seed: u32,
    ) {
        let step = encoding.row_bytes(width) + (seed % 7) as usize;
        let data = noise(step * encoding.num_rows(height), seed);
        let image = ImageView::new(Size::new(width, height), step, encoding, false, &data);
        prop_assume!(image.is_ok());
        let network = Size::new(network_width, network_height);
        check(&image.unwrap(), placement, ChannelOrder::Bgr, network);
    }
}
