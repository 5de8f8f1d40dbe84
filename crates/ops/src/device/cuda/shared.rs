//! Constants and structs that Rust and the kernels share.
//!
//! The text in `kernels/` is the one place that holds the constants; Rust reads
//! them out of that text while it is compiled:
//!
//! | in `kernels/cloud/unpack.cu` | in Rust |
//! |---|---|
//! | `constexpr uint32_t kThreads = 512;` | `kernel_constant!("cloud/unpack.cu", "kThreads")`, a `u32` |
//! | `kPacked3 = 0,` in an enumeration | the same |
//! | `struct Args { … };` | `mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args")` |
//!
//! A shared constant is on a separate line, with a decimal literal:
//! what is computed from shared constants is computed on both sides. A name
//! that the file does not define, or defines twice, does not compile.
//!
//! The build script of `det_post_kernels` reads the structs out of the same text. `mirrors!`
//! compares their fields, in order, by name, type and offset, with those of the Rust type, and
//! implements [`Mirror`] for it, which every parameter of a kernel
//! ([`KernelSpec`](super::KernelSpec)) has to have. What differs does not compile, with nvcc or
//! without. That a kernel takes the struct that its specification declares is checked by its
//! size when the kernel is loaded.

use det_post_kernels::{Kind, RustField};
use half::f16;

/// The value of a constant or an enumerator that a file in `kernels/` defines:
/// `kernel_constant!("cloud/unpack.cu", "kThreads")`.
macro_rules! kernel_constant {
    ($file:literal, $name:literal) => {
        const {
            let text = det_post_kernels::source($file);
            det_post_kernels::constant(text, concat!($name, " = "))
        }
    };
}

/// A Rust type with the layout of a type of the kernels.
pub trait Mirror {
    /// The type of the kernels.
    const KIND: Kind;
}

macro_rules! numbers {
    ($($number:ty: $name:literal),*) => {
        $(impl Mirror for $number { const KIND: Kind = Kind::Number($name); })*
    };
}

// Signs are not compared: `int32_t` is `u32` or `i32`, `int8_t` is `u8` or `i8`.
numbers!(
    u8: "uint8_t", i8: "uint8_t", u32: "uint32_t", i32: "uint32_t", u64: "uint64_t", f32: "float", f64: "double",
    f16: "__half"
);

impl<T: Mirror, const N: usize> Mirror for [T; N] {
    const KIND: Kind = Kind::Array(&T::KIND, N);
}

/// The type behind a field.
pub const fn rust_field<S, T: Mirror>(_: fn(&S) -> &T) -> RustField {
    RustField { kind: T::KIND, size: size_of::<T>(), alignment: align_of::<T>() }
}

/// Compiles only if a type has the fields of a struct of the kernels: the same names in the same
/// order with the same types. `mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args")`; of a
/// template, `mirrors!(AnchorArgs<'_, T>, "decode/anchor.cu", "Args", T; where T: Mirror)`: the
/// types after the name are the template's. `Job<'_, T> as Job<'_, f16>` is for a type whose
/// kernels have one `T`. A type with parameters is compared where a kernel takes it.
macro_rules! mirrors {
    ($mirror:ty as $compared:ty, $file:tt, $name:tt $(, $type:ty)*
     $(; where $($param:ident: $bound:path),+)?) => {
        impl$(<$($param: $bound),+>)? $crate::device::cuda::Mirror for $mirror {
            const KIND: det_post_kernels::Kind = {
                #[allow(unused_imports, reason = "not every struct has each of them")]
                use $crate::device::cuda::{Mirror, rust_field};
                use det_post_kernels::{Field, Kind, Struct};
                let fields = det_post_kernels::struct_fields!($file, $name, $compared $(, $type)*);
                fields.compare(
                    size_of::<$compared>(),
                    align_of::<$compared>(),
                    concat!(
                        "kernels/", $file, ": ", $name, " has another size or alignment than ",
                        stringify!($mirror)
                    ),
                );
                Kind::Struct($file, $name, &[$(<$type as Mirror>::KIND),*])
            };
        }
    };
    ($mirror:ty, $($rest:tt)+) => {
        $crate::device::cuda::mirrors!($mirror as $mirror, $($rest)+);
    };
}

pub(crate) use {kernel_constant, mirrors};
