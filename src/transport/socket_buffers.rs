//! Whether the receive buffers of a middleware's sockets hold large messages.
//!
//! A message of megabytes arrives as hundreds of datagrams at once. What the
//! socket cannot hold until the middleware reads it is lost, and with it, where
//! the subscription is best effort, the message.

/// What the buffer of a socket should hold: pictures of 6 MB from a few cameras
/// at a time.
pub const WANTED_BYTES: usize = 32 << 20;

/// What stands against large messages on this machine, with the ROS middleware
/// that the environment names.
pub fn warnings() -> Vec<String> {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok();
    let limit = limit.and_then(|text| text.trim().parse().ok());
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (middleware, cyclone) = (variable("RMW_IMPLEMENTATION"), variable("CYCLONEDDS_URI"));
    warnings_for(limit, &middleware, &cyclone_configuration(&cyclone))
}

/// The XML that `CYCLONEDDS_URI` lists: given there, or in files.
fn cyclone_configuration(uri: &str) -> String {
    let files = uri.split(',').map(|part| part.trim().trim_start_matches("file://"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.fold(uri.to_owned(), |all, text| all + &text)
}

/// The warnings for a machine whose sockets may hold `limit` bytes.
fn warnings_for(limit: Option<usize>, middleware: &str, cyclone: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(limit) = limit.filter(|&limit| limit < WANTED_BYTES) {
        warnings.push(format!(
            "sockets may hold {limit} bytes: messages of megabytes lose fragments when this \
             machine is busy; sysctl -w net.core.rmem_max={WANTED_BYTES}"
        ));
    }
    if middleware == "rmw_cyclonedds_cpp" && !cyclone.contains("SocketReceiveBufferSize") {
        warnings.push(
            "CYCLONEDDS_URI sets no SocketReceiveBufferSize: the stock buffer of Cyclone DDS loses \
             most messages of megabytes, whatever net.core.rmem_max allows; see docs/ros2.md"
                .to_owned(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_buffers_are_warned_of() {
        let set = "<CycloneDDS><Domain><Internal><SocketReceiveBufferSize min=\"16MB\"/>";
        let cyclone = "rmw_cyclonedds_cpp";
        // (limit, middleware, configuration, what the warnings name)
        let cases: [(_, _, _, &[&str]); 7] = [
            (Some(212_992), "", "", &["may hold 212992 bytes"]),
            (Some(212_992), cyclone, "", &["may hold 212992 bytes", "SocketReceiveBufferSize"]),
            (Some(212_992), cyclone, set, &["may hold 212992 bytes"]),
            (Some(WANTED_BYTES), cyclone, "", &["SocketReceiveBufferSize"]),
            (Some(WANTED_BYTES), cyclone, set, &[]),
            (Some(WANTED_BYTES), "rmw_fastrtps_cpp", "", &[]),
            (None, "", "", &[]),
        ];
        for (limit, middleware, configuration, expected) in cases {
            let found = warnings_for(limit, middleware, configuration);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(
                found.iter().zip(expected).all(|(text, name)| text.contains(name)),
                "{found:?}"
            );
        }
    }

    #[test]
    fn configurations_are_read_from_files() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "<SocketReceiveBufferSize/>").unwrap();
        for uri in
            [file.path().display().to_string(), format!("<A/>,file://{}", file.path().display())]
        {
            assert!(cyclone_configuration(&uri).contains("SocketReceiveBufferSize"), "{uri}");
        }
        assert_eq!(cyclone_configuration("<A/>"), "<A/>");
    }
}
