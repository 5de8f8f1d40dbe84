//! Operations on arrays: a device, and the memory of the operations on it.

use det_post_ops::device::Device;
use det_post_types::DeviceChoice;

use super::call::{Address, Out, Text, run};
use super::gpu::Gpu;
use super::handles::Handles;
use super::status::{Failure, Status};
use super::{decoding, letterbox, sparse_memory, suppression, voxels};

/// An open workspace: a device, and the memory of operations on it. For parallel work, open one
/// per thread.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Workspace {
    /// Its number; 0 is never a workspace.
    pub id: u64,
}

/// The object of a [`Workspace`], one part per operation.
#[derive(Default)]
pub(super) struct Opened {
    /// Unless arrays are in host memory.
    pub(super) gpu: Option<Gpu>,
    pub(super) suppression: suppression::Memory,
    pub(super) letterbox: letterbox::Memory,
    pub(super) voxels: voxels::Memory,
    pub(super) decoding: decoding::Memory,
    pub(super) sparse: sparse_memory::Memory,
}

pub(super) static WORKSPACES: Handles<Opened> = Handles::new("workspace", 2);

/// Opens a workspace on a device: `cpu` or `cuda:N`. The arrays that an operation reads are in the
/// memory of that device; so are its results, which are memory of the workspace and valid until
/// the next call of the same function on it, or until the workspace is closed. Structs are in host
/// memory, whatever the device. On a GPU the tensors of decoders begin at multiples of 16 bytes.
/// Close it with `det_post_workspace_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_open(device: Text, workspace: Out<Workspace>) -> Status {
    run(0, |call| {
        call.check_out(workspace, "workspace")?;
        let choice: DeviceChoice = call.text(device, "device")?.parse()?;
        let gpu = match Device::open(choice)? {
            Device::Cpu => None,
            Device::Cuda(device) => Some(Gpu::new(device)),
        };
        let id = WORKSPACES.open(Opened { gpu, ..Opened::default() });
        call.write(workspace, Workspace { id }, "workspace")
    })
}

/// Closes a workspace and frees its memory. If another thread is in a call on it, that call ends
/// as usual.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_close(workspace: Workspace) -> Status {
    run(workspace.id, |_| WORKSPACES.close(workspace.id))
}

/// Sets the CUDA stream (`cudaStream_t` or `CUstream`) of a workspace on a GPU; without this call
/// and for `NULL` it is the default stream. An operation begins after the work that is queued
/// there when it is called. Its result is ready for work that is queued there after the call, and
/// is not overwritten by a later call before that work is done.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_set_stream(workspace: Workspace, stream: Address) -> Status {
    run(workspace.id, |_| {
        WORKSPACES.with(workspace.id, |opened| match &mut opened.gpu {
            Some(gpu) => {
                gpu.caller = stream.number();
                Ok(())
            }
            None => Err(Failure::argument("a workspace on cpu has no stream")),
        })
    })
}
