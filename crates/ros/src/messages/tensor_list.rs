//! `isaac_ros_tensor_list_interfaces/TensorList`.

use super::field::Field;
use crate::cdr::{Reader, Writer};
use det_post_types::{
    Error, ErrorKind, Header, MAX_RANK, ReceivedTensors, Result, Span, TensorEntries, TensorEntry,
    TensorType,
};

/// Bytes of the shortest `Tensor`: name, rank, dims, type, strides, data.
const MIN_TENSOR_SIZE: usize = 4 + 1 + 4 + 4 + 4 + 4;

/// `isaac_ros_tensor_list_interfaces/TensorList`.
#[derive(Clone, Debug)]
pub struct TensorList<'a> {
    /// Stamp and frame.
    pub header: Header<'a>,
    /// The tensors.
    pub tensors: ReceivedTensors<'a>,
}

impl<'a> TensorList<'a> {
    /// The ROS name.
    pub const TYPE: &'static str = "isaac_ros_tensor_list_interfaces/msg/TensorList";

    /// Decodes a message and checks its tensors: known types, row-major strides in bytes, as
    /// many bytes as the shape asks for.
    ///
    /// # Errors
    /// `Message` when the bytes are not such a message, `Layout` when a tensor has a type that
    /// is not known, more than [`MAX_RANK`] dimensions, other strides, or other data than its
    /// shape asks for, or when there are more than [`MAX_TENSORS`](det_post_types::MAX_TENSORS)
    /// tensors.
    pub fn decode(cdr: &'a [u8]) -> Result<Self> {
        Self::read(Reader::new(Self::TYPE, cdr)?)
    }

    /// As [`Self::decode`], after the encapsulation header.
    ///
    /// # Errors
    /// As [`Self::decode`].
    pub fn read(mut reader: Reader<'a>) -> Result<Self> {
        let header = Field::read(&mut reader)?;
        let num_tensors = reader.sequence_len(MIN_TENSOR_SIZE)?;
        let bytes = reader.rest();
        let mut entries = TensorEntries::default();
        for index in 0..num_tensors {
            let entry = read_tensor(&mut reader, index, bytes.len())?;
            entries.push(entry)?;
        }
        Ok(Self { header, tensors: ReceivedTensors::new(entries, bytes)? })
    }

    /// Encodes tensors, each a name, a type, a shape and its bytes, into `bytes`, replacing the
    /// content.
    ///
    /// # Errors
    /// `Message` when the message would have 4 GiB or more.
    pub fn encode(
        header: &Header<'_>,
        tensors: &[(&str, TensorType, &[u32], &[u8])],
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let mut writer = Writer::new(bytes);
        header.write(&mut writer);
        writer.sequence(tensors, |writer, (name, element, shape, data)| {
            writer.str(name);
            writer.u8(shape.len() as u8);
            writer.sequence(shape, |writer, dim| writer.u32(*dim));
            writer.i32(element.number());
            writer.sequence_len(shape.len());
            for axis in 1..=shape.len() {
                let stride = shape[axis..].iter().map(|dim| u64::from(*dim)).product::<u64>();
                writer.u64(stride * element.size() as u64);
            }
            writer.bytes(data);
        });
        writer.finish(Self::TYPE)
    }
}

/// Reads tensor number `index` of a list that has `len` bytes from its first tensor on.
fn read_tensor(reader: &mut Reader<'_>, index: usize, len: usize) -> Result<TensorEntry> {
    let refuse = |message: String| {
        let message = format!("tensor {index} {message}");
        Err(Error::new(ErrorKind::Layout, TensorList::TYPE, message))
    };
    let name = reader.str()?;
    // A terminator follows the text, where there is one.
    let name_end = len - reader.remaining();
    let name_start = name_end.saturating_sub(name.len() + 1);
    let rank = reader.u8()?;
    let num_dims = reader.sequence_len(4)?;
    if num_dims > MAX_RANK {
        return refuse(format!("has {num_dims} dimensions, more than the limit of {MAX_RANK}"));
    }
    if usize::from(rank) != num_dims {
        return refuse(format!("has the rank {rank} and {num_dims} dimensions"));
    }
    let mut dims = [0; MAX_RANK];
    for dim in &mut dims[..num_dims] {
        *dim = reader.u32()? as usize;
    }
    let number = reader.i32()?;
    let Some(element) = TensorType::from_number(number) else {
        return refuse(format!("has the data type {number}; 1 (int8) to 10 (float64) are known"));
    };
    let shape = &dims[..num_dims];
    let num_strides = reader.sequence_len(8)?;
    if num_strides != num_dims {
        return refuse(format!("has {num_strides} strides and {num_dims} dimensions"));
    }
    for axis in 0..num_strides {
        let stride = reader.u64()?;
        let expected = stride_of(shape, axis, element);
        // The stride of an axis of one element has no effect.
        if shape[axis] != 1 && expected != Some(stride) {
            let element = element.name();
            return refuse(format!(
                "{element} {shape:?} has the stride {stride} on axis {axis}; row-major ones in \
                 bytes are read"
            ));
        }
    }
    let data = reader.bytes()?.len();
    let data_end = len - reader.remaining();
    Ok(TensorEntry {
        name: Span { start: name_start, len: name.len() },
        data: Span { start: data_end - data, len: data },
        element,
        dims,
        rank: num_dims,
    })
}

/// The bytes from an element to the next along an axis.
fn stride_of(shape: &[usize], axis: usize, element: TensorType) -> Option<u64> {
    let inner = shape[axis + 1..].iter().try_fold(element.size(), |n, &dim| n.checked_mul(dim));
    inner.and_then(|inner| u64::try_from(inner).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::{OwnedTensor, Stamp, TensorValues};

    fn encoded(tensors: &[(&str, TensorType, &[u32], &[u8])]) -> Vec<u8> {
        let header = Header { stamp: Stamp::from_ros(12, 34), frame_id: "camera0" };
        let mut bytes = Vec::new();
        TensorList::encode(&header, tensors, &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn tensors_are_found_by_their_names() {
        let boxes: Vec<u8> = [1.0_f32, -2.5, 3.0].iter().flat_map(|v| v.to_le_bytes()).collect();
        let labels: Vec<u8> = [7_i64, -1].iter().flat_map(|v| v.to_le_bytes()).collect();
        let bytes = encoded(&[
            ("labels", TensorType::I64, &[1, 2], &labels),
            ("none", TensorType::U16, &[0, 4], &[]),
            ("boxes", TensorType::F32, &[3], &boxes),
        ]);
        let list = TensorList::decode(&bytes).unwrap();
        assert_eq!((list.header.stamp, list.header.frame_id), (Stamp::from_ros(12, 34), "camera0"));
        let view = list.tensors;
        assert_eq!(view.describe(), "labels i64 [1, 2], none u16 [0, 4], boxes f32 [3]");
        let mut tensor = OwnedTensor::default();
        let (entry, data) = view.find("boxes").unwrap();
        tensor.fill(entry, data).unwrap();
        assert_eq!(tensor.shape(), [3]);
        assert!(matches!(tensor.values(), TensorValues::F32(&[1.0, -2.5, 3.0])));
        let (entry, data) = view.find("labels").unwrap();
        tensor.fill(entry, data).unwrap();
        assert!(matches!(tensor.values(), TensorValues::I64(&[7, -1])));
        let (entry, data) = view.find("none").unwrap();
        assert!(tensor.fill(entry, data).unwrap_err().message().contains("u16 is not decoded"));
        assert!(view.find("scores").is_none());
    }

    #[test]
    fn tensors_that_contradict_themselves_are_refused() {
        let data = [0; 24];
        let good = encoded(&[("t", TensorType::F32, &[1, 2, 3], &data)]);
        // The message: encapsulation, stamp, frame, number of tensors; then the tensor.
        let first = 4 + 8 + 4 + 8 + 4;
        let name_len = first + 4 + 2;
        let rank = name_len;
        let num_dims = rank + 2;
        let element = num_dims + 4 + 12;
        let strides = element + 4 + 4;
        let data_len = strides + 24;
        assert_eq!(good[data_len..data_len + 4], 24_u32.to_le_bytes());
        // (byte, value, part of the message)
        for (at, value, part) in [
            (rank, 2, "the rank 2 and 3 dimensions"),
            (element, 0, "the data type 0"),
            (element, 11, "the data type 11"),
            (element, 10, "the stride 12 on axis 1"),
            (strides + 8, 13, "the stride 13 on axis 1"),
            (num_dims + 4 + 8, 4, "the stride 12 on axis 1"),
            (num_dims + 4, 2, "f32 [2, 2, 3] has 24 bytes"),
            (data_len, 20, "f32 [1, 2, 3] has 20 bytes"),
        ] {
            let mut bytes = good.clone();
            bytes[at] = value;
            let error = TensorList::decode(&bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Layout, "{part}: {error}");
            assert!(error.message().contains(part), "{part}: {error}");
        }
        // An axis of one element may have any stride.
        let mut bytes = good.clone();
        bytes[strides] = 99;
        assert!(TensorList::decode(&bytes).is_ok());
        for len in 0..good.len() {
            assert!(TensorList::decode(&good[..len]).is_err(), "{len} of {} bytes", good.len());
        }
        let many = vec![("t", TensorType::U8, &[][..], &[1][..]); 17];
        assert!(TensorList::decode(&encoded(&many[..16])).is_ok());
        let error = TensorList::decode(&encoded(&many)).unwrap_err();
        assert!(error.message().contains("more than 16 tensors"), "{error}");
    }
}
