//! Rulebooks of Autoware's files: made by nodes, or given as inputs of the graph
//! with their geometry in the file's metadata.

use serde::Deserialize;

use super::super::node::{self, Attributes};
use super::super::operation::GridAxes;
use super::super::refuse;
use super::reader::{Column, Reader, Rulebook, Sites, Value};
use crate::onnx::{Model, Node};
use det_post_ops::sparse::rulebook::{Geometry, Mode};
use det_post_types::Result;

/// The metadata entry with the rulebooks that are inputs of the graph.
const STAGES: &str = "rulebook_stages";
/// The metadata entry with the column of the coordinates z y x that each axis of
/// the grid is.
const PERMUTATION: &str = "rulebook_coors_permutation";
/// The inputs of each rulebook, in the order of the outputs of a node.
const SLOTS: [&str; 4] = ["out_indices", "pair_fwd", "pair_mask", "mask_argsort"];
/// What the names of these inputs begin with.
pub(super) const PREFIX: &str = "rulebook/";
/// The most rulebooks that are inputs.
const MAX_STAGES: usize = 64;

/// An entry of [`STAGES`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulebookEntry {
    onnx_base: String,
    ksize: [u32; 3],
    stride: [u32; 3],
    padding: [u32; 3],
    dilation: [u32; 3],
    spatial_shape: [u32; 3],
}

impl<'a> Reader<'_, 'a> {
    /// Takes in the rulebooks that are inputs of the graph: those of the strided
    /// convolutions, one after another from level 0 on.
    pub(super) fn rulebook_inputs(&mut self, model: &Model<'a>) -> Result<()> {
        let Some(stages) = model.metadata(STAGES) else { return Ok(()) };
        let stages: Vec<RulebookEntry> = parse(STAGES, stages)?;
        if stages.len() > MAX_STAGES {
            let num = stages.len();
            return refuse(format!(
                "metadata {STAGES}: {num} entries exceed the limit of {MAX_STAGES}"
            ));
        }
        if let Some(text) = model.metadata(PERMUTATION) {
            let permutation: [usize; 3] = parse(PERMUTATION, text)?;
            let axes = GridAxes::ALL.into_iter().find(|axes| axes.of_zyx() == permutation);
            if axes.is_none() {
                return refuse(format!("metadata {PERMUTATION} is {permutation:?} of z y x"));
            }
            self.axes = axes;
        }
        let mut from = 0;
        for stage in stages {
            let name = &stage.onnx_base;
            let RulebookEntry { ksize: kernel, stride, padding, dilation, .. } = stage;
            let geometry = Geometry { kernel, stride, padding, dilation };
            let (found, expected) = (stage.spatial_shape, self.builder.level(from).shape);
            if found != expected {
                return refuse(format!(
                    "metadata {STAGES}, {name}: spatial_shape is {found:?}; {expected:?} is expected"
                ));
            }
            let to = self.builder.strided_level(name, from, geometry)?;
            let levels = [from, to];
            let rulebook = Rulebook {
                name: name.clone(),
                levels,
                mode: Mode::Strided,
                geometry,
                output_padding: [0; 3],
            };
            let tensors = SLOTS.map(|slot| format!("{name}/{slot}"));
            let inputs = self.graph.inputs.iter().map(|input| input.name);
            let place = |input: &str| tensors.iter().position(|tensor| tensor == input);
            let found: Vec<(usize, &str)> =
                inputs.filter_map(|input| Some((place(input)?, input))).collect();
            self.add_rulebook(rulebook, found.into_iter());
            from = to;
        }
        Ok(())
    }

    /// `GetIndicePairsImplicitGemm`, `GetIndicePairs`.
    pub(super) fn rulebook(&mut self, node: &Node<'a>) -> Result<()> {
        let ([indices], _) = node::inputs(node, 0)?;
        let Some(Value::Indices { of, columns }) = self.values.get(indices) else {
            return self.not_understood(node, indices, "coordinates");
        };
        let (of, columns) = (*of, columns.clone());
        let from = self.level_of_indices(node, of, &columns)?;
        let mut attributes = Attributes::of(node);
        attributes.expect_int("batch_size", 1)?;
        let algorithm = attributes.int("algo")?;
        if !(0..=2).contains(&algorithm) {
            return attributes.refuse("algo", &format!("must be 0 to 2, found {algorithm}"));
        }
        if node.operator == "GetIndicePairsImplicitGemm" {
            attributes.expect_int("is_train", 0)?;
            attributes.optional_flag("do_sort")?;
        }
        attributes.expect_per_axis("spatial_shape", self.builder.level(from).shape)?;
        let geometry = Geometry {
            kernel: attributes.per_axis("ksize")?,
            stride: attributes.per_axis("stride")?,
            padding: attributes.per_axis("padding")?,
            dilation: attributes.per_axis("dilation")?,
        };
        let flags = [attributes.flag("subm")?, attributes.flag("transpose")?];
        if flags != [false, true] {
            attributes.expect_per_axis("out_padding", [0; 3])?;
        }
        let output_padding = attributes.per_axis("out_padding")?;
        let name = node.name();
        let (mode, to) = match flags {
            [true, false] => {
                attributes.expect_per_axis("stride", [1; 3])?;
                if let Err(error) = geometry.check(Mode::Submanifold) {
                    return refuse(format!("{node}: {}", error.message()));
                }
                (Mode::Submanifold, from)
            }
            [false, false] => (Mode::Strided, self.builder.strided_level(name, from, geometry)?),
            [false, true] => {
                let to = self.builder.transposed_level(name, from, geometry, output_padding)?;
                (Mode::Transposed, to)
            }
            [true, true] => return attributes.refuse("subm", "and transpose are 1"),
        };
        attributes.finish()?;
        let rulebook = Rulebook {
            name: node.name().into(),
            levels: [from, to],
            mode,
            geometry,
            output_padding,
        };
        self.add_rulebook(rulebook, node.outputs.iter().copied().enumerate());
        Ok(())
    }

    /// Adds a rulebook whose outputs are these tensors.
    fn add_rulebook(
        &mut self,
        rulebook: Rulebook,
        outputs: impl Iterator<Item = (usize, &'a str)>,
    ) {
        let index = self.rulebooks.len();
        let level = rulebook.levels[1];
        self.rulebooks.push(rulebook);
        for (output, tensor) in outputs.filter(|(_, tensor)| !tensor.is_empty()) {
            let value = match output {
                0 => Value::Indices { of: Sites::Level(level), columns: Column::IN_ORDER.to_vec() },
                _ => Value::Rulebook { rulebook: index, output },
            };
            self.values.insert(tensor, value);
        }
    }

    /// The level of coordinates, whose columns have to be the batch and the
    /// axes of the grid. The first coordinates of the input say what these are.
    pub(super) fn level_of_indices(
        &mut self,
        node: &Node<'_>,
        of: Sites,
        columns: &[Column],
    ) -> Result<usize> {
        match of {
            Sites::Level(level) if columns == Column::IN_ORDER => Ok(level),
            Sites::Input => match Column::grid_axes(columns) {
                Some(axes) if self.axes.is_none_or(|known| known == axes) => {
                    self.axes = Some(axes);
                    Ok(0)
                }
                _ => refuse(format!("{node}: coordinates {columns:?} are not an order of z y x")),
            },
            Sites::Level(_) => {
                refuse(format!("{node}: coordinates {columns:?} are not in the order of the grid"))
            }
        }
    }

    /// The rulebook whose outputs 1, 2 and 3 a convolution reads.
    pub(super) fn rulebook_of(&self, node: &Node<'_>, names: [&str; 3]) -> Result<Rulebook> {
        let mut found = None;
        for (name, expected) in names.into_iter().zip(1..) {
            match self.values.get(name) {
                Some(&Value::Rulebook { rulebook, output })
                    if output == expected && found.is_none_or(|found| found == rulebook) =>
                {
                    found = Some(rulebook);
                }
                Some(_) => {
                    return refuse(format!(
                        "{node}: input {name} is not output {expected} of its rulebook"
                    ));
                }
                None => return self.not_understood(node, name, "a rulebook"),
            }
        }
        match found {
            Some(rulebook) => Ok(self.rulebooks[rulebook].clone()),
            None => refuse(format!("{node}: no rulebook")),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(key: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).or_else(|error| refuse(format!("metadata {key}: {error}")))
}
