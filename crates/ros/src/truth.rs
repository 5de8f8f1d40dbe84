//! Ground truth as messages: a detection array and a table of attributes.
//!
//! `vision_msgs` has no fields for velocity and visibility. Each truth topic
//! therefore has a companion, `<topic>/attributes`: a `PointCloud2` with the same
//! stamp and one row per detection in the same order. Its fields are the
//! attributes. Every tool reads a table in this form.
//!
//! | array | fields of its companion |
//! |---|---|
//! | `Detection3DArray` | `x y z` centre (m) · `vx vy` (m/s) · `track_id` · `num_points` or `num_pixels` · `visibility` |
//! | `Detection2DArray` | `x y` centre (pixels) · `track_id` · `visibility` · `truncation` · `num_pixels` |
//!
//! Counts and ids are written as `uint32`, all others as `float32`. All datatypes
//! are read, in any order and either byte order. The `id` of a detection is its
//! `track_id` in decimal; its score is 1. The box of a `Detection2DArray` is rotated
//! if `theta` is not 0.

use crate::messages::{
    Detection2D, Detection2DArray, Detection3D, Detection3DArray, Hypothesis, PointCloud2, Pose,
};
use det_post_types::{
    Box3d, CloudView, Datatype, Error, ErrorKind, Evidence, Header, ImageBox, PointField,
    PointFields, Result, Truth2d, Truth3d,
};

/// The suffix that makes the companion topic of a truth topic.
pub const ATTRIBUTES_SUFFIX: &str = "/attributes";

const STAGE: &str = "truth";
const F32: u8 = 7;
const U32: u8 = 6;

/// The columns of a table in the order of writing, each of four bytes.
type Columns<const N: usize> = [(&'static str, u8); N];

const NUM_POINTS: &str = "num_points";
const NUM_PIXELS: &str = "num_pixels";

/// The columns of objects in space, whose evidence has a name.
const fn columns_3d(evidence: &'static str) -> Columns<8> {
    [
        ("x", F32),
        ("y", F32),
        ("z", F32),
        ("vx", F32),
        ("vy", F32),
        ("track_id", U32),
        (evidence, U32),
        ("visibility", F32),
    ]
}

const COLUMNS_2D: Columns<6> = [
    ("x", F32),
    ("y", F32),
    ("track_id", U32),
    ("visibility", F32),
    ("truncation", F32),
    (NUM_PIXELS, U32),
];

/// Encodes objects in space as a `Detection3DArray` and its companion, replacing
/// the content of both buffers. The evidence of all objects is that of the first, of none
/// points.
///
/// # Errors
/// `Message` when a message exceeds 4 GiB or objects differ in the kind of their evidence.
pub fn encode_3d(
    header: &Header<'_>,
    objects: &[Truth3d<'_>],
    detections: &mut Vec<u8>,
    attributes: &mut Vec<u8>,
) -> Result<()> {
    let ids: Vec<String> = objects.iter().map(|object| object.track_id.to_string()).collect();
    let messages: Vec<Detection3D<'_>> = objects
        .iter()
        .zip(&ids)
        .map(|(object, id)| {
            let bbox = &object.bbox;
            let center = Pose::from_yaw(bbox.center.map(f64::from), bbox.yaw_rad.into());
            Detection3D {
                header: *header,
                best: Some(certain(object.class_name, center)),
                center,
                size: [bbox.length_m, bbox.width_m, bbox.height_m].map(f64::from),
                id,
            }
        })
        .collect();
    Detection3DArray::encode_as_is(header, &messages, detections)?;
    let kind = objects.first().map_or(NUM_POINTS, |object| evidence_of(object).0);
    if objects.iter().any(|object| evidence_of(object).0 != kind) {
        return Err(refuse("one message cannot hold objects with points and with pixels".into()));
    }
    let rows = objects.iter().map(|object| {
        let [x, y, z] = object.bbox.center;
        let [vx, vy] = object.velocity_mps;
        let [x, y, z, vx, vy, visibility] =
            [x, y, z, vx, vy, object.visibility].map(f32::to_le_bytes);
        let [track_id, evidence] = [object.track_id, evidence_of(object).1].map(u32::to_le_bytes);
        [x, y, z, vx, vy, track_id, evidence, visibility]
    });
    encode_table(header, columns_3d(kind), rows, attributes)
}

/// Decodes the messages of [`encode_3d`]. Class names are borrowed.
///
/// # Errors
/// `Message` when the two differ in stamp, number of rows or ids; when a
/// detection has no class, or an integer of the table is negative or not a
/// number. `PointField` when a field of the table is missing or unusable. Those
/// of decoding.
pub fn decode_3d<'a>(
    detections: &'a [u8],
    attributes: &[u8],
) -> Result<(Header<'a>, Vec<Truth3d<'a>>)> {
    let array = Detection3DArray::decode(detections)?;
    let is_of_images = PointCloud2::decode(attributes)?.fields.find(&[NUM_PIXELS]).is_some();
    let kind = if is_of_images { NUM_PIXELS } else { NUM_POINTS };
    let table = Table::open(attributes, &array.header, array.detections.len(), columns_3d(kind))?;
    let mut objects = Vec::new();
    for (row, detection) in array.detections.enumerate() {
        let detection = detection?;
        let [_, _, _, vx, vy, track_id, evidence, visibility] = table.row(row);
        let track_id = checked_track_id(detection.id, track_id)?;
        let [length_m, width_m, height_m] = detection.size.map(|value| value as f32);
        let evidence = whole(kind, evidence)?;
        objects.push(Truth3d {
            class_name: class_name(detection.best.as_ref())?,
            track_id,
            bbox: Box3d {
                center: detection.center.position.map(|value| value as f32),
                length_m,
                width_m,
                height_m,
                yaw_rad: detection.center.yaw_rad() as f32,
            },
            velocity_mps: [vx as f32, vy as f32],
            evidence: match is_of_images {
                true => Evidence::Pixels(evidence),
                false => Evidence::Points(evidence),
            },
            visibility: visibility as f32,
        });
    }
    Ok((array.header, objects))
}

/// Encodes objects in an image as a `Detection2DArray` and its companion,
/// replacing the content of both buffers.
///
/// # Errors
/// `Message` when a message exceeds 4 GiB.
pub fn encode_2d<B: Copy + Into<ImageBox>>(
    header: &Header<'_>,
    objects: &[Truth2d<'_, B>],
    detections: &mut Vec<u8>,
    attributes: &mut Vec<u8>,
) -> Result<()> {
    let ids: Vec<String> = objects.iter().map(|object| object.track_id.to_string()).collect();
    let messages: Vec<Detection2D<'_>> = objects
        .iter()
        .zip(&ids)
        .map(|(object, id)| {
            let best = certain(object.class_name, Pose::from_yaw([0.0; 3], 0.0));
            Detection2D::new(*header, Some(best), object.bbox.into(), id)
        })
        .collect();
    Detection2DArray::encode_as_is(header, &messages, detections)?;
    let rows = objects.iter().zip(&messages).map(|(object, message)| {
        let center = message.center.map(|value| (value as f32).to_le_bytes());
        let [visibility, truncation] = [object.visibility, object.truncation].map(f32::to_le_bytes);
        let [track_id, num_pixels] = [object.track_id, object.num_pixels].map(u32::to_le_bytes);
        [center[0], center[1], track_id, visibility, truncation, num_pixels]
    });
    encode_table(header, COLUMNS_2D, rows, attributes)
}

/// Decodes the messages of [`encode_2d`]. Class names are borrowed.
///
/// # Errors
/// As [`decode_3d`].
pub fn decode_2d<'a>(
    detections: &'a [u8],
    attributes: &[u8],
) -> Result<(Header<'a>, Vec<Truth2d<'a, ImageBox>>)> {
    let array = Detection2DArray::decode(detections)?;
    let table = Table::open(attributes, &array.header, array.detections.len(), COLUMNS_2D)?;
    let mut objects = Vec::new();
    for (row, detection) in array.detections.enumerate() {
        let detection = detection?;
        let [_, _, track_id, visibility, truncation, num_pixels] = table.row(row);
        objects.push(Truth2d {
            class_name: class_name(detection.best.as_ref())?,
            track_id: checked_track_id(detection.id, track_id)?,
            bbox: detection.bbox(),
            visibility: visibility as f32,
            truncation: truncation as f32,
            num_pixels: whole("num_pixels", num_pixels)?,
        });
    }
    Ok((array.header, objects))
}

fn certain(class_id: &str, pose: Pose) -> Hypothesis<'_> {
    Hypothesis { class_id, score: 1.0, pose, covariance: [0.0; 36] }
}

/// The name of an object's evidence, and its number.
fn evidence_of(object: &Truth3d<'_>) -> (&'static str, u32) {
    match object.evidence {
        Evidence::Points(count) => (NUM_POINTS, count),
        Evidence::Pixels(count) => (NUM_PIXELS, count),
    }
}

fn refuse(message: String) -> Error {
    Error::new(ErrorKind::Message, STAGE, message)
}

fn class_name<'a>(best: Option<&Hypothesis<'a>>) -> Result<&'a str> {
    best.map(|best| best.class_id).ok_or_else(|| refuse("a detection has no class".into()))
}

/// An unsigned integer of the table.
fn whole(name: &str, value: f64) -> Result<u32> {
    if value >= 0.0 && value <= f64::from(u32::MAX) && value.fract() == 0.0 {
        Ok(value as u32)
    } else {
        Err(refuse(format!("{name} is {value}; 0 to {} are allowed", u32::MAX)))
    }
}

fn checked_track_id(id: &str, value: f64) -> Result<u32> {
    let track_id = whole("track_id", value)?;
    match id.parse::<u32>() {
        Ok(parsed) if parsed == track_id => Ok(track_id),
        _ => Err(refuse(format!(
            "a detection has an id of {} bytes that is not its track id {track_id}",
            id.len()
        ))),
    }
}

fn encode_table<const N: usize>(
    header: &Header<'_>,
    columns: Columns<N>,
    rows: impl ExactSizeIterator<Item = [[u8; 4]; N]>,
    bytes: &mut Vec<u8>,
) -> Result<()> {
    let mut fields = PointFields::new();
    for (column, (name, datatype)) in columns.into_iter().enumerate() {
        fields.push(PointField { name, offset: 4 * column as u32, datatype, count: 1 })?;
    }
    let (num_rows, row_bytes) = (rows.len(), 4 * N);
    let mut data = Vec::with_capacity(num_rows * row_bytes);
    rows.for_each(|row| data.extend_from_slice(row.as_flattened()));
    let table = PointCloud2 {
        header: *header,
        height: 1,
        width: num_rows as u32,
        fields,
        is_bigendian: false,
        point_step: row_bytes as u32,
        row_step: data.len() as u32,
        data: &data,
        is_dense: true,
    };
    table.encode(bytes)
}

/// The columns of a companion, checked.
struct Table<'a, const N: usize> {
    view: CloudView<'a>,
    columns: [(usize, Datatype); N],
}

impl<'a, const N: usize> Table<'a, N> {
    /// The table of `num_rows` rows that belongs to an array with `header`.
    fn open(
        bytes: &'a [u8],
        header: &Header<'_>,
        num_rows: usize,
        columns: Columns<N>,
    ) -> Result<Self> {
        let message = PointCloud2::decode(bytes)?;
        let view = message.view()?;
        let found = (message.header.stamp, view.num_points());
        if found != (header.stamp, num_rows) {
            return Err(refuse(format!(
                "{} attributes at {} do not belong to {num_rows} detections at {}",
                found.1, found.0, header.stamp
            )));
        }
        let mut wanted = [(0, Datatype::U8); N];
        for (column, (name, _)) in wanted.iter_mut().zip(columns) {
            let field = view.fields().find(&[name]).and_then(|field| {
                let datatype = Datatype::from_ros(field.datatype)?;
                let end = (field.offset as usize).checked_add(datatype.size())?;
                let usable = field.count > 0 && (end <= view.point_step() || num_rows == 0);
                usable.then_some((field.offset as usize, datatype))
            });
            *column = field.ok_or_else(|| {
                let message = format!("the attributes have no usable field {name}");
                Error::new(ErrorKind::PointField, STAGE, message)
            })?;
        }
        Ok(Self { view, columns: wanted })
    }

    /// The values of a row below the `num_rows` of [`Table::open`].
    fn row(&self, row: usize) -> [f64; N] {
        let (line, column) = (row / self.view.width(), row % self.view.width());
        let point = &self.view.row(line)[column * self.view.point_step()..];
        self.columns.map(|(offset, datatype)| {
            number(&point[offset..offset + datatype.size()], datatype, self.view.is_big_endian())
        })
    }
}

/// The value of a field. `f64` represents every datatype exactly.
fn number(bytes: &[u8], datatype: Datatype, big_endian: bool) -> f64 {
    let mut little = [0; 8];
    little[..bytes.len()].copy_from_slice(bytes);
    if big_endian {
        little[..bytes.len()].reverse();
    }
    let [a, b, c, d, ..] = little;
    match datatype {
        Datatype::I8 => f64::from(a as i8),
        Datatype::U8 => f64::from(a),
        Datatype::I16 => f64::from(i16::from_le_bytes([a, b])),
        Datatype::U16 => f64::from(u16::from_le_bytes([a, b])),
        Datatype::I32 => f64::from(i32::from_le_bytes([a, b, c, d])),
        Datatype::U32 => f64::from(u32::from_le_bytes([a, b, c, d])),
        Datatype::F32 => f64::from(f32::from_le_bytes([a, b, c, d])),
        Datatype::F64 => f64::from_le_bytes(little),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{Box2d, RotatedBox2d, Stamp};

    const HEADER: Header<'_> = Header { stamp: Stamp::from_ros(12, 34), frame_id: "lidar_0" };

    fn object_3d(i: u16) -> Truth3d<'static> {
        let f = f32::from(i);
        Truth3d {
            class_name: ["car", "pedestrian"][usize::from(i) % 2],
            track_id: u32::MAX - u32::from(i),
            bbox: Box3d {
                center: [f, -2.25 * f, 0.5],
                length_m: 4.0 + f,
                width_m: 2.0,
                height_m: 1.5,
                yaw_rad: 0.25 * f,
            },
            velocity_mps: [0.1 * f, -7.0],
            evidence: Evidence::Points(u32::from(i) * 1000),
            visibility: 0.125 * f,
        }
    }

    fn object_2d(i: u16) -> Truth2d<'static, ImageBox> {
        let f = f32::from(i);
        let aligned = Box2d::new(10.0 * f, 20.0, 10.0 * f + 7.5, 31.0);
        let rotated =
            RotatedBox2d { cx: 10.0 * f, cy: 20.0, width: 7.5, height: 3.0, angle_rad: 0.3 * f };
        Truth2d {
            class_name: ["bus", "bicycle"][usize::from(i) % 2],
            track_id: u32::from(i),
            bbox: if i.is_multiple_of(2) { aligned.into() } else { rotated.into() },
            visibility: 0.25 * f,
            truncation: 0.5,
            num_pixels: 99 + u32::from(i),
        }
    }

    /// A companion with reversed columns, as big-endian doubles.
    fn as_big_endian_doubles(table: &[u8], bytes: &mut Vec<u8>) {
        let table = PointCloud2::decode(table).unwrap();
        let view = table.view().unwrap();
        let (mut fields, mut data) = (PointFields::new(), Vec::new());
        for (i, field) in table.fields.as_slice().iter().rev().enumerate() {
            let field = PointField { offset: 8 * i as u32, datatype: 8, ..*field };
            fields.push(field).unwrap();
        }
        for point in view.data().chunks_exact(view.point_step()) {
            for field in table.fields.as_slice().iter().rev() {
                let value = &point[field.offset as usize..][..4];
                let datatype = Datatype::from_ros(field.datatype).unwrap();
                data.extend_from_slice(&number(value, datatype, false).to_be_bytes());
            }
        }
        let point_step = 8 * fields.as_slice().len() as u32;
        let row_step = data.len() as u32;
        let other =
            PointCloud2 { fields, data: &data, point_step, row_step, is_bigendian: true, ..table };
        other.encode(bytes).unwrap();
    }

    #[test]
    fn objects_in_space_round_trip() {
        let objects: Vec<_> = (0..5).map(object_3d).collect();
        let (mut detections, mut table, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..=objects.len() {
            encode_3d(&HEADER, &objects[..n], &mut detections, &mut table).unwrap();
            as_big_endian_doubles(&table, &mut other);
            for table in [&table, &other] {
                let (header, decoded) = decode_3d(&detections, table).unwrap();
                assert_eq!((header, &decoded[..]), (HEADER, &objects[..n]));
            }
            let array = Detection3DArray::decode(&detections).unwrap();
            for (found, expected) in array.detections.map(Result::unwrap).zip(&objects) {
                assert_eq!(found.id, expected.track_id.to_string());
                assert_eq!(found.best.unwrap().pose, found.center);
            }
        }
    }

    #[test]
    fn objects_in_an_image_round_trip() {
        let objects: Vec<_> = (0..5).map(object_2d).collect();
        let (mut detections, mut table, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..=objects.len() {
            encode_2d(&HEADER, &objects[..n], &mut detections, &mut table).unwrap();
            as_big_endian_doubles(&table, &mut other);
            for table in [&table, &other] {
                let (header, decoded) = decode_2d(&detections, table).unwrap();
                assert_eq!((header, &decoded[..]), (HEADER, &objects[..n]));
            }
        }
    }

    #[test]
    fn mismatched_messages_are_refused() {
        let (mut detections, mut table) = (Vec::new(), Vec::new());
        let (mut other, mut unused) = (Vec::new(), Vec::new());
        encode_3d(&HEADER, &[object_3d(1), object_3d(2)], &mut detections, &mut table).unwrap();
        let later = Header { stamp: Stamp::from_ros(12, 35), ..HEADER };
        let cases: [(Header<'_>, &[Truth3d<'_>]); 3] = [
            (HEADER, &[object_3d(1)]),
            (HEADER, &[object_3d(2), object_3d(1)]),
            (later, &[object_3d(1), object_3d(2)]),
        ];
        for (header, objects) in cases {
            encode_3d(&header, objects, &mut unused, &mut other).unwrap();
            let error = decode_3d(&detections, &other).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Message, "{error}");
        }
        encode_2d(&HEADER, &[object_2d(1), object_2d(2)], &mut unused, &mut other).unwrap();
        let error = decode_3d(&detections, &other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PointField, "{error}");
    }

    #[test]
    fn counts_are_unsigned_integers() {
        assert_eq!(whole("n", 0.0).unwrap(), 0);
        assert_eq!(whole("n", 4_294_967_295.0).unwrap(), u32::MAX);
        for wrong in [-1.0, 0.5, 4_294_967_296.0, f64::NAN, f64::INFINITY] {
            assert!(whole("n", wrong).is_err(), "{wrong}");
        }
    }
}
