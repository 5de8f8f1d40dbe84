//! Types of fields, and messages that are made of them.

pub(super) use crate::cdr::{Reader, Writer};
pub(super) use det_post_types::Result;

/// A type of fields of messages.
pub trait Field<'a>: Sized {
    /// Bytes of the shortest value, padding aside.
    const MIN_SIZE: usize;

    /// Reads the next field.
    ///
    /// # Errors
    /// `Message` when the bytes are not such a field.
    fn read(reader: &mut Reader<'a>) -> Result<Self>;

    /// Appends the field.
    fn write(&self, writer: &mut Writer<'_>);
}

/// Implements [`Field`] by the functions of the reader and the writer of the same name.
macro_rules! fields {
    ($($type:ty: $function:ident, $min_size:expr;)+) => {$(
        impl<'a> Field<'a> for $type {
            const MIN_SIZE: usize = $min_size;
            fn read(reader: &mut Reader<'a>) -> Result<Self> {
                reader.$function()
            }
            fn write(&self, writer: &mut Writer<'_>) {
                writer.$function(*self);
            }
        }
    )+};
}

fields! {
    bool: bool, 1;
    u8: u8, 1;
    i32: i32, 4;
    i64: i64, 8;
    u32: u32, 4;
    u64: u64, 8;
    f32: f32, 4;
    f64: f64, 8;
    &'a str: str, 4;
    &'a [u8]: bytes, 4;
}

impl<const N: usize> Field<'_> for [f64; N] {
    const MIN_SIZE: usize = N * size_of::<f64>();

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.f64_array()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.f64_array(self);
    }
}

impl Field<'_> for String {
    const MIN_SIZE: usize = 4;

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        reader.str().map(str::to_owned)
    }

    fn write(&self, writer: &mut Writer<'_>) {
        writer.str(self);
    }
}

impl<'a, T: Field<'a>> Field<'a> for Vec<T> {
    const MIN_SIZE: usize = 4;

    fn read(reader: &mut Reader<'a>) -> Result<Self> {
        let len = reader.sequence_len(T::MIN_SIZE)?;
        (0..len).map(|_| T::read(reader)).collect()
    }

    fn write(&self, writer: &mut Writer<'_>) {
        write_all(writer, self);
    }
}

/// Appends a sequence.
pub(super) fn write_all<'a>(writer: &mut Writer<'_>, elements: &[impl Field<'a>]) {
    writer.sequence(elements, |writer, element| element.write(writer));
}

/// Declares a struct whose fields are on the wire in the order of their declaration.
macro_rules! record {
    (
        $(#[$about:meta])*
        pub struct $type:ident $(<$lifetime:lifetime>)? {
            $($(#[$field_about:meta])* pub $field:ident: $of:ty,)+
        }
    ) => {
        $(#[$about])*
        pub struct $type $(<$lifetime>)? {
            $($(#[$field_about])* pub $field: $of,)+
        }

        const _: () = {
            use $crate::messages::field::{Field, Reader, Result, Writer};

            impl<'a> Field<'a> for $type $(<$lifetime>)? {
                const MIN_SIZE: usize = 0 $(+ <$of as Field>::MIN_SIZE)+;

                fn read(reader: &mut Reader<'a>) -> Result<Self> {
                    Ok(Self { $($field: Field::read(reader)?),+ })
                }

                fn write(&self, writer: &mut Writer<'_>) {
                    $(self.$field.write(writer);)+
                }
            }
        };
    };
}

/// Makes a [`Field`] a message: its ROS name, `decode`, `read` and `encode`. Other errors of
/// `decode` are documented before it.
macro_rules! message {
    ($(#[$errors:meta])* $type:ident $(<$lifetime:lifetime>)?: $name:literal) => {
        const _: () = {
            use $crate::messages::field::{Field, Reader, Result, Writer};

            impl<'a> $type $(<$lifetime>)? {
                /// The ROS name.
                pub const TYPE: &'static str = $name;

                /// Decodes a message.
                ///
                /// # Errors
                /// `Message` when the bytes are not such a message.
                $(#[$errors])*
                pub fn decode(cdr: &'a [u8]) -> Result<Self> {
                    Self::read(Reader::new(Self::TYPE, cdr)?)
                }

                /// As [`Self::decode`], from a reader at the first field.
                ///
                /// # Errors
                /// As [`Self::decode`].
                pub fn read(mut reader: Reader<'a>) -> Result<Self> {
                    Field::read(&mut reader)
                }

                /// Encodes the message into `bytes`, replacing the content. A stamp outside
                /// the range of ROS saturates.
                ///
                /// # Errors
                /// `Message` when it exceeds 4 GiB.
                pub fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
                    let mut writer = Writer::new(bytes);
                    self.write(&mut writer);
                    writer.finish(Self::TYPE)
                }
            }
        };
    };
}

pub(super) use {message, record};
