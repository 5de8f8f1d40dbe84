//! The manual of the parameters, made from the tables.

use super::head::SHIPPED;
use super::head_parameters::{ANCHOR_HEAD, CAMERA_HEAD, CENTER_HEAD, LIDAR_HEAD};
use super::parameters::{CAMERA, LIDAR, NODE};
use super::table::{Default, Parameter};

const INTRODUCTION: &str = "# Parameters

This page is made from the tables in `src/config/parameters.rs` and those beside it; a test keeps them
equal.

Parameters are read from ROS 2 parameter files, one or several, and from `-p key:=value`. A top-level
mapping is a channel of that name, so the key below becomes `NAME.key`. Whether a channel is a camera or
a lidar follows from its head. A head's file may suggest defaults of its own, which go before those below.

Sections of a file apply as in ROS:

- The name of a section is matched against the full name of the node: `det_post:` and `/det_post:` are the
  node in the root namespace, `/front/det_post:` (or `det_post:` nested below `front:`) the one in `/front`;
  `*` stands for one part of a name, `**` for any number of parts, so `/**:` is every node.
- All matching sections apply in the order in which their names first appear over all files; of two values
  the later holds, not the one of the more specific section. `-p` comes after all files, unlike in ROS, where
  it is part of the section `/**:`.
- Sections of other nodes are skipped, so that one file may configure a whole system.
- A section that names this node may hold no key but those below. In a section for many nodes (`/**:`,
  `/front/*:`) other keys are ignored, with one warning for each file.
- `start_type_description_service` and `qos_overrides.*`, which every ROS node has, are accepted and have no
  effect; the quality of service of a channel is set by `NAME.qos.*`.
- `yes`, `on`, `y`, `no`, `off`, `n` are booleans. Duplicate keys and tags are refused. A file has at most
  256 KiB.

Everything is checked at start: unknown keys, wrong types, wrong lengths and values out of range are
refused together, each with its key, what was found and what is allowed. Integers are taken where
numbers are meant, one value where a list is meant. Null, an empty text and an empty list leave a
parameter unset that may be unset, so that what `ros2 param dump` writes can be given as a file.
`det_post check` prints what holds.

A parameter that is live may change while the node runs; the others are fixed at start.
";

/// `docs/parameters.md`.
pub fn manual() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "## Node", "", NODE);
    section(&mut page, "## Camera channel", "", CAMERA);
    section(&mut page, "## Lidar channel", "", LIDAR);
    let names: Vec<String> = SHIPPED.iter().map(|(name, _)| format!("`{name}`")).collect();
    page += &format!(
        "\n## Head files\n\nFacts of a network, in a plain YAML file without sections. Shipped: {}. A \
         mapping `defaults` may hold defaults for any parameter of the channel.\n",
        names.join(", ")
    );
    section(
        &mut page,
        "### Camera heads",
        "Values of 0 to 255 become `value * alpha + beta`, or `(value - mean) / std`.",
        CAMERA_HEAD,
    );
    section(&mut page, "### Lidar heads", "", LIDAR_HEAD);
    section(&mut page, "### Lidar heads of kind `center`", "", CENTER_HEAD);
    section(&mut page, "### Lidar heads of kind `anchor`", "", ANCHOR_HEAD);
    page
}

fn section(page: &mut String, title: &str, text: &str, table: &[Parameter]) {
    *page += &format!("\n{title}\n\n");
    if !text.is_empty() {
        *page += &format!("{text}\n\n");
    }
    *page += "| key | allowed | default | unit | live | meaning |\n|---|---|---|---|---|---|\n";
    for parameter in table {
        let default = match parameter.default {
            Default::Required => "required".to_owned(),
            Default::Yaml(text) => format!("`{text}`"),
            Default::Unset(text) => text.to_owned(),
        };
        *page += &format!(
            "| `{}` | {} | {default} | {} | {} | {} |\n",
            parameter.key,
            parameter.kind.describe(None),
            parameter.unit,
            if parameter.live { "yes" } else { "" },
            parameter.help,
        );
    }
}
