//! The parameters of `kernels/image/decompress.cu`.

use crate::device::cuda::{
    Grid, In, KernelSpec, Out, blocks, check_lens, check_threads, kernel_constant, mirrors, refused,
};
use crate::image::decompress::nvjpeg::JpegPlanes;
use det_post_types::{Result, Size};

/// Threads per block: two pixels each.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("image/decompress.cu", "kThreads");

/// The parameter of `decompress_planes`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PlanesArgs<'a> {
    /// Y, Cb, Cr.
    pub planes: In<'a, u8>,
    /// The image, `rgb8` without padding.
    pub rgb: Out<'a, u8>,
    /// Columns of the image.
    pub width: u32,
    /// Rows of the image.
    pub height: u32,
    /// Columns of Cb and Cr: those of the image, or half of them, rounded up.
    pub chroma_width: u32,
    /// Rows of Cb and Cr, likewise.
    pub chroma_height: u32,
}

mirrors!(PlanesArgs<'_>, "image/decompress.cu", "Args");

/// `decompress_planes`.
pub struct PlanesToRgb;

/// Blocks of an image.
pub fn num_blocks(size: Size) -> u32 {
    blocks(size.width.div_ceil(2) as usize * size.height as usize, THREADS_PER_BLOCK)
}

// SAFETY: `PlanesArgs` mirrors `decompress::Args` (compared). A thread reads samples of the planes
// at columns and rows that are clamped to their sizes, and writes two pixels below the size of the
// image; the check covers both slices and that each plane of chroma has a sample for every pixel.
// No thread waits.
unsafe impl KernelSpec for PlanesToRgb {
    const NAME: &'static str = "decompress_planes";
    type Args<'a> = PlanesArgs<'a>;
    fn check(args: &Self::Args<'_>, grid: &Grid) -> Result<()> {
        check_threads(Self::NAME, grid.threads_per_block, THREADS_PER_BLOCK)?;
        let &PlanesArgs { width, height, chroma_width, chroma_height, .. } = args;
        let (size, chroma) = (Size::new(width, height), Size::new(chroma_width, chroma_height));
        let covers = |part: u32, whole: u32| part == whole || part == whole.div_ceil(2);
        if grid.num_blocks != [num_blocks(size), 1]
            || !covers(chroma_width, width)
            || !covers(chroma_height, height)
        {
            let message =
                format!("{:?} blocks do not fit {size:?} and {chroma:?}", grid.num_blocks);
            return Err(refused(Self::NAME, &message));
        }
        let num_pixels = width as usize * height as usize;
        let needed = JpegPlanes { size, chroma: Some(chroma) }.num_bytes();
        check_lens(
            Self::NAME,
            [("planes", args.planes.len(), needed), ("rgb", args.rgb.len(), 3 * num_pixels)],
        )
    }
}
