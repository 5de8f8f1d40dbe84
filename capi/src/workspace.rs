//! Operations on arrays: a device, and the memory of the operations on it.

use det_post::types::DeviceChoice;

use super::call::{Out, Text, run};
use super::handles::Handles;
use super::status::{Failure, Status};
use super::{decoding, letterbox, sparse, suppression, voxels};

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
    pub(super) suppression: suppression::Memory,
    pub(super) letterbox: letterbox::Memory,
    pub(super) voxels: voxels::Memory,
    pub(super) decoding: decoding::Memory,
    pub(super) sparse: sparse::Memory,
}

pub(super) static WORKSPACES: Handles<Opened> = Handles::new("workspace", 2);

/// Opens a workspace on a device: `cpu`. The arrays that an operation reads are in the memory of
/// that device; so are its results, which are memory of the workspace and valid until the next
/// call of the same function on it, or until the workspace is closed. Close it with
/// `det_post_workspace_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_open(device: Text, workspace: Out<Workspace>) -> Status {
    run(0, |call| {
        call.check_out(workspace, "workspace")?;
        let choice: DeviceChoice = call.text(device, "device")?.parse()?;
        if choice != DeviceChoice::Cpu {
            return Err(Failure::argument(format!("device is {choice}; cpu is possible")));
        }
        let workspace_of = |opened| Workspace { id: WORKSPACES.open(opened) };
        call.write(workspace, workspace_of(Opened::default()), "workspace")
    })
}

/// Closes a workspace and frees its memory. If another thread is in a call on it, that call ends
/// as usual.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_close(workspace: Workspace) -> Status {
    run(workspace.id, |_| WORKSPACES.close(workspace.id))
}
