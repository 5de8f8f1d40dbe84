//! Strided tensors as the kernels of this family take them, and the checks of their launches.

use super::MAX_RANK;
use super::arena::{Input, Output};
use crate::device::cuda::{Grid, In, Out, check_len, kernel_constant, mirrors, refused};
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// Elements that a thread reads or writes at once where they are neighbours.
pub(super) const VECTOR: usize = kernel_constant!("dense/tensor.cuh", "kVector") as usize;
/// Threads of a block that reduces rows.
pub(super) const ROW_THREADS: u32 = kernel_constant!("dense/rows.cuh", "kRowThreads");
/// Rows of such a block.
pub(super) const BLOCK_ROWS: u32 = kernel_constant!("dense/rows.cuh", "kBlockRows");

const F32: u32 = kernel_constant!("dense/tensor.cuh", "kF32");
/// The code of f16.
pub(super) const F16: u32 = kernel_constant!("dense/tensor.cuh", "kF16");
const I32: u32 = kernel_constant!("dense/tensor.cuh", "kI32");

/// A tensor that a kernel reads: `Source` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Source<'a> {
    pub bytes: In<'a, u8>,
    pub strides: [u32; MAX_RANK],
    pub element: u32,
    pub reserved: u32,
}

mirrors!(Source<'_>, "dense/tensor.cuh", "Source");

/// A tensor that a kernel writes: `Target` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Target<'a> {
    pub bytes: Out<'a, u8>,
    pub strides: [u32; MAX_RANK],
    pub element: u32,
    pub reserved: u32,
}

mirrors!(Target<'_>, "dense/tensor.cuh", "Target");

/// Dimensions, the last of which changes first: `Dims` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Dims {
    pub sizes: [u32; MAX_RANK],
    pub rank: u32,
    pub reserved: u32,
}

mirrors!(Dims, "dense/tensor.cuh", "Dims");

/// Dimensions that count rows, then the ones along a row: `RowDims` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct RowDims {
    pub sizes: [u32; MAX_RANK],
    pub num_kept: u32,
    pub rank: u32,
    pub num_rows: u32,
    pub len: u32,
    pub rows_are_neighbours: u32,
    pub reserved: u32,
}

mirrors!(RowDims, "dense/rows.cuh", "RowDims");

/// The size of a map and what changes first: `MapDims` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct MapDims {
    pub num: u32,
    pub channels: u32,
    pub height: u32,
    pub width: u32,
    pub is_channels_last: u32,
    pub reserved: u32,
}

mirrors!(MapDims, "dense/map.cuh", "MapDims");

impl<'a> Source<'a> {
    /// Strides along the dimensions that the kernel goes through.
    pub fn new(input: &Input<'a>, strides: [usize; MAX_RANK]) -> Self {
        let strides = strides.map(|stride| stride as u32);
        Self { bytes: input.bytes(), strides, element: code(input.element()), reserved: 0 }
    }

    /// No tensor.
    pub fn none() -> Self {
        Self { bytes: In::empty(), strides: [0; MAX_RANK], element: F32, reserved: 0 }
    }

    /// Refuses a source that has not all of a map of these sizes, of which `width` channels are
    /// read at once.
    pub fn check_map(&self, kernel: &str, name: &str, dims: &[u32; 4], width: usize) -> Result<()> {
        let is_at_16 = self.bytes.is_aligned_to(16);
        self.check(kernel, name, map_reach(is_at_16, &self.strides, dims, width))
    }

    /// Refuses a source that is shorter than its elements up to `reach`.
    pub fn check(&self, kernel: &str, name: &str, reach: usize) -> Result<()> {
        check_reach(kernel, name, self.bytes.len(), self.element, reach)
    }
}

impl<'a> Target<'a> {
    /// Strides along the dimensions that the kernel goes through.
    pub fn new(output: &Output<'a>, strides: [usize; MAX_RANK]) -> Self {
        let strides = strides.map(|stride| stride as u32);
        Self { bytes: output.bytes(), strides, element: code(output.element()), reserved: 0 }
    }

    /// No tensor.
    pub fn none() -> Self {
        Self { bytes: Out::empty(), strides: [0; MAX_RANK], element: F32, reserved: 0 }
    }

    /// Refuses a target that has not all of a map of these sizes, of which `width` channels are
    /// written at once.
    pub fn check_map(&self, kernel: &str, name: &str, dims: &[u32; 4], width: usize) -> Result<()> {
        let is_at_16 = self.bytes.is_aligned_to(16);
        self.check(kernel, name, map_reach(is_at_16, &self.strides, dims, width))
    }

    /// Refuses a target that is shorter than its elements up to `reach`.
    pub fn check(&self, kernel: &str, name: &str, reach: usize) -> Result<()> {
        check_reach(kernel, name, self.bytes.len(), self.element, reach)
    }
}

/// The elements of a map up to its last one; more than there can be where `width` channels are taken
/// at once and groups of [`VECTOR`] channels do not begin at addresses of 16 bytes.
fn map_reach(
    is_address_aligned: bool,
    strides: &[u32; MAX_RANK],
    dims: &[u32; 4],
    width: usize,
) -> usize {
    let others = [0, 2, 3].into_iter().filter(|&axis| dims[axis] > 1);
    let others = others.map(|axis| strides[axis] as usize);
    let are_groups = strides[1] == 1 && is_aligned(is_address_aligned, others);
    if width == 1 || are_groups { reach(dims, strides, 1) } else { usize::MAX }
}

fn code(element: ElementType) -> u32 {
    match element {
        ElementType::F16 => F16,
        ElementType::I32 => I32,
        // A buffer of an arena has no other.
        ElementType::F32 | ElementType::I64 | ElementType::F64 | ElementType::I8 => F32,
    }
}

/// Bytes of an element of a kernel's tensor.
fn element_bytes(element: u32) -> usize {
    if element == F16 { 2 } else { 4 }
}

fn check_reach(kernel: &str, name: &str, bytes: usize, element: u32, reach: usize) -> Result<()> {
    // Kernels count elements in 32 bits.
    if u32::try_from(reach).is_err() {
        return Err(refused(kernel, &format!("{name} has {reach} elements, at most 2^32 - 1")));
    }
    check_len(kernel, name, bytes, reach.saturating_mul(element_bytes(element)))
}

/// The elements from the first to behind the last for indices below `sizes`; `last` are read at
/// each. 0 where there is no index.
pub(super) fn reach(sizes: &[u32], strides: &[u32], last: usize) -> usize {
    if sizes.contains(&0) {
        return 0;
    }
    let pairs = sizes.iter().zip(strides);
    pairs.fold(last, |sum, (&size, &stride)| {
        sum.saturating_add((size as usize - 1).saturating_mul(stride as usize))
    })
}

/// The product of sizes; `None` beyond 2^32 - 1.
pub(super) fn product(sizes: &[u32]) -> Option<u32> {
    sizes.iter().try_fold(1_u32, |product, &size| product.checked_mul(size))
}

impl Dims {
    /// The sizes that count.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes[..(self.rank as usize).min(MAX_RANK)]
    }

    /// Refuses other numbers of dimensions, or of items, than there are.
    pub fn check(&self, kernel: &str, num_items: u32) -> Result<()> {
        let is_rank = (1..=MAX_RANK as u32).contains(&self.rank);
        if is_rank && product(self.sizes()) == Some(num_items) {
            return Ok(());
        }
        Err(refused(kernel, &format!("{num_items} items of {:?}", self.sizes())))
    }
}

impl RowDims {
    /// The sizes that count.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes[..(self.rank as usize).min(MAX_RANK)]
    }

    /// The sizes that count rows.
    pub fn kept(&self) -> &[u32] {
        &self.sizes[..(self.num_kept as usize).min(MAX_RANK)]
    }

    /// Refuses dimensions that do not give the rows and their length.
    pub fn check(&self, kernel: &str) -> Result<()> {
        let fits = (1..=MAX_RANK as u32).contains(&self.rank)
            && self.num_kept < self.rank
            && self.len > 0
            && product(self.kept()) == Some(self.num_rows)
            && product(&self.sizes()[self.num_kept as usize..]) == Some(self.len);
        if fits {
            return Ok(());
        }
        let (kept, sizes) = (self.num_kept, self.sizes());
        Err(refused(kernel, &format!("rows of {} of {sizes:?}, {kept} kept", self.len)))
    }
}

impl MapDims {
    /// Sizes in the order of the strides of maps.
    pub fn sizes(&self) -> [u32; 4] {
        [self.num, self.channels, self.height, self.width]
    }

    /// The number of threads that have `width` channels each; `None` beyond 2^32 - 1 of them.
    pub fn num_items(&self, width: u32) -> Option<u32> {
        let groups = if self.is_channels_last != 0 { self.channels / width } else { self.channels };
        product(&[self.num, groups, self.height, self.width])
    }
}

/// Refuses more elements than kernels count.
pub(super) fn check_count(num: usize) -> Result<()> {
    if u32::try_from(num).is_ok() {
        return Ok(());
    }
    let message = format!("{num} elements, at most 2^32 - 1 are allowed in one launch");
    Err(Error::new(ErrorKind::Argument, "dense", message))
}

/// Whether threads may have [`VECTOR`] neighbouring elements of a tensor: its address and all other
/// strides fit loads of 16 bytes. `strides` are without the one along the neighbours.
pub(super) fn is_aligned(
    is_address_aligned: bool,
    strides: impl IntoIterator<Item = usize>,
) -> bool {
    is_address_aligned && strides.into_iter().all(|stride| stride.is_multiple_of(VECTOR))
}

/// How threads go through maps `[N, C, H, W]`.
///
/// # Errors
/// `Argument` when a size does not fit 32 bits.
pub(super) fn map_dims(dims: [usize; 4], strides: &[usize]) -> Result<MapDims> {
    check_count(dims.iter().product())?;
    let [num, channels, height, width] = dims.map(|dim| dim as u32);
    // Single columns and single channels decide nothing.
    let is_channels_last = channels > 1 && (width == 1 || strides[1] <= strides[3]);
    let is_channels_last = u32::from(is_channels_last);
    Ok(MapDims { num, channels, height, width, is_channels_last, reserved: 0 })
}

/// Whether threads may have [`VECTOR`] channels of maps `[N, C, H, W]`.
pub(super) fn are_vectors(input: &Input<'_>, output: &Output<'_>) -> bool {
    let of = |dims: &[usize], strides: &[usize], is_address_aligned: bool| {
        let others = [0, 2, 3].into_iter().filter(|&axis| dims[axis] > 1);
        dims[1].is_multiple_of(VECTOR)
            && strides[1] == 1
            && is_aligned(is_address_aligned, others.map(|axis| strides[axis]))
    };
    let (source, target) = (&input.region().window, &output.region().window);
    of(source.dims(), source.strides(), input.bytes().is_aligned_to(16))
        && of(target.dims(), target.strides(), output.bytes().is_aligned_to(16))
}

/// Strides with a place for each dimension that kernels know.
pub(super) fn padded(strides: &[usize]) -> [usize; MAX_RANK] {
    let mut padded = [0; MAX_RANK];
    padded[..strides.len()].copy_from_slice(strides);
    padded
}

/// The launch of a kernel with a thread for every value of maps, or every [`VECTOR`] channels.
///
/// # Errors
/// `Argument` when there are too many.
pub(super) fn map_grid(dims: &MapDims, threads_per_block: u32, are_vectors: bool) -> Result<Grid> {
    check_count(dims.sizes().iter().map(|&size| size as usize).product())?;
    let num_items = dims.num_items(if are_vectors { VECTOR as u32 } else { 1 }).unwrap_or(0);
    Ok(Grid { num_blocks: [num_items.div_ceil(threads_per_block), 1], threads_per_block })
}

/// Refuses a launch over maps whose threads are not as many as there are values, or groups of
/// `width` channels.
pub(super) fn check_map(kernel: &str, dims: &MapDims, grid: &Grid, width: usize) -> Result<()> {
    let num_blocks = dims.num_items(width as u32).map(|num| num.div_ceil(grid.threads_per_block));
    let are_groups =
        width == 1 || dims.is_channels_last != 0 && dims.channels.is_multiple_of(width as u32);
    if product(&dims.sizes()).is_some() && num_blocks == Some(grid.num_blocks[0]) && are_groups {
        return Ok(());
    }
    Err(refused(kernel, &format!("{grid:?} for {dims:?} by {width}")))
}

/// Refuses tensors of i32.
pub(super) fn check_floats(operation: &'static str, elements: &[ElementType]) -> Result<()> {
    if elements.iter().all(|element| matches!(element, ElementType::F16 | ElementType::F32)) {
        return Ok(());
    }
    let message = format!("elements of {elements:?}, f16 or f32 required");
    Err(Error::new(ErrorKind::Argument, operation, message))
}

/// The launch of a kernel whose blocks have [`BLOCK_ROWS`] rows.
pub(super) fn row_grid(dims: &RowDims) -> Grid {
    Grid { num_blocks: [dims.num_rows.div_ceil(BLOCK_ROWS), 1], threads_per_block: ROW_THREADS }
}

/// Refuses other launches over rows, or dimensions that do not give them.
pub(super) fn check_rows(kernel: &str, dims: &RowDims, grid: &Grid) -> Result<()> {
    dims.check(kernel)?;
    if *grid == row_grid(dims) {
        return Ok(());
    }
    Err(refused(kernel, &format!("{grid:?} for {} rows", dims.num_rows)))
}

/// The launch of a kernel with a thread for every item.
pub(super) fn item_grid(num_items: u32, threads_per_block: u32) -> Grid {
    Grid { num_blocks: [num_items.div_ceil(threads_per_block), 1], threads_per_block }
}

/// Refuses other launches than of a thread for every item of the dimensions.
pub(super) fn check_items(
    kernel: &str,
    dims: &Dims,
    num_items: u32,
    grid: &Grid,
    threads_per_block: u32,
) -> Result<()> {
    dims.check(kernel, num_items)?;
    if *grid == item_grid(num_items, threads_per_block) {
        return Ok(());
    }
    Err(refused(kernel, &format!("{grid:?} for {num_items} items")))
}

/// Refuses indices of other elements than i32.
pub(super) fn check_indices(operation: &'static str, element: ElementType) -> Result<()> {
    if element == ElementType::I32 {
        return Ok(());
    }
    let message = format!("indices of {element}, i32 required");
    Err(Error::new(ErrorKind::Argument, operation, message))
}

/// Refuses a copy between floats and i32.
pub(super) fn check_same_kind(
    operation: &'static str,
    from: ElementType,
    to: ElementType,
) -> Result<()> {
    if (from == ElementType::I32) == (to == ElementType::I32) {
        return Ok(());
    }
    let message =
        format!("from elements of {from} to {to}: both floats, or both i32, are required");
    Err(Error::new(ErrorKind::Argument, operation, message))
}
