//! The tables of `docs/parameters.md`, made from the declarations.

use std::fmt::Write;

use super::channel::{CAMERA_HEAD, LIDAR_HEAD, SURROUND_HEAD, VOXEL_HEAD};
use super::declaration::{Declaration, DefaultValue, plain};
use super::head::SHIPPED;
use super::{channel, head, node};

/// The tables of `docs/parameters.md` by their names, and the list `shipped heads`.
pub fn manual_tables() -> Vec<(&'static str, String)> {
    let lidar = channel::declarations(LIDAR_HEAD);
    let mut voxels = channel::declarations(VOXEL_HEAD);
    voxels.retain(|declared| !lidar.iter().any(|other| other.name == declared.name));
    let names: Vec<String> = SHIPPED.iter().map(|(name, _)| format!("`{name}`")).collect();
    let channels = [
        ("node", node::declarations()),
        ("camera channel", channel::declarations(CAMERA_HEAD)),
        ("lidar channel", lidar),
        ("lidar channel, voxels", voxels),
        ("surround channel", channel::declarations(SURROUND_HEAD)),
    ];
    let heads = [
        "camera heads",
        "lidar heads",
        "lidar heads, pillars",
        "lidar heads, voxels",
        "lidar heads, center",
        "lidar heads, anchor",
        "surround heads",
        "surround heads, detr3d",
        "surround heads, sparse4d",
    ];
    let declared = channels.into_iter().chain(heads.into_iter().zip(head::declarations()));
    let tables = declared.map(|(name, declarations)| (name, table(&declarations)));
    tables.chain([("shipped heads", format!("Shipped: {}.\n", names.join(", ")))]).collect()
}

fn table(declarations: &[Declaration]) -> String {
    let mut table = "| key | allowed | default | unit | live | meaning |\n".to_owned();
    table += "|---|---|---|---|---|---|\n";
    for Declaration { name, allowed, unit, help, default, is_live, .. } in declarations {
        let default = match default {
            DefaultValue::Required => "required".to_owned(),
            DefaultValue::Value(node) => format!("`{}`", plain(node)),
            DefaultValue::Unset(meaning) => (*meaning).to_owned(),
        };
        let live = if *is_live { "yes" } else { "" };
        let _ = writeln!(table, "| `{name}` | {allowed} | {default} | {unit} | {live} | {help} |");
    }
    table
}
