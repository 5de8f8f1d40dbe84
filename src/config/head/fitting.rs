//! Heads that fit the network of a camera: `head: auto`, and what a misfit suggests.
//!
//! What the file says decides: task, strides and sizes of its metadata, names and shapes of its
//! inputs and outputs. Nothing is guessed: of several heads none is taken.

use super::network::{Network, fits};
use super::{Facts, SHIPPED, YoloFacts, read};
use crate::config::files::{Entries, Entry};
use crate::config::paths;
use crate::config::problems::{Origin, Problems};
use det_post_infer::efficient_nms::EfficientNms;
use det_post_ros::yaml::Node;
use det_post_types::{Dim, Size, TensorSpec, YoloLayout, YoloOutput};

/// The value of `head` that takes the head that fits.
pub(in crate::config) const AUTO: &str = "auto";

/// The most classes that a message takes the length of an output for.
const MAX_CLASSES: usize = 1024;

/// How the names of heads begin whose networks run elsewhere.
const ELSEWHERE: &str = "isaac_ros_";

/// How the names of the heads of the networks in models/ begin: others have a head of their family.
const DEMO: &str = "demo_";

/// The name that YOLOX's exporter gives the output. Others export the same shape for images that
/// are prepared in another way.
const YOLOX_OUTPUT: &str = "output";

impl Network {
    /// Puts the head that fits in the place of `auto`, or of a head that is not given. `key` is the
    /// parameter of the head. Returns whether a head is given now.
    pub(in crate::config) fn choose_head(
        &self,
        key: &str,
        given: &mut Entries,
        problems: &mut Problems,
    ) -> bool {
        let is_auto = |entry: &Entry| matches!(&entry.node, Node::Text(head) if head == AUTO);
        if !given.get("head").is_none_or(is_auto) {
            return true;
        }
        let Self { channel, path, metadata, .. } = self;
        if let Some(model) = given.get("model_path") {
            let missing = paths::missing(&model.node, &model.origin.folders);
            if !missing.is_empty() {
                let key = format!("{channel}.model_path");
                missing.iter().for_each(|message| problems.push(&key, message));
                return false;
            }
        }
        let fitting = self.fitting_heads();
        let says = describe(&metadata.outputs);
        let task = metadata.task.as_ref().map_or(String::new(), |task| format!(" (task `{task}`)"));
        let names = match &metadata.class_names {
            Some(Err(reason)) => format!("; the names in its metadata are not used: {reason}"),
            _ => String::new(),
        };
        match fitting[..] {
            [head] => {
                problems.note(format!(
                    "{channel}: head {head}: the one that fits the network {path}, whose outputs are {says}{task}"
                ));
                let origin = Origin::own(path);
                given.insert("head".into(), Entry { node: Node::Text(head.into()), origin });
                true
            }
            [] => {
                let found = match metadata.outputs.is_empty() {
                    true => "which is not a readable ONNX file with outputs".to_owned(),
                    false => format!("whose outputs are {says}{task}{}", self.metadata_of_misfit()),
                };
                problems.push(key, &format!(
                    "none of the shipped heads of cameras fits the network {path}, {found}; allowed: the path of a head \
                     file (docs/tutorials/your-network.md), or the name of a head"
                ));
                false
            }
            _ => {
                problems.push(key, &format!(
                    "the network {path} does not say which head it has: its outputs are {says}{task}{names}; allowed: one of {}",
                    fitting.join(", ")
                ));
                false
            }
        }
    }

    /// What the metadata says that decides whether a head fits.
    fn metadata_of_misfit(&self) -> String {
        let metadata = &self.metadata;
        let mut text = match &metadata.class_names {
            Some(Ok(names)) => format!("; its metadata has {} names", names.len()),
            Some(Err(reason)) => format!("; the names in its metadata are not used: {reason}"),
            None => "; its metadata has no `names`".to_owned(),
        };
        if metadata.task.as_deref() == Some("pose") && metadata.keypoints.is_none() {
            text += " and no `kpt_shape` of [number, 2 or 3]";
        }
        text
    }

    /// The shipped heads of cameras that fit, without those that are equal to one before.
    pub(in crate::config) fn fitting_heads(&self) -> Vec<&'static str> {
        let mut fitting: Vec<(&'static str, YoloFacts)> = Vec::new();
        for (name, _) in SHIPPED.iter().filter(|(name, _)| !name.starts_with(ELSEWHERE)) {
            let read = read("head", name, Some(self), &mut Problems::default());
            if let Some(Facts::Camera(facts)) = read.map(|head| head.facts)
                && self.fits(&facts)
                && self.is_named(&facts)
                && fitting.iter().all(|(_, other)| *other != facts)
            {
                fitting.push((name, facts));
            }
        }
        if fitting.len() > 1 {
            fitting.retain(|(name, _)| !name.starts_with(DEMO));
        }
        // Shapes that are open fit many heads; the names of several outputs tell one, and the head
        // that reads most of them is meant: boxes with masks.
        let num_names = |facts: &YoloFacts| facts.output_names.len();
        let most = fitting.iter().map(|(_, facts)| num_names(facts)).max();
        if let Some(most) = most.filter(|&most| most > 1) {
            fitting.retain(|(_, facts)| num_names(facts) == most);
        }
        let has = |layout: fn(&YoloLayout) -> bool| fitting.iter().any(|(_, f)| layout(&f.layout));
        let is_yolox = |layout: &YoloLayout| matches!(layout, YoloLayout::Yolox { .. });
        if has(|layout| matches!(layout, YoloLayout::V5)) && has(is_yolox) {
            // A row a cell, of which YOLOv5 has three.
            fitting.retain(|(_, facts)| is_yolox(&facts.layout));
        } else if self.has_a_row_a_cell() {
            // Rows of YOLOX under another name, or with a level more, which no head reads.
            fitting.retain(|(_, facts)| !matches!(facts.layout, YoloLayout::V5));
        }
        fitting.into_iter().map(|(name, _)| name).collect()
    }

    /// Whether the first output has as many rows as the levels of 8 to 32, or to 64, have cells: YOLOX
    /// has one in each. Rows of an open number fit other heads as well, and none is taken.
    fn has_a_row_a_cell(&self) -> bool {
        let shape = self.metadata.outputs.first().and_then(|output| output.shape.as_deref());
        let (Some(&[_, Dim::Fixed(rows), _]), Some(size)) = (shape, self.input_size()) else {
            return false;
        };
        let cells = |strides: &[u32]| -> usize {
            let of_level =
                |stride: &u32| (size.width / stride) as usize * (size.height / stride) as usize;
            strides.iter().map(of_level).sum()
        };
        rows == cells(&[8, 16, 32]) || rows == cells(&[8, 16, 32, 64])
    }

    /// Whether metadata and names do not contradict a head that fits by its shapes.
    fn is_named(&self, facts: &YoloFacts) -> bool {
        let mut problems = Problems::default();
        self.check("head", facts, false, &mut problems);
        let is_of_yolox = self.metadata.stride.is_none()
            && self.metadata.outputs.first().is_some_and(|output| output.name == YOLOX_OUTPUT);
        problems.is_empty() && (is_of_yolox || !matches!(facts.layout, YoloLayout::Yolox { .. }))
    }

    /// Whether the file says that its input is an image and its outputs are those of a head.
    fn fits(&self, facts: &YoloFacts) -> bool {
        let found = &self.metadata.outputs;
        let is_image = |input: &TensorSpec| input.shape.as_ref().is_none_or(|dims| dims.len() == 4);
        let expected = self.expected(facts, facts.class_names.len());
        self.metadata.inputs.first().is_some_and(is_image)
            && expected.is_some_and(|expected| outputs_fit(&expected, facts, found))
    }

    /// What a head expects that the outputs of the file are not; `None` where they fit, or the file
    /// does not say what they are.
    pub(super) fn misfit(&self, facts: &YoloFacts) -> Option<String> {
        let found = &self.metadata.outputs;
        let expected = self.expected(facts, facts.class_names.len())?;
        if found.is_empty() || outputs_fit(&expected, facts, found) {
            return None;
        }
        let shapes =
            |output: &YoloOutput| output.shapes.iter().map(|shape| written(shape)).collect();
        let shapes: Vec<String> =
            expected.iter().flat_map(shapes as fn(&_) -> Vec<String>).collect();
        Some(shapes.join(", "))
    }

    /// Refuses a head that does not fit the outputs of the file, with those that do.
    pub(super) fn check_outputs(&self, key: &str, facts: &YoloFacts, problems: &mut Problems) {
        let Some(expected) = self.misfit(facts) else { return };
        // Its suppression is cut off: other tensors are the outputs then.
        if matches!(EfficientNms::of_file(self.path.as_ref()), Ok(Some(_))) {
            return;
        }
        let Self { path, metadata, .. } = self;
        let found = describe(&metadata.outputs);
        let num_given = facts.class_names.len();
        let num_classes = self.num_classes(facts);
        let by_classes = num_classes.map(|num| {
            format!(
                "the network has {num} classes and `class_names` has {num_given}: give all its names, in its order"
            )
        });
        let heads = self.fitting_heads();
        let by_head = (!heads.is_empty()).then(|| format!("heads that fit: {}", heads.join(", ")));
        let cures: Vec<String> = [by_head, by_classes].into_iter().flatten().collect();
        let cure = match cures.is_empty() {
            true => {
                "the path of a head file for this network (docs/tutorials/your-network.md)".into()
            }
            false => cures.join("; or "),
        };
        problems.push(key, &format!(
            "its layout `{}` with {num_given} classes expects outputs {expected}; the network {path} has {found}; allowed: {cure}",
            facts.layout.name()
        ));
    }

    /// The number of classes with which a head fits.
    fn num_classes(&self, facts: &YoloFacts) -> Option<usize> {
        let found = &self.metadata.outputs;
        let dims = found.iter().flat_map(|output| output.shape.iter().flatten());
        let lengths = dims.filter_map(|dim| match dim {
            Dim::Fixed(length) => Some(*length),
            Dim::Dynamic => None,
        });
        let further = facts.layout.num_further_planes();
        let lengths = lengths.filter_map(|len| len.checked_sub(further));
        let candidates = lengths.flat_map(|len| (0..=5).filter_map(move |n| len.checked_sub(n)));
        candidates.filter(|&num| (1..=MAX_CLASSES).contains(&num)).find(|&num| {
            let expected = self.expected(facts, num);
            expected.is_some_and(|expected| outputs_fit(&expected, facts, found))
        })
    }

    /// The outputs of a head for a number of classes; `None` where they depend on a size that is not
    /// known, or do not exist for it.
    fn expected(&self, facts: &YoloFacts, num_classes: usize) -> Option<Vec<YoloOutput>> {
        let needs_size =
            matches!(facts.layout, YoloLayout::Yolox { .. } | YoloLayout::V5Raw { .. });
        let size = facts.input_size.or(self.input_size());
        let size = if needs_size { size? } else { Size::new(1, 1) };
        facts.layout.outputs(num_classes, size, facts.output_names.len() == 3).ok()
    }

    /// The size of the image that the network takes.
    fn input_size(&self) -> Option<Size> {
        self.fixed_size().or(self.metadata.input_size)
    }

    /// The size of images that an input of the file has.
    pub(super) fn fixed_size(&self) -> Option<Size> {
        let size = |spec: &TensorSpec| match spec.shape.as_deref()? {
            [_, Dim::Fixed(3), Dim::Fixed(height), Dim::Fixed(width)] => {
                Some(Size::new(u32::try_from(*width).ok()?, u32::try_from(*height).ok()?))
            }
            _ => None,
        };
        self.metadata.inputs.iter().find_map(size)
    }
}

/// Whether each output that is expected is there, by its name or position, in a shape that fits.
fn outputs_fit(expected: &[YoloOutput], facts: &YoloFacts, found: &[TensorSpec]) -> bool {
    let names = facts.output_names.iter().map(Some).chain(std::iter::repeat(None));
    expected.iter().zip(names).enumerate().all(|(index, (expected, name))| {
        let output = match name {
            Some(name) => found.iter().find(|output| output.name == *name),
            None => found.get(index),
        };
        output.is_some_and(|output| {
            output.shape.as_ref().is_none_or(|shape| {
                expected.shapes.iter().any(|expected| fits(expected, shape, true))
            })
        })
    })
}

/// The outputs of a file: `output0 [1, 84, 8400]`.
fn describe(outputs: &[TensorSpec]) -> String {
    let one = |output: &TensorSpec| {
        let dim = |dim: &Dim| match dim {
            Dim::Fixed(length) => Some(*length),
            Dim::Dynamic => None,
        };
        let shape = output.shape.as_ref().map(|dims| dims.iter().map(dim).collect::<Vec<_>>());
        match shape {
            Some(shape) => format!("{} {}", output.name, written(&shape)),
            None => output.name.clone(),
        }
    };
    outputs.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn written(shape: &[Option<usize>]) -> String {
    let dim = |dim: &Option<usize>| dim.map_or("?".to_owned(), |length| length.to_string());
    format!("[{}]", shape.iter().map(dim).collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_infer::metadata::Metadata;

    /// The heads that fit a network of one image and one output.
    fn heads(image: &[Dim], name: &str, output: &[Dim]) -> Vec<&'static str> {
        let spec = |name: &str, dims: &[Dim]| TensorSpec {
            name: name.to_owned(),
            element: None,
            shape: Some(dims.to_vec()),
        };
        let metadata = Metadata {
            inputs: vec![spec("images", image)],
            outputs: vec![spec(name, output)],
            ..Metadata::default()
        };
        network(metadata).fitting_heads()
    }

    fn network(metadata: Metadata) -> Network {
        Network::of_metadata("cam", "n.onnx", metadata)
    }

    #[test]
    fn names_that_hide_the_head_are_named() {
        let dims = |dims: &[usize]| Some(dims.iter().map(|&dim| Dim::Fixed(dim)).collect());
        let spec = |name: &str, shape| TensorSpec { name: name.to_owned(), element: None, shape };
        let metadata = Metadata {
            class_names: Some(Err("`a` is listed twice".to_owned())),
            inputs: vec![spec("images", dims(&[1, 3, 640, 640]))],
            outputs: vec![spec("output0", dims(&[1, 7, 8400]))],
            input_size: Some(Size::new(480, 480)),
            ..Metadata::default()
        };
        let (network, mut problems) = (network(metadata), Problems::default());
        assert!(!network.choose_head("cam.head", &mut Entries::default(), &mut problems));
        let error = problems.into_error();
        assert!(error.message().contains("not used: `a` is listed twice"), "{error}");
    }

    #[test]
    fn a_misfit_says_what_the_metadata_has() {
        let names = || vec!["a".to_owned(), "b".to_owned()];
        let pose = || Some("pose".to_owned());
        for (metadata, expected) in [
            (Metadata::default(), "; its metadata has no `names`"),
            (
                Metadata { class_names: Some(Ok(names())), ..Metadata::default() },
                "; its metadata has 2 names",
            ),
            (
                Metadata { class_names: Some(Ok(names())), task: pose(), ..Metadata::default() },
                "; its metadata has 2 names and no `kpt_shape` of [number, 2 or 3]",
            ),
            (
                Metadata { task: pose(), keypoints: Some([17, 3]), ..Metadata::default() },
                "; its metadata has no `names`",
            ),
        ] {
            let output = TensorSpec {
                name: "output0".into(),
                element: None,
                shape: Some(vec![Dim::Fixed(3); 5]),
            };
            let network = network(Metadata { outputs: vec![output], ..metadata });
            let mut problems = Problems::default();
            assert!(!network.choose_head("cam.head", &mut Entries::new(), &mut problems));
            let message = problems.into_error().message().to_owned();
            assert!(message.contains(&format!("{expected}; allowed")), "{expected}: {message}");
        }
    }

    #[test]
    fn a_size_that_contradicts_the_input_is_named() {
        let dims = [1, 3, 640, 640].map(Dim::Fixed).to_vec();
        let image = TensorSpec { name: "images".into(), element: None, shape: Some(dims) };
        for (side, is_named) in [(640, false), (480, true)] {
            let metadata = Metadata {
                inputs: vec![image.clone()],
                input_size: Some(Size::new(side, side)),
                ..Metadata::default()
            };
            let mut problems = Problems::default();
            let head = read("cam.head", "yolov8", None, &mut problems).unwrap();
            let Facts::Camera(facts) = head.facts else { panic!() };
            network(metadata).check("cam.head", &facts, false, &mut problems);
            problems.push("cam", "shown with the warnings");
            let message = problems.into_error().message().to_owned();
            let expected =
                "the input of the network n.onnx is 640x640, and 480x480 in its metadata";
            assert_eq!(message.contains(expected), is_named, "{message}");
        }
    }

    #[test]
    fn a_row_a_cell_is_no_yolov5() {
        let image = |side| [Dim::Fixed(1), Dim::Fixed(3), Dim::Fixed(side), Dim::Fixed(side)];
        let rows = |num| [Dim::Fixed(1), Dim::Fixed(num), Dim::Fixed(85)];
        assert_eq!(heads(&image(416), "output", &rows(3549)), ["yolox"]);
        // Another name, a level of stride 64.
        assert!(heads(&image(416), "outputs", &rows(3549)).is_empty());
        assert!(heads(&image(64), "output", &rows(85)).is_empty());
        assert_eq!(heads(&image(416), "output0", &rows(10_647)), ["yolov5"]);
        assert_eq!(heads(&image(64), "output0", &rows(3 * 85)), ["yolov5"]);
        // Rows that cannot be compared fit several heads: none is taken.
        let open = [Dim::Fixed(1), Dim::Dynamic, Dim::Fixed(85)];
        assert!(heads(&image(416), "output0", &open).len() > 1);
    }
}
