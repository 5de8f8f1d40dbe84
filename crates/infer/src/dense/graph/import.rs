//! From a file to a [`Graph`].

use std::collections::HashMap;

use super::attributes::{Place, Reason};
use super::importer::{Importer, checked};
use super::layer::{Kept, Layer};
use super::{
    Element, Graph, Id, Value, casts, constants, convolutions, elementwise, indexing, products,
    reductions, resizing, scattering, views,
};
use crate::dense::refuse;
use crate::onnx::{DataType, Model, Tensor, ValueInfo};
use det_post_types::{Dim, ElementType, Result, TensorSpec};

/// The most nodes of a network. Published ones have up to 3000.
const MAX_NODES: usize = 1 << 13;
/// The newest operator set whose definitions were compared with what is computed here.
const NEWEST_SET: i64 = 28;
/// The oldest.
const OLDEST_SET: i64 = 7;

/// What a network is in its file: names and element types of its inputs and outputs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in super::super) struct Origin {
    /// Inputs with the dimensions of the file.
    pub(in super::super) inputs: Vec<TensorSpec>,
    /// Outputs with the shapes that follow.
    pub(in super::super) outputs: Vec<TensorSpec>,
}

/// Reads a network whose inputs have the shapes that `shape_of` gives. Layers that `keep_f32` names, by name or prefix,
/// are marked.
///
/// # Errors
/// `Model` when the file is not of the format, for a name of `keep_f32` that no node has, and for the first node that is
/// not covered, which the message names; the errors of `shape_of`.
pub(in super::super) fn import(
    bytes: &[u8],
    keep_f32: &[String],
    shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
) -> Result<(Graph, Origin)> {
    let model = Model::parse(bytes)?;
    let file = &model.graph;
    if file.nodes.len() > MAX_NODES {
        return refuse(format!("{} nodes exceed the limit of {MAX_NODES}", file.nodes.len()));
    }
    let set = model.operator_set("").unwrap_or(1);
    if !(OLDEST_SET..=NEWEST_SET).contains(&set) {
        return refuse(format!("operator set {set}: sets {OLDEST_SET} to {NEWEST_SET} are read"));
    }
    let kept = Kept::new(keep_f32, &file.nodes)?;
    let mut importer = Importer { graph: Graph::default(), ids: HashMap::new(), num_computed: 0 };
    let mut origin = Origin::default();
    for input in &file.inputs {
        origin.inputs.push(importer.input(input, shape_of)?);
    }
    for tensor in &file.initializers {
        let value = constants::constant(tensor, tensor.name)
            .map_err(|reason| named_error(tensor, &reason))?;
        importer.name(tensor.name, value);
    }
    for node in &file.nodes {
        let place = importer.place(node, kept.layer(node), set);
        let outputs = place.and_then(|place| {
            let outputs = importer.node_of(&place)?;
            let num = node.outputs.iter().rposition(|name| !name.is_empty()).map_or(0, |at| at + 1);
            match outputs.len() < num {
                true => Err(format!("output {} is not computed", node.outputs[outputs.len()])),
                false => Ok(outputs),
            }
        });
        let outputs = outputs.or_else(|reason| refuse(format!("{node}: {reason}")))?;
        for (&name, id) in node.outputs.iter().zip(outputs) {
            if !name.is_empty() {
                importer.ids.insert(name, id);
            }
        }
    }
    for output in &file.outputs {
        let Some(&id) = importer.ids.get(output.name) else {
            return refuse(format!("output {}: no node computes it", output.name));
        };
        importer.graph.outputs.push(id);
        origin.outputs.push(importer.output_spec(output, id));
    }
    Ok((importer.graph, origin))
}

/// Inputs and outputs of a file.
///
/// # Errors
/// `Model` when it is not of the format.
pub(in super::super) fn tensors(bytes: &[u8]) -> Result<(Vec<TensorSpec>, Vec<TensorSpec>)> {
    let model = Model::parse(bytes)?;
    let inputs = model.graph.inputs.iter().map(spec_of).collect();
    // As the engine gives them.
    let output = |output: &ValueInfo<'_>| match output.data_type {
        Some(DataType::I64) => TensorSpec { element: Some(ElementType::I32), ..spec_of(output) },
        _ => spec_of(output),
    };
    Ok((inputs, model.graph.outputs.iter().map(output).collect()))
}

/// The name, the type where it is one of ours, and the dimensions of the file.
fn spec_of(value: &ValueInfo<'_>) -> TensorSpec {
    let element = match value.data_type {
        Some(DataType::F32) => Some(ElementType::F32),
        Some(DataType::F16) => Some(ElementType::F16),
        _ => None,
    };
    let dim = |dim: &Option<i64>| match dim.and_then(|dim| usize::try_from(dim).ok()) {
        Some(length) => Dim::Fixed(length),
        None => Dim::Dynamic,
    };
    let shape = value.shape.as_ref().map(|dims| dims.iter().map(dim).collect());
    TensorSpec { name: value.name.to_owned(), element, shape }
}

fn named_error(tensor: &Tensor<'_>, reason: &str) -> det_post_types::Error {
    crate::dense::error(format!("initializer {}: {reason}", tensor.name))
}

impl<'a> Importer<'a> {
    fn name(&mut self, name: &'a str, value: Value) -> Id {
        let id = self.graph.add(value);
        self.ids.insert(name, id);
        id
    }

    fn input(
        &mut self,
        input: &ValueInfo<'a>,
        shape_of: &dyn Fn(&TensorSpec) -> Result<Vec<usize>>,
    ) -> Result<TensorSpec> {
        let spec = spec_of(input);
        if spec.element.is_none() {
            let found = input.data_type.map_or("of no type".into(), |of| of.to_string());
            return refuse(format!("input {} is {found}; f32 and f16 are taken", input.name));
        }
        let shape = shape_of(&spec)?;
        if !crate::signature::shape_fits(&spec, &shape) {
            return refuse(format!("input {spec} cannot have the shape {shape:?}"));
        }
        if let Err(reason) = checked(&shape) {
            return refuse(format!("input {spec}: {reason}"));
        }
        let value =
            Value { name: input.name.to_owned(), shape, element: Element::Float, constant: None };
        if self.graph.inputs.is_empty()
            && let Some([Dim::Fixed(items), ..]) = spec.shape.as_deref()
        {
            self.graph.fixed_items = *items;
        }
        let id = self.name(input.name, value);
        self.graph.inputs.push(id);
        Ok(spec)
    }

    fn output_spec(&self, output: &ValueInfo<'_>, id: Id) -> TensorSpec {
        let value = &self.graph.values[id];
        let element = match (value.element, output.data_type) {
            (Element::Float, Some(DataType::F16)) => ElementType::F16,
            (Element::Float, _) => ElementType::F32,
            (Element::Integer | Element::Boolean, _) => ElementType::I32,
        };
        let shape = value.shape.iter().map(|&length| Dim::Fixed(length)).collect();
        TensorSpec { name: output.name.to_owned(), element: Some(element), shape: Some(shape) }
    }

    fn place<'n>(
        &self,
        node: &'n crate::onnx::Node<'a>,
        layer: Layer,
        set: i64,
    ) -> std::result::Result<Place<'n, 'a>, Reason> {
        if !matches!(node.domain, "" | "ai.onnx") {
            return Err(format!("an operator of {} is not covered", node.domain));
        }
        let find = |name: &&str| match *name {
            "" => Ok(None),
            name => match self.ids.get(name) {
                Some(&id) => Ok(Some(id)),
                None => Err(format!("input {name} is not computed before it")),
            },
        };
        let inputs = node.inputs.iter().map(find).collect::<std::result::Result<_, _>>()?;
        Ok(Place { node, layer, inputs, set })
    }

    /// Adds what a node of the file computes; its outputs, or as many as are computed.
    fn node_of(&mut self, place: &Place<'_, 'a>) -> std::result::Result<Vec<Id>, Reason> {
        match place.node.operator {
            "Constant" => {
                let value = casts::constant(place)?;
                Ok(vec![self.graph.add(value)])
            }
            "Conv" => convolutions::conv(self, place),
            "ConvTranspose" => convolutions::transposed(self, place),
            "MaxPool" | "AveragePool" => convolutions::pool(self, place),
            "Pad" => convolutions::pad(self, place),
            "BatchNormalization" => products::batch_norm(self, place),
            "Gemm" => products::gemm(self, place),
            "MatMul" => products::matmul(self, place),
            "LayerNormalization" => products::layer_norm(self, place),
            "InstanceNormalization" | "GroupNormalization" => products::group_norm(self, place),
            "Resize" | "Upsample" => resizing::resize(self, place),
            "DepthToSpace" | "SpaceToDepth" => views::depth_space(self, place),
            "Softmax" | "LogSoftmax" => reductions::softmax(self, place),
            "GlobalAveragePool" | "GlobalMaxPool" => reductions::global_pool(self, place),
            "ReduceSum" | "ReduceMean" | "ReduceMax" | "ReduceMin" => {
                reductions::reduce(self, place)
            }
            "ArgMax" | "ArgMin" | "TopK" | "Gather" | "GatherElements" | "GridSample" | "Range"
            | "ConstantOfShape" => indexing::import(self, place),
            "OneHot" | "ScatterND" => scattering::import(self, place),
            "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze" | "Transpose" | "Slice" | "Split"
            | "Expand" | "Tile" | "Concat" | "Identity" | "Dropout" | "Cast" | "Shape" | "Size" => {
                views::import(self, place)
            }
            _ => elementwise::import(self, place),
        }
    }
}
