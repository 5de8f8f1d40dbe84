//! The manual of the parameters, made from the declarations.

use super::channel::{CAMERA_HEAD, LIDAR_HEAD, SURROUND_HEAD, VOXEL_HEAD};
use super::declaration::{Declaration, DefaultValue, plain};
use super::head::SHIPPED;
use super::{channel, head, node};

const INTRODUCTION: &str = "# Parameters

This page is made from the declarations in `src/config`; a test keeps them equal.

Parameters are read from ROS 2 parameter files, one or several, and from `-p key:=value`. A top-level
mapping is a channel of that name, so the key below becomes `NAME.key`. The sensors of a channel (camera,
lidar, surround cameras) follow from its head. A head's file may suggest defaults of its own, which go before those below.

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
- `start_type_description_service`, which every ROS node has, is accepted and has no effect.
- `qos_overrides.TOPIC.subscription.POLICY` and `qos_overrides.TOPIC.publisher.POLICY` override the quality of
  service of single topics, that of inputs before `NAME.qos.*`: [live node](live-node.md#parameters).
- Scalars without quotes are read as ROS reads them: `yes`, `on`, `y`, `no`, `off`, `n` are booleans, `0x10` and `010`
  are 16 and 8, `inf` is a number. Duplicate keys and tags are refused. A file has at most 256 KiB.
- `$(var NAME)` is replaced by the value of `--arg NAME:=VALUE`, `$(env NAME)` by that of the environment,
  `$(find-pkg-share PACKAGE)` by a folder of `AMENT_PREFIX_PATH`, as launch files do with `allow_substs`.

Parameter files of other packages: [in place of another node](dropin.md).

Everything is checked at start: unknown keys, wrong types, wrong lengths and values out of range are
refused together, each with its key, what was found and what is allowed. An integer is accepted for a
number, and one value for a list. Numbers are used in single precision; one that rounds to 0 there is
refused. Null, an empty text and an empty list leave a parameter unset where that is possible, so that
the output of `ros2 param dump` can be given as a file. `det_post check` prints the effective
configuration.

A parameter that is live may change while the node runs; the others are fixed at start.
";

const HEADS: &str = "Facts of a network, in a plain YAML file without sections. A mapping `defaults` may hold defaults for any \
                     parameter of the channel.";

/// `docs/parameters.md`.
pub fn manual() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "## Node", "", &node::declarations());
    section(&mut page, "## Camera channel", "", &channel::declarations(CAMERA_HEAD));
    let lidar = channel::declarations(LIDAR_HEAD);
    let mut voxels = channel::declarations(VOXEL_HEAD);
    voxels.retain(|declared| !lidar.iter().any(|other| other.name == declared.name));
    section(&mut page, "## LiDAR channel", "", &lidar);
    section(&mut page, "### With a head of `encoder: voxels`", "", &voxels);
    section(&mut page, "## Surround channel", "", &channel::declarations(SURROUND_HEAD));
    page += "\n## Former keys\n\n`nms.class_aware: true` and `false` are `nms.class_mode: aware` and `agnostic`; the \
             former key is accepted with a warning.\n";
    let names: Vec<String> = SHIPPED.iter().map(|(name, _)| format!("`{name}`")).collect();
    page += &format!("\n## Head files\n\n{HEADS} Shipped: {}.\n", names.join(", "));
    let [camera, lidar, pillars, voxels, center, anchor, surround, detr3d, sparse4d] =
        head::declarations();
    section(&mut page, "### Camera heads", "", &camera);
    section(&mut page, "### LiDAR heads", "", &lidar);
    section(&mut page, "### LiDAR heads with `encoder: pillars`", "", &pillars);
    section(&mut page, "### LiDAR heads with `encoder: voxels`", "", &voxels);
    section(&mut page, "### LiDAR heads of kind `center`", "", &center);
    section(&mut page, "### LiDAR heads of kind `anchor`", "", &anchor);
    section(&mut page, "### Surround heads", "", &surround);
    section(&mut page, "### Surround heads of kind `detr3d`", "", &detr3d);
    section(&mut page, "### Surround heads of kind `sparse4d`", "", &sparse4d);
    page
}

fn section(page: &mut String, title: &str, text: &str, declarations: &[Declaration]) {
    *page += &format!("\n{title}\n\n");
    if !text.is_empty() {
        *page += &format!("{text}\n\n");
    }
    *page += "| key | allowed | default | unit | live | meaning |\n|---|---|---|---|---|---|\n";
    for declaration in declarations {
        let Declaration { name, allowed, unit, help, .. } = declaration;
        let default = match &declaration.default {
            DefaultValue::Required => "required".to_owned(),
            DefaultValue::Value(node) => format!("`{}`", plain(node)),
            DefaultValue::Unset(meaning) => (*meaning).to_owned(),
        };
        let live = if declaration.is_live { "yes" } else { "" };
        *page += &format!("| `{name}` | {allowed} | {default} | {unit} | {live} | {help} |\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_declared_once_and_takes_its_default() {
        let groups = [
            node::declarations(),
            channel::declarations(CAMERA_HEAD),
            channel::declarations(LIDAR_HEAD),
            channel::declarations(VOXEL_HEAD),
            channel::declarations(SURROUND_HEAD),
        ];
        for declarations in groups.iter().chain(&head::declarations()) {
            assert!(!declarations.is_empty());
            let mut names: Vec<&str> = declarations.iter().map(|d| &*d.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), declarations.len(), "{names:?}");
            for declaration in declarations {
                let is_value = matches!(declaration.default, DefaultValue::Value(_));
                assert!(!is_value || declaration.value.is_some(), "{declaration:?}");
                assert!(declaration.help.ends_with('.'), "{declaration:?}");
                assert!(!declaration.help.contains("  "), "{declaration:?}");
            }
        }
    }
}
