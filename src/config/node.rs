//! The parameters of the node itself.

use std::time::Duration;

use super::declaration::Change::Fixed;
use super::declaration::Declaration;
use super::problems::Problems;
use super::reader::Reader;
use super::value::{device, flag, number, seconds};
use crate::types::DeviceChoice;

/// Name of the node unless it is started under another.
pub const NODE_NAME: &str = "det_post";

/// The parameters of the node itself.
pub(super) struct NodeParameters {
    pub(super) device: DeviceChoice,
    pub(super) use_sim_time: bool,
    pub(super) autostart: bool,
    pub(super) diagnostics_period: Duration,
}

pub(super) fn read(p: &mut Reader<'_>) -> NodeParameters {
    NodeParameters {
        device: p.value(
            "device",
            Fixed,
            device(),
            "auto",
            "Where the frames of all channels run: `auto` (GPU 0 when it is usable, else the CPU), `cpu` or `cuda:N`.",
        ),
        use_sim_time: p.value(
            "use_sim_time",
            Fixed,
            flag(),
            false,
            "Whether the age of live frames is measured by `/clock`. Outputs carry the stamps of their inputs either \
             way.",
        ),
        autostart: p.value(
            "autostart",
            Fixed,
            flag(),
            true,
            "Whether the live node configures and activates itself, or waits for `change_state`.",
        ),
        diagnostics_period: seconds(p.value(
            "diagnostics_period_s",
            Fixed,
            number(0.1..=60.0).in_unit("s"),
            1.0,
            "Time from one `/diagnostics` message of the live node to the next.",
        )),
    }
}

pub(super) fn declarations() -> Vec<Declaration> {
    let mut problems = Problems::default();
    let mut p = Reader::manual(&mut problems);
    read(&mut p);
    p.finish()
}
