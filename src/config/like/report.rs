//! What became of the parameters of another node: as a table, as JSON, and in the manual.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::key::{Effect, Key};
use super::{Like, PACKAGES, Package, TranslatedParameter};
use crate::config::Config;
use crate::config::declaration::parameter_file;

impl Like {
    /// A line per parameter: key, value, what it became, state, note.
    pub fn table(&self) -> String {
        let rows: Vec<[String; 5]> = self.parameters.iter().map(row).collect();
        let head = ["key", "value", "became", "state", "note"].map(str::to_owned);
        let widths: Vec<usize> = (0..4)
            .map(|column| {
                rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut table = String::new();
        for row in [&head].into_iter().chain(&rows) {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                let _ = write!(line, "{cell:width$}  ");
            }
            table += line.trim_end();
            table.push('\n');
        }
        table
    }
}

fn row(parameter: &TranslatedParameter) -> [String; 5] {
    let TranslatedParameter { key, value, became, state, note, .. } = parameter;
    let shorten = |text: &str| match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    };
    [key.clone(), shorten(value), shorten(&became.join(", ")), state.name().into(), note.clone()]
}

impl Config {
    /// The parameters of ours that another node's became, as a parameter file. `None` for a
    /// configuration of our own.
    pub fn migrated_yaml(&self) -> Option<String> {
        let like = self.like.as_ref()?;
        let values = self.migrated.iter().map(|(key, node)| (key.clone(), node));
        let (_, node) = like.package.node();
        let head = format!(
            "# The parameters of {}, for det_post. Topics below `~` begin with the node's \
             name:\n# start it with `-r __node:={node}` to keep them.\n",
            like.package.name()
        );
        Some(head + &parameter_file(values))
    }

    /// The migrated parameters and what became of each key, as JSON.
    pub fn migration_json(&self) -> Option<Value> {
        let like = self.like.as_ref()?;
        let keys: Vec<Value> = like
            .parameters
            .iter()
            .map(|parameter| {
                json!({
                    "key": parameter.key,
                    "value": parameter.value,
                    "became": parameter.became,
                    "state": parameter.state.name(),
                    "note": parameter.note,
                    "warning": parameter.is_warning,
                })
            })
            .collect();
        Some(json!({
            "like": like.package.name(),
            "yaml": self.migrated_yaml()?,
            "keys": keys,
        }))
    }
}

/// The table of a package's parameters, for the manual. The one of BEVFusion has no row that the
/// one of TransFusion has.
pub fn parameter_table(package: Package) -> String {
    let listed: Vec<String> = match package {
        Package::Bevfusion => {
            Package::LidarTransfusion.keys().iter().map(|key| manual_row(key)).collect()
        }
        _ => Vec::new(),
    };
    let rows = package.keys().iter().map(|key| manual_row(key)).filter(|row| !listed.contains(row));
    "| their parameter | here | live | note |\n|---|---|---|---|\n".to_owned()
        + &rows.collect::<String>()
}

/// The row of a parameter in the manual.
fn manual_row(key: &Key) -> String {
    let names: Vec<String> = key.names.iter().map(|name| format!("`{name}`")).collect();
    let here = match (key.effect, key.becomes) {
        (Effect::Engine, _) => "of TensorRT",
        (Effect::Nothing, _) => "no effect",
        (Effect::Used, "") => "read",
        (Effect::Used, ours) => ours,
    };
    let live = if key.is_live { "yes" } else { "" };
    format!("| {} | {here} | {live} | {} |\n", names.join(", "), key.note)
}

/// The packages, by their present names.
pub fn packages() -> Vec<Package> {
    PACKAGES.iter().map(|names| names.package).collect()
}
