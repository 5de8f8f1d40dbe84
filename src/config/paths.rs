//! Where a relative path of a parameter begins: one rule for files, the command line, launch and the
//! component.
//!
//! The first of these folders that has it: the folder of the parameter file that holds the value, the
//! node's `search_folders`, the current folder, the package's share folder. A path that none has
//! remains as it is given.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::substitution::share_of;
use det_post_ros::yaml::Node;

/// Name of the package, and of its folder below `share`.
const PACKAGE: &str = "det_post";

/// How the names of launch's copies of parameter files begin.
const COPY: &str = "launch_params_";

/// What a kind of value is to the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathUse {
    /// No path.
    None,
    /// The path of a file that a channel reads.
    Read,
    /// The path of a library, which the system may find elsewhere.
    Library,
    /// A name, or the path of a file.
    NameOrPath,
}

/// Whether a head is named by the path of its file.
pub(super) fn is_head_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".yaml") || name.ends_with(".yml")
}

/// Where a relative path was looked for first. It is no part of the value: all are equal.
#[derive(Clone, Debug, Default)]
pub(super) struct Folders(pub(super) Vec<PathBuf>);

impl PartialEq for Folders {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// The folder of a parameter file, in which its relative paths begin; none for a file that launch has
/// written from values or from a file elsewhere.
pub(super) fn folder_of(file: &Path) -> Rc<[PathBuf]> {
    let folder = file.parent().filter(|_| !is_copy(file));
    folder.map(|folder| vec![folder.to_owned()]).unwrap_or_default().into()
}

/// Whether launch has written the file.
pub(super) fn is_copy(file: &Path) -> bool {
    file.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(COPY.as_bytes()))
}

/// The value of a parameter with its paths where they are found.
pub(super) fn located(node: Node, kind: PathUse, folders: &[PathBuf]) -> Node {
    match node {
        Node::Text(text) if is_path(&text, kind) => Node::Text(locate(&text, folders)),
        Node::List(items) => {
            Node::List(items.into_iter().map(|item| located(item, kind, folders)).collect())
        }
        other => other,
    }
}

/// The path where it is found first; as it is given where it is not found.
pub(super) fn locate(path: &str, folders: &[PathBuf]) -> String {
    let found = candidates(path, folders).into_iter().find(|candidate| candidate.exists());
    // Only a path that is not UTF-8 is no text.
    found.and_then(|found| found.into_os_string().into_string().ok()).unwrap_or(path.to_owned())
}

/// The paths of a value that lead nowhere, each with the places where it was looked for, as a
/// sentence.
pub(super) fn missing(node: &Node, folders: &[PathBuf]) -> Vec<String> {
    match node {
        Node::Text(text) if !text.is_empty() => {
            let places = candidates(text, folders);
            if places.iter().any(|place| place.exists()) {
                return Vec::new();
            }
            let places: Vec<String> =
                places.iter().map(|place| absolute(place).display().to_string()).collect();
            vec![format!("found {text}, which is not there; looked for {}", places.join(", "))]
        }
        Node::List(items) => items.iter().flat_map(|item| missing(item, folders)).collect(),
        _ => Vec::new(),
    }
}

fn is_path(text: &str, kind: PathUse) -> bool {
    match kind {
        PathUse::None => false,
        PathUse::Read | PathUse::Library => true,
        PathUse::NameOrPath => is_head_file(text),
    }
}

/// Where a path may be, in the order of the search, each place once.
fn candidates(path: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let given = PathBuf::from(path);
    if given.is_absolute() || path.is_empty() {
        return vec![given];
    }
    let mut found: Vec<PathBuf> = folders.iter().map(|folder| folder.join(path)).collect();
    found.push(given);
    found.extend(share_folders().into_iter().map(|folder| folder.join(path)));
    let mut seen = Vec::new();
    found.retain(|place| {
        let place = absolute(place);
        let is_new = !seen.contains(&place);
        seen.push(place);
        is_new
    });
    found
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The package's share folder: of the sourced workspace, beside the program, or its sources.
fn share_folders() -> Vec<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let beside =
        program.ancestors().skip(2).take(2).map(|prefix| prefix.join("share").join(PACKAGE));
    let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let folders = share_of(PACKAGE).map(PathBuf::from).into_iter().chain(beside);
    folders.chain([sources]).filter(|folder| folder.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_file_comes_before_all_others() {
        let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [own.path().to_owned(), other.path().to_owned()];
        let relative = "models/camera.onnx";
        // Tests run in the folder of the sources, which has it.
        assert_eq!(locate(relative, &folders), relative);
        for folder in [&other, &own] {
            std::fs::create_dir(folder.path().join("models")).unwrap();
            std::fs::write(folder.path().join(relative), "").unwrap();
            let expected = folder.path().join(relative);
            assert_eq!(locate(relative, &folders), expected.to_str().unwrap());
        }
        for given in ["/nowhere/x.onnx", "nowhere/x.onnx", ""] {
            assert_eq!(locate(given, &folders), given);
        }
    }

    #[test]
    fn what_is_missing_names_each_place_once() {
        let own = tempfile::tempdir().unwrap();
        let here = std::env::current_dir().unwrap();
        let nodes = |text: &str| Node::List(vec!["Cargo.toml".into(), text.into()]);
        let found = missing(&nodes("no/x.onnx"), &[own.path().to_owned(), here.clone()]);
        let [message] = found.as_slice() else { panic!("{found:?}") };
        for folder in [own.path(), &here] {
            let place = folder.join("no/x.onnx").display().to_string();
            assert_eq!(message.matches(&place).count(), 1, "{message}");
        }
        let found = missing(&nodes("/no/x.onnx"), &[here]);
        assert_eq!(found, ["found /no/x.onnx, which is not there; looked for /no/x.onnx"]);
    }

    #[test]
    fn copies_of_launch_have_no_folder() {
        assert_eq!(*folder_of(Path::new("/my/a.yaml")), [PathBuf::from("/my")]);
        assert!(folder_of(Path::new("/tmp/launch_params_x1")).is_empty());
    }
}
