//! NumPy files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::Failure;

/// A value of a NumPy file.
pub trait Element: Copy {
    const DESCRIPTION: &'static str;
    fn write(self, bytes: &mut Vec<u8>);
}

impl Element for f32 {
    const DESCRIPTION: &'static str = "<f4";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Element for i32 {
    const DESCRIPTION: &'static str = "<i4";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Element for i16 {
    const DESCRIPTION: &'static str = "<i2";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.to_le_bytes());
    }
}

impl Element for u8 {
    const DESCRIPTION: &'static str = "|u1";
    fn write(self, bytes: &mut Vec<u8>) {
        bytes.push(self);
    }
}

/// A NumPy file that grows by rows of one shape.
pub struct Array<T> {
    path: PathBuf,
    row_shape: Vec<usize>,
    num_rows: usize,
    bytes: Vec<u8>,
    element: std::marker::PhantomData<T>,
}

impl<T: Element> Array<T> {
    pub fn new(folder: &Path, name: &str, row_shape: &[usize]) -> Self {
        let path = folder.join(format!("{name}.npy"));
        let row_shape = row_shape.to_vec();
        Self { path, row_shape, num_rows: 0, bytes: Vec::new(), element: std::marker::PhantomData }
    }

    pub fn push(&mut self, row: &[T]) -> Result<(), Failure> {
        let expected: usize = self.row_shape.iter().product();
        if row.len() != expected {
            return Err(
                format!("{}: a row of {}, not {expected}", self.path.display(), row.len()).into()
            );
        }
        self.num_rows += 1;
        row.iter().for_each(|value| value.write(&mut self.bytes));
        Ok(())
    }

    /// Writes the file: magic, version 1.0, length of the header, the header
    /// padded so that the values start at a multiple of 64 bytes.
    pub fn finish(self) -> Result<(), Failure> {
        let shape: Vec<String> =
            [self.num_rows].iter().chain(&self.row_shape).map(usize::to_string).collect();
        let mut header = format!(
            "{{'descr': '{}', 'fortran_order': False, 'shape': ({},), }}",
            T::DESCRIPTION,
            shape.join(", ")
        );
        let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
        header += &" ".repeat(len - header.len() - 1);
        header += "\n";
        let mut file = BufWriter::new(File::create(&self.path)?);
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&(len as u16).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        file.write_all(&self.bytes)?;
        Ok(file.flush()?)
    }
}
