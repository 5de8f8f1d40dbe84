//! A switch, served as `std_srvs/SetBool`. The cfg `std_srvs`, which the build script sets,
//! tells that r2r has the type.

use r2r::std_srvs::srv::SetBool;

use super::services::{Jobs, serve_as};
use crate::middleware::{Request, Response, ServiceKind};

/// Serves a switch under a name.
pub(super) fn serve(
    node: &mut r2r::Node,
    jobs: &Jobs,
    name: &str,
) -> r2r::Result<Box<dyn FnMut()>> {
    serve_as::<SetBool::Service>(
        node,
        jobs,
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
