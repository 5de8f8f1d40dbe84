//! Whether the receive buffers of a middleware's sockets hold large messages.
//!
//! A message of megabytes arrives as hundreds of datagrams at once. Datagrams
//! that exceed the socket's buffer before the middleware reads it are lost, and
//! with them the message where the subscription is best effort.

/// The wanted size of a socket's receive buffer: images of 6 MB from a few
/// cameras at a time.
pub const WANTED_BYTES: usize = 32 << 20;

/// Warns when the system's limit is below [`WANTED_BYTES`].
pub fn limit_warning() -> Option<String> {
    let limit = std::fs::read_to_string("/proc/sys/net/core/rmem_max").ok()?;
    warning_for(limit.trim().parse().ok()?)
}

/// Warnings about large messages on this machine, with the ROS middleware that
/// the environment names.
#[cfg(feature = "ros2")]
pub fn warnings() -> Vec<String> {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let (middleware, cyclone) = (variable("RMW_IMPLEMENTATION"), variable("CYCLONEDDS_URI"));
    let cyclone = cyclone_warning(&middleware, &cyclone_configuration(&cyclone));
    limit_warning().into_iter().chain(cyclone).collect()
}

/// The XML of `CYCLONEDDS_URI` and of the files that it names.
#[cfg(any(feature = "ros2", test))]
fn cyclone_configuration(uri: &str) -> String {
    let files = uri.split(',').map(|part| part.trim().trim_start_matches("file://"));
    let texts = files.filter_map(|file| std::fs::read_to_string(file).ok());
    texts.fold(uri.to_owned(), |all, text| all + &text)
}

fn warning_for(limit: usize) -> Option<String> {
    (limit < WANTED_BYTES).then(|| {
        format!(
            "receive buffers of sockets are limited to {limit} bytes: large messages may be lost \
             under load; to raise the limit: sudo sysctl -w net.core.rmem_max={WANTED_BYTES}"
        )
    })
}

#[cfg(any(feature = "ros2", test))]
fn cyclone_warning(middleware: &str, configuration: &str) -> Option<String> {
    let is_small =
        middleware == "rmw_cyclonedds_cpp" && !configuration.contains("SocketReceiveBufferSize");
    is_small.then(|| {
        "CYCLONEDDS_URI sets no SocketReceiveBufferSize: the stock buffer of Cyclone DDS loses \
         most messages of megabytes, whatever net.core.rmem_max allows; see docs/ros2.md"
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_the_wanted_size_is_reported() {
        let warning = warning_for(212_992).unwrap();
        assert!(warning.contains("limited to 212992 bytes"), "{warning}");
        assert!(warning.contains("rmem_max=33554432"), "{warning}");
        assert_eq!(warning_for(WANTED_BYTES), None);
    }

    #[test]
    fn cyclone_without_a_buffer_size_is_reported() {
        let set = "<CycloneDDS><Domain><Internal><SocketReceiveBufferSize min=\"16MB\"/>";
        let cyclone = "rmw_cyclonedds_cpp";
        let warning = cyclone_warning(cyclone, "").unwrap();
        assert!(warning.contains("no SocketReceiveBufferSize"), "{warning}");
        for (middleware, configuration) in [(cyclone, set), ("rmw_fastrtps_cpp", ""), ("", "")] {
            assert_eq!(cyclone_warning(middleware, configuration), None, "{middleware}");
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
