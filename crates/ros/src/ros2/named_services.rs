//! The services that have separate names. The cfgs `std_srvs` and `yolo_msgs`, which the build
//! script sets, tell that r2r has their types.

#[cfg(std_srvs)]
use r2r::std_srvs::srv::SetBool;
#[cfg(yolo_msgs)]
use r2r::yolo_msgs::srv::SetClasses;
use tokio::task::LocalSet;

use super::services::{Responder, serve_as};
use crate::middleware::{Request, Response, ServiceKind};

/// Serves a switch as `std_srvs/SetBool` under a name.
#[cfg(std_srvs)]
pub(super) fn serve_switch(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
    name: &str,
) -> r2r::Result<()> {
    serve_as::<SetBool::Service>(
        node,
        tasks,
        responder,
        (ServiceKind::SetSwitch, name),
        |request| Request::SetSwitch(request.data),
        |response| match response {
            Response::SetResult(result) => Some(SetBool::Response {
                success: result.is_ok(),
                message: result.err().unwrap_or_default(),
            }),
            _ => None,
        },
    )
}

/// Serves the classes of a network as `yolo_msgs/SetClasses` under a name. Fields that the response
/// has from 2026 on stay empty.
#[cfg(yolo_msgs)]
pub(super) fn serve_classes(
    node: &mut r2r::Node,
    tasks: &LocalSet,
    responder: &Responder,
    name: &str,
) -> r2r::Result<()> {
    serve_as::<SetClasses::Service>(
        node,
        tasks,
        responder,
        (ServiceKind::SetClasses, name),
        |request| Request::SetClasses(request.classes),
        |response| match response {
            Response::Nothing => Some(SetClasses::Response::default()),
            _ => None,
        },
    )
}
