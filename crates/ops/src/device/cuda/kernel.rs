//! Kernels as typed handles.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::CudaFunction;
use cudarc::driver::sys::{
    self, CUdevice_attribute, CUfunction_attribute_enum as Attribute, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig,
};

use super::{CudaDevice, Mirror, Stream, error, failed};
use det_post_types::{Error, ErrorKind, Result};

/// Declares a kernel of this program: its name and its one parameter, a struct
/// passed by value.
///
/// # Safety
/// The implementer promises, having read the kernel:
/// - `Args` has the layout of the kernel's parameter struct;
/// - when [`KernelSpec::check`] returns `Ok` for a grid, the kernel launched over
///   it accesses only the slices in `Args`, within their lengths, and writes only
///   through an [`Out`](super::Out);
/// - it terminates, given that the kernels before it on its stream have.
pub unsafe trait KernelSpec {
    /// Name of the entry point.
    const NAME: &'static str;
    /// The parameter struct, as the kernel declares it.
    type Args<'a>: Copy + Mirror;

    /// Checks that the slices are long enough for all accesses of the kernel.
    ///
    /// # Errors
    /// `Argument` naming the slice, its length and the length needed.
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()>;

    /// Bytes of shared memory per block beside what the kernel declares. More
    /// than 48 KiB are to be reserved ([`Kernel::reserve_shared`]).
    fn shared_bytes(_args: &Self::Args<'_>) -> u32 {
        0
    }
}

/// A kernel of programmatic dependent launches: it waits for the launches before it (`pdl::wait`) before it reads what
/// they write or writes what they read, so that it may begin while they run. A copy on the
/// stream ends that: no launch behind it begins before the launches in front of it have ended.
///
/// # Safety
/// The implementer promises this, having read the kernel.
pub unsafe trait DependentKernel: KernelSpec {}

/// The launch shape: blocks and threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks along x and y.
    pub num_blocks: [u32; 2],
    /// Threads along x.
    pub threads_per_block: u32,
}

/// A loaded kernel. Loading has checked that its parameter has the size of `K::Args`.
pub struct Kernel<K> {
    function: CudaFunction,
    max_threads_per_block: u32,
    /// Whether its code is of an architecture with programmatic dependent launch.
    has_pdl: bool,
    // Keeps the modules, and with them the function, alive.
    device: CudaDevice,
    spec: PhantomData<fn(K)>,
}

impl<K: KernelSpec> Kernel<K> {
    pub(super) fn load(device: &CudaDevice) -> Result<Self> {
        let kernel = Self::find(device)?;
        kernel.ok_or_else(|| error(format!("{device} has no kernel {}", K::NAME)))
    }

    /// `None` when the kernel is not compiled for this GPU.
    pub(super) fn find(device: &CudaDevice) -> Result<Option<Self>> {
        let function = device.modules().find(K::NAME)?;
        function.map(|function| Self::new(device, function)).transpose()
    }

    fn new(device: &CudaDevice, function: CudaFunction) -> Result<Self> {
        const { K::Args::KIND };
        let name = K::NAME;
        let (found, needed) = (param_size(&function)?, size_of::<K::Args<'static>>());
        if found != needed {
            return Err(error(format!(
                "kernel {name} has a parameter of {found} bytes, {needed} are declared"
            )));
        }
        let attribute = |attribute| {
            let value = function.get_attribute(attribute);
            value.map_err(|e| failed(&format!("query the limits of the kernel {name}"), e))
        };
        let max_threads_per_block =
            attribute(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?.unsigned_abs();
        // `__CUDA_ARCH__` in kernels/shared/pdl.cuh; of PTX that the driver has compiled, too.
        let has_pdl = attribute(Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)? >= 90;
        Ok(Self {
            function,
            max_threads_per_block,
            has_pdl,
            device: device.clone(),
            spec: PhantomData,
        })
    }

    /// Queues the kernel on a stream and returns at once.
    ///
    /// # Errors
    /// `Argument` when the parameters do not pass the kernel's check, or the
    /// stream is another GPU's; `Device` when the driver refuses the launch.
    pub fn enqueue(&self, stream: &Stream, grid: Grid, args: K::Args<'_>) -> Result<()> {
        self.launch(stream, grid, args, false)
    }

    /// As [`Self::enqueue`], as a programmatic dependent launch: on GPUs of compute capability 9.0 and
    /// later it may begin before the kernel in front of it has ended.
    ///
    /// # Errors
    /// As [`Self::enqueue`].
    pub fn enqueue_dependent(&self, stream: &Stream, grid: Grid, args: K::Args<'_>) -> Result<()>
    where
        K: DependentKernel,
    {
        self.launch(stream, grid, args, true)
    }

    fn launch(
        &self,
        stream: &Stream,
        grid: Grid,
        mut args: K::Args<'_>,
        is_dependent: bool,
    ) -> Result<()> {
        K::check(&args, &grid)?;
        let Grid { num_blocks: [x, y], threads_per_block } = grid;
        if x == 0 || y == 0 {
            return Ok(());
        }
        if threads_per_block > self.max_threads_per_block {
            return Err(error(format!(
                "kernel {}: {threads_per_block} threads per block exceed the limit of {}",
                K::NAME,
                self.max_threads_per_block
            )));
        }
        if !Arc::ptr_eq(self.device.context(), stream.device().context()) {
            return Err(error(format!(
                "kernel {} of {} cannot run on a stream of {}",
                K::NAME,
                self.device,
                stream.device()
            )));
        }
        stream.bind()?;
        let may_overlap = super::graph::note_launch(K::NAME);
        let mut attribute = CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = CUlaunchConfig {
            gridDimX: x,
            gridDimY: y,
            gridDimZ: 1,
            blockDimX: threads_per_block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: K::shared_bytes(&args),
            hStream: stream.raw(),
            attrs: &raw mut attribute,
            numAttrs: u32::from(is_dependent && self.has_pdl && may_overlap),
        };
        // SAFETY: the function is loaded as long as `self.device` keeps its modules.
        // It takes one parameter of this struct's size (checked at load) and
        // layout (promised by `KernelSpec`), which the driver copies before the
        // call returns, as the configuration and its attribute. By the same promise and the
        // check above it accesses only its slices; each was made by `input` or `output` from
        // a buffer of this stream, whose memory is freed after all queued work of the
        // stream. A programmatic dependent launch is of a kernel that waits (`DependentKernel`).
        unsafe {
            sys::cuLaunchKernelEx(
                &raw const config,
                self.function.cu_function(),
                [(&raw mut args).cast::<c_void>()].as_mut_ptr(),
                std::ptr::null_mut(),
            )
            .result()
        }
        .map_err(|e| failed(&format!("launch the kernel {}", K::NAME), e))
    }
}

impl<K> Kernel<K> {
    /// Allows launches with up to so many bytes of [`KernelSpec::shared_bytes`]
    /// and returns the number of blocks of `threads_per_block` that are then
    /// resident on the GPU.
    ///
    /// # Errors
    /// `Device` when a block does not fit a multiprocessor.
    pub fn reserve_shared(&self, bytes: u32, threads_per_block: u32) -> Result<u32> {
        let refused = |e| failed(&format!("reserve {bytes} bytes of shared memory"), e);
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let value = i32::try_from(bytes).unwrap_or(i32::MAX);
        let limit = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let max_shared_bytes = self.device.context().attribute(limit).map_err(refused)?;
        // The driver would refuse it, which compute-sanitizer reports as an error.
        if value > max_shared_bytes {
            return Err(self.does_not_fit(bytes, threads_per_block));
        }
        {
            // All handles of a kernel share the limit: it is only raised. What the kernel
            // declares counts towards the 48 KiB that need no limit to be raised.
            let _alone = RESERVING.lock().unwrap_or_else(PoisonError::into_inner);
            let declared = Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
            let declared = self.function.get_attribute(declared).map_err(refused)?;
            let limit = self.function.get_attribute(attribute).map_err(refused)?;
            if limit < value || declared.saturating_add(value) > DEFAULT_SHARED_BYTES {
                self.function.set_attribute(attribute, value.max(limit)).map_err(refused)?;
            }
        }
        let blocks = self.function.occupancy_max_active_blocks_per_multiprocessor(
            threads_per_block,
            bytes as usize,
            None,
        );
        match blocks.map_err(refused)? * self.device.num_multiprocessors() {
            0 => Err(self.does_not_fit(bytes, threads_per_block)),
            num_blocks => Ok(num_blocks),
        }
    }

    fn does_not_fit(&self, bytes: u32, threads_per_block: u32) -> Error {
        error(format!(
            "a block of {threads_per_block} threads with {bytes} bytes of shared memory does not fit \
             a multiprocessor of {}",
            self.device
        ))
    }
}

/// Shared memory of a block without a raised limit.
const DEFAULT_SHARED_BYTES: i32 = 48 << 10;

/// Held while the limit of a kernel's shared memory is compared and raised.
static RESERVING: Mutex<()> = Mutex::new(());

/// Bytes of a kernel's parameter. Every kernel has exactly one, as
/// `tests/house/architecture` checks: querying a second would be a driver error, which
/// compute-sanitizer reports.
fn param_size(function: &CudaFunction) -> Result<usize> {
    let (mut offset, mut size) = (0, 0);
    // SAFETY: the function is alive and both results are live locals.
    unsafe {
        sys::cuFuncGetParamInfo(function.cu_function(), 0, &raw mut offset, &raw mut size).result()
    }
    .map_err(|e| failed("query the size of a kernel's parameter", e))?;
    Ok(size)
}

/// The number of blocks that cover `num_items`.
pub(crate) fn blocks(num_items: usize, per_block: u32) -> u32 {
    u32::try_from(num_items.div_ceil(per_block as usize)).unwrap_or(u32::MAX)
}

/// Refuses a slice that is shorter than a kernel needs.
pub(crate) fn check_len(kernel: &str, slice: &str, found: usize, needed: usize) -> Result<()> {
    if found >= needed {
        return Ok(());
    }
    Err(refused(kernel, &format!("{slice} has {found} values, at least {needed} required")))
}

/// [`check_len`] of several slices: name, length, length needed.
pub(crate) fn check_lens(
    kernel: &str,
    slices: impl IntoIterator<Item = (&'static str, usize, usize)>,
) -> Result<()> {
    let mut slices = slices.into_iter();
    slices.try_for_each(|(slice, found, needed)| check_len(kernel, slice, found, needed))
}

/// Implements [`KernelSpec`] for the kernels of an op that have the same parameter struct
/// and the same check, which may take one more argument. The comment above the table argues
/// the promises of [`KernelSpec`]:
///
/// ```text
/// kernel_specs! {
///     check;
///     unsafe DecodeAnchor<f32>: "decode_anchor_f32", AnchorArgs<f32>;
///     unsafe PoolF32: "sparse_max_pool_f32", PoolArgs, 4;
/// }
/// ```
macro_rules! kernel_specs {
    ($check:ident; $(unsafe $spec:ty: $name:literal, $args:ident $(<$($element:ty),+>)? $(, $limits:expr)?;)+) => {$(
        // SAFETY: argued above the table.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = $args<'a $($(, $element)+)?>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                $check(Self::NAME, args, grid $(, $limits)?)
            }
        }
    )+};
}

pub(crate) use kernel_specs;

/// Refuses a number of threads per block that the kernel is not compiled for.
pub(crate) fn check_threads(kernel: &str, found: u32, needed: u32) -> Result<()> {
    if found == needed {
        return Ok(());
    }
    Err(refused(kernel, &format!("{found} threads per block, {needed} required")))
}

/// The error of a launch that is refused.
pub(crate) fn refused(kernel: &str, message: &str) -> Error {
    Error::new(ErrorKind::Argument, "device", format!("kernel {kernel}: {message}"))
}
