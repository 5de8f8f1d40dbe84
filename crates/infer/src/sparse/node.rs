//! Reading the attributes of a node, each of which has to be known.

use super::refuse;
use crate::onnx::{AttributeValue, Node};
use det_post_types::Result;

/// The attributes of a node. [`Self::finish`] refuses the ones that nothing has
/// asked for.
pub(super) struct Attributes<'n, 'a> {
    node: &'n Node<'a>,
    is_read: Vec<bool>,
}

impl<'n, 'a> Attributes<'n, 'a> {
    pub(super) fn of(node: &'n Node<'a>) -> Self {
        Self { node, is_read: vec![false; node.attributes.len()] }
    }

    /// An integer.
    pub(super) fn int(&mut self, name: &str) -> Result<i64> {
        self.required(name, Self::optional_int)
    }

    /// An integer that may be absent.
    pub(super) fn optional_int(&mut self, name: &str) -> Result<Option<i64>> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Int(value)) => Ok(Some(*value)),
            Some(_) => self.refuse(name, "is not an integer"),
        }
    }

    /// An integer that says yes (1) or no (0).
    pub(super) fn flag(&mut self, name: &str) -> Result<bool> {
        match self.int(name)? {
            0 => Ok(false),
            1 => Ok(true),
            value => self.refuse(name, &format!("must be 0 or 1, found {value}")),
        }
    }

    /// As [`Self::flag`], for an attribute that may be absent.
    pub(super) fn optional_flag(&mut self, name: &str) -> Result<Option<bool>> {
        if self.is_present(name) { self.flag(name).map(Some) } else { Ok(None) }
    }

    /// Refuses an attribute unless it is one of these floats.
    pub(super) fn expect_float(&mut self, name: &str, expected: &[f32]) -> Result<()> {
        match self.value(name) {
            None => self.refuse(name, "is missing"),
            Some(AttributeValue::Float(value)) if expected.contains(value) => Ok(()),
            Some(AttributeValue::Float(value)) => {
                self.refuse(name, &format!("is {value}; {expected:?} is expected"))
            }
            Some(_) => self.refuse(name, "is not a float"),
        }
    }

    /// Text.
    pub(super) fn text(&mut self, name: &str) -> Result<&'a str> {
        self.required(name, Self::optional_text)
    }

    /// Text that may be absent.
    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<&'a str>> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Text(text)) => Ok(Some(text)),
            Some(_) => self.refuse(name, "is not a text"),
        }
    }

    /// A list of integers.
    pub(super) fn ints(&mut self, name: &str) -> Result<&'n [i64]> {
        self.required(name, Self::optional_ints)
    }

    fn optional_ints(&mut self, name: &str) -> Result<Option<&'n [i64]>> {
        match self.value(name) {
            None => Ok(None),
            Some(AttributeValue::Ints(values)) => Ok(Some(values)),
            Some(_) => self.refuse(name, "is not a list of integers"),
        }
    }

    /// A number of each axis, none of them negative.
    pub(super) fn per_axis(&mut self, name: &str) -> Result<[u32; 3]> {
        let values = self.ints(name)?;
        let mut per_axis = [0; 3];
        let mut fits = values.len() == per_axis.len();
        for (axis, &value) in per_axis.iter_mut().zip(values) {
            match u32::try_from(value) {
                Ok(value) => *axis = value,
                Err(_) => fits = false,
            }
        }
        if fits {
            return Ok(per_axis);
        }
        self.refuse(name, &format!("must be three numbers from 0 on, found {values:?}"))
    }

    /// A length, from 1 to 65536.
    pub(super) fn size(&mut self, name: &str) -> Result<usize> {
        let value = self.int(name)?;
        match usize::try_from(value) {
            Ok(size @ 1..=65_536) => Ok(size),
            _ => self.refuse(name, &format!("must be from 1 to 65536, found {value}")),
        }
    }

    /// Refuses an attribute unless it has this value.
    pub(super) fn expect_int(&mut self, name: &str, expected: i64) -> Result<()> {
        match self.int(name)? {
            value if value == expected => Ok(()),
            value => self.refuse(name, &format!("is {value}; {expected} is expected")),
        }
    }

    /// Refuses an attribute unless it has these values.
    pub(super) fn expect_per_axis(&mut self, name: &str, expected: [u32; 3]) -> Result<()> {
        match self.per_axis(name)? {
            values if values == expected => Ok(()),
            values => self.refuse(name, &format!("is {values:?}; {expected:?} is expected")),
        }
    }

    /// Whether there is an attribute, whatever its value.
    pub(super) fn is_present(&mut self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// An error about an attribute.
    pub(super) fn refuse<T>(&self, name: &str, what: &str) -> Result<T> {
        refuse(format!("{}: attribute {name} {what}", self.node))
    }

    /// Ends the reading of a node.
    ///
    /// # Errors
    /// When it has an attribute that was not asked for.
    pub(super) fn finish(self) -> Result<()> {
        let unknown =
            self.node.attributes.iter().zip(&self.is_read).find(|(_, is_read)| !**is_read);
        match unknown {
            None => Ok(()),
            Some((attribute, _)) => self.refuse(attribute.name, "is unknown"),
        }
    }

    fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self, &str) -> Result<Option<T>>,
    ) -> Result<T> {
        match read(self, name)? {
            Some(value) => Ok(value),
            None => self.refuse(name, "is missing"),
        }
    }

    fn value(&mut self, name: &str) -> Option<&'n AttributeValue<'a>> {
        let at = self.node.attributes.iter().position(|attribute| attribute.name == name)?;
        self.is_read[at] = true;
        Some(&self.node.attributes[at].value)
    }
}

/// The names of as many inputs as a node has to have; `optional` more may follow.
pub(super) fn inputs<'n, 'a, const N: usize>(
    node: &'n Node<'a>,
    optional: usize,
) -> Result<([&'a str; N], &'n [&'a str])> {
    let given = node.inputs.len();
    let Some((inputs, more)) = node.inputs.split_first_chunk::<N>() else {
        return refuse(format!("{node}: {given} inputs, at least {N} required"));
    };
    if more.len() > optional {
        let max = N + optional;
        return refuse(format!("{node}: {given} inputs exceed the limit of {max}"));
    }
    if let Some(at) = inputs.iter().position(|name| name.is_empty()) {
        return refuse(format!("{node}: input {at} is left out"));
    }
    Ok((*inputs, more))
}

/// The name of the only output of a node.
pub(super) fn output<'a>(node: &Node<'a>) -> Result<&'a str> {
    match node.outputs[..] {
        [output] if !output.is_empty() => Ok(output),
        _ => refuse(format!("{node}: {} outputs; one is expected", node.outputs.len())),
    }
}

/// Refuses an attribute unless it has these dimensions.
pub(super) fn expect_dims(
    attributes: &mut Attributes<'_, '_>,
    name: &str,
    expected: &[i64],
) -> Result<()> {
    match attributes.ints(name)? {
        dims if dims == expected => Ok(()),
        dims => attributes.refuse(name, &format!("is {dims:?}; {expected:?} is expected")),
    }
}

/// Sizes of the traced example, [sites, channels]: only the channels count.
pub(super) fn check_example(
    attributes: &mut Attributes<'_, '_>,
    name: &str,
    channels: usize,
) -> Result<()> {
    match attributes.ints(name)? {
        &[sites, found] if sites >= 0 && found == channels as i64 => Ok(()),
        found => attributes.refuse(name, &format!("is {found:?}; [sites, {channels}] is expected")),
    }
}

/// Sizes by which NVIDIA's runtime allocates and launches.
pub(super) fn check_hint(attributes: &mut Attributes<'_, '_>, name: &str) -> Result<()> {
    match attributes.optional_int(name)? {
        None | Some(1..) => Ok(()),
        Some(value) => attributes.refuse(name, &format!("is {value}; it has to be positive")),
    }
}

/// Refuses int8. Files that were calibrated for it and exported for fp16 hold
/// ranges that have no effect.
pub(super) fn check_precision(attributes: &mut Attributes<'_, '_>, ranges: &[&str]) -> Result<()> {
    let mut is_fp16 = false;
    for name in ["precision", "output_precision"] {
        match attributes.optional_text(name)? {
            None => {}
            Some("fp16") => is_fp16 = true,
            Some(other) => {
                return attributes.refuse(name, &format!("must be fp16, found {other}"));
            }
        }
    }
    let present = ranges
        .iter()
        .fold(None, |found, range| if attributes.is_present(range) { Some(range) } else { found });
    match present {
        Some(range) if !is_fp16 => attributes.refuse(range, "is of int8, which is not supported"),
        _ => Ok(()),
    }
}
