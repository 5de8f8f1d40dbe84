//! The header of a payload, in text or binary.

use super::input::Input;
use crate::packed_cloud::codec::{STAGE, undecodable};
use det_post_types::{Error, ErrorKind, MAX_POINT_FIELDS, Result};

/// The first bytes of a payload; two digits of the version follow.
pub(in crate::packed_cloud) const MAGIC: &[u8] = b"CLOUDINI_V";

/// The versions that are read.
const VERSIONS: std::ops::RangeInclusive<u8> = 2..=5;

/// The layout of a cloud and how it is encoded.
pub(super) struct Header<'a> {
    pub(super) version: u8,
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) point_step: u32,
    pub(super) encoding: Encoding,
    pub(super) compression: Compression,
    pub(super) fields: Vec<Place<'a>>,
}

/// A field of the points.
#[derive(Default)]
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    pub(super) offset: u32,
    pub(super) kind: Kind,
    /// The step to which a float is rounded; greater than 0.
    pub(super) resolution: Option<f32>,
}

/// Declares an enum of consecutive numbers with their names.
macro_rules! numbered {
    ($(#[$about:meta])* $name:ident from $first:literal: $($(#[$default:ident])? $variant:ident $text:literal)+) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(super) enum $name { $($(#[$default])? $variant,)+ }

        impl $name {
            const ALL: &[(&str, Self)] = &[$(($text, Self::$variant)),+];

            /// The one of a number.
            fn of_number(number: u8) -> Result<Self> {
                let found = number.checked_sub($first).and_then(|at| Self::ALL.get(usize::from(at)));
                found.map(|(_, known)| *known).ok_or_else(|| unknown(stringify!($name), &number.to_string()))
            }

            /// The one of a name, or of a number in text.
            fn of_text(text: &str) -> Result<Self> {
                let named = Self::ALL.iter().find(|(name, _)| *name == text);
                match (named, text.parse()) {
                    (Some((_, known)), _) => Ok(*known),
                    (None, Ok(number)) => Self::of_number(number),
                    (None, Err(_)) => Err(unknown(stringify!($name), text)),
                }
            }
        }
    };
}

numbered! {
    /// How values become bytes, ahead of the compression.
    Encoding from 0: #[default] None "NONE" Lossy "LOSSY" Lossless "LOSSLESS"
}

numbered! {
    /// How chunks are compressed.
    Compression from 0: #[default] None "NONE" Lz4 "LZ4" Zstd "ZSTD"
}

numbered! {
    /// The type of a field's value.
    Kind from 1: #[default] I8 "INT8" U8 "UINT8" I16 "INT16" U16 "UINT16" I32 "INT32" U32 "UINT32"
        F32 "FLOAT32" F64 "FLOAT64" I64 "INT64" U64 "UINT64"
}

impl Kind {
    /// Its number: up to 8 as `PointField.datatype`.
    pub(super) fn number(self) -> u8 {
        self as u8 + 1
    }

    /// Bytes of a value.
    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }

    /// Whether it is an integer of more than a byte.
    pub(super) fn is_integer(self) -> bool {
        use Kind::*;
        matches!(self, I16 | U16 | I32 | U32 | I64 | U64)
    }
}

impl<'a> Header<'a> {
    /// Reads a header and leaves the input behind it. Every field is within a point.
    ///
    /// # Errors
    /// `Encoding` for another version or an unknown name, `PointField` for a field that is not within the
    /// point, `CloudCodec` for anything else.
    pub(super) fn read(input: &mut Input<'a>) -> Result<Self> {
        if input.take(MAGIC.len())? != MAGIC {
            return Err(undecodable("cloudini: the payload does not begin with CLOUDINI_V"));
        }
        let digits = input.take(2)?;
        let version = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
        let version: u8 = version.ok_or_else(|| undecodable("cloudini: no version"))?;
        if !VERSIONS.contains(&version) {
            return Err(unknown("version", &version.to_string()));
        }
        // Lines of text follow, or numbers, of which a width of 10 begins with a line break.
        let is_text = input.rest().starts_with(b"\nversion:");
        let header = match is_text {
            true => Self::read_text(input, version),
            false => Self::read_numbers(input, version),
        }?;
        header.check()?;
        Ok(header)
    }

    fn read_numbers(input: &mut Input<'a>, version: u8) -> Result<Self> {
        let [width, height, point_step] = [input.u32()?, input.u32()?, input.u32()?];
        let encoding = Encoding::of_number(input.u8()?)?;
        let compression = Compression::of_number(input.u8()?)?;
        let num_fields = input.u16()?;
        let mut fields = Vec::new();
        for _ in 0..num_fields {
            let len = usize::from(input.u16()?);
            let name = std::str::from_utf8(input.take(len)?);
            let name =
                name.map_err(|_| undecodable("cloudini: the name of a field is not UTF-8"))?;
            let (offset, kind) = (input.u32()?, Kind::of_number(input.u8()?)?);
            let resolution = Some(input.f32()?).filter(|resolution| *resolution > 0.0);
            push(&mut fields, Place { name, offset, kind, resolution })?;
        }
        Ok(Self { version, width, height, point_step, encoding, compression, fields })
    }

    fn read_text(input: &mut Input<'a>, version: u8) -> Result<Self> {
        let len = input.rest().iter().position(|byte| *byte == 0);
        let text =
            input.take(len.ok_or_else(|| undecodable("cloudini: the header does not end"))?)?;
        input.u8()?;
        let text = std::str::from_utf8(text);
        let text = text.map_err(|_| undecodable("cloudini: the header is not UTF-8"))?;
        let (encoding, compression) = (Encoding::default(), Compression::default());
        let (width, height, point_step, fields) = (0, 0, 0, Vec::new());
        let mut header = Self { version, width, height, point_step, encoding, compression, fields };
        for line in text.lines() {
            header.read_line(line)?;
        }
        Ok(header)
    }

    /// A line `key: value`; the lines of a field are behind `- ` or indented.
    fn read_line(&mut self, line: &'a str) -> Result<()> {
        let is_indented = line.starts_with([' ', '-']);
        let line = line.trim();
        let (line, begins) =
            line.strip_prefix("- ").map_or((line, false), |line| (line.trim(), true));
        if begins {
            push(&mut self.fields, Place::default())?;
        }
        let Some((key, value)) = line.split_once(':') else { return Ok(()) };
        let value = value.trim();
        let number =
            || value.parse().map_err(|_| undecodable(format!("cloudini: {key} is {value:?}")));
        match (is_indented.then(|| self.fields.last_mut()).flatten(), key) {
            (Some(field), "name") => field.name = value,
            (Some(field), "offset") => field.offset = number()?,
            (Some(field), "type") => field.kind = Kind::of_text(value)?,
            (Some(field), "resolution") => {
                // `null` where there is none.
                field.resolution = value.parse().ok().filter(|resolution| *resolution > 0.0);
            }
            (None, "width") => self.width = number()?,
            (None, "height") => self.height = number()?,
            (None, "point_step") => self.point_step = number()?,
            (None, "encoding_opt") => self.encoding = Encoding::of_text(value)?,
            (None, "compression_opt") => self.compression = Compression::of_text(value)?,
            _ => {}
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let is_within = |field: &&Place<'_>| {
            let end = (field.offset as usize).checked_add(field.kind.size());
            end.is_some_and(|end| end <= self.point_step as usize)
        };
        match self.fields.iter().find(|field| !is_within(field)) {
            None => Ok(()),
            Some(Place { name, offset, kind, .. }) => {
                let step = self.point_step;
                let message = format!(
                    "cloudini: field {name} ({kind:?} at {offset}) is not within a point of {step} bytes"
                );
                Err(Error::new(ErrorKind::PointField, STAGE, message))
            }
        }
    }

    /// The number of first fields that are rounded together: three or four floats with a resolution. Their
    /// steps are counted in 32 bits.
    pub(super) fn num_leading_floats(&self) -> usize {
        let is_rounded = |field: &&Place<'_>| field.kind == Kind::F32 && field.resolution.is_some();
        match self.fields.iter().take_while(is_rounded).count() {
            num @ 3..=4 if self.encoding == Encoding::Lossy => num,
            _ => 0,
        }
    }
}

fn push<'a>(fields: &mut Vec<Place<'a>>, field: Place<'a>) -> Result<()> {
    if fields.len() == MAX_POINT_FIELDS {
        let message = format!("cloudini: the cloud has more than {MAX_POINT_FIELDS} fields");
        return Err(Error::new(ErrorKind::PointField, STAGE, message));
    }
    fields.push(field);
    Ok(())
}

fn unknown(what: &str, found: &str) -> Error {
    let message = format!("cloudini: {what} {found} is not known; versions 2 to 5 are decoded");
    Error::new(ErrorKind::Encoding, STAGE, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "CLOUDINI_V04\nversion: 4\nwidth: 7\nheight: 2\npoint_step: 18\nencoding_opt: LOSSY\n\
        compression_opt: LZ4\nencoding_config: \nfields:\n  - name: x\n    offset: 0\n    type: FLOAT32\n\
        \x20   resolution: 0.001\n  - name: y: z\n    offset: 10\n    type: 8\n    resolution: null\n\0rest";

    #[test]
    fn text_is_read() {
        let mut input = Input::new(TEXT.as_bytes());
        let header = Header::read(&mut input).unwrap();
        assert_eq!(input.rest(), b"rest");
        let Header { version, width, height, point_step, encoding, compression, fields } = header;
        assert_eq!((version, width, height, point_step), (4, 7, 2, 18));
        assert_eq!((encoding, compression), (Encoding::Lossy, Compression::Lz4));
        let [x, y] = &fields[..] else { panic!() };
        assert_eq!((x.name, x.offset, x.kind, x.resolution), ("x", 0, Kind::F32, Some(0.001)));
        assert_eq!((y.name, y.offset, y.kind, y.resolution), ("y: z", 10, Kind::F64, None));
    }

    #[test]
    fn numbers_are_read() {
        let mut bytes = b"CLOUDINI_V03".to_vec();
        for number in [10_u32, 1, 5] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend([2, 2, 1, 0, 4, 0]);
        bytes.extend(b"ring");
        bytes.extend(3_u32.to_le_bytes());
        bytes.push(4);
        bytes.extend((-1_f32).to_le_bytes());
        let header = Header::read(&mut Input::new(&bytes)).unwrap();
        assert_eq!((header.width, header.height, header.point_step), (10, 1, 5));
        assert_eq!((header.encoding, header.compression), (Encoding::Lossless, Compression::Zstd));
        let [ring] = &header.fields[..] else { panic!() };
        assert_eq!(
            (ring.name, ring.offset, ring.kind, ring.resolution),
            ("ring", 3, Kind::U16, None)
        );
        for len in 0..bytes.len() {
            assert!(Header::read(&mut Input::new(&bytes[..len])).is_err(), "{len}");
        }
    }

    #[test]
    fn what_is_not_known_is_refused() {
        for (from, to, kind) in [
            ("V04", "V06", ErrorKind::Encoding),
            ("V04", "V01", ErrorKind::Encoding),
            ("V04", "Vxx", ErrorKind::CloudCodec),
            ("CLOUDINI", "CLOUDING", ErrorKind::CloudCodec),
            ("LZ4", "LZ5", ErrorKind::Encoding),
            ("LOSSY", "3", ErrorKind::Encoding),
            ("type: 8", "type: 0", ErrorKind::Encoding),
            ("offset: 10", "offset: 11", ErrorKind::PointField),
            ("offset: 10", "offset: 4294967295", ErrorKind::PointField),
            ("width: 7", "width: -7", ErrorKind::CloudCodec),
            ("\0rest", "", ErrorKind::CloudCodec),
        ] {
            let text = TEXT.replace(from, to);
            let error = Header::read(&mut Input::new(text.as_bytes())).err().unwrap();
            assert_eq!(error.kind(), kind, "{from} {to}: {error}");
        }
        let field = "  - name: x\n    offset: 0\n    type: INT8\n";
        let many = TEXT.replace("fields:\n", &format!("fields:\n{}", field.repeat(31)));
        let error = Header::read(&mut Input::new(many.as_bytes())).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::PointField);
    }
}
