//! Descriptions of message and service types, which nodes exchange by hash from
//! ROS 2 Iron on: `type_description_interfaces` and the hash RIHS01 of REP-2016.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

/// A type and every type that it contains, at any depth, in the order of their
/// names.
///
/// Constants and default values are not part of it: they do not change the wire
/// format, nor the hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeDescription {
    /// The type.
    pub main: IndividualTypeDescription,
    /// The types that it contains.
    pub referenced: Vec<IndividualTypeDescription>,
}

/// A type without those that it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndividualTypeDescription {
    /// Its full name, such as `sensor_msgs/msg/Image`.
    pub type_name: String,
    /// Its fields in the order of the wire.
    pub fields: Vec<Field>,
}

/// A field of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub field_type: FieldType,
}

/// The type of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldType {
    /// Number in `type_description_interfaces/FieldType`.
    pub type_id: u8,
    /// Elements of an array; the most of a bounded sequence; else 0.
    pub capacity: u64,
    /// The most bytes of a bounded string; else 0.
    pub string_capacity: u64,
    /// Full name of a type that is no primitive; else empty.
    pub nested_type_name: String,
}

/// The source text of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSource {
    /// Full name of the type.
    pub type_name: String,
    /// `msg`, `srv`, or `implicit` for the parts of a service, which have no text.
    pub encoding: &'static str,
    /// The text: fields and constants, without comments.
    pub contents: &'static str,
}

impl TypeDescription {
    /// The hash by which nodes refer to the type.
    pub fn hash(&self) -> TypeHash {
        TypeHash(Sha256::digest(self.to_string()).into())
    }
}

/// The JSON text that is hashed: spaces after `,` and `:`, members in this order.
impl fmt::Display for TypeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { main, referenced } = self;
        write!(f, r#"{{"type_description": {main}, "referenced_type_descriptions": ["#)?;
        separated(f, referenced)?;
        f.write_str("]}")
    }
}

impl fmt::Display for IndividualTypeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { type_name, fields } = self;
        write!(f, r#"{{"type_name": "{type_name}", "fields": ["#)?;
        separated(f, fields)?;
        f.write_str("]}")
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, field_type } = self;
        let FieldType { type_id, capacity, string_capacity, nested_type_name } = field_type;
        write!(
            f,
            r#"{{"name": "{name}", "type": {{"type_id": {type_id}, "capacity": {capacity}, "string_capacity": {string_capacity}, "nested_type_name": "{nested_type_name}"}}}}"#
        )
    }
}

fn separated(f: &mut fmt::Formatter<'_>, items: &[impl fmt::Display]) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        f.write_str(if index == 0 { "" } else { ", " })?;
        item.fmt(f)?;
    }
    Ok(())
}

/// A hash of version 1: `RIHS01_` and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeHash([u8; 32]);

const PREFIX: &str = "RIHS01_";

impl fmt::Display for TypeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The reason why a text is not a hash of version 1, in the words of rcl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseTypeHashError;

impl fmt::Display for ParseTypeHashError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Failed to parse type hash")
    }
}

impl FromStr for TypeHash {
    type Err = ParseTypeHashError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix(PREFIX).ok_or(ParseTypeHashError)?;
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ParseTypeHashError);
        }
        let mut hash = [0; 32];
        for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
            let pair = digits.get(at..at + 2).ok_or(ParseTypeHashError)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| ParseTypeHashError)?;
        }
        Ok(Self(hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_read_as_they_are_written() {
        let text = "RIHS01_2facd6b15786cbd1f720cdd23d22e6d60d2e7e83b8dff8fd401330e24edb187b";
        assert_eq!(text.parse::<TypeHash>().unwrap().to_string(), text);
        for wrong in ["", "RIHS01_", &text[7..], &text[..70], &text.replace("RIHS01", "RIHS02")] {
            assert_eq!(wrong.parse::<TypeHash>(), Err(ParseTypeHashError), "{wrong}");
        }
        // Signs and letters of several bytes.
        for digits in ["+f", "é"] {
            let wrong = format!("{PREFIX}{digits}{}", &text[9..]);
            assert_eq!(wrong.len(), text.len());
            assert_eq!(wrong.parse::<TypeHash>(), Err(ParseTypeHashError), "{wrong}");
        }
    }
}
