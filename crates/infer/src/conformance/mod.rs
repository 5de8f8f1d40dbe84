//! Whether rten computes a network as ONNX defines it.
//!
//! Before a network is loaded into rten, every node, those of branches and bodies included, is compared with
//! [`table`]: operator, operator set, types and attributes. A node that rten computes otherwise is replaced by nodes that it
//! computes exactly, else the network is refused with the node's name. Where that depends on the
//! shapes of tensors, [`shapes`] asks rten for them.

mod element;
mod place;
mod rules;
mod scope;
mod shapes;
mod table;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;

use self::element::{letter, shown, shown_letter};
use self::place::{Checker, Place};
use self::rules::Verdict;
use self::scope::Scope;
use super::onnx::{AttributeValue, DataType, Graph, Model, Node, Tensor, replace};
use det_post_types::{Error, ErrorKind, Result};

const STAGE: &str = "rten";

/// The end of every refusal: what to do.
pub(super) const WAY_OUT: &str = "use ONNX Runtime: `engine.kind: onnxruntime`";

/// A network that rten computes as ONNX defines it.
pub(super) struct Checked {
    /// The network, where rten does not compute the file's as ONNX defines it.
    pub(super) changed: Option<Vec<u8>>,
    /// Whether sizes of tensors inside depend on the values of inputs.
    pub(super) depends_on_values: bool,
}

/// Operators whose outputs have sizes that depend on values.
const OF_VALUES: [&str; 4] = ["If", "Loop", "NonZero", "SequenceAt"];

/// Checks a network, and replaces nodes that rten computes otherwise than ONNX defines.
///
/// # Errors
/// `Model` when the file is not of the format, or rten does not compute a node as ONNX defines it;
/// the message names the node.
pub(super) fn check(bytes: &[u8]) -> Result<Checked> {
    let first = pass(bytes, false)?;
    let depends_on_values = first.depends_on_values;
    if !first.is_open {
        return Ok(Checked { changed: first.changed, depends_on_values });
    }
    // Shapes are known once nodes that rten does not load are replaced.
    let second = pass(first.changed.as_deref().unwrap_or(bytes), true)?;
    Ok(Checked { changed: second.changed.or(first.changed), depends_on_values })
}

/// What became of a network.
struct Passed {
    changed: Option<Vec<u8>>,
    /// Whether shapes decide about a node that stayed as it is.
    is_open: bool,
    depends_on_values: bool,
}

/// Replaces nodes; those about which shapes decide stay as they are unless `with_shapes`.
fn pass(bytes: &[u8], with_shapes: bool) -> Result<Passed> {
    let model = Model::parse_with_functions(bytes)?;
    let set = model.operator_set("").unwrap_or(1);
    if set > table::NEWEST_SET {
        return refuse(&format!(
            "operator set {set}: rten was compared with ONNX up to set {}",
            table::NEWEST_SET
        ));
    }
    let checker = Checker {
        bytes,
        model: &model,
        set,
        with_shapes,
        shapes: shapes::Shapes::default(),
        is_open: Cell::new(false),
    };
    let mut replaced = Replaced::new();
    checker.graph(&Scope::new(&model.graph, None), &mut replaced)?;
    let replacement = |node: &[u8]| replaced.get(&(node.as_ptr() as usize)).map(|nodes| &nodes[..]);
    let is_changed = !replaced.is_empty();
    let changed =
        is_changed.then(|| replace::with_replaced_nodes(bytes, &replacement)).transpose()?;
    let depends_on_values = model.graph.nodes.iter().any(|node| OF_VALUES.contains(&node.operator));
    Ok(Passed { changed, is_open: checker.is_open.get(), depends_on_values })
}

/// The nodes in place of one, by the address of its bytes in the file.
type Replaced = HashMap<usize, Vec<Vec<u8>>>;

impl<'a> Checker<'a, '_> {
    fn graph(&self, scope: &Scope<'_, 'a>, replaced: &mut Replaced) -> Result<()> {
        for tensor in &scope.graph.initializers {
            let is_end = || ends_slices(scope.graph, tensor.name, 0);
            check_constant(tensor, &is_end, &format!("initializer {}", tensor.name))?;
        }
        for node in &scope.graph.nodes {
            let mut types = Vec::new();
            for inner in node.graphs() {
                let inner = Scope::new(inner, Some(scope));
                inner.take_inputs(node, scope);
                self.graph(&inner, replaced)?;
                types = inner.output_types();
            }
            let place = Place { checker: self, scope, node };
            match place.verdict(&types)? {
                Verdict::Computed => {}
                Verdict::Replaced(nodes) => {
                    replaced.insert(node.bytes.as_ptr() as usize, nodes);
                }
                Verdict::OfShape(_) if !self.with_shapes => self.is_open.set(true),
                Verdict::Refused(reason) | Verdict::OfShape(reason) => {
                    return refuse(&format!("{node}: {reason}"));
                }
            }
        }
        Ok(())
    }
}

impl<'a> Place<'_, 'a, '_> {
    /// What becomes of the node. `inner` are the types of the outputs of its last graph.
    fn verdict(&self, inner: &[Option<i64>]) -> Result<Verdict> {
        let node = self.node;
        let domain = if node.domain == "ai.onnx" { "" } else { node.domain };
        let is_function = |(of, name): &(&str, &str)| *of == node.domain && *name == node.operator;
        let operator = table::find(node.operator).filter(|_| domain.is_empty());
        let Some(operator) =
            operator.filter(|_| !self.checker.model.functions.iter().any(is_function))
        else {
            let of = if domain.is_empty() { String::new() } else { format!(" of {domain}") };
            return Ok(Verdict::Refused(format!(
                "rten does not compute {}{of}, or not as ONNX defines it",
                node.operator
            )));
        };
        let set = self.checker.set;
        if set < operator.since {
            let since = operator.since;
            return Ok(Verdict::Refused(format!(
                "operator set {set}: rten computes {} as defined since set {since}",
                node.operator
            )));
        }
        self.scope.note(node, operator.gives, inner);
        self.check_values()?;
        if let Some(reason) = self.refused_type(operator) {
            return Ok(Verdict::Refused(reason));
        }
        match &operator.rule {
            Some(rule) => (rule.apply)(self),
            None => Ok(Verdict::Computed),
        }
    }

    /// Refuses constants in attributes that rten would change.
    fn check_values(&self) -> Result<()> {
        let node = self.node;
        let is_end = || node.outputs.iter().any(|name| ends_slices(self.scope.graph, name, 0));
        for attribute in &node.attributes {
            let shown = format!("{node}: attribute {}", attribute.name);
            match &attribute.value {
                AttributeValue::Tensor(tensor) => check_constant(tensor, &is_end, &shown)?,
                AttributeValue::Int(value) if node.operator == "Constant" => {
                    check_integer(*value, &is_end, &shown)?;
                }
                AttributeValue::Ints(values) if node.operator == "Constant" => {
                    values.iter().try_for_each(|&value| check_integer(value, &is_end, &shown))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Why rten does not compute the operator for the types of its inputs, if so.
    fn refused_type(&self, operator: &table::Operator) -> Option<String> {
        let last = operator.takes.last()?;
        self.node.inputs.iter().enumerate().find_map(|(at, name)| {
            let number = self.scope.type_of(name)?;
            let taken = operator.takes.get(at).unwrap_or(last);
            (!taken.contains(letter(number))).then(|| {
                let (found, allowed) = (shown(number), taken.chars().map(shown_letter));
                let allowed = allowed.collect::<Vec<_>>().join(", ");
                format!("input {at}, {name}, is {found}; rten computes {allowed}")
            })
        })
    }
}

/// Refuses a constant that rten would change: it narrows i64 to i32.
fn check_constant(tensor: &Tensor<'_>, is_end: &dyn Fn() -> bool, shown: &str) -> Result<()> {
    if tensor.data_type != DataType::I64 {
        return Ok(());
    }
    if tensor.is_in_other_file() {
        return refuse(&format!("{shown}: int64 in another file"));
    }
    let mut beyond = None;
    tensor.each_integer(|value| {
        if i32::try_from(value).is_err() {
            beyond = Some(value);
        }
    })?;
    beyond.map_or(Ok(()), |value| check_integer(value, is_end, shown))
}

fn check_integer(value: i64, is_end: &dyn Fn() -> bool, shown: &str) -> Result<()> {
    if i32::try_from(value).is_ok() || is_end() {
        return Ok(());
    }
    refuse(&format!("{shown}: {value}, where rten computes int64 in 32 bits"))
}

/// Whether a tensor only says where slices begin and end, for which 32 bits do: dimensions are
/// smaller.
fn ends_slices(graph: &Graph<'_>, name: &str, depth: usize) -> bool {
    const MAX_STEPS: usize = 8;
    let is_read_inside = |node: &Node<'_>| {
        node.graphs().any(|inner| {
            inner.nodes.iter().any(|node| node.inputs.contains(&name))
                || inner.outputs.iter().any(|output| output.name == name)
        })
    };
    let ends = |node: &Node<'_>| match node.operator {
        "Slice" => matches!(node.inputs.iter().position(|input| *input == name), Some(1 | 2)),
        "Identity" | "Unsqueeze" | "Squeeze" | "Reshape" | "Concat" | "Cast" => {
            depth < MAX_STEPS
                && node.outputs.first().is_some_and(|output| ends_slices(graph, output, depth + 1))
        }
        _ => false,
    };
    let is_output = graph.outputs.iter().any(|output| output.name == name);
    let mut readers = graph.nodes.iter().filter(|node| node.inputs.contains(&name));
    !is_output && !graph.nodes.iter().any(is_read_inside) && readers.all(ends)
}

fn refuse<T>(message: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Model, STAGE, format!("{message}; {WAY_OUT}")))
}
