//! The parameters of the node itself.

use std::path::PathBuf;
use std::time::Duration;

use super::declaration::Change::Fixed;
use super::declaration::Declaration;
use super::reader::{Reader, described};
use super::value::Length::OneOrMore;
use super::value::{device, flag, integer, list, number, seconds, text};
use det_post_types::{DeviceChoice, UploadOptions};

/// Name of the node unless it is started under another.
pub const NODE_NAME: &str = "det_post";

const MIB: usize = 1 << 20;

/// The parameters of the node itself.
pub(super) struct NodeParameters {
    pub(super) search_folders: Vec<PathBuf>,
    pub(super) device: DeviceChoice,
    pub(super) use_sim_time: bool,
    pub(super) autostart: bool,
    pub(super) diagnostics_period: Duration,
    pub(super) uploads: UploadOptions,
}

pub(super) fn read(p: &mut Reader<'_>) -> NodeParameters {
    NodeParameters {
        search_folders: search_folders(p),
        device: p.value(
            "device",
            Fixed,
            device(),
            "auto",
            "Where frames run. `auto`: GPU 0 where usable, of several the one that `gpu_load` chooses; else the CPU.",
        ),
        use_sim_time: p.value(
            "use_sim_time",
            Fixed,
            flag(),
            false,
            "Whether the age of live frames is measured by `/clock`.",
        ),
        autostart: p.value(
            "autostart",
            Fixed,
            flag(),
            true,
            "Whether the live node activates itself, or waits for `change_state`.",
        ),
        diagnostics_period: seconds(p.value(
            "diagnostics_period_s",
            Fixed,
            number(0.1..=60.0).in_unit("s"),
            1.0,
            "Time from one `/diagnostics` message of the live node to the next.",
        )),
        uploads: UploadOptions {
            copy_threads: p.value(
                "copy_threads",
                Fixed,
                integer(0..=UploadOptions::MAX_COPY_THREADS),
                0,
                "Threads that copy a payload of 1 MiB or more for a GPU; 0: one per core, at most 4.",
            ),
            mapped_bytes: MIB
                * p.value(
                    "mapped_upload_mib",
                    Fixed,
                    integer(0..=65_536).in_unit("MiB"),
                    2048,
                    "Memory of a mapped recording registered with the driver ahead of \
                     the reader, at most an eighth of the machine's: a replay uploads without a copy; 0: with a copy.",
                ),
        },
    }
}

fn search_folders(p: &mut Reader<'_>) -> Vec<PathBuf> {
    let folders = p.optional(
        "search_folders",
        Fixed,
        list(text(), OneOrMore),
        "none",
        "Folders in which relative paths begin, after the folder of the parameter file and before the current one.",
    );
    folders.unwrap_or_default().into_iter().map(PathBuf::from).collect()
}

pub(super) fn declarations() -> Vec<Declaration> {
    described(|p| {
        read(p);
    })
}
