//! Draco and Cloudini, by payloads of other implementations.

use super::*;

/// Four points of Google's encoder: x y z (F32, one attribute), along a kd-tree.
const KD_TREE: &str = "445241434f020300010000040000000101000903000001040000000400000004000000000000980800000080\
    baf281000000800400000000000000040000000000001000000000000080bf000000000000004104";
/// The same and a field of F32, in their order.
const SEQUENTIAL: &str = "445241434f02030000000004000000010200090300060409010005020000010100050b011001300300508220\
    0899b7971f000000000f0000000000f04000001041000010410000964300000000000080bf000000000000004104";
/// Four points of x, y, z (F32 by 0.125), ring (U16), time (F64), by pureini: values behind a header.
const CLOUDINI_4: &str = "1e000000110110070000000000001640090501013f2000050101002006310333e203";
/// The same in version 5, the rings behind the other values.
const CLOUDINI_5: &str = "1f00000011011000000000000016400905013f200005010020063133e2030007010103";

fn draco<'a>(payload: &'a [u8], all: &[(&'a str, u32, u8, u32)]) -> CompressedPointCloud2<'a> {
    let (fields, point_step) = (fields(all), 20);
    CompressedPointCloud2 {
        height: 1,
        width: 4,
        fields,
        point_step,
        row_step: 0,
        ..message("draco", payload)
    }
}

#[test]
#[expect(clippy::excessive_precision, reason = "as printed by the other decoder")]
fn draco_gives_the_points_of_googles_decoder() {
    let (kd_tree, sequential) = (bytes(KD_TREE), bytes(SEQUENTIAL));
    let xyz = ("xyz", 4, 7, 3);
    let origin = [0.0, 0.066_666_722_297_668_46, 0.0];
    let points = [3.200_000_286_102_295, 3.733_333_587_646_484_4]
        .map(|z| [1.066_666_722_297_668_5, 2.200_000_286_102_295, z]);
    let far = [4.266_666_889_190_674, -1.0, 8.0];
    for (payload, all, order) in [
        (&kd_tree, &[xyz][..], [far, points[0], points[1], origin]),
        (&sequential, &[xyz, ("i", 16, 7, 1)], [origin, points[0], far, points[1]]),
    ] {
        let cloud = unpack(&draco(payload, all)).unwrap();
        let cloud = PointCloud2::decode(&cloud).unwrap();
        let view = cloud.view().unwrap();
        assert_eq!((view.num_points(), view.row_step()), (4, 80));
        for (index, (point, expected)) in view.data().chunks(20).zip(order).enumerate() {
            let number = |at: usize| f32::from_le_bytes(point[at..at + 4].try_into().unwrap());
            assert_eq!(
                [4, 8, 12].map(number).map(f32::to_bits),
                expected.map(f32::to_bits),
                "{index}"
            );
            assert_eq!(number(0).to_bits(), 0);
            let other = if all.len() == 2 { [7.5, 9.0, 9.0, 300.0][index] } else { 0.0 };
            assert_eq!(number(16).to_bits(), f32::to_bits(other), "{index}");
        }
    }
}

#[test]
fn draco_that_does_not_fit_its_message_is_refused() {
    let payload = bytes(SEQUENTIAL);
    let good = [("xyz", 4, 7, 3), ("i", 16, 7, 1)];
    let kind = |packed: &CompressedPointCloud2<'_>| unpack(packed).unwrap_err().kind();
    for (other, expected) in [
        (&good[..1], ErrorKind::CloudCodec),
        (&[("xyz", 4, 7, 3), ("i", 16, 6, 1)], ErrorKind::Layout),
        (&[("xyz", 4, 7, 2), ("i", 16, 7, 1)], ErrorKind::CloudCodec),
        (&[("xyz", 4, 7, 3), ("i", 17, 7, 1)], ErrorKind::PointField),
        (&[("xyz", 4, 7, 3), ("i", 16, 9, 1)], ErrorKind::PointField),
        (&[("xyz", 4, 7, 3), ("i", 16, 7, 0)], ErrorKind::PointField),
        (&[("xyz", 4, 7, 3), ("i", 16, 7, u32::MAX)], ErrorKind::PointField),
        (&[("xyz", 4, 7, 3), ("i", 16, 7, 1), ("j", 0, 7, 1)], ErrorKind::Layout),
    ] {
        assert_eq!(kind(&draco(&payload, other)), expected, "{other:?}");
    }
    for (width, expected) in [(3, ErrorKind::CloudCodec), (5, ErrorKind::Layout)] {
        let packed = CompressedPointCloud2 { width, ..draco(&payload, &good) };
        assert_eq!(kind(&packed), expected, "{width}");
    }
    for len in 0..payload.len() {
        assert!(unpack(&draco(&payload[..len], &good)).is_err(), "{len}");
    }
}

/// A payload of Cloudini with a chunk of four points.
fn cloudini_payload(version: u8, encoding: &str, chunk: &[u8]) -> Vec<u8> {
    let field = |name, offset, kind, resolution| {
        format!(
            "  - name: {name}\n    offset: {offset}\n    type: {kind}\n    resolution: {resolution}\n"
        )
    };
    let mut text = format!(
        "CLOUDINI_V0{version}\nversion: {version}\nwidth: 2\nheight: 2\npoint_step: 24\nencoding_opt: {encoding}\n\
         compression_opt: NONE\nfields:\n"
    );
    for (name, offset) in [("x", 0), ("y", 4), ("z", 8)] {
        text += &field(name, offset, "FLOAT32", "0.125");
    }
    text += &field("ring", 12, "UINT16", "null");
    text += &field("time", 14, "FLOAT64", "null");
    text.push('\0');
    [text.as_bytes(), chunk].concat()
}

fn cloudini(payload: &[u8]) -> CompressedPointCloud2<'_> {
    let all =
        [("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("ring", 12, 4, 1), ("time", 14, 8, 1)];
    let (fields, point_step) = (fields(&all), 24);
    CompressedPointCloud2 {
        width: 2,
        fields,
        point_step,
        row_step: 48,
        ..message("cloudini", payload)
    }
}

/// The points of a cloud of [`cloudini`]: x, y, z, time, and the rings.
fn points(cloud: &[u8]) -> (Vec<[f64; 4]>, Vec<u16>) {
    let cloud = PointCloud2::decode(cloud).unwrap();
    let points = cloud.view().unwrap().data().chunks(24);
    points
        .map(|point| {
            let number =
                |at: usize| f64::from(f32::from_le_bytes(point[at..at + 4].try_into().unwrap()));
            assert_eq!(point[22..], [0, 0]);
            let time = f64::from_le_bytes(point[14..22].try_into().unwrap());
            let values = [number(0), number(4), number(8), time]
                .map(|value| if value.is_nan() { -99.0 } else { value });
            (values, u16::from_le_bytes([point[12], point[13]]))
        })
        .unzip()
}

#[test]
fn cloudini_gives_points_in_their_layout() {
    let expected = [
        [1.0, 0.0, -1.0, 5.5],
        [1.5, 0.25, -1.0, 5.75],
        [-99.0, 0.5, -1.0, 5.75],
        [-2.0, 0.125, 2.0, 6.125],
    ];
    for (version, chunk) in [(4, CLOUDINI_4), (5, CLOUDINI_5)] {
        let payload = cloudini_payload(version, "LOSSY", &bytes(chunk));
        // Without the name as well, as by its plugin of point_cloud_transport.
        for format in ["cloudini", ""] {
            let cloud = unpack(&CompressedPointCloud2 { format, ..cloudini(&payload) }).unwrap();
            assert_eq!(points(&cloud), (expected.to_vec(), vec![3, 3, 3, 4]), "{version}");
        }
    }
    // Up to version 2 the chunk has no length, and times are as XOR of their bits.
    let mut chunk = Vec::new();
    for [x, ring, time] in [[17, 7, 4.0_f64.to_bits()], [9, 1, 0], [0, 1, 1 << 52], [32, 3, 0]] {
        chunk.extend([x as u8, 1, 1, ring as u8]);
        chunk.extend(time.to_le_bytes());
    }
    let cloud = unpack(&cloudini(&cloudini_payload(2, "LOSSY", &chunk))).unwrap();
    let values = [1.0, 1.5, -99.0, -2.0].into_iter().zip([4.0, 4.0, 2.0, 2.0]);
    let values: Vec<[f64; 4]> = values.map(|(x, time)| [x, 0.0, 0.0, time]).collect();
    assert_eq!(points(&cloud), (values, vec![3, 3, 3, 4]));
}

#[test]
fn cloudini_stores_integers_in_four_ways() {
    let values = bytes(&CLOUDINI_5[8..60]);
    for (section, expected) in [
        (&[0, 7, 1, 1, 3][..], Some([3, 3, 3, 4])),
        (&[1, 2, 0, 9, 0, 1, 1, 0b0110], Some([9, 257, 257, 9])),
        (&[1, 1, 0, 9, 0], Some([9; 4])),
        (&[2, 2, 0, 0, 0, 8, 0, 3, 9, 0, 1], Some([8, 8, 8, 9])),
        (&[3, 1, 0, 0, 0, 7, 4], Some([3, 6, 9, 12])),
        (&[3, 2, 0, 0, 0, 7, 1, 2, 3], Some([3, 2, 1, 0])),
        (&[], None),
        (&[4, 7, 1, 1, 3], None),
        (&[0, 7, 1, 1], None),
        (&[0, 7, 1, 1, 0], None),
        (&[0, 7, 1, 1, 3, 3], None),
        (&[1, 0, 0], None),
        (&[1, 3, 0, 9, 0, 1, 1, 2, 2, 0xff], None),
        (&[1, 2, 0, 9, 0, 1, 1], None),
        (&[2, 2, 0, 0, 0, 8, 0, 3, 9, 0, 2], None),
        (&[2, 1, 0, 0, 0, 8, 0, 3], None),
        (&[2, 1, 0, 0, 0, 8, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1], None),
        (&[3, 0xff, 0xff, 0xff, 0xff, 7, 4], None),
    ] {
        let len = (values.len() + section.len()) as u32;
        let chunk = [&len.to_le_bytes(), &values[..], section].concat();
        let payload = cloudini_payload(5, "LOSSY", &chunk);
        let found = unpack(&cloudini(&payload));
        match expected {
            Some(rings) => assert_eq!(points(&found.unwrap()).1, rings, "{section:?}"),
            None => assert_eq!(found.unwrap_err().kind(), ErrorKind::CloudCodec, "{section:?}"),
        }
    }
}

#[test]
fn cloudini_that_does_not_fit_its_message_is_refused() {
    let payload = cloudini_payload(5, "LOSSY", &bytes(CLOUDINI_5));
    let good = cloudini(&payload);
    let all = [("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1), ("ring", 12, 4, 1)];
    for (packed, expected) in [
        (CompressedPointCloud2 { width: 3, ..good }, ErrorKind::Layout),
        (CompressedPointCloud2 { height: 1, ..good }, ErrorKind::Layout),
        (CompressedPointCloud2 { point_step: 22, ..good }, ErrorKind::Layout),
        (CompressedPointCloud2 { fields: fields(&all), ..good }, ErrorKind::Layout),
        (CompressedPointCloud2 { width: u32::MAX, height: u32::MAX, ..good }, ErrorKind::TooLarge),
    ] {
        let error = unpack(&packed).unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
    }
    for len in 0..payload.len() {
        assert!(unpack(&cloudini(&payload[..len])).is_err(), "{len}");
    }
    let longer = [&payload[..], &[1, 0, 0, 0, 0]].concat();
    assert_eq!(unpack(&cloudini(&longer)).unwrap_err().kind(), ErrorKind::CloudCodec);
}
