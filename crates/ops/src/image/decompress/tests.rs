use std::time::{Duration, Instant};

use ::png::{BitDepth, ColorType};

use super::*;
use det_post_testing::jpeg::{empty_scans, zero_scans};
use det_post_testing::shared_data::shared_data;
use det_post_types::FileSamples;

fn decoded(format: CompressedFormat, data: &[u8]) -> Result<DecodedImage> {
    let mut image = DecodedImage::new();
    decompress(&CompressedView::new(format, data), &mut image)?;
    Ok(image)
}

fn png_file(color: ColorType, depth: BitDepth, data: &[u8], transparent: Option<&[u8]>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut file, 3, 2);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == ColorType::Indexed {
        encoder.set_palette(&[10, 20, 30, 40, 50, 60][..]);
    }
    if let Some(transparent) = transparent {
        encoder.set_trns(transparent);
    }
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(data).unwrap();
    writer.finish().unwrap();
    file
}

#[test]
fn every_kind_of_png() {
    let ramp: Vec<u8> = (0..48).map(|i| i * 5).collect();
    let high_bytes = |num: usize| ramp[..2 * num].iter().copied().step_by(2).collect::<Vec<u8>>();
    let grey_of_alpha16: Vec<u8> =
        ramp[..24].chunks(4).flat_map(|pixel| pixel[..2].to_vec()).collect();
    use BitDepth::{Eight, One, Sixteen};
    // (colour, depth, raw data, tRNS, encoding, pixels)
    let cases = [
        (
            ColorType::Grayscale,
            One,
            &[0b1010_0000, 0b0110_0000][..],
            None,
            Encoding::Mono8,
            vec![255, 0, 255, 0, 255, 255],
        ),
        (ColorType::Grayscale, Eight, &ramp[..6], None, Encoding::Mono8, ramp[..6].to_vec()),
        (ColorType::GrayscaleAlpha, Eight, &ramp[..12], None, Encoding::Mono8, high_bytes(6)),
        (ColorType::Grayscale, Sixteen, &ramp[..12], None, Encoding::Mono16, ramp[..12].to_vec()),
        (ColorType::GrayscaleAlpha, Sixteen, &ramp[..24], None, Encoding::Mono16, grey_of_alpha16),
        (ColorType::Rgb, Eight, &ramp[..18], None, Encoding::Rgb8, ramp[..18].to_vec()),
        (ColorType::Rgb, Sixteen, &ramp[..36], None, Encoding::Rgb8, high_bytes(18)),
        (ColorType::Rgba, Eight, &ramp[..24], None, Encoding::Rgba8, ramp[..24].to_vec()),
        (ColorType::Rgba, Sixteen, &ramp[..48], None, Encoding::Rgba8, high_bytes(24)),
        (
            ColorType::Indexed,
            Eight,
            &[0, 1, 0, 1, 1, 0],
            None,
            Encoding::Rgb8,
            vec![10, 20, 30, 40, 50, 60, 10, 20, 30, 40, 50, 60, 40, 50, 60, 10, 20, 30],
        ),
        (
            ColorType::Indexed,
            Eight,
            &[0, 1, 0, 1, 1, 1],
            Some(&[7][..]),
            Encoding::Rgba8,
            vec![
                10, 20, 30, 7, 40, 50, 60, 255, 10, 20, 30, 7, 40, 50, 60, 255, 40, 50, 60, 255,
                40, 50, 60, 255,
            ],
        ),
    ];
    for (color, depth, data, transparent, encoding, pixels) in cases {
        let file = png_file(color, depth, data, transparent);
        let image = decoded(CompressedFormat::Png, &file).unwrap();
        let view = image.view().unwrap();
        assert_eq!(view.size(), Size::new(3, 2));
        assert_eq!((view.encoding(), view.data()), (encoding, &pixels[..]), "{color:?} {depth:?}");
        assert!(view.is_big_endian());
        for len in 0..file.len() {
            let error = decoded(CompressedFormat::Png, &file[..len]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Codec, "{len} of {} bytes", file.len());
        }
    }
}

#[test]
fn samples_have_the_meaning_of_the_message() {
    let mosaic: Vec<u8> = (0..6).map(|i| i * 40).collect();
    let grey = png_file(ColorType::Grayscale, BitDepth::Eight, &mosaic, None);
    let colors: Vec<u8> = (0..18).map(|i| i * 10).collect();
    let rgb = png_file(ColorType::Rgb, BitDepth::Eight, &colors, None);
    let deep = png_file(ColorType::Grayscale, BitDepth::Sixteen, &colors[..12], None);
    let decoded = |file: &[u8], samples| {
        let input = CompressedView { samples, ..CompressedView::new(CompressedFormat::Png, file) };
        let mut image = DecodedImage::new();
        decompress(&input, &mut image)?;
        let view = image.view()?;
        Ok::<_, Error>((view.encoding(), view.data().to_vec()))
    };
    let pattern = FileSamples::Mosaic(Encoding::BayerGbrg8);
    assert_eq!(decoded(&grey, pattern).unwrap(), (Encoding::BayerGbrg8, mosaic));
    let swapped = decoded(&rgb, FileSamples::SwappedColors).unwrap();
    assert_eq!(swapped, (Encoding::Bgr8, colors));
    // Never grey values of a mosaic, nor a mosaic of colours.
    for (file, samples) in [(&rgb, pattern), (&deep, pattern), (&grey, FileSamples::Colors)] {
        let error = decoded(file, samples).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding, "{error}");
    }
}

#[test]
fn the_size_is_known_by_the_header() {
    let view = |format, data| size(&CompressedView::new(format, data));
    let png = png_file(ColorType::Rgb, BitDepth::Eight, &[9; 18], None);
    assert_eq!(view(CompressedFormat::Png, &png).unwrap(), Size::new(3, 2));
    let mut jpeg = Vec::new();
    jpeg_encoder::Encoder::new(&mut jpeg, 90)
        .encode(&[7; 3 * 5 * 4], 5, 4, jpeg_encoder::ColorType::Rgb)
        .unwrap();
    assert_eq!(view(CompressedFormat::Jpeg, &jpeg).unwrap(), Size::new(5, 4));
    for (format, data) in [
        (CompressedFormat::Jpeg, &png[..]),
        (CompressedFormat::Png, &jpeg),
        (CompressedFormat::Jpeg, &jpeg[..9]),
        (CompressedFormat::Png, &[]),
    ] {
        assert_eq!(view(format, data).unwrap_err().kind(), ErrorKind::Codec, "{format:?}");
    }
}

#[test]
fn an_image_is_used_again_and_lost_on_failure() {
    let file = png_file(ColorType::Rgb, BitDepth::Eight, &[9; 18], None);
    let small = png_file(ColorType::Grayscale, BitDepth::Eight, &[7; 6], None);
    let mut image = DecodedImage::new();
    assert_eq!(image.view().unwrap_err().kind(), ErrorKind::Codec);
    let mut decode = |data: &[u8]| {
        let result = decompress(&CompressedView::new(CompressedFormat::Png, data), &mut image);
        (result.is_ok(), image.view().map(|v| v.data().to_vec()).ok(), image.bytes.as_ptr())
    };
    let (_, _, memory) = decode(&file);
    assert_eq!(decode(&small), (true, Some(vec![7; 6]), memory));
    assert_eq!(decode(&file[..30]).1, None);
    assert_eq!(decode(&file), (true, Some(vec![9; 18]), memory));
}

#[test]
fn headers_that_claim_too_much_are_refused_before_memory_is_taken() {
    // (size, bytes, accepted)
    let cases = [
        (Size::new(640, 480), 1000, true),
        (Size::new(0, 480), 1000, false),
        (Size::new(640, 480), 599, false),
        (Size::new(640, 480), 600, true),
        (Size::new(ImageView::MAX_SIDE, 2), 1000, true),
        (Size::new(ImageView::MAX_SIDE + 1, 1), 1000, false),
        (Size::new(8192, 8192), 1 << 20, true),
        (Size::new(8193, 8192), 1 << 20, false),
        (Size::new(u32::MAX, u32::MAX), usize::MAX, false),
    ];
    for (size, num_bytes, accepted) in cases {
        assert_eq!(check_size(size, num_bytes, 512).is_ok(), accepted, "{size:?} {num_bytes}");
    }
    let mut file = png_file(ColorType::Grayscale, BitDepth::Eight, &[7; 6], None);
    file[16..20].copy_from_slice(&30_000_u32.to_be_bytes());
    assert!(decoded(CompressedFormat::Png, &file).is_err());
}

#[test]
fn garbage_is_an_error_of_either_format() {
    for format in [CompressedFormat::Jpeg, CompressedFormat::Png] {
        for data in [&[][..], &[0xFF], &[0xFF, 0xD8, 0xFF, 0xD9], b"\x89PNG\r\n\x1a\n", &[0; 64]] {
            let error = decoded(format, data).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Codec, "{format:?} {data:?}");
        }
    }
}

#[test]
fn a_jpeg_cut_anywhere_is_an_error() {
    let Some(shared) = shared_data() else { return };
    let file = std::fs::read(shared.join("images/bus_810x1080.jpg")).unwrap();
    let image = decoded(CompressedFormat::Jpeg, &file).unwrap();
    let view = image.view().unwrap();
    assert_eq!((view.size(), view.encoding()), (Size::new(810, 1080), Encoding::Rgb8));
    let mut lengths: Vec<usize> = (0..40).map(|i| i * file.len() / 40).collect();
    lengths.extend(file.len() - 60..file.len());
    for len in lengths {
        let error = decoded(CompressedFormat::Jpeg, &file[..len]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Codec, "{len} of {} bytes", file.len());
    }
    // What follows the end marker does not matter.
    let padded = [&file[..], &[0; 64]].concat();
    assert_eq!(decoded(CompressedFormat::Jpeg, &padded).unwrap().bytes, image.bytes);
}

#[test]
fn the_work_of_a_jpeg_is_limited_before_it_is_done() {
    // (size, scans, decoded)
    let cases = [
        (Size::new(64, 48), 1, true),
        (Size::new(64, 48), 256, true),
        (Size::new(4096, 4096), 16, true),
        (Size::new(64, 48), 257, false),
        (Size::new(1024, 1024), 20_000, false),
        (Size::new(8192, 8192), 17, false),
        (Size::new(8192, 8192), 5_000, false),
    ];
    for (size, num_scans, accepted) in cases {
        let [width, height] = [size.width, size.height].map(|n| n as u16);
        let scans = if accepted { zero_scans } else { empty_scans };
        let file = scans(width, height, num_scans);
        let start = Instant::now();
        let decoded = decoded(CompressedFormat::Jpeg, &file);
        assert!(start.elapsed() < Duration::from_secs(5), "{size:?} took {:?}", start.elapsed());
        match decoded {
            Ok(image) => {
                assert!(accepted, "{size:?} in {num_scans} scans");
                assert_eq!(image.view().unwrap().size(), size);
            }
            Err(error) => {
                assert!(!accepted, "{size:?} in {num_scans} scans: {error}");
                assert_eq!(error.kind(), ErrorKind::DecodeLimit);
                assert!(error.message().contains(&format!("has {num_scans} scans")), "{error}");
            }
        }
    }
    // Scans without data are not filled in.
    let error = decoded(CompressedFormat::Jpeg, &empty_scans(64, 48, 3)).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Codec);
    let mut tables = empty_scans(64, 48, 1);
    let table: Vec<u8> = [0xFF, 0xC4, 0, 20, 0, 1].into_iter().chain([0; 16]).collect();
    tables.splice(2..2, table.repeat(28_000));
    let error = decoded(CompressedFormat::Jpeg, &tables).map(|_| ()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DecodeLimit);
    assert!(error.message().contains("Huffman tables"), "{error}");
}

#[test]
fn as_many_scans_as_encoders_write_change_no_pixel() {
    let pixels: Vec<u8> = (0..97 * 61 * 3_u32).map(|i| (i * i / 97) as u8).collect();
    let encoded = |scans: Option<u8>| {
        let mut file = Vec::new();
        let mut encoder = jpeg_encoder::Encoder::new(&mut file, 90);
        if let Some(scans) = scans {
            encoder.set_progressive_scans(scans);
        }
        encoder.encode(&pixels, 97, 61, jpeg_encoder::ColorType::Rgb).unwrap();
        decoded(CompressedFormat::Jpeg, &file).unwrap().bytes
    };
    let expected = encoded(None);
    for scans in [3, 10, 33] {
        assert!(encoded(Some(scans)) == expected, "{scans} scans");
    }
}

#[test]
fn an_image_that_takes_too_long_is_given_up() {
    let png = png_file(ColorType::Rgb, BitDepth::Eight, &[9; 18], None);
    let over = Instant::now();
    let errors = [
        png::decode(&png, over, |_| Err(codec("no memory is asked for"))).map(|_| ()),
        png::size(&png, over).map(|_| ()),
    ];
    for error in errors {
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DecodeLimit, "{error}");
        assert_eq!(error.message(), "image not decoded within 10 s");
    }
}

#[test]
fn text_and_colour_profiles_of_a_png_are_not_inflated() {
    let mut file = Vec::new();
    let mut info = ::png::Info::with_size(3, 2);
    info.color_type = ColorType::Rgb;
    info.bit_depth = BitDepth::Eight;
    // More than the limit of what the decoder keeps.
    info.icc_profile = Some(vec![0; 80 << 20].into());
    let mut encoder = ::png::Encoder::with_info(&mut file, info).unwrap();
    encoder.add_ztxt_chunk("Comment".to_owned(), " ".repeat(80 << 20)).unwrap();
    let mut writer = encoder.write_header().unwrap();
    writer.write_image_data(&[9; 18]).unwrap();
    writer.finish().unwrap();
    assert!(file.len() < 1 << 20);
    let image = decoded(CompressedFormat::Png, &file).unwrap();
    assert_eq!(image.view().unwrap().data(), [9; 18]);
}
