//! The parameters of `kernels/view/layer_stack.cu`.

use half::f16;

use crate::device::cuda::{
    CudaDevice, DependentKernel, Grid, In, Kernel, KernelSpec, Mirror, Out, Plain, Stream,
    check_lens, check_threads, kernel_constant, mirrors, refused,
};
use crate::view::layer_norm::EPSILON;
use crate::view::linear::cuda::{Element, padded};
use det_post_types::Result;

/// Threads per block.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("view/layer_stack.cuh", "kThreads");
/// Rows per block.
pub const ROWS_PER_BLOCK: u32 = kernel_constant!("view/layer_stack.cuh", "kRows");
/// The most layers of a stack after one over columns of f32.
pub const MAX_LAYERS: usize = kernel_constant!("view/layer_stack.cuh", "kMaxLayers") as usize;
/// The most stacks of a launch.
pub const MAX_JOBS: usize = kernel_constant!("view/layer_stack.cuh", "kMaxJobs") as usize;
/// The most channels of an input and between layers.
pub const MAX_WIDTH: usize = kernel_constant!("view/layer_stack.cuh", "kMaxWidth") as usize;
/// The most columns of f32.
pub const MAX_COLUMNS: usize = kernel_constant!("view/layer_stack.cuh", "kMaxColumns") as usize;

/// A layer: `Layer` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LayerArgs<'a> {
    /// Packed.
    pub weights: In<'a, u8>,
    /// One per output, padded.
    pub bias: In<'a, f32>,
    /// Factors and summands of the normalization; empty: none.
    pub norm: In<'a, f32>,
    /// Inputs, padded.
    pub num_inputs: u32,
    /// Outputs, padded.
    pub num_outputs: u32,
    /// Whether a ReLU precedes the normalization.
    pub has_relu: u32,
    /// Padding.
    pub reserved: u32,
}

/// A stack: `Job` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StackArgs<'a, T> {
    /// The input, where there are no columns.
    pub rows: In<'a, T>,
    /// Factors and summands of its normalization; empty: none.
    pub norm: In<'a, f32>,
    /// Where the input is stored after that; empty: nowhere.
    pub normalized: Out<'a, T>,
    /// Rows that are then added; empty: none.
    pub addend: In<'a, T>,
    /// Rows of f32, the input of `first`; empty: `rows` are.
    pub columns: In<'a, f32>,
    /// A row of weights and a bias per output, a ReLU following.
    pub first: In<'a, f32>,
    /// Factors and summands of the normalization after that.
    pub first_norm: In<'a, f32>,
    /// Output rows; empty: `values`.
    pub output: Out<'a, T>,
    /// Outputs in f32.
    pub values: Out<'a, f32>,
    /// Rows that are added to them; empty: none.
    pub summand: In<'a, f32>,
    /// One value, by which outputs from `first_divided` on are divided before that; empty: none.
    pub interval: In<'a, f32>,
    /// The layers.
    pub layers: [LayerArgs<'a>; MAX_LAYERS],
    /// Values from one row to the next.
    pub row_stride: u32,
    /// Channels of the input.
    pub row_len: u32,
    /// Values from one row to the next.
    pub normalized_stride: u32,
    /// As above.
    pub addend_stride: u32,
    /// As above.
    pub column_stride: u32,
    /// Columns of a row.
    pub num_columns: u32,
    /// Outputs of `first`.
    pub first_width: u32,
    /// Values from one row of the output, or of `values`, to the next.
    pub output_stride: u32,
    /// Outputs of a row that are stored.
    pub num_values: u32,
    /// As above.
    pub first_divided: u32,
    /// Rows.
    pub num_rows: u32,
    /// Layers.
    pub num_layers: u32,
    /// Added to variances.
    pub epsilon: f32,
    /// Padding.
    pub reserved: u32,
}

/// The stacks of a launch: `Args` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StacksArgs<'a, T> {
    jobs: [StackArgs<'a, T>; MAX_JOBS],
    num_jobs: u32,
    reserved: u32,
}

mirrors!(LayerArgs<'_>, "view/layer_stack.cuh", "Layer");
mirrors!(StackArgs<'_, T>, "view/layer_stack.cuh", "Job", T; where T: Mirror);
mirrors!(StacksArgs<'_, T>, "view/layer_stack.cuh", "Args", T; where T: Mirror);

impl LayerArgs<'_> {
    fn empty() -> Self {
        Self {
            weights: In::empty(),
            bias: In::empty(),
            norm: In::empty(),
            num_inputs: 0,
            num_outputs: 0,
            has_relu: 0,
            reserved: 0,
        }
    }
}

impl<T: Plain> StackArgs<'_, T> {
    /// A stack without layers and rows.
    pub fn empty() -> Self {
        Self {
            rows: In::empty(),
            norm: In::empty(),
            normalized: Out::empty(),
            addend: In::empty(),
            columns: In::empty(),
            first: In::empty(),
            first_norm: In::empty(),
            output: Out::empty(),
            values: Out::empty(),
            summand: In::empty(),
            interval: In::empty(),
            layers: [LayerArgs::empty(); MAX_LAYERS],
            row_stride: 0,
            row_len: 0,
            normalized_stride: 0,
            addend_stride: 0,
            column_stride: 0,
            num_columns: 0,
            first_width: 0,
            output_stride: 0,
            num_values: 0,
            first_divided: 0,
            num_rows: 0,
            num_layers: 0,
            epsilon: EPSILON,
            reserved: 0,
        }
    }

    fn check(&self, kernel: &str) -> Result<()> {
        let has_columns = !self.columns.is_empty();
        let width = if has_columns { self.first_width } else { self.row_len } as usize;
        let num_layers = self.num_layers as usize;
        let mut fits = self.num_rows > 0
            && (1..=MAX_LAYERS).contains(&num_layers)
            && (1..=MAX_WIDTH).contains(&width)
            && (!has_columns || (1..=MAX_COLUMNS).contains(&(self.num_columns as usize)))
            && (has_columns || self.row_len.is_multiple_of(16))
            && (self.norm.is_empty() || self.norm.len() == 2 * width);
        let mut num_inputs = padded(width);
        for (index, layer) in self.layers.iter().take(num_layers).enumerate() {
            let num_outputs = layer.num_outputs as usize;
            let norm_len = layer.norm.len() / 2;
            let is_last = index + 1 == num_layers;
            fits = fits
                && layer.num_inputs as usize == num_inputs
                && num_outputs > 0
                && num_outputs.is_multiple_of(16)
                && norm_len <= num_outputs
                && (num_outputs <= MAX_WIDTH || (is_last && norm_len == 0));
            let weights = num_inputs * num_outputs * size_of::<T>();
            check_lens(
                kernel,
                [
                    ("weights", layer.weights.len(), weights),
                    ("bias", layer.bias.len(), num_outputs),
                ],
            )?;
            num_inputs = num_outputs;
        }
        if !fits || self.num_values as usize > num_inputs {
            let message = format!(
                "{} rows, {num_layers} layers from {width} inputs, a norm of {} values, {} of \
                 {num_inputs} outputs; at most {MAX_LAYERS} layers and {MAX_WIDTH} channels \
                 between them are allowed",
                self.num_rows,
                self.norm.len(),
                self.num_values
            );
            return Err(refused(kernel, &message));
        }
        self.check_rows(kernel, has_columns)
    }

    fn check_rows(&self, kernel: &str, has_columns: bool) -> Result<()> {
        let num_rows = self.num_rows as usize;
        let rows = |stride: u32, len: u32| (num_rows - 1) * stride as usize + len as usize;
        // What is empty is not used.
        let used = |len: usize, needed: usize| if len == 0 { 0 } else { needed };
        let of_rows = if has_columns { 0 } else { rows(self.row_stride, self.row_len) };
        let of_columns = if has_columns { rows(self.column_stride, self.num_columns) } else { 0 };
        let [first, first_norm] = if has_columns {
            [self.num_columns as usize + 1, 2].map(|len| len * self.first_width as usize)
        } else {
            [0; 2]
        };
        let outputs = rows(self.output_stride, self.num_values);
        let (output, values) =
            if self.output.is_empty() { (0, outputs) } else { (outputs, self.values.len()) };
        check_lens(
            kernel,
            [
                ("rows", self.rows.len(), of_rows),
                (
                    "normalized rows",
                    self.normalized.len(),
                    used(self.normalized.len(), rows(self.normalized_stride, self.row_len)),
                ),
                (
                    "addend",
                    self.addend.len(),
                    used(self.addend.len(), rows(self.addend_stride, self.row_len)),
                ),
                ("columns", self.columns.len(), of_columns),
                ("first layer", self.first.len(), first),
                ("first norm", self.first_norm.len(), first_norm),
                ("output", self.output.len(), output),
                ("values", self.values.len(), values),
                ("summand", self.summand.len(), used(self.summand.len(), outputs)),
            ],
        )
    }
}

/// Elements that stacks are compiled for.
pub trait StackElement: Element {
    /// The kernel.
    type Stack: for<'a> DependentKernel<Args<'a> = StacksArgs<'a, Self>>;
}

macro_rules! layer_stack {
    ($element:ty, $spec:ident: $name:literal) => {
        #[doc = concat!("`", $name, "`.")]
        pub struct $spec;

        // SAFETY: `StacksArgs`, `StackArgs` and `LayerArgs` mirror the structs of the kernels
        // (compared). A block has a job below their number and rows below the job's; rows, weights,
        // norms and outputs are long enough for them, and no layer but the last is wider than the
        // rows in shared memory (checked). No block waits for another.
        unsafe impl KernelSpec for $spec {
            const NAME: &'static str = $name;
            type Args<'a> = StacksArgs<'a, $element>;
            fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
                check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
                let jobs = &args.jobs[..(args.num_jobs as usize).min(MAX_JOBS)];
                if grid.num_blocks[1] as usize != jobs.len() {
                    let message =
                        format!("{:?} blocks do not fit {} stacks", grid.num_blocks, jobs.len());
                    return Err(refused(Self::NAME, &message));
                }
                jobs.iter().try_for_each(|job| job.check(Self::NAME))
            }
        }

        // SAFETY: the kernels wait before they read or write anything but their parameters.
        unsafe impl DependentKernel for $spec {}

        impl StackElement for $element {
            type Stack = $spec;
        }
    };
}

layer_stack!(f32, StackF32: "layer_stack_f32");
layer_stack!(f16, StackF16: "layer_stack_f16");

/// The loaded kernel.
pub struct StackKernel<T: StackElement> {
    kernel: Kernel<T::Stack>,
}

impl<T: StackElement> StackKernel<T> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel.
    pub fn load(device: &CudaDevice) -> Result<Self> {
        Ok(Self { kernel: device.kernel()? })
    }

    /// Queues stacks that do not depend on each other, at most [`MAX_JOBS`].
    ///
    /// # Errors
    /// `Argument` when there are more, or a stack does not fit its rows; `Device` when the
    /// launch fails.
    pub fn enqueue(&self, stream: &Stream, jobs: &[StackArgs<'_, T>]) -> Result<()> {
        if jobs.len() > MAX_JOBS {
            let message = format!("{} stacks exceed the limit of {MAX_JOBS}", jobs.len());
            return Err(refused("layer_stack", &message));
        }
        let mut args = StacksArgs {
            jobs: [StackArgs::empty(); MAX_JOBS],
            num_jobs: jobs.len() as u32,
            reserved: 0,
        };
        args.jobs.iter_mut().zip(jobs).for_each(|(to, job)| *to = *job);
        let num_rows = jobs.iter().map(|job| job.num_rows).max().unwrap_or(0);
        let num_blocks = [num_rows.div_ceil(ROWS_PER_BLOCK), jobs.len() as u32];
        let grid = Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue_dependent(stream, grid, args)
    }
}
