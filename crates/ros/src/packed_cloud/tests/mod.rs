//! Messages around their payloads, general formats, and arrays of points.

mod points;

use std::io::Write;

use super::*;
use det_post_types::{Header, PointField, PointFields, Stamp};
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// The most bytes of data in these tests.
const MOST: usize = 1 << 19;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.trim().chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn fields<'a>(all: &[(&'a str, u32, u8, u32)]) -> PointFields<'a> {
    let mut fields = PointFields::new();
    for (name, offset, datatype, count) in all.iter().copied() {
        fields.push(PointField { name, offset, datatype, count }).unwrap();
    }
    fields
}

fn message<'a>(format: &'a str, compressed_data: &'a [u8]) -> CompressedPointCloud2<'a> {
    CompressedPointCloud2 {
        header: Header { stamp: Stamp::from_ros(9, 1), frame_id: "lidar" },
        height: 2,
        width: 3,
        fields: fields(&[("x", 0, 7, 1), ("ring", 4, 4, 1)]),
        is_bigendian: false,
        point_step: 7,
        row_step: 22,
        compressed_data,
        is_dense: true,
        format,
    }
}

fn unpack_with(
    unpacker: &mut Unpacker,
    message: &CompressedPointCloud2<'_>,
    most: usize,
) -> Result<Vec<u8>> {
    let (mut cdr, mut out) = (Vec::new(), vec![7; 1000]);
    message.encode(&mut cdr).unwrap();
    unpacker.unpack_to(PackedCloud::Compressed, &cdr, most, &mut out).map(|()| out)
}

fn unpack(message: &CompressedPointCloud2<'_>) -> Result<Vec<u8>> {
    unpack_with(&mut Unpacker::default(), message, MOST)
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zlib(data: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn zstd_frame(data: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(data, 3).unwrap()
}

/// A frame that does not say how long it is.
fn zstd_stream(data: &[u8]) -> Vec<u8> {
    zstd::stream::encode_all(data, 1).unwrap()
}

type Pack = fn(&[u8]) -> Vec<u8>;

const GENERAL: [(&str, Pack); 6] = [
    ("zlib", gzip),
    ("zlib", zlib),
    ("zstd", zstd_frame),
    ("zstd", zstd_stream),
    ("", gzip),
    ("", zstd_frame),
];

#[test]
fn the_data_of_general_formats_is_that_of_the_sender() {
    let data: Vec<u8> = (0..44).collect();
    let mut unpacker = Unpacker::default();
    for (format, pack) in GENERAL {
        let payload = pack(&data);
        let packed = message(format, &payload);
        let cloud = unpack_with(&mut unpacker, &packed, 44).unwrap();
        assert_eq!(cloud.len() % 4, 0);
        let CompressedPointCloud2 { header, height, width, fields, point_step, row_step, .. } =
            packed;
        let expected = PointCloud2 {
            header,
            height,
            width,
            fields,
            is_bigendian: false,
            point_step,
            row_step,
            data: &data,
            is_dense: true,
        };
        let mut written = Vec::new();
        expected.encode(&mut written).unwrap();
        assert!(cloud == written, "{format}");
    }
}

#[test]
fn rows_that_end_with_their_points_are_enough() {
    // 22 + 3 * 7: the last row lacks its padding, as a `PointCloud2` may.
    let data = [5; 43];
    for (format, pack) in [GENERAL[0], GENERAL[2]] {
        let payload = pack(&data);
        let cloud = unpack(&message(format, &payload)).unwrap();
        assert_eq!(PointCloud2::decode(&cloud).unwrap().view().unwrap().data(), data);
    }
}

#[test]
fn payloads_that_do_not_fit_are_refused() {
    for (format, pack) in GENERAL {
        let (payload, longer) = (pack(&[3; 44]), pack(&[3; 45]));
        let refused = |payload: &[u8], most| {
            unpack_with(&mut Unpacker::default(), &message(format, payload), most)
                .unwrap_err()
                .kind()
        };
        assert_eq!(refused(&payload, 43), ErrorKind::TooLarge, "{format}");
        // Sizes of their own are in gzip and in frames; the message's hold for the others.
        let own_size = get_size(&longer) == Some(45);
        assert_eq!(unpack(&message(format, &longer)).is_ok(), own_size, "{format}");
        for len in 1..payload.len() {
            let kind = refused(&payload[..len], MOST);
            let allowed = [
                ErrorKind::CloudCodec,
                ErrorKind::Layout,
                ErrorKind::Encoding,
                ErrorKind::TooLarge,
            ];
            assert!(allowed.contains(&kind), "{format} {len} {kind:?}");
        }
    }
    // The length in the file is wrong.
    let mut lying = gzip(&[3; 44]);
    let at = lying.len() - 4;
    for (length, kind) in
        [(43, ErrorKind::Layout), (45, ErrorKind::CloudCodec), (u32::MAX, ErrorKind::TooLarge)]
    {
        lying[at..].copy_from_slice(&u32::to_le_bytes(length));
        assert_eq!(unpack(&message("zlib", &lying)).unwrap_err().kind(), kind, "{length}");
    }
}

/// The length that a payload states.
fn get_size(payload: &[u8]) -> Option<u64> {
    match payload {
        [0x1f, 0x8b, .., a, b, c, d] => Some(u32::from_le_bytes([*a, *b, *c, *d]).into()),
        _ => zstd::zstd_safe::get_frame_content_size(payload).ok().flatten(),
    }
}

#[test]
fn formats_are_refused_by_name() {
    for format in ["lz4", "ZSTD", "draco ", ""] {
        let error = unpack(&message(format, b"unknown")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding, "{error}");
        let text = error.message();
        assert!(
            text.contains(&format!("{format:?}; allowed: zlib, zstd, draco, cloudini")),
            "{text}"
        );
        assert!(text.contains("republish"), "{text}");
    }
}

#[test]
fn clouds_without_points_need_no_payload() {
    for format in ["zlib", "zstd", "draco", "cloudini", ""] {
        let packed = CompressedPointCloud2 { width: 0, height: 1, ..message(format, b"") };
        let cloud = unpack(&packed).unwrap();
        assert_eq!(PointCloud2::decode(&cloud).unwrap().view().unwrap().num_points(), 0);
    }
}

#[test]
fn memory_that_is_too_small_is_an_error() {
    let (mut cdr, payload) = (Vec::new(), zlib(&[3; 44]));
    message("zlib", &payload).encode(&mut cdr).unwrap();
    let mut small = [0; 50];
    let place = &mut small[..];
    let unpacked = Unpacker::default().unpack(PackedCloud::Compressed, &cdr, 100, move |_| place);
    assert_eq!(unpacked.unwrap_err().kind(), ErrorKind::Memory);
}

#[test]
fn an_array_of_points_is_a_cloud_in_either_byte_order() {
    let mut points: Vec<u8> = (0..60).collect();
    points.pop();
    let message = LivoxCustomMsg { point_num: 3, points: &points, ..LivoxCustomMsg::default() };
    let mut cdr = Vec::new();
    message.encode(&mut cdr).unwrap();
    for kind in [PackedCloud::LivoxDriver2, PackedCloud::LivoxDriver, PackedCloud::LivoxInterfaces]
    {
        assert_eq!(PackedCloud::of_type(kind.type_name()), Some(kind));
        let mut out = vec![7; 1000];
        Unpacker::default().unpack_to(kind, &cdr, 60, &mut out).unwrap();
        let cloud = PointCloud2::decode(&out).unwrap();
        assert!(!cloud.is_bigendian);
        let view = cloud.view().unwrap();
        assert_eq!(
            (view.width(), view.height(), view.point_step(), view.row_step()),
            (3, 1, 20, 60)
        );
        assert_eq!((&view.data()[..59], view.data()[59]), (&points[..], 0));
        let field = view.fields().find(&["intensity"]).unwrap();
        assert_eq!((field.offset, field.datatype), (16, 2));
        let unpacked = Unpacker::default().unpack_to(kind, &cdr, 59, &mut Vec::new());
        assert_eq!(unpacked.unwrap_err().kind(), ErrorKind::TooLarge);
    }
    // Big endian: an empty frame, a time base and one point.
    let mut cdr = vec![0; 4 + 8 + 4 + 1 + 3];
    cdr[15] = 1;
    cdr.extend([0; 16]);
    cdr.extend([0, 0, 0, 1]);
    cdr.extend(0..19);
    let mut out = Vec::new();
    Unpacker::default().unpack_to(PackedCloud::LivoxDriver2, &cdr, 60, &mut out).unwrap();
    let cloud = PointCloud2::decode(&out).unwrap();
    assert!(cloud.is_bigendian);
    assert_eq!(cloud.view().unwrap().data()[..19], (0..19).collect::<Vec<u8>>());
}
