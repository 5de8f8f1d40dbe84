//! The tables of `docs/parameters.md`, made from the declarations.

use std::fmt::Write;

use super::channel::Kind;
use super::declaration::{Declaration, DefaultValue, plain};
use super::head::{self, HeadKind};
use super::node;

/// A table: its name, and the kinds that it is for, as indices into `Kind::ALL` or
/// `HeadKind::ALL`. A row is in the table of exactly the kinds that have it.
type Table = (&'static str, &'static [usize]);

const CHANNELS: &[Table] = &[
    ("every channel", &[0, 1, 2, 3, 4, 5]),
    ("camera and lidar channels", &[0, 1, 2]),
    ("camera and surround channels", &[0, 3, 4, 5]),
    ("lidar and surround channels", &[1, 2, 3, 4, 5]),
    ("camera channels", &[0]),
    ("lidar channels", &[1, 2]),
    ("lidar channels, voxels", &[2]),
    ("surround channels", &[3, 4, 5]),
    ("surround channels, streampetr", &[3]),
    ("surround channels, detr3d and sparse4d", &[4, 5]),
];

const HEADS: &[Table] = &[
    ("every head", &[0, 1, 2, 3, 4, 5, 6, 7]),
    ("camera and surround heads", &[0, 5, 6, 7]),
    ("center and surround heads", &[1, 3, 5, 6, 7]),
    ("camera heads", &[0]),
    ("lidar heads", &[1, 2, 3, 4]),
    ("lidar heads, pillars", &[1, 2]),
    ("lidar heads, voxels", &[3, 4]),
    ("lidar heads, center", &[1, 3]),
    ("lidar heads, anchor", &[2, 4]),
    ("surround heads", &[5, 6, 7]),
    ("surround heads, detr3d and sparse4d", &[6, 7]),
    ("surround heads, detr3d", &[6]),
    ("surround heads, sparse4d", &[7]),
];

/// The tables of `docs/parameters.md` by their names.
pub fn manual_tables() -> Vec<(&'static str, String)> {
    let channels = Kind::ALL.map(Kind::declarations);
    let heads = HeadKind::ALL.map(HeadKind::declarations);
    let of_node = [node::declarations()];
    let of_node = tables(&[("node", &[0])], &of_node);
    let mut all = [of_node, tables(CHANNELS, &channels), tables(HEADS, &heads)].concat();
    all.push(("shipped heads", shipped_heads()));
    all
}

/// Each table with its rows, in the order in which the first of its kinds declares them.
fn tables(tables: &[Table], kinds: &[Vec<Declaration>]) -> Vec<(&'static str, String)> {
    let rows: Vec<Vec<String>> =
        kinds.iter().map(|declared| declared.iter().map(row).collect()).collect();
    let has = |row: &String| -> Vec<usize> {
        (0..rows.len()).filter(|&kind| rows[kind].contains(row)).collect()
    };
    let table = |&(name, of): &Table| {
        let rows = of.first().and_then(|&first| rows.get(first));
        let own = rows.into_iter().flatten().filter(|row| has(row) == of);
        let mut text = "| key | allowed | default | meaning |\n|---|---|---|---|\n".to_owned();
        own.for_each(|row| text += row);
        (name, text)
    };
    tables.iter().map(table).collect()
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
    fn check(named: &[Table], kinds: &[Vec<Declaration>]) {
        let tables = tables(named, kinds);
        for (kind, declared) in kinds.iter().enumerate() {
            assert!(!declared.is_empty());
            for row in declared.iter().map(row) {
                let of: Vec<_> = tables.iter().filter(|(_, table)| table.contains(&row)).collect();
                assert_eq!(of.len(), 1, "{row} of kind {kind} in {of:?}");
                let (_, kinds) = named.iter().find(|(name, _)| *name == of[0].0).unwrap();
                assert!(kinds.contains(&kind), "{row} of kind {kind} in {of:?}");
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
        check(CHANNELS, &Kind::ALL.map(Kind::declarations));
        check(HEADS, &HeadKind::ALL.map(HeadKind::declarations));
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
