//! Decoding of JPEG images and of video.

use std::path::PathBuf;

use super::declaration::Change::Fixed;
use super::paths::PathUse;
use super::reader::Reader;
use super::value::{one_of, path};
use det_post_types::{DeviceChoice, JpegDevice, JpegOptions, VideoDevice};

const VIDEO_DEVICES: &[(&str, VideoDevice)] =
    &[("auto", VideoDevice::Auto), ("cpu", VideoDevice::Cpu), ("gpu", VideoDevice::Gpu)];
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
            "Where a channel on a GPU decodes JPEG images. `gpu`: by nvJPEG on its engines, \
             to the same pixels; progressive images and unusual sampling on the CPU. \
             `auto`: `gpu` where both exist, else `cpu`.",
        ),
        library: p
            .optional(
                "nvjpeg_library",
                Fixed,
                path(PathUse::Library),
                "`DET_POST_NVJPEG`, then the system's",
                "The nvJPEG library (libnvjpeg.so.12 or 13); its code runs in the node: trust it.",
            )
            .map(PathBuf::from),
    }
}

/// Refuses decoding on a GPU for a channel on the CPU.
pub(super) fn check_jpeg(p: &mut Reader<'_>, jpeg: &JpegOptions, device: DeviceChoice) {
    if jpeg.device == JpegDevice::Gpu && device == DeviceChoice::Cpu {
        let found = "\"gpu\" with the device cpu";
        p.conflict(&["decode", "device"], found, "auto, cpu; or a device cuda:N");
    }
}

/// The parameter of video, of channels whose inputs are images. Decoding on a GPU is refused for a channel on the CPU.
pub(super) fn video(p: &mut Reader<'_>, device: DeviceChoice) -> VideoDevice {
    let video = p.value(
        "decode_video",
        Fixed,
        one_of(VIDEO_DEVICES),
        "auto",
        "As `decode`, for H.264 by NVDEC.",
    );
    if video == VideoDevice::Gpu && device == DeviceChoice::Cpu {
        let found = "\"gpu\" with the device cpu";
        p.conflict(&["decode_video", "device"], found, "auto, cpu; or a device cuda:N");
    }
    video
}
