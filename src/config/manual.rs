//! The tables of `docs/parameters.md`, made from the declarations.

use std::fmt::Write;

use super::channel::Kind;
use super::declaration::{Declaration, DefaultValue, plain};
use super::head::{self, EncoderKind, HeadKind, OutputKind, ViewKind};
use super::node;

/// A table: its name, and which of the kinds it is for. A row is in the table of exactly the
/// kinds that have it.
type Table = (String, Vec<bool>);

fn channel_tables(kinds: &[Kind]) -> Vec<Table> {
    let table = |name: &str, has: &dyn Fn(Kind) -> bool| -> Table {
        (name.to_owned(), kinds.iter().map(|kind| has(*kind)).collect())
    };
    let is_lidar = |kind| matches!(kind, Kind::Lidar(_));
    let is_surround = |kind| matches!(kind, Kind::Surround(_));
    let may_have_cameras =
        |kind| matches!(kind, Kind::Lidar(EncoderKind::Voxels | EncoderKind::None));
    let mut tables = vec![
        table("every channel", &|_| true),
        table("camera and lidar channels", &|kind| !is_surround(kind)),
        table("camera and surround channels", &|kind| !is_lidar(kind)),
        table("lidar and surround channels", &|kind| kind != Kind::Camera),
        table("camera channels", &|kind| kind == Kind::Camera),
        table("lidar channels", &is_lidar),
        table("lidar channels, pillars and voxels", &|kind| {
            matches!(kind, Kind::Lidar(EncoderKind::Pillars | EncoderKind::Voxels))
        }),
        table(
            "lidar channels, voxels, sites and none",
            &|kind| matches!(kind, Kind::Lidar(encoder) if encoder != EncoderKind::Pillars),
        ),
        table("lidar channels, voxels and none", &may_have_cameras),
        table("channels of several cameras", &|kind| is_surround(kind) || may_have_cameras(kind)),
        table("surround channels", &is_surround),
        table("surround channels, detr3d and sparse4d", &|kind| {
            matches!(kind, Kind::Surround(ViewKind::Views(_)))
        }),
    ];
    let of_encoder = head::ENCODERS.iter().map(|(name, of)| ("lidar", *name, Kind::Lidar(*of)));
    let of_views =
        head::VIEW_KINDS.iter().map(|(name, of)| ("surround", *name, Kind::Surround(*of)));
    for (sensor, name, of) in of_encoder.chain(of_views) {
        tables.push(table(&format!("{sensor} channels, {name}"), &|kind| kind == of));
    }
    tables
}

fn head_tables(kinds: &[HeadKind]) -> Vec<Table> {
    use HeadKind::{Camera, Lidar, Surround};
    let table = |name: &str, has: &dyn Fn(HeadKind) -> bool| -> Table {
        (name.to_owned(), kinds.iter().map(|kind| has(*kind)).collect())
    };
    let is_of = |kind, outputs| matches!(kind, Lidar(_, of) if of == outputs);
    let is_surround = |kind| matches!(kind, Surround(_));
    let has_tasks = |kind| is_of(kind, OutputKind::Center) || is_of(kind, OutputKind::Sites);
    let mut tables = vec![
        table("every head", &|_| true),
        table("camera and surround heads", &|kind| kind == Camera || is_surround(kind)),
        table("center, voxelnext and surround heads", &|kind| has_tasks(kind) || is_surround(kind)),
        table("camera heads", &|kind| kind == Camera),
        table("lidar heads", &|kind| matches!(kind, Lidar(..))),
        table("lidar heads, center and voxelnext", &has_tasks),
        table("lidar heads, voxels and sites", &|kind| {
            matches!(kind, Lidar(EncoderKind::Voxels | EncoderKind::Sites, _))
        }),
        table("lidar heads, center", &|kind| is_of(kind, OutputKind::Center)),
        table("lidar heads, proposals", &|kind| matches!(kind, Lidar(_, OutputKind::Proposals(_)))),
        table("lidar heads, anchor", &|kind| is_of(kind, OutputKind::Anchor)),
        table("surround heads", &is_surround),
        table("surround heads, detr3d and sparse4d", &|kind| {
            matches!(kind, Surround(ViewKind::Views(_)))
        }),
    ];
    for (name, of) in head::ENCODERS {
        let has = |kind| matches!(kind, Lidar(encoder, _) if encoder == *of);
        let of_encoder = table(&format!("lidar heads, {name}"), &has);
        // Heads with `encoder: sites` are of one kind, which has a table.
        if tables.iter().all(|(_, of)| *of != of_encoder.1) {
            tables.push(of_encoder);
        }
    }
    for (name, of) in head::VIEW_KINDS {
        tables.push(table(&format!("surround heads, {name}"), &|kind| kind == Surround(*of)));
    }
    tables
}

/// The declarations of every kind, and the tables of their rows.
fn channels() -> (Vec<Table>, Vec<Vec<Declaration>>) {
    let kinds = Kind::all();
    (channel_tables(&kinds), kinds.into_iter().map(Kind::declarations).collect())
}

fn heads() -> (Vec<Table>, Vec<Vec<Declaration>>) {
    let kinds = HeadKind::all();
    (head_tables(&kinds), kinds.into_iter().map(HeadKind::declarations).collect())
}

/// The tables of `docs/parameters.md` by their names.
pub fn manual_tables() -> Vec<(String, String)> {
    let of_node = tables(&[("node".to_owned(), vec![true])], &[node::declarations()]);
    let [(channels, of_channel), (heads, of_head)] = [channels(), heads()];
    let mut all = [of_node, tables(&channels, &of_channel), tables(&heads, &of_head)].concat();
    all.push(("shipped heads".to_owned(), shipped_heads()));
    all
}

/// Each table with its rows, in the order in which the first of its kinds declares them; none
/// without rows.
fn tables(tables: &[Table], kinds: &[Vec<Declaration>]) -> Vec<(String, String)> {
    let rows: Vec<Vec<String>> =
        kinds.iter().map(|declared| declared.iter().map(row).collect()).collect();
    let has = |row: &String| rows.iter().map(|rows| rows.contains(row)).collect::<Vec<_>>();
    let table = |(name, of): &Table| {
        let first = of.iter().position(|is_of| *is_of)?;
        let own: String = rows[first].iter().filter(|row| has(row) == *of).cloned().collect();
        let head = "| key | allowed | default | meaning |\n|---|---|---|---|\n";
        (!own.is_empty()).then(|| (name.clone(), format!("{head}{own}")))
    };
    tables.iter().filter_map(table).collect()
}

fn row(declared: &Declaration) -> String {
    let Declaration { name, allowed, unit, help, default, is_live, .. } = declared;
    let live = if *is_live { " (live)" } else { "" };
    let unit = if unit.is_empty() { String::new() } else { format!(" ({unit})") };
    let default = match default {
        DefaultValue::Required => "required".to_owned(),
        DefaultValue::Value(node) => format!("`{}`", plain(node)),
        DefaultValue::Unset(meaning) => (*meaning).to_owned(),
    };
    format!("| `{name}`{live} | {}{unit} | {default} | {help} |\n", brief(allowed))
}

/// Nouns whose plural says that a value is a list.
const PLURALS: &[&str] = &["numbers", "whole numbers", "integers", "texts", "topic names", "lists"];

/// The allowed values as the tables have them: `A..B` for a range, `>A..B` for one without its
/// lower end, the length of a list in front.
fn brief(allowed: &str) -> String {
    let mut words = allowed.split(' ').filter(|word| !matches!(*word, "a" | "an")).peekable();
    let mut brief: Vec<String> = Vec::new();
    while let Some(word) = words.next() {
        // `above` is also a value of `score_kept_when`.
        let min = words.peek().copied().filter(|next| next.parse::<f64>().is_ok());
        let (start, min) = match (word, min) {
            ("from", Some(min)) => ("", min),
            ("above", Some(min)) => (">", min),
            _ => {
                brief.push(word.to_owned());
                continue;
            }
        };
        words.next();
        words.next_if_eq(&"to");
        brief.push(format!("{start}{min}..{}", words.next().unwrap_or_default()));
    }
    let brief = brief.join(" ").replace("true or false", "bool").replace(", one or more", "");
    let Some(items) = brief.strip_prefix("list of ") else { return brief };
    match items.split_once(", exactly ") {
        Some((items, number)) => format!("{number} {items}"),
        None if PLURALS.iter().any(|plural| items.starts_with(plural)) => items.to_owned(),
        None => brief,
    }
}

/// The shipped heads by their kinds.
fn shipped_heads() -> String {
    let mut table = "| kind | shipped heads |\n|---|---|\n".to_owned();
    for (kind, names) in head::shipped_by_kind() {
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        let reason = head::UNSHIPPED.iter().find(|(unshipped, _)| *unshipped == kind);
        let names = reason.map_or(names.join(", "), |(_, reason)| (*reason).to_owned());
        let _ = writeln!(table, "| {kind} | {names} |");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of a kind is in one table, that of all kinds which have it.
    fn check((named, kinds): &(Vec<Table>, Vec<Vec<Declaration>>)) {
        let tables = tables(named, kinds);
        for (kind, declared) in kinds.iter().enumerate() {
            assert!(!declared.is_empty());
            for row in declared.iter().map(row) {
                let of: Vec<_> = tables.iter().filter(|(_, table)| table.contains(&row)).collect();
                assert_eq!(of.len(), 1, "{row} of kind {kind} in {of:?}");
                let (_, kinds) = named.iter().find(|(name, _)| *name == of[0].0).unwrap();
                assert!(kinds[kind], "{row} of kind {kind} in {of:?}");
            }
        }
        for (name, table) in tables {
            assert!(table.lines().count() > 2, "{name} is empty");
            let mut keys: Vec<&str> =
                table.lines().filter_map(|row| row.split('|').nth(1)).collect();
            let num_keys = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), num_keys, "a key twice in {name}");
        }
    }

    #[test]
    fn every_parameter_is_in_one_table() {
        check(&channels());
        check(&heads());
    }

    #[test]
    fn allowed_values_are_brief() {
        for (allowed, expected) in [
            ("a number from 0 to 1", "number 0..1"),
            (
                "a list of numbers above 0 to 5, 1, or one per class",
                "numbers >0..5, 1, or one per class",
            ),
            ("a list of whole numbers from 1 to 9, exactly 2", "2 whole numbers 1..9"),
            ("a list of lists of texts, one or more", "lists of texts"),
            ("true or false", "bool"),
            ("auto, cpu, cuda:N", "auto, cpu, cuda:N"),
            ("at_least, above", "at_least, above"),
        ] {
            assert_eq!(brief(allowed), expected);
        }
    }

    #[test]
    fn every_kind_of_head_is_shipped_or_says_why_not() {
        for (kind, names) in head::shipped_by_kind() {
            let has_reason = head::UNSHIPPED.iter().any(|(unshipped, _)| *unshipped == kind);
            assert_ne!(names.is_empty(), !has_reason, "{kind}: {names:?}");
        }
    }
}
