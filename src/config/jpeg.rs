//! Decoding of JPEG pictures.

use std::path::PathBuf;

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::{one_of, text};
use det_post_types::{DeviceChoice, JpegDevice, JpegOptions};

const DEVICES: &[(&str, JpegDevice)] =
    &[("auto", JpegDevice::Auto), ("cpu", JpegDevice::Cpu), ("gpu", JpegDevice::Gpu)];

/// The parameters of channels whose inputs are images.
pub(super) fn jpeg(p: &mut Reader<'_>) -> JpegOptions {
    JpegOptions {
        device: p.value(
            "decode",
            Fixed,
            one_of(DEVICES),
            "auto",
            "Where a channel on a GPU decodes JPEG pictures. `gpu`: on the JPEG engines of the GPU, through nvJPEG, \
             with the same pixels as on the CPU; pictures that the engines do not decode (progressive ones and unusual \
             sampling) are decoded on the CPU. `auto`: `gpu` where the GPU has such engines and nvJPEG is found, else \
             `cpu`. A channel on the CPU decodes on the CPU.",
        ),
        library: p
            .optional(
                "nvjpeg_library",
                Fixed,
                text(),
                "`DET_POST_NVJPEG`, then the system's",
                "Path of the nvJPEG library (libnvjpeg.so.12 or 13). Code of this library runs in the node: name no \
                 file that you do not trust.",
            )
            .map(PathBuf::from),
    }
}

/// Refuses decoding on a GPU for a channel on the CPU.
pub(super) fn check_jpeg(p: &mut Reader<'_>, jpeg: &JpegOptions, device: DeviceChoice) {
    if jpeg.device == JpegDevice::Gpu && device == DeviceChoice::Cpu {
        p.refuse("decode", "\"gpu\" with the device cpu", "auto, cpu; or a device cuda:N");
    }
}
