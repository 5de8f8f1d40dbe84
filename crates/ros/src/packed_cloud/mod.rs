//! Clouds that are no `PointCloud2` on the wire, made into one.
//!
//! | message | from | payload |
//! |---|---|---|
//! | `point_cloud_interfaces/CompressedPointCloud2` | point_cloud_transport, Cloudini | `draco`, `zlib`, `zstd`, `cloudini` |
//! | `CustomMsg` of `livox_ros_driver2`, `livox_ros_driver`, `livox_interfaces` | Livox's drivers | points as an array |
//!
//! [`Unpacker`] writes the whole `PointCloud2` message, in the order and layout that the message declares,
//! so that everything that reads one reads these. What a message claims bounds nothing by itself: the data
//! has at most the bytes that the caller allows, the decoders use at most three times as many beside it,
//! and nothing is written before that is checked.
//!
//! The formats are implemented from the published sources: of point_cloud_transport_plugins the messages,
//! of [Cloudini](https://github.com/facontidavide/cloudini) versions 2 to 5 of its encoding; Draco is the
//! crate `draco-core`.

mod cloudini;
mod codec;
mod compressed;
mod draco;
mod livox;

use crate::cdr::{Reader, Writer};
use crate::messages::{CompressedPointCloud2, LivoxCustomMsg, PointCloud2};
use codec::{Codecs, Fill, STAGE};
use compressed::Compressed;
use det_post_types::{Error, ErrorKind, Result};

pub use compressed::CloudFormat;

/// The most bytes of data that programs allow where no parameter says so.
pub const MAX_DATA_BYTES: usize = 64 << 20;

/// The messages that [`Unpacker`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PackedCloud {
    /// `point_cloud_interfaces/CompressedPointCloud2`.
    Compressed,
    /// `livox_ros_driver2/CustomMsg`.
    LivoxDriver2,
    /// `livox_ros_driver/CustomMsg`.
    LivoxDriver,
    /// `livox_interfaces/CustomMsg`.
    LivoxInterfaces,
}

impl PackedCloud {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Compressed, Self::LivoxDriver2, Self::LivoxDriver, Self::LivoxInterfaces];

    /// The ROS name of the messages.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::Compressed => CompressedPointCloud2::TYPE,
            Self::LivoxDriver2 => LivoxCustomMsg::TYPE,
            Self::LivoxDriver => LivoxCustomMsg::DRIVER_1_TYPE,
            Self::LivoxInterfaces => LivoxCustomMsg::INTERFACES_TYPE,
        }
    }

    /// The messages of this ROS name; `None` for other types.
    pub fn of_type(type_name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.type_name() == type_name)
    }
}

/// Unpacks clouds, one after the other. Its memory is used again.
#[derive(Default)]
pub struct Unpacker {
    /// A message up to its data.
    prefix: Vec<u8>,
    codecs: Codecs,
    /// Whether the times of a `CustomMsg` were warned about.
    has_warned: bool,
}

impl Unpacker {
    /// Writes the cloud of a CDR message of a type, whose encapsulation header is included, as a CDR message of
    /// `sensor_msgs/PointCloud2` to the memory that `memory` gives for a number of bytes. It is called once the
    /// message is found to be usable as far as its header says, and not otherwise.
    ///
    /// The points of `draco` and `cloudini` are written without padding between rows, bytes of a point outside
    /// all fields as 0. Data of `zlib` and `zstd` is the sender's, byte for byte. A `CustomMsg` has the
    /// fields `offset_time` (U32, ns after the stamp), `x`, `y`, `z` (F32), `intensity` (U8, the reflectivity),
    /// `tag` and `line` (U8), in one row. A `timebase` that is not the stamp is a warning, once.
    ///
    /// # Errors
    /// `Message` and `PointField` as of the messages; `Encoding` for a format that is not known; `TooLarge` when the
    /// data has more than `max_data_bytes`; `Layout` when the sizes of the message contradict the sizes of
    /// its payload; `CloudCodec` when the payload does not decode; `Memory` when `memory` gives less than asked for.
    /// After an error the memory holds no message.
    pub fn unpack<'m>(
        &mut self,
        kind: PackedCloud,
        cdr: &[u8],
        max_data_bytes: usize,
        memory: impl FnOnce(usize) -> &'m mut [u8],
    ) -> Result<()> {
        let reader = Reader::new(kind.type_name(), cdr)?;
        match kind {
            PackedCloud::Compressed => {
                let message = CompressedPointCloud2::read(reader)?;
                let packed = Compressed::new(&message)?;
                let limited = Limited { max_data_bytes, num_bytes: packed.num_bytes()? };
                self.write(&packed.cloud(), &limited, &packed, memory)
            }
            PackedCloud::LivoxDriver2 | PackedCloud::LivoxDriver | PackedCloud::LivoxInterfaces => {
                let message = LivoxCustomMsg::read(reader)?;
                self.warn_of_times(&message);
                let num_bytes = message.num_points() * LivoxCustomMsg::POINT_STEP;
                let limited = Limited { max_data_bytes, num_bytes };
                self.write(&livox::cloud(&message)?, &limited, &message, memory)
            }
        }
    }

    /// As [`Self::unpack`], to memory that grows.
    ///
    /// # Errors
    /// As [`Self::unpack`].
    pub fn unpack_to(
        &mut self,
        kind: PackedCloud,
        cdr: &[u8],
        max_data_bytes: usize,
        memory: &mut Vec<u8>,
    ) -> Result<()> {
        self.unpack(kind, cdr, max_data_bytes, move |len| {
            memory.resize(len, 0);
            memory
        })
    }

    fn warn_of_times(&mut self, message: &LivoxCustomMsg<'_>) {
        let Some(seconds) = livox::time_apart(message) else { return };
        if !std::mem::replace(&mut self.has_warned, true) {
            tracing::warn!(
                "CustomMsg of {}: timebase is {seconds:.3} s from the stamp; times of points are read as offsets \
                 from the stamp",
                message.header.frame_id
            );
        }
    }

    /// Writes a message whose data a decoder writes.
    fn write<'m>(
        &mut self,
        cloud: &PointCloud2<'_>,
        size: &Limited,
        packed: &dyn Fill,
        memory: impl FnOnce(usize) -> &'m mut [u8],
    ) -> Result<()> {
        let num_bytes = size.checked()?;
        cloud.write_up_to_data(num_bytes, &mut Writer::new(&mut self.prefix));
        // `is_dense` after the data, padded to four bytes as a writer pads.
        let after_data = self.prefix.len() + num_bytes;
        let len = (after_data + 1).next_multiple_of(4);
        let bytes = memory(len);
        if bytes.len() != len {
            let message = format!("a cloud takes {len} bytes, {} are there", bytes.len());
            return Err(Error::new(ErrorKind::Memory, STAGE, message));
        }
        let (prefix, rest) = bytes.split_at_mut(self.prefix.len());
        let (data, tail) = rest.split_at_mut(num_bytes);
        packed.fill(&mut self.codecs, data)?;
        prefix.copy_from_slice(&self.prefix);
        tail.fill(0);
        tail[0] = cloud.is_dense.into();
        Ok(())
    }
}

/// The bytes of a cloud's data, and the most that are allowed.
struct Limited {
    num_bytes: usize,
    max_data_bytes: usize,
}

impl Limited {
    /// The number, if it is allowed. A CDR message counts in 32 bits.
    fn checked(&self) -> Result<usize> {
        let allowed = self.max_data_bytes.min((u32::MAX >> 1) as usize);
        if self.num_bytes <= allowed {
            return Ok(self.num_bytes);
        }
        let message = format!(
            "the cloud has {} bytes unpacked, at most {allowed} are allowed",
            self.num_bytes
        );
        Err(Error::new(ErrorKind::TooLarge, STAGE, message))
    }
}

#[cfg(test)]
mod tests;
