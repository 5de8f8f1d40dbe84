//! The messages of onnx.proto, by field numbers. Unknown fields are skipped, as
//! the format asks for; what was dropped (documentation, training …) does not
//! change what a network computes.

use super::tensor::OTHER_FILE;
use super::wire::{Field, Message};
use super::{
    Attribute, AttributeValue, DataType, Graph, MAX_ATTRIBUTES, MAX_DEPTH, MAX_ITEMS, Model, Node,
    Tensor, ValueInfo, error,
};
use det_post_types::Result;

pub(super) fn model(bytes: &[u8]) -> Result<Model<'_>> {
    let mut parser = Parser { num_items: 0, depth: 0 };
    let mut model = Model::default();
    let mut has_graph = false;
    let mut message = Message::new("ModelProto", bytes, 0);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => model.ir_version = field.int()?,
            7 if has_graph => return Err(field.error("the model has a second graph")),
            7 => {
                model.graph = parser.graph(field.message("GraphProto")?)?;
                has_graph = true;
            }
            8 => {
                operator_set(field.bytes()?)?;
                parser.push(&mut model.operator_sets, field.bytes()?)?;
            }
            14 => {
                let entry = metadata(field.message("StringStringEntryProto")?)?;
                parser.push(&mut model.metadata, entry)?;
            }
            25 => {
                let function = function(field.message("FunctionProto")?)?;
                parser.push(&mut model.functions, function)?;
            }
            _ => {}
        }
    }
    if !has_graph {
        return Err(error("the file holds no graph: it is not an ONNX model"));
    }
    Ok(model)
}

/// Domain and version of an operator set; empty is ONNX's own.
pub(super) fn operator_set(bytes: &[u8]) -> Result<(&str, i64)> {
    let mut message = Message::new("OperatorSetIdProto", bytes, 0);
    let mut set = ("", 0);
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => set.0 = field.text()?,
            2 => set.1 = field.int()?,
            _ => {}
        }
    }
    Ok(set)
}

/// Domain and name of a function.
fn function(mut message: Message<'_>) -> Result<(&str, &str)> {
    let mut function = ("", "");
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => function.1 = field.text()?,
            10 => function.0 = field.text()?,
            _ => {}
        }
    }
    Ok(function)
}

pub(super) fn metadata(mut message: Message<'_>) -> Result<(&str, &str)> {
    let mut entry = ("", "");
    while let Some(field) = message.next_field()? {
        match field.number {
            1 => entry.0 = field.text()?,
            2 => entry.1 = field.text()?,
            _ => {}
        }
    }
    Ok(entry)
}

/// The name and type of an input or output.
///
/// # Errors
/// `Model` when it is not of the format.
pub(super) fn value_info(message: Message<'_>) -> Result<ValueInfo<'_>> {
    Parser { num_items: 0, depth: 0 }.value_info(message)
}

/// Counts what is allocated.
struct Parser {
    num_items: usize,
    /// How many graphs are around the one that is read.
    depth: usize,
}

impl Parser {
    fn push<T>(&mut self, list: &mut Vec<T>, item: T) -> Result<()> {
        self.num_items += 1;
        if self.num_items > MAX_ITEMS {
            return Err(error(format!(
                "more than {MAX_ITEMS} nodes, attributes, names and constants"
            )));
        }
        list.push(item);
        Ok(())
    }

    fn push_ints(&mut self, list: &mut Vec<i64>, field: &Field<'_>) -> Result<()> {
        field.ints(|value| self.push(list, value))
    }

    /// A graph inside a node.
    fn inner_graph<'a>(&mut self, field: &Field<'a>, list: &mut Vec<Graph<'a>>) -> Result<()> {
        if self.depth == MAX_DEPTH {
            return Err(field.error(&format!("more than {MAX_DEPTH} graphs are inside each other")));
        }
        self.depth += 1;
        let graph = self.graph(field.message("GraphProto")?)?;
        self.depth -= 1;
        self.push(list, graph)
    }

    fn graph<'a>(&mut self, mut message: Message<'a>) -> Result<Graph<'a>> {
        let mut graph = Graph::default();
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => {
                    let node = self.node(field.message("NodeProto")?)?;
                    self.push(&mut graph.nodes, node)?;
                }
                5 => {
                    let tensor = self.tensor(field.message("TensorProto")?)?;
                    self.push(&mut graph.initializers, tensor)?;
                }
                11 | 12 => {
                    let value = self.value_info(field.message("ValueInfoProto")?)?;
                    let is_input = field.number == 11;
                    let list = if is_input { &mut graph.inputs } else { &mut graph.outputs };
                    self.push(list, value)?;
                }
                15 => return Err(field.error("a sparse initializer, which is not read")),
                _ => {}
            }
        }
        graph.index()?;
        Ok(graph)
    }

    fn node<'a>(&mut self, mut message: Message<'a>) -> Result<Node<'a>> {
        let mut node = Node { bytes: message.bytes(), ..Node::default() };
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => self.push(&mut node.inputs, field.text()?)?,
                2 => self.push(&mut node.outputs, field.text()?)?,
                3 => node.name = field.text()?,
                4 => node.operator = field.text()?,
                5 => {
                    let attribute = self.attribute(field.message("AttributeProto")?)?;
                    self.push(&mut node.attributes, attribute)?;
                }
                7 => node.domain = field.text()?,
                _ => {}
            }
        }
        if node.attributes.len() > MAX_ATTRIBUTES {
            let num = node.attributes.len();
            return Err(error(format!(
                "{node}: {num} attributes exceed the limit of {MAX_ATTRIBUTES}"
            )));
        }
        for (at, attribute) in node.attributes.iter().enumerate() {
            if node.attributes[..at].iter().any(|earlier| earlier.name == attribute.name) {
                return Err(error(format!("{node}: two attributes are named {}", attribute.name)));
            }
        }
        Ok(node)
    }

    fn attribute<'a>(&mut self, mut message: Message<'a>) -> Result<Attribute<'a>> {
        let (mut name, mut kind) = ("", 0);
        let (mut float, mut int, mut text, mut tensor) = (0.0, 0, "", None);
        let (mut floats, mut ints, mut graphs) = (Vec::new(), Vec::new(), Vec::new());
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => name = field.text()?,
                2 => float = field.float()?,
                3 => int = field.int()?,
                4 => text = field.text()?,
                5 => tensor = Some(self.tensor(field.message("TensorProto")?)?),
                6 | 11 => self.inner_graph(&field, &mut graphs)?,
                // As large as in the file: not counted.
                7 => field.floats(|value| {
                    floats.push(value);
                    Ok(())
                })?,
                8 => self.push_ints(&mut ints, &field)?,
                20 => kind = field.int()?,
                _ => {}
            }
        }
        let value = match kind {
            1 => AttributeValue::Float(float),
            2 => AttributeValue::Int(int),
            3 => AttributeValue::Text(text),
            4 => tensor.map_or(AttributeValue::Other, AttributeValue::Tensor),
            6 => AttributeValue::Floats(floats),
            5 | 10 => AttributeValue::Graphs(graphs),
            7 => AttributeValue::Ints(ints),
            _ => AttributeValue::Other,
        };
        Ok(Attribute { name, value })
    }

    fn tensor<'a>(&mut self, mut message: Message<'a>) -> Result<Tensor<'a>> {
        let mut tensor = Tensor {
            name: "",
            data_type: DataType::Other(0),
            dims: Vec::new(),
            raw_data: &[],
            elsewhere: None,
            bytes: message.bytes(),
        };
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => self.push_ints(&mut tensor.dims, &field)?,
                2 => tensor.data_type = DataType::of(field.int()?),
                8 => tensor.name = field.text()?,
                9 => tensor.raw_data = field.bytes()?,
                4 => tensor.elsewhere = Some("float_data"),
                5 => tensor.elsewhere = Some("int32_data"),
                7 => tensor.elsewhere = Some("int64_data"),
                10 => tensor.elsewhere = Some("double_data"),
                13 => tensor.elsewhere = Some(OTHER_FILE),
                _ => {}
            }
        }
        Ok(tensor)
    }

    fn value_info<'a>(&mut self, mut message: Message<'a>) -> Result<ValueInfo<'a>> {
        let mut value = ValueInfo { bytes: message.bytes(), ..ValueInfo::default() };
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => value.name = field.text()?,
                2 => {
                    let mut of_type = field.message("TypeProto")?;
                    while let Some(field) = of_type.next_field()? {
                        if field.number == 1 {
                            self.tensor_type(field.message("TypeProto.Tensor")?, &mut value)?;
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(value)
    }

    fn tensor_type(&mut self, mut message: Message<'_>, value: &mut ValueInfo<'_>) -> Result<()> {
        while let Some(field) = message.next_field()? {
            match field.number {
                1 => value.data_type = Some(DataType::of(field.int()?)),
                2 => {
                    let mut dims = Vec::new();
                    let mut shape = field.message("TensorShapeProto")?;
                    while let Some(field) = shape.next_field()? {
                        if field.number == 1 {
                            let dim = dimension(field.message("TensorShapeProto.Dimension")?)?;
                            self.push(&mut dims, dim)?;
                        }
                    }
                    value.shape = Some(dims);
                }
                _ => {}
            }
        }
        Ok(())
    }
}

fn dimension(mut message: Message<'_>) -> Result<Option<i64>> {
    let mut dim = None;
    while let Some(field) = message.next_field()? {
        if field.number == 1 {
            dim = Some(field.int()?);
        }
    }
    Ok(dim)
}
