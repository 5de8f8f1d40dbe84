//! `sensor_msgs/PointCloud2`.

use super::field::{Field, message, record};
use crate::cdr::{Reader, Writer};
use det_post_types::{CloudView, Error, ErrorKind, Header, PointField, PointFields, Result};

/// Bytes of the shortest `PointField`.
const MIN_FIELD_SIZE: usize = 16;

/// The maximum length of a field name, which errors quote.
const MAX_FIELD_NAME_LEN: usize = 128;

record! {
    /// `sensor_msgs/PointCloud2` as in the message, unchecked.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct PointCloud2<'a> {
        /// Stamp and frame.
        pub header: Header<'a>,
        /// Rows; 1 for an unorganised cloud.
        pub height: u32,
        /// Points per row.
        pub width: u32,
        /// The fields of a point.
        pub fields: PointFields<'a>,
        /// Whether values are big endian.
        pub is_bigendian: bool,
        /// Bytes from one point to the next.
        pub point_step: u32,
        /// Bytes from one row to the next.
        pub row_step: u32,
        /// The points.
        pub data: &'a [u8],
        /// Whether the sender states that all points are finite.
        pub is_dense: bool,
    }
}

message! {
    /// `PointField` when it has too many fields or one with too long a name.
    PointCloud2<'a>: "sensor_msgs/msg/PointCloud2"
}

impl<'a> PointCloud2<'a> {
    /// The points, checked. The operation that reads the fields checks those.
    ///
    /// # Errors
    /// `Layout` when the sizes contradict each other or the data.
    pub fn view(&self) -> Result<CloudView<'a>> {
        CloudView::new(
            [self.width, self.height],
            [self.point_step, self.row_step],
            self.is_bigendian,
            self.fields,
            self.data,
        )
    }
}

impl PointCloud2<'_> {
    /// Writes the message up to the first of `num_bytes` of its data, which are not its own.
    pub(crate) fn write_up_to_data(&self, num_bytes: usize, writer: &mut Writer<'_>) {
        self.header.write(writer);
        writer.u32(self.height);
        writer.u32(self.width);
        self.fields.write(writer);
        writer.bool(self.is_bigendian);
        writer.u32(self.point_step);
        writer.u32(self.row_step);
        writer.sequence_len(num_bytes);
    }
}

impl<'a> Field<'a> for PointFields<'a> {
    const MIN_SIZE: usize = 4;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let mut fields = Self::new();
        for _ in 0..reader.sequence_len(MIN_FIELD_SIZE)? {
            fields.push(read_field(reader)?)?;
        }
        Ok(fields)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.sequence(self.as_slice(), |writer, field| {
            writer.str(field.name);
            writer.u32(field.offset);
            writer.u8(field.datatype);
            writer.u32(field.count);
        });
    }
}

fn read_field<'a>(reader: &mut Reader<'a>) -> Result<PointField<'a>> {
    let name = reader.str()?;
    if name.len() > MAX_FIELD_NAME_LEN {
        return Err(Error::new(
            ErrorKind::PointField,
            "cloud",
            format!(
                "a field name of {} bytes exceeds the limit of {MAX_FIELD_NAME_LEN}",
                name.len()
            ),
        ));
    }
    Ok(PointField { name, offset: reader.u32()?, datatype: reader.u8()?, count: reader.u32()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{MAX_POINT_FIELDS, Stamp};

    fn cloud<'a>(names: &[&'a str], data: &'a [u8]) -> PointCloud2<'a> {
        let mut fields = PointFields::new();
        for (i, name) in names.iter().enumerate() {
            let datatype = 1 + (i % 8) as u8;
            fields.push(PointField { name, offset: 5 * i as u32, datatype, count: 1 }).unwrap();
        }
        PointCloud2 {
            header: Header { stamp: Stamp::from_ros(9, 1), frame_id: "lidar" },
            height: 2,
            width: 3,
            fields,
            is_bigendian: true,
            point_step: 7,
            row_step: 22,
            data,
            is_dense: true,
        }
    }

    #[test]
    fn a_cloud_round_trips() {
        let data: Vec<u8> = (0..43).collect();
        let names: Vec<String> = (0..MAX_POINT_FIELDS).map(|i| "f".repeat(i)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for num_fields in [0, 1, 5, MAX_POINT_FIELDS] {
            let message = cloud(&names[..num_fields], &data);
            let mut bytes = Vec::new();
            message.encode(&mut bytes).unwrap();
            let decoded = PointCloud2::decode(&bytes).unwrap();
            assert_eq!(decoded.fields.as_slice(), message.fields.as_slice());
            assert_eq!(decoded.header, message.header);
            assert!(decoded.is_dense && decoded.is_bigendian);
            let view = decoded.view().unwrap();
            assert_eq!((view.width(), view.height()), (3, 2));
            assert_eq!((view.point_step(), view.row_step()), (7, 22));
            assert_eq!(view.row(1), &data[22..43]);
            assert!(bytes.as_ptr_range().contains(&view.data().as_ptr()));
        }
    }

    #[test]
    fn too_many_fields_and_too_long_names_are_refused() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        Header::default().write(&mut writer);
        writer.u32(1);
        writer.u32(0);
        writer.sequence_len(MAX_POINT_FIELDS + 1);
        for _ in 0..=MAX_POINT_FIELDS {
            writer.str("x");
            writer.u32(0);
            writer.u8(7);
            writer.u32(1);
        }
        writer.finish("test").unwrap();
        assert_eq!(PointCloud2::decode(&bytes).unwrap_err().kind(), ErrorKind::PointField);

        let name = "x".repeat(MAX_FIELD_NAME_LEN + 1);
        cloud(&[&name], &[]).encode(&mut bytes).unwrap();
        assert_eq!(PointCloud2::decode(&bytes).unwrap_err().kind(), ErrorKind::PointField);
        cloud(&[&name[1..]], &[]).encode(&mut bytes).unwrap();
        assert!(PointCloud2::decode(&bytes).is_ok());
    }

    #[test]
    fn short_data_is_a_layout_error() {
        let error = cloud(&[], &[0; 42]).view().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Layout, "{error}");
    }
}
