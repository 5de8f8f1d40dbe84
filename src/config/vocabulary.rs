//! The classes of a network that finds them by their vectors, as of YOLO-World and YOLOE exported with
//! a second input: a vocabulary, a file of a vector for each name, and the names that are found.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::declaration::Change::{Fixed, Live};
use super::files::Entries;
use super::paths::PathUse::Read;
use super::problems::nearest;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{list, path, text, topic};
use det_post_infer::safetensors::SafeTensors;
use det_post_ros::yaml::Node;
use det_post_types::{ClassVectors, input_file};

const PATH: &str = "vocabulary_path";
const CLASSES: &str = "classes";
const SERVICE: &str = "classes_service";

/// The largest file: 100,000 names with vectors of 512 values have 205 MB.
const MAX_BYTES: u64 = 256 << 20;

/// The most unknown names that an error lists: each is compared with all of the vocabulary.
const MAX_NAMED: usize = 5;

/// A vocabulary, and what a network finds of it.
pub(super) struct Vocabulary {
    /// The file.
    pub(super) path: PathBuf,
    /// The names that are found, in the order of the network.
    pub(super) class_names: Vec<String>,
    /// Their vectors.
    pub(super) vectors: ClassVectors,
    /// Name of a service that sets the names.
    pub(super) service: Option<String>,
}

/// Reads `vocabulary_path`, `classes` and `classes_service`; `None` without them, or where they are refused.
pub(super) fn vocabulary(p: &mut Reader<'_>) -> Option<Vocabulary> {
    let path = p.optional(
        PATH,
        Fixed,
        path(Read),
        "none",
        "Vectors by class name (safetensors, [D] or [1,D]), for a network whose second input is a table of them: \
         YOLO-World, YOLOE.",
    );
    let classes = p.optional(
        CLASSES,
        Live,
        list(text(), OneOrMore),
        "none; needed with a vocabulary",
        "Names of the vocabulary to find. A change reloads the network.",
    );
    let service = p.optional(
        SERVICE,
        Fixed,
        topic(),
        "none",
        "Service (yolo_msgs/SetClasses) for `classes`.",
    );
    if let (None, Some(service)) = (&path, &service) {
        p.conflict(&[SERVICE, PATH], service, "none without `vocabulary_path`");
    }
    let (path, class_names) = match (path, classes) {
        (None, None) => return None,
        (None, Some(classes)) => {
            let allowed = "none without `vocabulary_path`, a file of their vectors; `class_filter` selects classes";
            p.conflict(&[CLASSES, PATH], classes.join(", "), allowed);
            return None;
        }
        (Some(path), None) => {
            p.conflict(&[PATH, CLASSES], path, "a vocabulary with `classes`, names that it has");
            return None;
        }
        (Some(path), Some(classes)) => (PathBuf::from(path), classes),
    };
    match vectors_of(&path, &class_names) {
        Ok(vectors) => Some(Vocabulary { path, class_names, vectors, service }),
        Err((key, message)) => {
            p.problem(key, &message);
            None
        }
    }
}

/// The vectors of names, or what is wrong, with the parameter.
fn vectors_of(path: &Path, names: &[String]) -> Result<ClassVectors, (&'static str, String)> {
    let of_file = |message: String| (PATH, format!("{}: {message}", path.display()));
    let mut bytes = Vec::new();
    let file = input_file::open(path).map_err(|error| of_file(error.to_string()))?;
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|error| of_file(error.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(of_file(format!("more than {MAX_BYTES} bytes, which are allowed")));
    }
    let tensors =
        SafeTensors::parse(&bytes).map_err(|error| of_file(error.message().to_owned()))?;
    let missing: Vec<&String> = names.iter().filter(|name| tensors.get(name).is_none()).collect();
    if !missing.is_empty() {
        let (num, path) = (tensors.names().count(), path.display());
        let named = missing.iter().take(MAX_NAMED);
        let named = named.map(|name| match nearest(name, tensors.names()) {
            Some(known) => format!("{name:?} (did you mean {known:?}?)"),
            None => format!("{name:?}"),
        });
        let mut found = named.collect::<Vec<_>>().join(", ");
        if missing.len() > MAX_NAMED {
            found += &format!(" and {} more", missing.len() - MAX_NAMED);
        }
        let allowed = format!("the {num} names of the vocabulary {path}");
        return Err((CLASSES, format!("found {found}; allowed: {allowed}")));
    }
    let mut vectors: Vec<Vec<f32>> = Vec::with_capacity(names.len());
    let mut known = HashSet::new();
    for name in names {
        if !known.insert(name) {
            return Err((CLASSES, format!("found {name:?} twice; allowed: each name once")));
        }
        let Some(tensor) = tensors.get(name) else { continue };
        let vector = match tensor.shape() {
            [_] | [1, _] => tensor.to_f32().filter(|vector| vector.iter().all(|v| v.is_finite())),
            _ => None,
        };
        let Some(vector) = vector else {
            let found = (tensor.element(), tensor.shape());
            return Err(of_file(format!(
                "the vector of {name:?} is {found:?}; allowed: [D] or [1, D] of finite floats"
            )));
        };
        if let Some(first) = vectors.first().filter(|first| first.len() != vector.len()) {
            return Err(of_file(format!(
                "the vector of {name:?} has {} values, the one of {:?} {}; allowed: as many in all",
                vector.len(),
                names[0],
                first.len()
            )));
        }
        vectors.push(vector);
    }
    ClassVectors::new(&vectors).ok_or_else(|| of_file("its vectors have no values".to_owned()))
}

/// The classes that the parameters of a channel with a vocabulary give.
pub(super) fn given_classes(given: &Entries) -> Option<Vec<String>> {
    let has_path = matches!(&given.get(PATH)?.node, Node::Text(path) if !path.is_empty());
    match &given.get(CLASSES)?.node {
        _ if !has_path => None,
        Node::Text(name) => Some(vec![name.clone()]),
        Node::List(names) if names.is_empty() => None,
        Node::List(names) => {
            let text = |node: &Node| match node {
                Node::Text(name) => Some(name.clone()),
                _ => None,
            };
            names.iter().map(text).collect()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of vectors of f32.
    fn file(entries: &[(&str, &[usize], &[f32])]) -> tempfile::NamedTempFile {
        let (mut header, mut data) = (Vec::new(), Vec::new());
        for (name, shape, values) in entries {
            let start = data.len();
            data.extend(values.iter().flat_map(|value| value.to_le_bytes()));
            header.push(format!(
                "{name:?}:{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{start},{}]}}",
                data.len()
            ));
        }
        let header = format!("{{{}}}", header.join(","));
        let len = (header.len() as u64).to_le_bytes();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [&len[..], header.as_bytes(), &data].concat()).unwrap();
        file
    }

    #[test]
    fn vectors_are_those_of_the_names() {
        let file = file(&[
            ("helmet", &[2], &[1.0, 2.0]),
            ("safety vest", &[1, 2], &[3.0, 4.0]),
            ("boots", &[3], &[1.0, 2.0, 3.0]),
            ("matrix", &[2, 2], &[1.0; 4]),
            ("lost", &[2], &[f32::NAN, 1.0]),
        ]);
        let find = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            vectors_of(file.path(), &names)
        };
        let table = find(&["safety vest", "helmet"]).unwrap();
        assert_eq!(table, ClassVectors::new(&[vec![3.0, 4.0], vec![1.0, 2.0]]).unwrap());
        for (names, key, part) in [
            (&["helmet", "hellmet"][..], CLASSES, "did you mean \"helmet\"?"),
            (&["zebra crossing"], CLASSES, "allowed: the 5 names of the vocabulary"),
            (&["zebra", "hellmet"], CLASSES, "found \"zebra\", \"hellmet\" (did you mean"),
            (&["helmet", "helmet"], CLASSES, "twice"),
            (&["helmet", "boots"], PATH, "has 3 values, the one of \"helmet\" 2"),
            (&["matrix"], PATH, "allowed: [D] or [1, D]"),
            (&["lost"], PATH, "finite floats"),
        ] {
            let (found, message) = find(names).unwrap_err();
            assert_eq!(found, key, "{message}");
            assert!(message.contains(part), "{message}");
        }
        let many: Vec<String> = (0..10_000).map(|number| format!("word {number}")).collect();
        let (_, message) = vectors_of(file.path(), &many).unwrap_err();
        assert!(message.contains("\"word 3\", \"word 4\" and 9995 more; allowed: "), "{message}");
        assert!(vectors_of(Path::new("/no/such"), &["helmet".to_owned()]).is_err());
        assert!(vectors_of(Path::new("/dev/zero"), &["helmet".to_owned()]).is_err());
        std::fs::write(file.path(), b"garbage").unwrap();
        assert_eq!(find(&["helmet"]).unwrap_err().0, PATH);
    }
}
