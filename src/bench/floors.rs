//! What a launch, a copy and a wait cost by themselves, in the same run as
//! everything that is compared with it.

use super::case::Case;
use super::measure::Bench;
use det_post_ops::device::Device;
use det_post_types::Result;

/// Sizes of copies in bytes: detections, a small and a large image.
#[cfg(feature = "cuda")]
const COPIES: [usize; 4] = [4 << 10, 2 << 20, 1920 * 1080 * 3, 64 << 20];

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    match device {
        Device::Cpu => on_cpu(bench),
        #[cfg(feature = "cuda")]
        Device::Cuda(device) => cuda::cases(bench, device),
    }
}

fn on_cpu(bench: &mut Bench<'_>) -> Result<()> {
    let name = "floor: copy 64 MiB in memory";
    if !bench.wants(name) {
        return Ok(());
    }
    let (from, mut to) = (vec![1_u8; 64 << 20], vec![0_u8; 64 << 20]);
    bench.host(Case::new(name).moving(from.len()), || {
        to.copy_from_slice(std::hint::black_box(&from));
        std::hint::black_box(&to);
        Ok(())
    })
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::case::wall;
    use super::{Bench, COPIES, Case, Result};
    use det_post_ops::device::cuda::diagnostic::{Empty, EmptyArgs};
    use det_post_ops::device::cuda::{
        CudaDevice, DeviceBuffer, Grid, Kernel, MappedBuffer, PinnedBuffer, Stream,
    };
    use det_post_ops::device::set_copy_threads;
    use det_post_types::Detection2d;

    const GRID: Grid = Grid { num_blocks: [132, 1], threads_per_block: 256 };

    pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
        let stream = &device.stream()?;
        launches(bench, stream)?;
        for num_bytes in COPIES {
            copies(bench, stream, num_bytes)?;
        }
        copy_threads(bench, stream)?;
        mapped_read(bench, stream)
    }

    /// The copy of an image into page-locked memory and its upload, by numbers of threads.
    fn copy_threads(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
        const NUM_BYTES: usize = 1920 * 1080 * 3;
        for num_threads in [1, 2, 4, 8] {
            let name = format!("floor: copy in and upload {NUM_BYTES} B, threads: {num_threads}");
            if !bench.wants(&name) {
                continue;
            }
            let mut pinned = PinnedBuffer::<u8>::zeros(stream, NUM_BYTES)?;
            let mut target = DeviceBuffer::zeros(stream, NUM_BYTES)?;
            let payload = vec![1; NUM_BYTES];
            set_copy_threads(num_threads);
            let upload = || pinned.enqueue_upload(&payload, &mut target);
            let case = Case::new(name).moving(NUM_BYTES);
            // The bar is of the default on a machine of four cores.
            let case = case.with_bar(wall(None, 350.0).filter(|_| num_threads == 4));
            let measured = bench.device(case, stream, upload, || stream.synchronize());
            set_copy_threads(0);
            measured?;
        }
        Ok(())
    }

    /// Kernels that do nothing, one by one and recorded.
    fn launches(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
        let kernel: Kernel<Empty> = stream.device().kernel()?;
        let mut memory = DeviceBuffer::zeros(stream, 1)?;
        let args = EmptyArgs { nothing: memory.output(stream)? };
        let name = "floor: 1 empty kernel, launched";
        if bench.wants(name) {
            let launch = || kernel.enqueue(stream, GRID, args);
            bench.device(Case::new(name), stream, launch, || stream.synchronize())?;
        }
        for num in [1, 3, 5, 8] {
            let name = format!("floor: {num} empty kernels, recorded");
            if bench.wants(&name) {
                bench.recorded(Case::new(name), stream, || {
                    (0..num).try_for_each(|_| kernel.enqueue(stream, GRID, args))
                })?;
            }
        }
        Ok(())
    }

    fn copies(bench: &mut Bench<'_>, stream: &Stream, num_bytes: usize) -> Result<()> {
        let size = match num_bytes {
            _ if num_bytes.is_multiple_of(1 << 20) => format!("{} MiB", num_bytes >> 20),
            _ if num_bytes.is_multiple_of(1 << 10) => format!("{} KiB", num_bytes >> 10),
            _ => format!("{num_bytes} B"),
        };
        let [up, copied_up, down, within] =
            ["upload", "copy in and upload", "download", "copy on the device"]
                .map(|way| format!("floor: {way} {size}"));
        if ![&up, &copied_up, &down, &within].into_iter().any(|name| bench.wants(name)) {
            return Ok(());
        }
        let mut pinned = PinnedBuffer::<u8>::zeros(stream, num_bytes)?;
        let mut target = DeviceBuffer::zeros(stream, num_bytes)?;
        let wait = || stream.synchronize();
        if bench.wants(&up) {
            let upload = || pinned.enqueue_written(num_bytes, &mut target);
            bench.device(Case::new(up).moving(num_bytes), stream, upload, wait)?;
        }
        if bench.wants(&copied_up) {
            let payload = vec![1; num_bytes];
            let upload = || pinned.enqueue_upload(&payload, &mut target);
            bench.device(Case::new(copied_up).moving(num_bytes), stream, upload, wait)?;
        }
        if bench.wants(&down) {
            bench
                .host(Case::new(down).moving(num_bytes), || pinned.download(&target).map(|_| ()))?;
        }
        if bench.wants(&within) {
            let source = DeviceBuffer::zeros(stream, num_bytes)?;
            let copy = || target.enqueue_copy(&source);
            bench.device(Case::new(within).moving(num_bytes), stream, copy, wait)?;
        }
        Ok(())
    }

    /// The copy of detections that a kernel wrote to mapped memory.
    fn mapped_read(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
        const NUM: usize = 300;
        let name = "floor: read 300 detections from mapped memory";
        if !bench.wants(name) {
            return Ok(());
        }
        let mapped = MappedBuffer::<Detection2d>::zeros(stream, NUM)?;
        let mut out = Vec::with_capacity(NUM);
        bench.host(Case::new(name), || {
            out.clear();
            mapped.copy_to(NUM, &mut out);
            Ok(())
        })
    }
}
