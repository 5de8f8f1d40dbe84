//! What a network's file says about the network: the metadata that exporters write.
//!
//! ultralytics writes `names` (a dictionary of Python), `task`, `imgsz`, `stride`, `end2end` and `kpt_shape`;
//! others write `names` as JSON. The file is read here, so that every engine knows the same.

mod literal;

use std::path::Path;

use literal::Literal;

use super::onnx;
use det_post_types::{Size, TensorSpec};

/// The most classes whose names are taken.
const MAX_CLASSES: usize = 1 << 16;
/// The most keypoints of a detection.
pub const MAX_KEYPOINTS: usize = 1024;

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Names of the classes, in the network's order; why they cannot be used where the file has
    /// names that are not a list.
    pub class_names: Option<Result<Vec<String>, String>>,
    /// What the network is for, in the words of its exporter: `detect`, `obb`, `segment` …
    pub task: Option<String>,
    /// The size of the input that it was exported for.
    pub input_size: Option<Size>,
    /// The input's sides are multiples of this, in pixels.
    pub stride: Option<u32>,
    /// Whether the outputs are final boxes.
    pub is_end_to_end: bool,
    /// Of task `pose`: the number of keypoints and the numbers of each, 2 or 3.
    pub keypoints: Option<[usize; 2]>,
    /// The inputs, in their order, with the shapes that the file gives; old files list their
    /// constants among them.
    pub inputs: Vec<TensorSpec>,
    /// The outputs, likewise.
    pub outputs: Vec<TensorSpec>,
}

impl Metadata {
    /// The metadata of an ONNX file. A file that is missing or cannot be read says nothing here: its
    /// engine refuses it by name.
    pub fn of_file(path: &Path) -> Self {
        Self::read(path).unwrap_or_default()
    }

    /// As [`Metadata::of_file`], with the reason why the file cannot be read.
    ///
    /// # Errors
    /// When the file cannot be opened, or is no ONNX file as far as it is read.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        let onnx::Entries { texts, inputs, outputs, has_graph } = onnx::metadata_entries(path)?;
        if !has_graph {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        Ok(Self { inputs, outputs, ..Self::of_entries(&texts) })
    }

    fn of_entries(entries: &[(String, String)]) -> Self {
        let text = |key| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.trim());
        Self {
            class_names: text("names").map(names_of),
            task: text("task").map(str::to_owned).filter(|task| !task.is_empty()),
            input_size: text("imgsz").and_then(input_size_of),
            stride: text("stride").and_then(|stride| stride.parse().ok()).filter(|&s| s > 0),
            is_end_to_end: text("end2end").is_some_and(|is| is.eq_ignore_ascii_case("true")),
            keypoints: text("kpt_shape").and_then(keypoints_of),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }
}

/// `{0: 'person', 1: 'bicycle'}`, `{"0": "person"}` or `["person", "bicycle"]`.
fn names_of(text: &str) -> Result<Vec<String>, String> {
    let items: Vec<(Literal, Literal)> = match Literal::parse(text) {
        Some(Literal::Map(items)) => items,
        Some(Literal::List(items)) => (0..).map(Literal::Integer).zip(items).collect(),
        _ => return Err("they are neither a dictionary nor a list".to_owned()),
    };
    if items.is_empty() || items.len() > MAX_CLASSES {
        return Err(format!("{} names; allowed: 1 to {MAX_CLASSES}", items.len()));
    }
    let mut names = vec![None; items.len()];
    for (key, name) in items {
        let class = key.integer().and_then(|class| usize::try_from(class).ok());
        let Some(place) = class.and_then(|class| names.get_mut(class)) else {
            return Err(format!("the classes are not numbered from 0 to {}", names.len() - 1));
        };
        let Some(name) = name.text() else { return Err("a name is not text".to_owned()) };
        if name.trim().is_empty() {
            return Err(format!("the name of class {} is empty", class.unwrap_or_default()));
        }
        *place = Some(name);
    }
    // A class without a name: another is named twice.
    let all: Option<Vec<String>> = names.into_iter().collect();
    let all = all.ok_or("a class is named twice")?;
    let mut sorted: Vec<&String> = all.iter().collect();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(twice) => Err(format!("`{}` is listed twice", twice[0])),
        None => Ok(all),
    }
}

/// `[17, 3]`: keypoints, and the numbers of each.
fn keypoints_of(text: &str) -> Option<[usize; 2]> {
    let Literal::List(items) = Literal::parse(text)? else { return None };
    let [num, num_values] = &items[..] else { return None };
    let [num, num_values] =
        [num, num_values].map(|item| item.integer().and_then(|item| usize::try_from(item).ok()));
    let [num, num_values] = [num?, num_values?];
    let is_sound = (1..=MAX_KEYPOINTS).contains(&num) && matches!(num_values, 2 | 3);
    is_sound.then_some([num, num_values])
}

/// `640`, or `[480, 640]`: height and width.
fn input_size_of(text: &str) -> Option<Size> {
    let sides: Vec<u32> = match Literal::parse(text)? {
        Literal::List(sides) => {
            sides.iter().map(|side| u32::try_from(side.integer()?).ok()).collect::<Option<_>>()?
        }
        side => vec![u32::try_from(side.integer()?).ok()?],
    };
    match sides[..] {
        [side] => Some(Size::new(side, side)),
        [height, width] => Some(Size::new(width, height)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(key: &str, value: &str) -> Metadata {
        Metadata::of_entries(&[(key.to_owned(), value.to_owned())])
    }

    #[test]
    fn names_of_every_spelling() {
        let cases: [(&str, Result<&[&str], &str>); 17] = [
            (r#"{0: 'it\'s a "car", {1: x}'}"#, Ok(&["it's a \"car\", {1: x}"])),
            ("{0: 'helmet', 1: 'vest'}", Ok(&["helmet", "vest"])),
            ("{1: 'vest', 0: 'helmet'}", Ok(&["helmet", "vest"])),
            (r#"{"0": "helmet", "1": "vest"}"#, Ok(&["helmet", "vest"])),
            ("['helmet', \"vest\",]", Ok(&["helmet", "vest"])),
            (r#"{0: "men's", 1: 'a \'b\' \\ \x41 ü'}"#, Ok(&["men's", "a 'b' \\ A ü"])),
            (r#"["\u00fc", "\ud83d\ude80"]"#, Ok(&["ü", "🚀"])),
            ("{0: 7, 1: 8}", Ok(&["7", "8"])),
            ("{0: 'a', 2: 'b'}", Err("numbered from 0 to 1")),
            ("{0: 'a', 0: 'b'}", Err("named twice")),
            ("{0: 'a', 1: 'a'}", Err("`a` is listed twice")),
            ("{0: None}", Err("not text")),
            ("{0: 'a', 1: ' '}", Err("the name of class 1 is empty")),
            ("['']", Err("the name of class 0 is empty")),
            ("{}", Err("0 names")),
            ("helmet,vest", Err("neither")),
            ("{0: 'a'", Err("neither")),
            ("[[[[[[[['a']]]]]]]]", Err("neither")),
        ];
        for (text, expected) in cases {
            let found = of("names", text).class_names.unwrap();
            match expected {
                Ok(names) => assert_eq!(found.unwrap(), names, "{text}"),
                Err(words) => {
                    let reason = found.unwrap_err();
                    assert!(reason.contains(words), "{text}: {reason}");
                }
            }
        }
        assert_eq!(of("task", "detect").class_names, None);
    }

    #[test]
    fn hostile_names_are_refused_or_stay_text() {
        let of_names = |text: &str| of("names", text).class_names.unwrap();
        let many: String = (0..1_000_000).map(|i| format!("{i}: 'n{i}', ")).collect();
        assert!(of_names(&format!("{{{many}}}")).unwrap_err().contains("1000000 names"));
        for (open, close) in [("[", "]"), ("{0: ", "}"), ("(", ")")] {
            let nested = open.repeat(200_000) + "'a'" + &close.repeat(200_000);
            assert!(of_names(&nested).is_err());
            assert!(of_names(&open.repeat(200_000)).is_err());
        }
        // Shown escaped where they are shown.
        let names = of_names("{0: '\\x1b[31mred', 1: 'two\\nlines', 2: '\u{202e}back'}").unwrap();
        assert_eq!(names, ["\u{1b}[31mred", "two\nlines", "\u{202e}back"]);
    }

    #[test]
    fn sizes_strides_and_flags() {
        let size = |text| of("imgsz", text).input_size;
        assert_eq!(size("[480, 640]"), Some(Size::new(640, 480)));
        assert_eq!(size("(480, 640)"), Some(Size::new(640, 480)));
        assert_eq!(size("640"), Some(Size::new(640, 640)));
        assert_eq!(size("[640, -1]"), None);
        assert_eq!(size("big"), None);
        let stride = |text| of("stride", text).stride;
        assert_eq!([stride("32"), stride("0"), stride("x")], [Some(32), None, None]);
        for (text, expected) in [("True", true), ("true", true), ("False", false), ("", false)] {
            assert_eq!(of("end2end", text).is_end_to_end, expected);
        }
        let keypoints = |text| of("kpt_shape", text).keypoints;
        assert_eq!(keypoints("[17, 3]"), Some([17, 3]));
        assert_eq!(keypoints("(4, 2)"), Some([4, 2]));
        for text in ["[17]", "[17, 4]", "[0, 3]", "[-1, 3]", "[1025, 3]", "17, 3", "['a', 3]"] {
            assert_eq!(keypoints(text), None, "{text}");
        }
        assert_eq!(of("task", "obb").task.as_deref(), Some("obb"));
        assert_eq!(Metadata::of_file(Path::new("no/such.onnx")), Metadata::default());
    }
}
