//! H.264 on the engines of a GPU (NVDEC), through libnvcuvid, a library of the driver that is loaded at run time.
//!
//! The parser of the library reads parameter sets and slices, the engines decode, and each picture is copied on the
//! device into other memory; its surface is free again at once. Samples equal the samples of every decoder: H.264
//! states them exactly.

mod interface;
mod sequence;
#[expect(unsafe_code, reason = "libnvcuvid is a C library; each block states why it is sound")]
mod session;

use std::ffi::OsStr;

use crate::device::cuda::{CudaDevice, DeviceBuffer, Stream, error};
use det_post_types::{DeviceBytes, ErrorKind, FrameCrop, Result};
use session::Session;

/// The decoder of a stream of H.264.
pub(super) struct Decoder {
    session: Session,
    stream: Stream,
}

/// A picture in device memory, which is used again.
#[derive(Debug)]
pub(super) struct Picture {
    bytes: DeviceBuffer<u8>,
    num_bytes: usize,
}

impl Picture {
    /// The samples.
    pub(super) fn bytes(&self) -> DeviceBytes<'_> {
        self.bytes.lend(self.num_bytes)
    }
}

impl Decoder {
    /// A decoder with the library of this path, else with the one that the system's loader finds.
    ///
    /// # Errors
    /// `Device` with the reason: no library, one that is too old, a GPU whose engines do not decode H.264.
    pub(super) fn open(device: &CudaDevice, library: Option<&OsStr>) -> Result<Self> {
        let stream = device.stream()?;
        Ok(Self { session: Session::open(&stream, library)?, stream })
    }

    /// The GPU.
    pub(super) fn device(&self) -> &CudaDevice {
        self.stream.device()
    }

    /// Decodes the NAL units of one picture and copies it, which is there in its frame, to `picture`.
    ///
    /// # Errors
    /// `VideoCodec` when it is damaged or of another frame; `Encoding` for what the engines do not decode; `Device` and
    /// `DeviceLost` when the device fails.
    pub(super) fn decode(
        &mut self,
        units: &[u8],
        crop: FrameCrop,
        picture: &mut Option<Picture>,
    ) -> Result<()> {
        let decoded = self.decode_to(units, crop, picture);
        match decoded {
            // A fault of the GPU, if there is one, is the reason.
            Err(error) if error.kind() == ErrorKind::Device => {
                self.device().check().and(Err(error))
            }
            decoded => decoded,
        }
    }

    fn decode_to(
        &mut self,
        units: &[u8],
        crop: FrameCrop,
        picture: &mut Option<Picture>,
    ) -> Result<()> {
        let surface = self.session.decode(units)?;
        let num_bytes = crop.size.width as usize * crop.size.height as usize * 3 / 2;
        let picture = self.reserve(picture, num_bytes)?;
        picture.num_bytes = 0;
        self.session.read(surface, &crop, &mut picture.bytes)?;
        picture.num_bytes = num_bytes;
        Ok(())
    }

    /// Forgets all pictures.
    pub(super) fn reset(&mut self) {
        self.session.reset();
    }

    /// Memory of this stream for a picture, in place of what is too small or of another stream.
    fn reserve<'p>(
        &self,
        picture: &'p mut Option<Picture>,
        num_bytes: usize,
    ) -> Result<&'p mut Picture> {
        let fits = |picture: &Picture| {
            picture.bytes.len() >= num_bytes && picture.bytes.stream().is_same_queue(&self.stream)
        };
        if !picture.as_ref().is_some_and(fits) {
            // What it replaces is freed before.
            *picture = None;
            let bytes = DeviceBuffer::zeros(&self.stream.with_own_memory(), num_bytes)?;
            *picture = Some(Picture { bytes, num_bytes: 0 });
        }
        picture.as_mut().ok_or_else(|| error("no memory for an image of video"))
    }
}
