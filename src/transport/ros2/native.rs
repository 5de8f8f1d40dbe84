//! Messages as C structs of the middleware, lent without a copy.

use r2r::sensor_msgs::msg::{CompressedImage, Image, PointCloud2};
use r2r::{NativeMsg, WrappedTypesupport};

use crate::error::{Error, ErrorKind, Result};
use crate::transport::door::{Received, Receiver};
use crate::transport::messages;
use crate::types::{Header, ImagePayload, PointField, PointFields, Stamp};

/// A message type whose C struct can be lent to a receiver.
pub(super) trait Native: WrappedTypesupport {
    /// Hands the message over, or the reason why it cannot be used.
    fn lend(message: &NativeMsg<Self>, receiver: &mut Receiver);
}

impl Native for Image {
    fn lend(message: &NativeMsg<Self>, receiver: &mut Receiver) {
        let view = || {
            let image = messages::Image {
                header: header(&message.header, messages::Image::TYPE)?,
                height: message.height,
                width: message.width,
                encoding: text(&message.encoding, messages::Image::TYPE)?,
                is_bigendian: message.is_bigendian != 0,
                step: message.step,
                data: slice(message, message.data.data, message.data.size),
            };
            Ok((image.header, ImagePayload::Raw(image.view()?)))
        };
        receiver(view().map(|(header, payload)| Received::Picture { header, payload }));
    }
}

impl Native for CompressedImage {
    fn lend(message: &NativeMsg<Self>, receiver: &mut Receiver) {
        const TYPE: &str = messages::CompressedImage::TYPE;
        let view = || {
            let file = messages::CompressedImage {
                header: header(&message.header, TYPE)?,
                format: text(&message.format, TYPE)?,
                data: slice(message, message.data.data, message.data.size),
            };
            Ok((file.header, ImagePayload::Compressed(file.view()?)))
        };
        receiver(view().map(|(header, payload)| Received::Picture { header, payload }));
    }
}

impl Native for PointCloud2 {
    fn lend(message: &NativeMsg<Self>, receiver: &mut Receiver) {
        const TYPE: &str = messages::PointCloud2::TYPE;
        let view = || {
            let mut fields = PointFields::new();
            for field in slice(message, message.fields.data, message.fields.size) {
                fields.push(PointField {
                    name: text(&field.name, TYPE)?,
                    offset: field.offset,
                    datatype: field.datatype,
                    count: field.count,
                })?;
            }
            let cloud = messages::PointCloud2 {
                header: header(&message.header, TYPE)?,
                height: message.height,
                width: message.width,
                fields,
                is_bigendian: message.is_bigendian,
                point_step: message.point_step,
                row_step: message.row_step,
                data: slice(message, message.data.data, message.data.size),
                is_dense: message.is_dense,
            };
            Ok((cloud.header, cloud.view()?))
        };
        match view() {
            Ok((header, view)) => receiver(Ok(Received::Cloud { header, view: &view })),
            Err(error) => receiver(Err(error)),
        }
    }
}

/// The C struct of a string.
type NativeString = r2r_rcl::rosidl_runtime_c__String;
/// The C struct of `std_msgs/Header`.
type NativeHeader = <r2r::std_msgs::msg::Header as WrappedTypesupport>::CStruct;

fn header<'a>(header: &'a NativeHeader, type_name: &str) -> Result<Header<'a>> {
    Ok(Header {
        stamp: Stamp::from_ros(header.stamp.sec, header.stamp.nanosec),
        frame_id: text(&header.frame_id, type_name)?,
    })
}

/// A string of the middleware.
fn text<'a>(string: &'a NativeString, type_name: &str) -> Result<&'a str> {
    let bytes = slice(string, string.data.cast::<u8>().cast_const(), string.size);
    std::str::from_utf8(bytes).map_err(|cause| {
        let message = format!("{type_name}: a string of {} bytes is not UTF-8", bytes.len());
        Error::new(ErrorKind::Message, "ros2", message).with_source(cause)
    })
}

/// The sequence at `data` that `owner`, a message or a part of one, owns.
fn slice<O, T>(_owner: &O, data: *const T, len: usize) -> &[T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: `data` and `len` are the fields of a sequence or a string of
    // `owner`, which the middleware has filled: `len` initialised elements, in
    // memory that is freed with `owner` and not written while it is borrowed.
    unsafe { std::slice::from_raw_parts(data, len) }
}
