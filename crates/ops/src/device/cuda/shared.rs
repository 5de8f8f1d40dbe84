//! Constants and struct sizes that Rust and the kernels share.
//!
//! The text in `kernels/` is the one place that holds their values; Rust reads
//! them out of that text while it is compiled:
//!
//! | in `kernels/cloud/unpack.cu` | in Rust |
//! |---|---|
//! | `constexpr uint32_t kThreads = 512;` | `kernel_constant!("cloud/unpack.cu", "kThreads")`, a `u32` |
//! | `kPacked3 = 0,` in an enumeration | the same |
//! | `static_assert(sizeof(Args) == 352);` | `assert_mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args")` |
//!
//! A shared definition is on a separate line, with a decimal literal:
//! what is computed from shared constants is computed on both sides. A name
//! that the file does not define, or defines twice, does not compile. A struct
//! whose size differs between the two languages fails the build as well: nvcc
//! refuses the `static_assert` when the C++ side changes, rustc refuses
//! `assert_mirrors!` when the number or the Rust side does. The latter needs no
//! nvcc. That a kernel takes the struct that its [`KernelSpec`](super::KernelSpec)
//! declares is checked when the kernel is loaded.

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

/// The size of a struct that a file in `kernels/` asserts, in bytes.
macro_rules! kernel_struct_size {
    ($file:literal, $name:literal) => {
        const {
            let text = det_post_kernels::source($file);
            let assertion = concat!("static_assert(sizeof(", $name, ") == ");
            det_post_kernels::constant(text, assertion) as usize
        }
    };
}

/// Compiles only if a type is as large as the struct that it mirrors:
/// `assert_mirrors!(UnpackArgs<'_>, "cloud/unpack.cu", "Args")`. The types and the order
/// of the fields are for the author to compare.
macro_rules! assert_mirrors {
    ($mirror:ty, $file:literal, $name:literal) => {
        const _: () = assert!(
            size_of::<$mirror>() == $crate::device::cuda::kernel_struct_size!($file, $name),
            concat!(stringify!($mirror), " is not as large as ", $name, " in kernels/", $file)
        );
    };
}

pub(crate) use {assert_mirrors, kernel_constant, kernel_struct_size};
