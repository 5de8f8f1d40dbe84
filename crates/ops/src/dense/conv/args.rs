//! The parameter of the kernels, and what they need of it.

use super::exact::{DEPTHWISE_THREADS, ExactTiling};
use super::tiling::{Kind, Method, Tiling};
use crate::dense::activation::ActivationArgs;
use crate::device::cuda::{Grid, In, Out, check_lens, check_threads, mirrors, refused};
use det_post_types::Result;

/// A map in device memory: `Map` in the kernels. Strides are in elements.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct MapArgs {
    pub(super) item: u32,
    pub(super) channel: u32,
    pub(super) row: u32,
    pub(super) pixel: u32,
    pub(super) is_f32: u32,
    pub(super) is_vector: u32,
}

mirrors!(MapArgs, "dense/conv.cuh", "Map");

impl MapArgs {
    fn element_bytes(&self) -> u64 {
        if self.is_f32 != 0 { 4 } else { 2 }
    }

    /// Bytes up to the last element of a map of items, channels, rows and columns.
    fn num_bytes(&self, [items, channels, rows, columns]: [u64; 4]) -> u64 {
        let sizes = [items, channels, rows, columns];
        if sizes.contains(&0) {
            return 0;
        }
        let strides = [self.item, self.channel, self.row, self.pixel];
        let last = sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * u64::from(stride));
        (last.sum::<u64>() + 1) * self.element_bytes()
    }

    /// Whether 16 bytes of channels are at multiples of 16 bytes.
    fn allows_vectors(&self, is_aligned: bool) -> bool {
        let strides = [self.item, self.row, self.pixel];
        is_aligned && self.channel == 1 && strides.iter().all(|stride| stride.is_multiple_of(8))
    }
}

/// The parameter of all kernels: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ConvArgs<'a> {
    pub(super) input: In<'a, u8>,
    pub(super) weights: In<'a, u8>,
    pub(super) bias: In<'a, f32>,
    pub(super) residual: In<'a, u8>,
    pub(super) steps: In<'a, u32>,
    pub(super) output: Out<'a, u8>,
    pub(super) in_map: MapArgs,
    pub(super) res_map: MapArgs,
    pub(super) out_map: MapArgs,
    pub(super) activation: ActivationArgs,
    pub(super) residual_place: u32,
    pub(super) num_items: u32,
    pub(super) in_height: u32,
    pub(super) in_width: u32,
    pub(super) upsample_shift: u32,
    pub(super) out_height: u32,
    pub(super) out_width: u32,
    pub(super) kernel_y: u32,
    pub(super) kernel_x: u32,
    pub(super) stride_y: u32,
    pub(super) stride_x: u32,
    pub(super) dilation_y: u32,
    pub(super) dilation_x: u32,
    pub(super) pad_y: u32,
    pub(super) pad_x: u32,
    pub(super) num_inputs: u32,
    pub(super) num_outputs: u32,
    pub(super) tap_columns: u32,
    pub(super) shuffle_y: u32,
    pub(super) shuffle_x: u32,
    pub(super) num_columns: u32,
    pub(super) column_blocks: u32,
    pub(super) tiles_y: u32,
    pub(super) tiles_x: u32,
    pub(super) tile_x_log2: u32,
    pub(super) patch_height: u32,
    pub(super) patch_width: u32,
    pub(super) pixel_bytes: u32,
    pub(super) patch_bytes: u32,
    pub(super) num_patches: u32,
    pub(super) chunk_channels: u32,
    pub(super) num_chunks: u32,
    pub(super) chunk_steps: u32,
    pub(super) num_steps: u32,
    pub(super) num_products: u32,
    pub(super) weights_item: u32,
    pub(super) weights_input: u32,
    pub(super) weights_column: u32,
    pub(super) weights_f32: u32,
    pub(super) weights_vector: u32,
    pub(super) rounds: u32,
}

mirrors!(ConvArgs<'_>, "dense/conv.cuh", "Args");

impl ConvArgs<'_> {
    /// Nothing.
    pub(super) fn empty() -> Self {
        Self {
            input: In::empty(),
            weights: In::empty(),
            bias: In::empty(),
            residual: In::empty(),
            steps: In::empty(),
            output: Out::empty(),
            in_map: MapArgs::default(),
            res_map: MapArgs::default(),
            out_map: MapArgs::default(),
            activation: ActivationArgs::default(),
            residual_place: 0,
            num_items: 0,
            in_height: 0,
            in_width: 0,
            upsample_shift: 0,
            out_height: 0,
            out_width: 0,
            kernel_y: 0,
            kernel_x: 0,
            stride_y: 0,
            stride_x: 0,
            dilation_y: 0,
            dilation_x: 0,
            pad_y: 0,
            pad_x: 0,
            num_inputs: 0,
            num_outputs: 0,
            tap_columns: 0,
            shuffle_y: 0,
            shuffle_x: 0,
            num_columns: 0,
            column_blocks: 0,
            tiles_y: 0,
            tiles_x: 0,
            tile_x_log2: 0,
            patch_height: 0,
            patch_width: 0,
            pixel_bytes: 0,
            patch_bytes: 0,
            num_patches: 0,
            chunk_channels: 0,
            num_chunks: 0,
            chunk_steps: 0,
            num_steps: 0,
            num_products: 0,
            weights_item: 0,
            weights_input: 0,
            weights_column: 0,
            weights_f32: 0,
            weights_vector: 0,
            rounds: 0,
        }
    }

    /// The groups of a launch of tiles, which cover all output pixels and columns.
    fn check_tiles(&self, kernel: &str, grid: &Grid, [pixels, columns]: [u32; 2]) -> Result<u32> {
        let groups = grid.num_blocks[1] / self.column_blocks.max(1);
        let tiles = u64::from(self.num_items) * u64::from(self.tiles_y) * u64::from(self.tiles_x);
        let fits = u64::from(grid.num_blocks[0]) == tiles
            && grid.num_blocks[1] == groups * self.column_blocks
            && self.tiles_x > 0
            && self.tile_x_log2 <= pixels.ilog2()
            && self.column_blocks * columns == self.num_columns
            && self.tiles_y * (pixels >> self.tile_x_log2.min(31)) >= self.out_height
            && u64::from(self.tiles_x) << self.tile_x_log2.min(31) >= u64::from(self.out_width);
        if !fits {
            let message = format!("{:?} blocks do not fit {tiles} tiles", grid.num_blocks);
            return Err(refused(kernel, &message));
        }
        Ok(groups)
    }

    /// What all kernels need: maps, bias and residual have what they are read and written for.
    fn check_maps(&self, kernel: &str, groups: u32) -> Result<()> {
        let [items, groups] = [self.num_items, groups].map(u64::from);
        let out_y = u64::from(self.out_height) * u64::from(self.shuffle_y);
        let out_x = u64::from(self.out_width) * u64::from(self.shuffle_x);
        let inputs = groups * u64::from(self.num_inputs);
        let outputs = groups * u64::from(self.num_outputs);
        let size = [u64::from(self.in_height), u64::from(self.in_width)];
        let input = self.in_map.num_bytes([items, inputs, size[0], size[1]]);
        let output = self.out_map.num_bytes([items, outputs, out_y, out_x]);
        let residual = self.res_map.num_bytes([items, outputs, out_y, out_x]);
        let residual = if self.residual_place == 0 { 0 } else { residual };
        // Kernels compute offsets in elements as numbers of 32 bits, those of the input with a
        // sign.
        let is_small = input.max(output).max(residual) < 1 << 31;
        if !is_small || self.shuffle_y * self.shuffle_x * self.tap_columns == 0 {
            return Err(refused(kernel, "maps must have fewer than 2^31 bytes"));
        }
        let is_aligned = |map: &MapArgs, aligned| map.is_vector == 0 || map.allows_vectors(aligned);
        let vectors = is_aligned(&self.in_map, self.input.is_aligned_to(16))
            && is_aligned(&self.res_map, self.residual.is_aligned_to(16))
            && is_aligned(&self.out_map, self.output.is_aligned_to(16))
            && (groups == 1
                || self.num_outputs.is_multiple_of(8)
                || self.res_map.is_vector + self.out_map.is_vector == 0)
            && self.num_columns.is_multiple_of(8);
        if !vectors {
            return Err(refused(kernel, "maps do not allow 16 bytes at once"));
        }
        let num_bias = groups * u64::from(self.num_columns);
        check_lens(
            kernel,
            [
                ("input", self.input.len(), input as usize),
                ("residual", self.residual.len(), residual as usize),
                ("output", self.output.len(), output as usize),
                ("bias", self.bias.len(), num_bias as usize),
            ],
        )
    }

    pub(super) fn shared_bytes(&self, tiling: &Tiling) -> u32 {
        tiling.shared_bytes(
            self.num_steps,
            self.patch_height * self.patch_width,
            self.num_patches * self.patch_bytes,
        )
    }

    /// Bytes of a matrix of products by columns in place of weights.
    fn right_bytes(&self, kernel: &str) -> Result<u64> {
        let map = MapArgs {
            item: self.weights_item,
            channel: self.weights_input,
            row: 0,
            pixel: self.weights_column,
            is_f32: self.weights_f32,
            is_vector: 0,
        };
        let [items, products, columns] =
            [self.num_items, self.num_products, self.num_outputs].map(u64::from);
        let num_bytes = map.num_bytes([items, products, 1, columns]);
        if num_bytes >= 1 << 31
            || self.num_products != self.num_inputs * self.kernel_y * self.kernel_x
        {
            return Err(refused(kernel, "a right side has fewer than 2^31 bytes"));
        }
        Ok(num_bytes)
    }

    pub(super) fn check_f16(&self, kernel: &str, grid: &Grid, tiling: &Tiling) -> Result<()> {
        check_threads(kernel, grid.threads_per_block, tiling.threads_per_block())?;
        let groups = self.check_tiles(kernel, grid, [tiling.pixels, tiling.columns])?;
        self.check_maps(kernel, groups)?;
        let pixels = self.patch_height * self.patch_width;
        let is_gather = tiling.method != Method::Vector;
        let fits = self.num_patches > 0
            && self.chunk_channels > 0
            && (!tiling.has_all_patches() || self.num_patches >= self.num_chunks)
            && (tiling.kind != Kind::Warpgroups
                || self.num_steps.is_multiple_of(tiling.stage_steps))
            && pixels * self.pixel_bytes <= self.patch_bytes
            && self.patch_bytes.is_multiple_of(16)
            && self.pixel_bytes.is_multiple_of(if is_gather { 8 } else { 16 })
            && (is_gather || self.in_map.is_vector != 0 && self.in_map.is_f32 == 0);
        if !fits {
            return Err(refused(kernel, "patches or the input do not fit the kernel"));
        }
        if groups > 1 && !is_gather && !self.num_inputs.is_multiple_of(8) {
            return Err(refused(kernel, "channels of a group must be a multiple of 8"));
        }
        let num_bytes = if tiling.method == Method::Window {
            if [groups, self.kernel_y, self.kernel_x] != [1; 3] {
                return Err(refused(kernel, "a product has one group and no taps"));
            }
            self.right_bytes(kernel)?
        } else {
            let steps = self.num_steps.next_multiple_of(tiling.stage_steps);
            u64::from(groups) * u64::from(self.num_columns / 16) * u64::from(steps) * 512
        };
        check_lens(
            kernel,
            [
                ("steps", self.steps.len(), self.num_steps as usize),
                ("weights", self.weights.len(), num_bytes as usize),
            ],
        )
    }

    pub(super) fn check_exact(
        &self,
        kernel: &str,
        grid: &Grid,
        tiling: &ExactTiling,
    ) -> Result<()> {
        check_threads(kernel, grid.threads_per_block, tiling.threads_per_block())?;
        let groups = self.check_tiles(kernel, grid, [tiling.pixels, tiling.columns])?;
        self.check_maps(kernel, groups)?;
        let products =
            u64::from(self.kernel_y) * u64::from(self.kernel_x) * u64::from(self.num_inputs);
        if products != u64::from(self.num_products) || products == 0 {
            return Err(refused(kernel, "products do not match taps and channels"));
        }
        let num_bytes = if self.weights_vector != 0 {
            u64::from(groups) * products * u64::from(self.num_columns) * 4
        } else {
            let map = MapArgs {
                item: self.weights_item,
                channel: self.weights_input,
                row: 0,
                pixel: self.weights_column,
                is_f32: self.weights_f32,
                is_vector: 0,
            };
            let columns = u64::from(self.num_outputs);
            map.num_bytes([u64::from(self.num_items), products, 1, columns])
        };
        let fits = if self.weights_vector != 0 {
            self.weights.is_aligned_to(16)
        } else {
            groups == 1 && num_bytes < 1 << 31
        };
        if !fits {
            return Err(refused(
                kernel,
                "weights are of several groups, too large, or not aligned",
            ));
        }
        check_lens(kernel, [("weights", self.weights.len(), num_bytes as usize)])
    }

    pub(super) fn check_depthwise(&self, kernel: &str, grid: &Grid) -> Result<()> {
        check_threads(kernel, grid.threads_per_block, DEPTHWISE_THREADS)?;
        self.check_maps(kernel, 1)?;
        let pieces = u64::from(self.num_items)
            * u64::from(self.out_height)
            * u64::from(self.out_width)
            * u64::from(self.num_outputs.div_ceil(8));
        let blocks = pieces.div_ceil(u64::from(DEPTHWISE_THREADS));
        let fits = [u64::from(grid.num_blocks[0]), u64::from(grid.num_blocks[1])] == [blocks, 1]
            && pieces < 1 << 31
            && self.num_inputs == self.num_outputs
            && self.num_columns >= self.num_outputs
            && self.shuffle_y * self.shuffle_x == 1
            && self.tiles_y * self.tiles_x * self.column_blocks == 1
            && self.weights.is_aligned_to(16);
        if !fits {
            let message = format!("{:?} blocks do not fit {pieces} pieces", grid.num_blocks);
            return Err(refused(kernel, &message));
        }
        let taps = self.kernel_y as usize * self.kernel_x as usize;
        let num_bytes = taps * self.num_columns as usize * 4;
        check_lens(kernel, [("weights", self.weights.len(), num_bytes)])
    }
}
