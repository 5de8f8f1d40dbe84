//! The copy of rustdds equals the published source plus the difference.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const COPY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/third_party/rustdds");
const DIFFERENCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/third_party/rustdds.patch");

/// Folders and starts of file names that are published and not copied: the feature
/// `security`, its parts elsewhere, and what only tests use.
const NOT_COPIED: [&str; 5] = [
    "security",
    "discovery/secure_discovery.rs",
    "messages/submessages/secure_",
    "messages/submessages/elements/crypto_",
    "test/",
];

/// The sources below a folder, by their path in it.
fn sources(root: &Path) -> BTreeMap<String, String> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

/// Applies the difference to `src` in a folder.
fn apply(folder: &Path, more: &[&str]) {
    let applied = Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .args(more)
        .arg(DIFFERENCE)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(applied.status.success(), "{}", String::from_utf8_lossy(&applied.stderr));
}

/// Copies the sources of a crate into a folder of its own.
fn copied(from: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in sources(&from.join("src")) {
        let path = folder.path().join("src").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

/// The published source, where cargo has it.
fn published() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let mut folders = registries.map(|registry| registry.unwrap().path().join("rustdds-0.15.1"));
    folders.find(|folder| folder.is_dir())
}

#[test]
fn the_difference_can_be_taken_back() {
    let folder = copied(Path::new(COPY));
    apply(folder.path(), &["--reverse"]);
    let changed = sources(&folder.path().join("src"));
    let now = sources(&Path::new(COPY).join("src"));
    let num_changed = changed.iter().filter(|(name, text)| now[*name] != **text).count();
    let difference = std::fs::read_to_string(DIFFERENCE).unwrap();
    let num_listed = difference.lines().filter(|line| line.starts_with("+++ ")).count();
    assert!(num_listed > 0);
    assert_eq!(num_changed, num_listed, "files that differ, and files in the difference");
}

#[test]
fn the_copy_is_what_is_published_and_the_difference() {
    let Some(published) = published() else {
        super::require::skip(super::require::Need::Crates, "cargo has no source of rustdds 0.15.1");
        return;
    };
    let folder = copied(&published);
    apply(folder.path(), &[]);
    let mut expected = sources(&folder.path().join("src"));
    expected.retain(|name, _| !NOT_COPIED.iter().any(|start| name.starts_with(start)));
    let copy = sources(&Path::new(COPY).join("src"));
    let names = |of: &BTreeMap<String, String>| of.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&copy), names(&expected));
    for (name, text) in &copy {
        assert!(
            *text == expected[name],
            "{name} differs; if it is meant: git diff --no-index PUBLISHED/src \
             third_party/rustdds/src > third_party/rustdds.patch, with the paths as they are there"
        );
    }
}
