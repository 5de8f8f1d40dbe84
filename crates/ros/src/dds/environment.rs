//! The environment variables of ROS that select the graph to join.

use det_post_rtps::{Interfaces, Participant, ParticipantSettings};

use super::error::error;
use crate::socket_buffers;
use det_post_types::{Error, ErrorKind, Result};

/// The last domain whose ports exist.
const MAX_DOMAIN: u16 = 232;

/// The variable that enables the security of ROS; only `true` does.
const SECURITY: &str = "ROS_SECURITY_ENABLE";

/// Which graph to join, and the format of its discovery messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DdsSettings {
    /// The DDS domain, 0 to 232: `ROS_DOMAIN_ID`.
    pub domain: u16,
    /// How far discovery reaches: `ROS_AUTOMATIC_DISCOVERY_RANGE`, or
    /// `ROS_LOCALHOST_ONLY`.
    pub range: DiscoveryRange,
    /// Bytes of a global identifier in `ros_discovery_info`: 24 up to Humble
    /// (by `ROS_DISTRO`), 16 since.
    pub gid_len: usize,
}

/// How far discovery reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscoveryRange {
    /// Every network that multicast reaches.
    Subnet,
    /// Only this machine.
    Localhost,
    /// No other participant.
    Off,
}

impl DdsSettings {
    /// The settings of this process's environment.
    ///
    /// # Errors
    /// `Config` when ROS does not define a variable's value, or security is
    /// enforced.
    pub fn from_environment() -> Result<Self> {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    /// The settings of the variables that `variable` looks up. An empty one
    /// counts as unset.
    ///
    /// # Errors
    /// `Config` when ROS does not define a variable's value, or security is
    /// enforced, which this middleware cannot provide.
    pub fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Result<Self> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        if set(SECURITY).is_some_and(|value| value == "true")
            && set("ROS_SECURITY_STRATEGY").is_some_and(|strategy| strategy == "Enforce")
        {
            let allowed =
                "another strategy, or the ros2 middleware: the dds middleware has no security";
            return refuse("ROS_SECURITY_STRATEGY", "Enforce", allowed);
        }
        let domain = match set("ROS_DOMAIN_ID") {
            None => 0,
            Some(text) => match text.trim().parse() {
                Ok(domain) if domain <= MAX_DOMAIN => domain,
                _ => return refuse("ROS_DOMAIN_ID", &text, "a number from 0 to 232"),
            },
        };
        let localhost_only = match set("ROS_LOCALHOST_ONLY").as_deref() {
            None | Some("0") => false,
            Some("1") => true,
            Some(text) => return refuse("ROS_LOCALHOST_ONLY", text, "0 or 1"),
        };
        let range = match set("ROS_AUTOMATIC_DISCOVERY_RANGE").as_deref() {
            None | Some("SUBNET" | "SYSTEM_DEFAULT") => DiscoveryRange::Subnet,
            Some("LOCALHOST") => DiscoveryRange::Localhost,
            Some("OFF") => DiscoveryRange::Off,
            Some(text) => {
                let allowed = "SUBNET, LOCALHOST, OFF or SYSTEM_DEFAULT";
                return refuse("ROS_AUTOMATIC_DISCOVERY_RANGE", text, allowed);
            }
        };
        let old = ["foxy", "galactic", "humble"];
        let is_old = set("ROS_DISTRO").is_some_and(|distro| old.contains(&distro.as_str()));
        Ok(Self {
            domain,
            range: if localhost_only { DiscoveryRange::Localhost } else { range },
            gid_len: if is_old { 24 } else { 16 },
        })
    }

    /// A participant with these settings, which peers see as `name`.
    pub(super) fn participant(&self, name: String) -> Result<Participant> {
        let interfaces = match self.range {
            DiscoveryRange::Subnet => Interfaces::All,
            DiscoveryRange::Localhost => Interfaces::Localhost,
            DiscoveryRange::Off => Interfaces::None,
        };
        let settings = ParticipantSettings {
            interfaces,
            name,
            // The enclave of nodes without security, which ROS's tools read.
            user_data: b"enclave=/;".to_vec(),
            receive_buffer_bytes: socket_buffers::WANTED_BYTES,
            ..ParticipantSettings::new(self.domain)
        };
        Participant::join(settings).map_err(|cause| {
            error(format!("cannot join domain {}", self.domain)).with_source(cause)
        })
    }
}

/// Warns of limits of the machine and of settings that have no effect.
pub(super) fn warn_of_limits() {
    if let Some(warning) = socket_buffers::limit_warning() {
        tracing::warn!("{warning}");
    }
    if std::env::var("ROS_STATIC_PEERS").is_ok_and(|peers| !peers.is_empty()) {
        tracing::warn!("ROS_STATIC_PEERS is set; the dds middleware finds peers only by multicast");
    }
    if std::env::var(SECURITY).is_ok_and(|value| value == "true") {
        tracing::warn!("{SECURITY} is set; the dds middleware has no security");
    }
}

fn refuse<T>(name: &str, found: &str, allowed: &str) -> Result<T> {
    let message = format!("{name} is {found:?}; allowed is {allowed}");
    Err(Error::new(ErrorKind::Config, "environment", message))
}

#[cfg(test)]
mod tests {
    use super::DiscoveryRange::*;
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<DdsSettings> {
        DdsSettings::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        })
    }

    #[test]
    fn variables_are_read_as_ros_does() {
        let domain = "ROS_DOMAIN_ID";
        let only = "ROS_LOCALHOST_ONLY";
        let range = "ROS_AUTOMATIC_DISCOVERY_RANGE";
        let distro = "ROS_DISTRO";
        type Case<'a> = (&'a [(&'a str, &'a str)], u16, DiscoveryRange, usize);
        let strategy = "ROS_SECURITY_STRATEGY";
        let cases: [Case<'_>; 12] = [
            (&[], 0, Subnet, 16),
            (&[(domain, ""), (only, ""), (range, "")], 0, Subnet, 16),
            (&[(domain, "42"), (only, "0")], 42, Subnet, 16),
            (&[(domain, "232"), (only, "1")], 232, Localhost, 16),
            (&[(range, "SUBNET")], 0, Subnet, 16),
            (&[(range, "SYSTEM_DEFAULT")], 0, Subnet, 16),
            (&[(range, "LOCALHOST")], 0, Localhost, 16),
            (&[(range, "OFF"), (distro, "jazzy")], 0, Off, 16),
            (&[(range, "SUBNET"), (only, "1")], 0, Localhost, 16),
            (&[(distro, "humble")], 0, Subnet, 24),
            (&[(SECURITY, "true"), (strategy, "Permissive")], 0, Subnet, 16),
            (&[(SECURITY, "false"), (strategy, "Enforce")], 0, Subnet, 16),
        ];
        for (variables, domain, range, gid_len) in cases {
            let expected = DdsSettings { domain, range, gid_len };
            assert_eq!(settings(variables).unwrap(), expected, "{variables:?}");
        }
    }

    #[test]
    fn values_that_ros_does_not_define_are_refused() {
        for (name, value) in [
            ("ROS_DOMAIN_ID", "233"),
            ("ROS_DOMAIN_ID", "-1"),
            ("ROS_DOMAIN_ID", "front"),
            ("ROS_LOCALHOST_ONLY", "yes"),
            ("ROS_AUTOMATIC_DISCOVERY_RANGE", "localhost"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(name) && error.message().contains(value), "{error}");
        }
        let enforced = [(SECURITY, "true"), ("ROS_SECURITY_STRATEGY", "Enforce")];
        let error = settings(&enforced).unwrap_err();
        assert!(error.message().contains("the ros2 middleware"), "{error}");
    }
}
