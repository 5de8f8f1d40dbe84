//! Video on the engines of a GPU, if this build and this machine have them.

#[cfg(feature = "cuda")]
use std::ffi::OsStr;

#[cfg(feature = "cuda")]
use super::nvdec;
use crate::device::Device;
use det_post_types::{DeviceBytes, DeviceChoice, Encoding, FrameCrop, ImageView, Result, Size};

/// Names the library libnvcuvid.
#[cfg(feature = "cuda")]
const LIBRARY_VARIABLE: &str = "DET_POST_NVCUVID";

/// The decoder of a stream of H.264 on the engines of a GPU (NVDEC): progressive pictures of 4:2:0 and 8 bits, without B
/// frames, up to the size that the engines state. Samples equal the samples of every other decoder of H.264.
pub struct GpuVideo {
    #[cfg(feature = "cuda")]
    decoder: nvdec::Decoder,
    #[cfg(not(feature = "cuda"))]
    never: std::convert::Infallible,
}

/// A picture in the memory of a GPU, which is used again. It may outlive its decoder.
#[derive(Debug, Default)]
pub struct DevicePicture {
    size: Size,
    #[cfg(feature = "cuda")]
    picture: Option<nvdec::Picture>,
}

impl DevicePicture {
    /// The picture, of encoding `nv12` and without padding.
    ///
    /// # Errors
    /// `Layout` when there is none.
    pub fn view(&self) -> Result<ImageView<'_, DeviceBytes<'_>>> {
        let step = self.size.width as usize;
        ImageView::on_device(self.size, step, Encoding::Nv12, false, self.bytes())
    }

    #[cfg(feature = "cuda")]
    fn bytes(&self) -> DeviceBytes<'_> {
        self.picture.as_ref().map_or_else(DeviceBytes::none, nvdec::Picture::bytes)
    }

    #[cfg(not(feature = "cuda"))]
    fn bytes(&self) -> DeviceBytes<'_> {
        DeviceBytes::none()
    }
}

#[cfg(feature = "cuda")]
impl GpuVideo {
    /// A decoder on a GPU, with the library that `DET_POST_NVCUVID` names, else with the one that the system's
    /// loader finds.
    ///
    /// # Errors
    /// `Device` with the reason: no GPU, no library, one that is too old, engines that do not decode H.264.
    pub fn open(choice: DeviceChoice) -> Result<Self> {
        match Device::open(choice)? {
            Device::Cuda(device) => {
                let library = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty());
                let library = library.as_deref().map(OsStr::new);
                Ok(Self { decoder: nvdec::Decoder::open(&device, library)? })
            }
            Device::Cpu => Err(crate::device::error("the CPU has no NVDEC")),
        }
    }

    /// The GPU.
    pub fn device(&self) -> Device {
        Device::Cuda(self.decoder.device().clone())
    }

    /// Decodes the NAL units of one picture, with start codes, which is there in its frame, and waits for it. The first
    /// one, and the first after [`Self::reset`], is a key frame with all parameter sets.
    ///
    /// # Errors
    /// `VideoCodec` when it is damaged or of another frame, after which [`Self::reset`] is called; `Encoding` for what
    /// the engines do not decode; `Device` and `DeviceLost` when the device fails. Then `picture` holds none.
    pub fn decode(
        &mut self,
        units: &[u8],
        crop: FrameCrop,
        picture: &mut DevicePicture,
    ) -> Result<()> {
        picture.size = crop.size;
        self.decoder.decode(units, crop, &mut picture.picture)
    }

    /// Forgets all pictures.
    pub fn reset(&mut self) {
        self.decoder.reset();
    }
}

#[cfg(not(feature = "cuda"))]
impl GpuVideo {
    /// There is none in this build.
    ///
    /// # Errors
    /// `Device`.
    pub fn open(_choice: DeviceChoice) -> Result<Self> {
        Err(crate::device::error("this program was built without the feature cuda"))
    }

    /// The GPU.
    pub fn device(&self) -> Device {
        match self.never {}
    }

    /// Decodes nothing.
    ///
    /// # Errors
    /// None.
    pub fn decode(
        &mut self,
        _units: &[u8],
        _crop: FrameCrop,
        _picture: &mut DevicePicture,
    ) -> Result<()> {
        match self.never {}
    }

    /// Does nothing.
    pub fn reset(&mut self) {
        match self.never {}
    }
}
