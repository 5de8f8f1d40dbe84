//! Structs that kernels and Rust share, compared field by field while Rust is compiled.

/// A type of a kernel's text and of Rust.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A number, by its name in CUDA, such as `uint32_t`.
    Number(&'static str),
    /// `Slice<const T>`: values that a kernel reads.
    In(&'static Self),
    /// `Slice<T>`: values that a kernel may write.
    Out(&'static Self),
    /// Values one after the other.
    Array(&'static Self, usize),
    /// A struct by its file in `kernels/`, its name, and the types of its template.
    Struct(&'static str, &'static str, &'static [Self]),
}

/// A field of a struct in Rust.
#[derive(Clone, Copy, Debug)]
pub struct RustField {
    /// Its type.
    pub kind: Kind,
    /// Its bytes.
    pub size: usize,
    /// The alignment of its type.
    pub alignment: usize,
}

/// A field of a struct in a kernel's text, beside the field of the same name in Rust.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The type in the kernel.
    pub kind: Kind,
    /// The offset in Rust.
    pub offset: usize,
    /// The field in Rust.
    pub rust: RustField,
    /// What to say if they differ.
    pub message: &'static str,
}

/// A struct of a kernel's text beside a Rust type.
#[derive(Clone, Copy, Debug)]
pub struct Struct {
    /// Of `alignas`; 1 without.
    pub alignment: usize,
    /// In the order of the kernel's text.
    pub fields: &'static [Field],
}

impl Struct {
    /// Compares order, types and offsets with a Rust type of a size and an alignment. Fields
    /// follow each other without padding: a field that one side lacks shows in the next
    /// offset or the size.
    ///
    /// # Panics
    /// When they differ: in a constant, an error of the compiler.
    #[expect(clippy::panic, reason = "it is called while compiling")]
    pub const fn compare(&self, size: usize, alignment: usize, message: &str) {
        let (mut end, mut i) = (0, 0);
        let mut largest = self.alignment;
        while i < self.fields.len() {
            let Field { kind, offset, rust, message } = &self.fields[i];
            if *offset != end || !rust.kind.is(kind) {
                panic!("{}", *message);
            }
            end += rust.size;
            if rust.alignment > largest {
                largest = rust.alignment;
            }
            i += 1;
        }
        if end != size || alignment != largest {
            panic!("{}", message);
        }
    }
}

impl Kind {
    const fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => is_equal(a, b),
            // What a kernel only reads may be lent for writing.
            (Self::In(a) | Self::Out(a), Self::In(b)) | (Self::Out(a), Self::Out(b)) => a.is(b),
            (Self::Array(a, n), Self::Array(b, m)) => *n == *m && a.is(b),
            (Self::Struct(file, name, types), Self::Struct(other, named, others)) => {
                let mut i = 0;
                while i < types.len() && i < others.len() && types[i].is(&others[i]) {
                    i += 1;
                }
                is_equal(file, other)
                    && is_equal(name, named)
                    && i == types.len()
                    && i == others.len()
            }
            _ => false,
        }
    }
}

/// Whether two texts are equal.
pub(crate) const fn is_equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
}
