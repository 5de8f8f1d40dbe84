//! The manual of the live node, made from what it does.

use super::lifecycle::{NUM_PUBLIC, TRANSITIONS};
use super::live::{
    CLOCK_QOS, DIAGNOSTICS_TOPIC, PARAMETER_EVENTS_QOS, PARAMETER_EVENTS_TOPIC, TF_QOS,
    TF_STATIC_QOS, TRANSITION_EVENT_TOPIC,
};
use super::outputs::{DEBUG_IMAGE, DEBUG_IMAGE_QOS, LABELS, MARKERS, MARKERS_QOS};
use crate::transport::door::{InputKind, Qos, ServiceKind};
use crate::transport::messages::{
    Detection2DArray, Detection3DArray, DiagnosticArray, Image, LabelInfo, MarkerArray,
    ParameterEvent, TransitionEvent,
};

const INTRODUCTION: &str = "# The live node

This page is made by `src/node/manual.rs`; a test keeps them equal.

`det_post run` joins a ROS 2 graph and serves the channels of its parameter files. `--door` names the
way in; `--ros-args` are taken as every ROS node takes them: `-r FROM:=TO`, `-r __node:=NAME`,
`-r __ns:=/SPACE`, `-p KEY:=VALUE`, `--params-file`, `--log-level`. Live and replay run the same
channels: the same messages give the same bytes.

SIGINT and SIGTERM finish the frame in flight and end the process with code 0; a second signal ends it
at once. A start that fails ends it with a code of its own: 2 for wrong use or configuration, 1 for
everything else.
";

const TOPICS: &str = "
## Topics

INPUT, CAMERA_INFO and OUTPUT are a channel's parameters `input`, `camera_info` and `output`; NAME is its
name. Detections, markers and pictures carry the stamp and the frame of their input. Markers and pictures
are made while someone listens and `publish.*` is true.
";

const SLOT: &str = "
Of every input the newest message waits; one that a newer one overtakes is counted. A payload is
copied once, from the message into one of the three buffers of its channel, which are used again;
`max_payload_bytes` bounds them. For a GPU they are page-locked, and the upload goes from there; a channel
with a process of its own (`isolate`) copies once more, into sealed memory that both processes map, which
does not depend on the size of `/dev/shm`.

A debug image that is lost is not sent again: a viewer that asks for reliable pictures, as RViz does
unless its reliability policy says best effort, does not match, which both sides report.

Detections are pixels of the image as it came, rectified or not, under its stamp and frame; the camera's
own CameraInfo holds for them as it does for the image. Where `camera_info` names its topic, the newest is
held beside the pictures, and the diagnostics warn when the two do not belong together: when the size of
the pictures is not that of the CameraInfo (`width` and `height`, or the region of interest in them,
divided by the binning), or the frames differ. Detections do not depend on it, and replay does not read it.
";

const TIME: &str = "
## Time

Frames of every stamp are served, unless `max_age_s` is set. Stamps that are the same as the one
before, earlier, or ahead of the node's clock are counted. When the stamps of a lidar go back by a
second or more (a recording that loops), past sweeps and transforms of later than then are forgotten,
which the log says. With `use_sim_time` the node's clock is `/clock`; it serves for ages and for the
stamps of diagnostics alone. When it goes back, the node carries on, counts it and says so. A sweep
waits for its transform for `densification.transform_wait_s` at most, and is served alone without; no
callback ever waits.
";

const PARAMETERS: &str = "
## Parameters

Every key of [parameters](parameters.md) is a ROS parameter of that name, `NAME.key` for a channel's.
Those that are live there can be set while the node runs; the others are read-only. What is set holds
from the next frame on. `set_parameters_atomically` sets all or none. A refusal says which parameter,
what was found and what is allowed. Integers are taken where numbers are meant; an empty list, or a
value that is not set, unsets a parameter that may be unset. Changes are told on `/parameter_events`.
";

const LIFE_CYCLE: &str = "
## Life cycle

A managed node, as `ros2 lifecycle` knows them. `configure` loads and warms the networks and announces
the outputs, `activate` takes the inputs, `deactivate` lets them go, `cleanup` lets the networks go.
With `autostart` (the default) the node configures and activates itself. What fails leads back to
where it started. After `shutdown` the process ends.
";

const DIAGNOSTICS: &str = "
## Diagnostics

One message each `diagnostics_period_s`. NODE is the full name of the node without its first `/`.

| status | WARN | ERROR |
|---|---|---|
| `NODE: node` | not active; a peer whose type or quality of service does not match; transforms left out; no `/clock` yet, or it went back | the last change of state failed; a part of the door is lost |
| `NODE: NAME: input` | silent for `gap_warn_s`; below `min_rate_hz`; messages refused, or missing by their stamps | silent for `gap_error_s`, and why |
| `NODE: NAME: camera_info` (with `camera_info`) | none for `gap_warn_s`, and why; of another size or frame than the pictures, with both; not calibrated; messages refused | |
| `NODE: NAME: frames` | frames dropped, overtaken or served alone, by reason; a capacity met; stamps that do not rise | every frame dropped, by reason; input, but no output for `gap_error_s`; the thread of the channel is gone |
| `NODE: NAME: latency` | 99th percentile from arrival to publication above `latency_budget_ms` | |
| `NODE: NAME: device` | failed, and built or to be built again; failed, and the CPU serves | failed too often, or lost to the process: frames are dropped |

The values beside them: rates, gaps, ages, counts by reason and by capacity, 50th and 99th percentile
of every stage and the bytes it moves per frame, the time since the last output; the device that was wanted and the one that serves, the
process where it is not the node's own, failures and the last of them in words, engine and networks.
";

/// `docs/live-node.md`.
pub fn manual() -> String {
    let mut page = format!("{INTRODUCTION}{TOPICS}");
    page += "\n| topic | type | quality of service | |\n|---|---|---|---|\n";
    for [topic, type_name, qos, note] in topics() {
        page += &format!("| `{topic}` | {type_name} | {qos} | {note} |\n");
    }
    page += SLOT;
    page += TIME;
    page += PARAMETERS;
    page += "\n## Services\n\n| service | type |\n|---|---|\n";
    for service in ServiceKind::ALL {
        page += &format!("| `~/{}` | {} |\n", service.name(), service.type_name());
    }
    page += LIFE_CYCLE;
    page += "\n| from | transition | number | by way of |\n|---|---|---|---|\n";
    for way in &TRANSITIONS[..NUM_PUBLIC] {
        let [from, through] = [way.start, way.goal].map(|state| state.label());
        page += &format!("| {from} | `{}` | {} | {through} |\n", way.label, way.id);
    }
    page += DIAGNOSTICS;
    page
}

/// Topic, type, quality of service and a note.
fn topics() -> Vec<[String; 4]> {
    let sensor = format!("{}; `qos.*`", Qos::SENSOR_DATA);
    let input = |topic: &str, kind: InputKind, qos: String, note: &str| {
        [topic.to_owned(), kind.type_name().to_owned(), qos, note.to_owned()]
    };
    let output = |topic: String, type_name: &str, qos: Qos, note: &str| {
        [topic, type_name.to_owned(), qos.to_string(), note.to_owned()]
    };
    let below = |name: &str| format!("OUTPUT/{name}");
    let lidar = "of lidar channels with past sweeps";
    vec![
        input("INPUT", InputKind::Image, sensor.clone(), "in, of camera channels"),
        input(
            "INPUT",
            InputKind::CompressedImage,
            sensor.clone(),
            "in, of camera channels with `input_transport`",
        ),
        input(
            "CAMERA_INFO",
            InputKind::CameraInfo,
            sensor.clone(),
            "in, of camera channels with `camera_info`",
        ),
        input("INPUT", InputKind::PointCloud2, sensor, "in, of lidar channels"),
        input(
            "/tf",
            InputKind::Transforms { is_static: false },
            TF_QOS.to_string(),
            &format!("in, {lidar}"),
        ),
        input(
            "/tf_static",
            InputKind::Transforms { is_static: true },
            TF_STATIC_QOS.to_string(),
            &format!("in, {lidar}"),
        ),
        input("/clock", InputKind::Clock, CLOCK_QOS.to_string(), "in, with `use_sim_time`"),
        output("OUTPUT".into(), Detection2DArray::TYPE, Qos::DEFAULT, "out, pixels of the input"),
        output("OUTPUT".into(), Detection3DArray::TYPE, Qos::DEFAULT, "out, metres in its frame"),
        output(below(LABELS), LabelInfo::TYPE, Qos::LATCHED, "out, at the start"),
        output(below(MARKERS), MarkerArray::TYPE, MARKERS_QOS, "out, of lidar channels"),
        output(below(DEBUG_IMAGE), Image::TYPE, DEBUG_IMAGE_QOS, "out, boxes drawn"),
        output(DIAGNOSTICS_TOPIC.into(), DiagnosticArray::TYPE, Qos::DEFAULT, "out"),
        output(
            PARAMETER_EVENTS_TOPIC.into(),
            ParameterEvent::TYPE,
            PARAMETER_EVENTS_QOS,
            "out, at every change",
        ),
        output(
            TRANSITION_EVENT_TOPIC.into(),
            TransitionEvent::TYPE,
            Qos::DEFAULT,
            "out, at every step",
        ),
    ]
}
