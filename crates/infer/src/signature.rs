//! Matching the tensors that a head expects with those of a model.

use std::fmt;

use det_post_types::{Dim, ElementType, Error, ErrorKind, Result, TensorSpec};

/// The inputs or the outputs of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Inputs. Every input must be expected.
    Input,
    /// Outputs. Unexpected outputs are ignored.
    Output,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Input => "input",
            Self::Output => "output",
        })
    }
}

/// One dimension of a tensor that a head expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpectedDim {
    /// This length. A dynamic dimension fits as well.
    Exactly(usize),
    /// Any length.
    Any,
}

/// A tensor that a head expects.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// Its meaning, for messages: `heat map`.
    pub what: &'static str,
    /// Its name in the model; `None` binds by position.
    pub name: Option<String>,
    /// The supported element types; empty for any.
    pub elements: Vec<ElementType>,
    /// The supported shapes; empty for any.
    pub shapes: Vec<Vec<ExpectedDim>>,
}

impl Expected {
    fn fits(&self, found: &TensorSpec) -> bool {
        let element = found.element.is_none_or(|element| self.elements.contains(&element));
        let shape = found.shape.as_ref().is_none_or(|dims| {
            self.shapes.iter().any(|shape| {
                shape.len() == dims.len()
                    && shape.iter().zip(dims).all(|(expected, dim)| match (expected, dim) {
                        (ExpectedDim::Exactly(expected), Dim::Fixed(found)) => expected == found,
                        _ => true,
                    })
            })
        });
        (self.elements.is_empty() || element) && (self.shapes.is_empty() || shape)
    }
}

impl fmt::Display for Expected {
    /// `heat map "heatmap" f32 or f16 [1, 3, ?, ?]`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        let elements: Vec<String> = self.elements.iter().map(ElementType::to_string).collect();
        if !elements.is_empty() {
            write!(f, " {}", elements.join(" or "))?;
        }
        let shapes: Vec<String> = self.shapes.iter().map(|shape| shape_text(shape)).collect();
        if !shapes.is_empty() {
            write!(f, " {}", shapes.join(" or "))?;
        }
        Ok(())
    }
}

fn shape_text(shape: &[ExpectedDim]) -> String {
    let dims: Vec<String> = shape
        .iter()
        .map(|dim| match dim {
            ExpectedDim::Exactly(n) => n.to_string(),
            ExpectedDim::Any => "?".into(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

/// The position in `found` of each tensor of `expected`, in the order of `expected`: by
/// name if it has one, else by its own position.
///
/// An element type, dimension or shape that the model does not specify fits everything;
/// it is checked when the model runs.
///
/// # Errors
/// `Model`, with the expected tensor and all found ones, when a tensor is missing, does
/// not fit or is expected twice, or an input is not expected.
pub fn bind(side: Side, expected: &[Expected], found: &[TensorSpec]) -> Result<Vec<usize>> {
    let refuse = |problem: String| {
        let found: Vec<String> = found.iter().map(TensorSpec::to_string).collect();
        let found = if found.is_empty() { "none".into() } else { found.join("; ") };
        Err(Error::new(ErrorKind::Model, "signature", format!("{problem}; {side}s found: {found}")))
    };
    let mut positions = Vec::with_capacity(expected.len());
    for (index, wanted) in expected.iter().enumerate() {
        let position = match &wanted.name {
            Some(name) => found.iter().position(|spec| spec.name == *name),
            None => (index < found.len()).then_some(index),
        };
        let Some(position) = position else {
            return refuse(format!("the model has no {side} for {wanted}"));
        };
        if !wanted.fits(&found[position]) {
            return refuse(format!("{side} {} does not fit {wanted}", found[position]));
        }
        if positions.contains(&position) {
            return refuse(format!("{side} {} is expected twice", found[position]));
        }
        positions.push(position);
    }
    if side == Side::Input && found.len() > expected.len() {
        let expected: Vec<String> = expected.iter().map(Expected::to_string).collect();
        return refuse(format!(
            "the model has more inputs than {}: export it with these inputs only",
            expected.join("; ")
        ));
    }
    Ok(positions)
}

/// Whether a shape fits the specification of a tensor.
pub(super) fn shape_fits(spec: &TensorSpec, shape: &[usize]) -> bool {
    spec.shape.as_ref().is_none_or(|dims| {
        dims.len() == shape.len()
            && dims.iter().zip(shape).all(|(dim, &n)| match dim {
                Dim::Fixed(fixed) => *fixed == n,
                Dim::Dynamic => true,
            })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ExpectedDim::{Any, Exactly};

    fn spec(name: &str, dims: &[Dim]) -> TensorSpec {
        TensorSpec {
            name: name.into(),
            element: Some(ElementType::F32),
            shape: Some(dims.to_vec()),
        }
    }

    fn expected(name: Option<&str>, shape: &[ExpectedDim]) -> Expected {
        Expected {
            what: "heat map",
            name: name.map(String::from),
            elements: vec![ElementType::F32, ElementType::F16],
            shapes: vec![shape.to_vec()],
        }
    }

    #[test]
    fn tensors_are_found_by_name_or_position() {
        let found =
            [spec("a", &[Dim::Fixed(1), Dim::Fixed(4)]), spec("b", &[Dim::Fixed(1), Dim::Dynamic])];
        let any = [Exactly(1), Any];
        let four = [Exactly(1), Exactly(4)];
        let bind = |side, expected: &[Expected]| bind(side, expected, &found);
        let by_name = [expected(Some("b"), &four), expected(Some("a"), &four)];
        assert_eq!(bind(Side::Input, &by_name).unwrap(), [1, 0]);
        let by_position = [expected(None, &any), expected(None, &any)];
        assert_eq!(bind(Side::Output, &by_position).unwrap(), [0, 1]);
        assert_eq!(bind(Side::Output, &by_position[..1]).unwrap(), [0]);
        assert_eq!(bind(Side::Output, &[]).unwrap(), [0; 0]);
        assert!(bind(Side::Input, &by_position[..1]).is_err(), "b is left over");
        let twice = [expected(Some("b"), &any), expected(None, &any)];
        assert!(bind(Side::Output, &twice).is_err());
        let anything = Expected { what: "scores", name: None, elements: vec![], shapes: vec![] };
        assert_eq!(bind(Side::Output, &[anything]).unwrap(), [0]);
    }

    #[test]
    fn messages_name_expected_and_found() {
        let found = [spec("out", &[Dim::Fixed(1), Dim::Fixed(4)])];
        let error = |expected: &[Expected]| {
            let error = bind(Side::Output, expected, &found).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Model);
            error.message().to_owned()
        };
        assert_eq!(
            error(&[expected(Some("heatmap"), &[Exactly(1), Any])]),
            "the model has no output for heat map \"heatmap\" f32 or f16 [1, ?]; \
             outputs found: out f32 [1, 4]"
        );
        assert_eq!(
            error(&[expected(None, &[Exactly(1), Exactly(5)])]),
            "output out f32 [1, 4] does not fit heat map f32 or f16 [1, 5]; \
             outputs found: out f32 [1, 4]"
        );
        assert!(error(&[expected(None, &[Any])]).contains("does not fit"));
        let integers = Expected { elements: vec![ElementType::I64], ..expected(None, &[Any, Any]) };
        assert!(error(&[integers]).contains("does not fit heat map i64 [?, ?]"));
    }

    #[test]
    fn what_the_model_leaves_open_fits() {
        let open = TensorSpec { name: "x".into(), element: None, shape: None };
        assert!(bind(Side::Input, &[expected(None, &[Exactly(1)])], &[open]).is_ok());
    }
}
