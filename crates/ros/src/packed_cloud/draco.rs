//! Draco: each field of a cloud is an attribute, in the order of the fields.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::codec::{STAGE, contradicts, undecodable};
use crate::messages::CompressedPointCloud2;
use det_post_types::{Datatype, Error, ErrorKind, PointField, Result};
use draco_core::{
    DataType, DecodeLimits, DecoderBuffer, PointAttribute, PointCloud, PointCloudDecoder,
    PointIndex,
};

/// Writes the points of a message to its data.
pub(super) fn decode(message: &CompressedPointCloud2<'_>, data: &mut [u8]) -> Result<()> {
    let fields = message.fields.as_slice();
    let num_points = message.width as usize * message.height as usize;
    let spans = fields.iter().map(|field| Span::of(field, message.point_step));
    let spans = spans.collect::<Result<Vec<Span>>>()?;
    let point_bytes: usize = spans.iter().map(|span| span.num_bytes).sum();
    let limits = DecodeLimits::default()
        .with_max_points(num_points as u64)
        .with_max_faces(0)
        .with_max_decoded_bytes(num_points.saturating_mul(point_bytes) as u64);
    let cloud = decode_within(message.compressed_data, limits)?;
    if cloud.num_points() != num_points {
        let found = cloud.num_points();
        return Err(contradicts(format!("draco: {found} points, the message has {num_points}")));
    }
    let num_attributes = usize::try_from(cloud.num_attributes()).unwrap_or(0);
    if num_attributes != fields.len() {
        let num_fields = fields.len();
        let message =
            format!("draco: {num_attributes} attributes, the message has {num_fields} fields");
        return Err(contradicts(message));
    }
    data.fill(0);
    for (index, (field, span)) in fields.iter().zip(&spans).enumerate() {
        let attribute = cloud.try_attribute(index as i32).map_err(failed)?;
        if !is_of(attribute, field, span) {
            let (found, num) = (attribute.data_type(), attribute.num_components());
            let (name, datatype, count) = (field.name, span.datatype, field.count);
            return Err(contradicts(format!(
                "draco: the attribute of field {name} has {num} {found:?}, the field {count} {datatype:?}"
            )));
        }
        copy(attribute, span, data.chunks_exact_mut(message.point_step as usize))?;
    }
    Ok(())
}

/// Decodes, with a panic of the library as an error: it reads hostile bytes.
fn decode_within(payload: &[u8], limits: DecodeLimits) -> Result<PointCloud> {
    let decoded = catch_unwind(AssertUnwindSafe(|| {
        let mut cloud = PointCloud::new();
        let mut buffer = DecoderBuffer::new(payload).with_limits(limits);
        PointCloudDecoder::new().decode(&mut buffer, &mut cloud).map(|()| cloud)
    }));
    decoded.map_err(|_| undecodable("draco: the decoder panicked"))?.map_err(failed)
}

fn failed(error: draco_core::DracoError) -> Error {
    undecodable("draco").with_source(error)
}

/// Where a field is in a point.
struct Span {
    datatype: Datatype,
    offset: usize,
    num_bytes: usize,
}

impl Span {
    fn of(field: &PointField<'_>, point_step: u32) -> Result<Self> {
        let unusable = || {
            let message =
                format!("draco: field {field:?} is not within a point of {point_step} bytes");
            Error::new(ErrorKind::PointField, STAGE, message)
        };
        let datatype = Datatype::from_ros(field.datatype).ok_or_else(unusable)?;
        let num_bytes = datatype.size().saturating_mul(field.count as usize);
        let (offset, point_step) = (field.offset as usize, point_step as usize);
        match offset.checked_add(num_bytes).is_some_and(|end| num_bytes > 0 && end <= point_step) {
            true => Ok(Self { datatype, offset, num_bytes }),
            false => Err(unusable()),
        }
    }
}

/// Whether an attribute has the values of a field. Colours are four bytes or four 16-bit numbers in place
/// of one number of that size.
fn is_of(attribute: &PointAttribute, field: &PointField<'_>, span: &Span) -> bool {
    let (found, num_components) = (attribute.data_type(), u32::from(attribute.num_components()));
    let expected = match span.datatype {
        Datatype::I8 => DataType::Int8,
        Datatype::U8 => DataType::Uint8,
        Datatype::I16 => DataType::Int16,
        Datatype::U16 => DataType::Uint16,
        Datatype::I32 => DataType::Int32,
        Datatype::U32 => DataType::Uint32,
        Datatype::F32 => DataType::Float32,
        Datatype::F64 => DataType::Float64,
    };
    let part = match span.datatype.size() {
        4 => Some(DataType::Uint8),
        8 => Some(DataType::Uint16),
        _ => None,
    };
    (found == expected && num_components == field.count)
        || (Some(found) == part && field.count.checked_mul(4) == Some(num_components))
}

/// Copies the values of an attribute to their field of all points.
fn copy<'d>(
    attribute: &PointAttribute,
    span: &Span,
    points: impl Iterator<Item = &'d mut [u8]>,
) -> Result<()> {
    let values = attribute.buffer().data();
    let Span { offset, num_bytes, .. } = *span;
    for (index, point) in points.enumerate() {
        let value = attribute.mapped_index(PointIndex(index as u32)).0 as usize;
        let value =
            value.checked_mul(num_bytes).and_then(|start| values.get(start..)?.get(..num_bytes));
        let value =
            value.ok_or_else(|| undecodable(format!("draco: point {index} has no value")))?;
        point[offset..offset + num_bytes].copy_from_slice(value);
    }
    Ok(())
}
