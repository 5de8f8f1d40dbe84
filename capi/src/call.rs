//! One call from C: its arguments, its panics, its error.
//!
//! All memory of the caller is accessed here. What every `unsafe` block of this file relies on
//! is the contract of the header, which no library can check: a pointer that is not null points
//! to as many values as its length says, which stay valid and unchanged until the call
//! returns; a device pointer, to memory of the GPU that the call works on, and a stream, to one
//! of that GPU. Null, wrong alignment and lengths that no memory has are checked.

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use det_post_types::DeviceBytes;
use half::f16;

use super::status::{self, Failure, Status};

/// `const T *`: values that a call reads.
#[derive(Debug)]
#[repr(transparent)]
pub struct In<T>(*const T);

/// `T *`: values that a call writes.
#[derive(Debug)]
#[repr(transparent)]
pub struct Out<T>(*mut T);

/// `void *`: an address of the caller or a handle of another library, such as a
/// `cudaStream_t`, which is passed on and never read.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Address(*mut c_void);

/// `const char *`: a text of the caller, UTF-8, that ends with 0.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Text(*const c_char);

/// `const char *`: a text of the library, UTF-8, that ends with 0; or null.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct ConstText(*const c_char);

/// `const T *`: values of the library; or null.
#[derive(Debug)]
#[repr(transparent)]
pub struct Const<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Clone for Const<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Const<T> {}

impl Address {
    /// Its number.
    pub(super) fn number(self) -> u64 {
        self.0.addr() as u64
    }
}

impl<T> In<T> {
    /// The number of the address.
    pub(super) fn number(self) -> u64 {
        self.0.addr() as u64
    }

    /// Whether it is null.
    pub(super) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T> In<T> {
    /// Values of the library, in a struct that is also an argument.
    pub(super) fn of(values: &[T]) -> Self {
        Self(values.as_ptr())
    }
}

impl Text {
    /// A text that the library holds, in a struct that is also an argument.
    pub(super) fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }
}

impl<T> Const<T> {
    /// Values of the library in the memory of a GPU.
    pub(super) fn on_device(address: u64) -> Self {
        Self(std::ptr::without_provenance(address as usize))
    }
}

// SAFETY: passed back only to the caller, which promises to take it on any thread.
unsafe impl Send for Address {}
// SAFETY: as above.
unsafe impl Sync for Address {}
// SAFETY: addresses, which only the caller reads.
unsafe impl Send for ConstText {}
// SAFETY: as above.
unsafe impl<T> Send for Const<T> {}
// SAFETY: addresses, which only the caller reads.
unsafe impl<T> Sync for Const<T> {}
// SAFETY: as above, and read only in a call.
unsafe impl<T> Send for In<T> {}
// SAFETY: as above.
unsafe impl Send for Text {}

impl<T> Out<T> {
    /// Values of the library that the caller writes while it is called.
    pub(super) fn of(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }
}

impl ConstText {
    /// No text.
    pub(super) const NULL: Self = Self(std::ptr::null());

    /// A text that ends with 0 and lives for ever.
    pub(super) fn of_static(text: &'static str) -> Self {
        debug_assert!(text.ends_with('\0'));
        Self(text.as_ptr().cast())
    }

    /// A copy of a text in memory of the library, up to a 0 within it.
    pub(super) fn copy_to(memory: &mut Vec<u8>, text: &str) -> Self {
        memory.clear();
        memory.extend(text.bytes().take_while(|byte| *byte != 0).chain([0]));
        Self(memory.as_ptr().cast())
    }

    /// A text that the library holds.
    pub(super) fn of(text: &CStr) -> Self {
        Self(text.as_ptr())
    }
}

impl<T> Const<T> {
    /// No values.
    pub(super) const NULL: Self = Self(std::ptr::null());

    /// Values that the library holds; null unless `is_so`.
    pub(super) fn if_so(is_so: bool, values: &[T]) -> Self {
        if is_so { Self::of(values) } else { Self::NULL }
    }

    /// Values that the library holds.
    pub(super) fn of(values: &[T]) -> Self {
        Self(values.as_ptr())
    }

    /// A value that the library holds.
    pub(super) fn one(value: &T) -> Self {
        Self(value)
    }
}

impl Const<u16> {
    /// The bits of values that the library holds.
    pub(super) fn bits_of(values: &[f16]) -> Self {
        Self(values.as_ptr().cast())
    }
}

impl In<i32> {
    /// The same address, of the bits of the values.
    pub(super) fn bits(self) -> In<u32> {
        In(self.0.cast())
    }
}

impl In<u8> {
    /// The same address, of other values.
    pub(super) fn cast<T>(self) -> In<T> {
        In(self.0.cast())
    }
}

/// A call in progress, for which the arguments are borrowed.
#[derive(Debug)]
pub struct Call(());

/// Runs a call on the object `id` (0: none). An error or a panic becomes its status, and its
/// message that of the object or, without one, of the thread.
pub(super) fn run(id: u64, work: impl FnOnce(&Call) -> Result<(), Failure>) -> Status {
    keeping(|failure| status::keep(id, failure), work)
}

/// As [`run`], for an object that several threads may be in calls on: the message is that of the
/// thread, too.
pub(super) fn run_shared(id: u64, work: impl FnOnce(&Call) -> Result<(), Failure>) -> Status {
    let keep = |failure| {
        status::keep_with_thread(&failure);
        status::keep(id, failure)
    };
    keeping(keep, work)
}

fn keeping(
    keep: impl FnOnce(Failure) -> Status,
    work: impl FnOnce(&Call) -> Result<(), Failure>,
) -> Status {
    let failure = match catch_unwind(AssertUnwindSafe(|| work(&Call(())))) {
        Ok(Ok(())) => return status::OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::panic(&*panic),
    };
    // Keeping the message allocates, and what allocates may panic.
    catch_unwind(AssertUnwindSafe(|| keep(failure))).unwrap_or(status::PANIC)
}

/// The result of checking an argument.
type Checked<T> = Result<T, Failure>;

impl Call {
    /// Checks the pointer and the length of an argument.
    fn check<T>(&self, pointer: *const T, len: usize, name: &str) -> Checked<()> {
        if pointer.is_null() {
            return Err(Failure::null(name));
        }
        if !pointer.is_aligned() {
            return Err(Failure::argument(format!("{name} is not aligned to its type")));
        }
        match len.checked_mul(size_of::<T>()) {
            Some(num_bytes) if isize::try_from(num_bytes).is_ok() => Ok(()),
            _ => Err(Failure::argument(format!("{name} cannot have {len} values"))),
        }
    }

    /// One value.
    pub(super) fn one<'call, T>(&'call self, value: In<T>, name: &str) -> Checked<&'call T> {
        self.check(value.0, 1, name)?;
        // SAFETY: not null and aligned (checked); the rest is the contract of this file.
        Ok(unsafe { &*value.0 })
    }

    /// Values; none if there are 0, whatever the pointer.
    pub(super) fn slice<'call, T>(
        &'call self,
        values: In<T>,
        len: usize,
        name: &str,
    ) -> Checked<&'call [T]> {
        if len == 0 {
            return Ok(&[]);
        }
        self.check(values.0, len, name)?;
        // SAFETY: as in `one`, and the length is one that memory can have.
        Ok(unsafe { std::slice::from_raw_parts(values.0, len) })
    }

    /// Values, or `None` for null.
    pub(super) fn slice_or_null<'call, T>(
        &'call self,
        values: In<T>,
        len: usize,
        name: &str,
    ) -> Checked<Option<&'call [T]>> {
        if values.0.is_null() { Ok(None) } else { self.slice(values, len, name).map(Some) }
    }

    /// Bytes in the memory of a GPU, which work on a stream writes.
    pub(super) fn device_bytes<'call>(
        &'call self,
        values: In<u8>,
        num_bytes: usize,
        stream: u64,
    ) -> Checked<DeviceBytes<'call>> {
        if num_bytes > 0 {
            self.check(values.0, num_bytes, "bytes.data")?;
        }
        // SAFETY: that the stream is one of the GPU of the bytes, and that these stay unchanged
        // until the call returns, is the contract of this file for device pointers.
        Ok(unsafe { DeviceBytes::new(values.0.addr() as u64, num_bytes, stream) })
    }

    /// A text.
    pub(super) fn text<'call>(&'call self, text: Text, name: &str) -> Checked<&'call str> {
        if text.0.is_null() {
            return Err(Failure::null(name));
        }
        // SAFETY: not null; that it ends with 0 is the contract of this file.
        let text = unsafe { CStr::from_ptr(text.0) };
        text.to_str().map_err(|_| Failure::not_utf8(name))
    }

    /// A text, or `None` for null.
    pub(super) fn text_or_null<'call>(
        &'call self,
        text: Text,
        name: &str,
    ) -> Checked<Option<&'call str>> {
        if text.0.is_null() { Ok(None) } else { self.text(text, name).map(Some) }
    }

    /// Writes a result.
    pub(super) fn write<T>(&self, to: Out<T>, value: T, name: &str) -> Checked<()> {
        self.check(to.0, 1, name)?;
        // SAFETY: not null and aligned (checked); the rest is the contract of this file. What
        // is overwritten is plain data without a destructor.
        unsafe { to.0.write(value) };
        Ok(())
    }

    /// Checks the pointer of a result before the work that makes it.
    pub(super) fn check_out<T>(&self, to: Out<T>, name: &str) -> Checked<()> {
        self.check(to.0, 1, name)
    }

    /// Writes as much of a text as fits, and 0 behind it.
    pub(super) fn write_text(&self, to: Out<u8>, capacity: usize, text: &str) -> Checked<()> {
        let Some(most) = capacity.checked_sub(1) else { return Ok(()) };
        self.check(to.0, capacity, "buffer")?;
        // SAFETY: not null, and a length that memory can have (checked). By the contract of this
        // file the bytes are there, and nothing else reads or writes them during the call.
        let buffer = unsafe { std::slice::from_raw_parts_mut(to.0, capacity) };
        let num = text.floor_char_boundary(most);
        buffer[..num].copy_from_slice(&text.as_bytes()[..num]);
        buffer[num] = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_checked() {
        run(0, |call| {
            let values = [1_u32, 2, 3];
            let of = |pointer| In::<u32>(pointer);
            assert_eq!(call.slice(of(values.as_ptr()), 3, "x").ok(), Some(&values[..]));
            assert_eq!(call.slice(of(std::ptr::null()), 0, "x").ok(), Some(&[][..]));
            let refused = |found: Checked<&[u32]>| found.unwrap_err().status;
            assert_eq!(refused(call.slice(of(std::ptr::null()), 1, "x")), status::NULL);
            let odd = values.as_ptr().cast::<u8>().wrapping_add(1).cast();
            assert_eq!(refused(call.slice(of(odd), 1, "x")), status::ARGUMENT);
            let many = usize::MAX / 4;
            assert_eq!(refused(call.slice(of(values.as_ptr()), many, "x")), status::ARGUMENT);
            let bad = Text(c"\xff".as_ptr());
            assert_eq!(call.text(bad, "x").unwrap_err().status, status::ARGUMENT);
            Ok(())
        });
    }

    #[test]
    fn a_panic_is_a_status_with_its_message() {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| {}));
        let found = run(0, |_| panic!("number {}", 7));
        std::panic::set_hook(hook);
        assert_eq!(found, status::PANIC);
        assert!(status::message(0).contains("number 7"), "{}", status::message(0));
    }

    #[test]
    fn messages_are_cut_at_a_character() {
        let mut buffer = [b'x'; 8];
        let out = |buffer: &mut [u8]| Out(buffer.as_mut_ptr());
        run(0, |call| {
            call.write_text(out(&mut buffer), 4, "aaéb")?;
            assert_eq!(&buffer, b"aa\0xxxxx");
            call.write_text(out(&mut buffer), 8, "aaéb")?;
            assert_eq!(&buffer[..6], "aaéb\0".as_bytes());
            call.write_text(Out(std::ptr::null_mut()), 0, "aaéb")
        });
    }
}
