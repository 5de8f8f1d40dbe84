//! A switch, served as `std_srvs/SetBool`. The cfg `std_srvs`, which the build script sets,
//! tells that r2r has the type.

use r2r::std_srvs::srv::SetBool;
use tokio::task::LocalSet;

use super::services::{Responder, serve_as};
use crate::middleware::{Request, Response, ServiceKind};

/// Serves a switch under a name.
pub(super) fn serve(
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
