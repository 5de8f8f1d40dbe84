//! `--ros-args`, as `ros2 run` and `ros2 launch` pass them to every node.
//!
//! What rcl takes is taken, and what rcl refuses is refused. What has no effect here is said in
//! one warning each.

use std::collections::BTreeSet;
use std::ffi::OsString;

use crate::config::RosSource;
use det_post_ros::{NodeName, Remaps, is_namespace, is_parameter, split_node};
use det_post_types::{Error, ErrorKind, Result};

/// Severities of `--log-level`; `unset` leaves the default.
const LEVELS: [&str; 6] = ["unset", "debug", "info", "warn", "error", "fatal"];

/// The arguments between `--ros-args` and `--`, or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RosArguments {
    /// Rules that rename the node, its topics and its services.
    pub(super) remaps: Remaps,
    /// `--params-file PATH` and `-p [NODE:]KEY:=VALUE`, in their order.
    pub(super) sources: Vec<RosSource>,
    /// `--log-level LEVEL`, the last one.
    log_level: Option<&'static str>,
    /// `--log-level LOGGER:=LEVEL`, in their order.
    log_levels: Vec<(String, &'static str)>,
    /// `--disable-rosout-logs`.
    pub(super) disables_rosout: bool,
    /// `--disable-stdout-logs`.
    pub(super) disables_stdout: bool,
    /// `--enclave NAME`, the last one.
    pub(super) enclave: Option<String>,
    /// Options for the log files of rcl.
    of_log_files: Vec<String>,
}

impl RosArguments {
    /// Separates the arguments for ROS from those of the program. ROS starts a node with no
    /// others, which stands for the command `run`.
    ///
    /// # Errors
    /// `Usage` naming an argument that rcl refuses, or that is neither a path nor UTF-8.
    pub(super) fn split(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(Vec<OsString>, Self)> {
        let mut ours = Vec::new();
        let mut ros = Self::default();
        let mut arguments = arguments.into_iter();
        let (mut is_ros, mut is_node) = (false, false);
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--ros-args") => (is_ros, is_node) = (true, true),
                Some("--") if is_ros => is_ros = false,
                _ if is_ros => ros.take(&text(argument)?, &mut arguments)?,
                _ => ours.push(argument),
            }
        }
        if is_node && ours.len() == 1 {
            ours.push("run".into());
        }
        Ok((ours, ros))
    }

    /// Whether there were none.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The level of a node's logs: of its logger or the nearest one above it, else the level of
    /// all; `None` for the default.
    pub(super) fn log_level(&self, node: &NodeName) -> Option<&'static str> {
        let own = node.full().trim_start_matches('/').replace('/', ".");
        let is_above = |name: &str| {
            own == name || own.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        let named = self.log_levels.iter().filter(|(name, _)| is_above(name));
        // Of equal names the last one.
        let nearest = named.max_by_key(|(name, _)| name.len()).map(|&(_, level)| level);
        let set = |level: &&str| *level != "unset";
        nearest.filter(set).or(self.log_level).filter(set)
    }

    /// What has no effect on this node, as sentences. `default` is its name in the code,
    /// `has_security` whether its middleware has enclaves.
    pub(super) fn without_effect(
        &self,
        default: &NodeName,
        node: &NodeName,
        has_security: bool,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let others = self.remaps.other_nodes([default.name(), node.name()]);
        let of_others = self.sources.iter().filter_map(|source| match source {
            RosSource::Assignment(assignment) => split_node(assignment).0,
            RosSource::File(_) => None,
        });
        let of_others = of_others.filter(|name| node.full() != format!("/{name}"));
        let mut others: Vec<&str> = others.chain(of_others).collect();
        let mut named = BTreeSet::new();
        others.retain(|name| named.insert(*name));
        if !others.is_empty() {
            let (names, own) = (others.join(", "), node.full());
            found.push(format!("rules and parameters for {names} have no effect on {own}"));
        }
        let own = node.full().trim_start_matches('/').replace('/', ".");
        let is_other = |name: &&str| {
            **name != *own && !own.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        let loggers: Vec<_> =
            self.log_levels.iter().map(|(name, _)| name.as_str()).filter(is_other).collect();
        if !loggers.is_empty() {
            let names = loggers.join(", ");
            found.push(format!("--log-level of {names} has no effect: the logger is {own}"));
        }
        if !self.of_log_files.is_empty() {
            let options = self.of_log_files.join(", ");
            found.push(format!("{options} has no effect: this node writes no log files"));
        }
        if let Some(enclave) = self.enclave.as_ref().filter(|name| *name != "/" && !has_security) {
            found.push(format!(
                "--enclave {enclave} has no effect: this middleware has no security"
            ));
        }
        found
    }

    fn take(&mut self, option: &str, rest: &mut impl Iterator<Item = OsString>) -> Result<()> {
        let mut value = || {
            let missing = || usage(format!("--ros-args {option}: a value is missing"));
            rest.next().ok_or_else(missing)
        };
        match option {
            "-r" | "--remap" => self.remaps.add(&text(value()?)?)?,
            "-p" | "--param" => self.add_parameter(text(value()?)?)?,
            "--params-file" => self.sources.push(RosSource::File(value()?.into())),
            "--log-level" => self.set_log_level(&text(value()?)?)?,
            "--log-config-file" | "--log-file-name" => {
                let value = value()?;
                self.of_log_files.push(format!("{option} {}", value.display()));
            }
            "-e" | "--enclave" => self.enclave = Some(enclave(text(value()?)?)?),
            "--enable-rosout-logs" => self.disables_rosout = false,
            "--disable-rosout-logs" => self.disables_rosout = true,
            "--enable-stdout-logs" => self.disables_stdout = false,
            "--disable-stdout-logs" => self.disables_stdout = true,
            "--enable-external-lib-logs" => self.of_log_files.push(option.to_owned()),
            // There are none.
            "--disable-external-lib-logs" => {}
            _ => return Err(usage(format!("--ros-args: {option} is unknown"))),
        }
        Ok(())
    }

    fn add_parameter(&mut self, assignment: String) -> Result<()> {
        let (_, rest) = split_node(&assignment);
        let sides = rest.split_once(":=");
        if !sides.is_some_and(|(key, value)| is_parameter(key) && !value.trim().is_empty()) {
            return Err(usage(format!(
                "-p {assignment}: allowed: `KEY:=VALUE` or, for one node, `NODE:KEY:=VALUE`; keys \
                 are letters, digits, underscores and slashes, with dots between their parts"
            )));
        }
        self.sources.push(RosSource::Assignment(assignment));
        Ok(())
    }

    fn set_log_level(&mut self, setting: &str) -> Result<()> {
        let (logger, level) =
            setting.split_once(":=").map_or((None, setting), |(name, level)| (Some(name), level));
        let level = LEVELS.into_iter().find(|known| level.eq_ignore_ascii_case(known));
        match (logger, level) {
            (None, Some(level)) => self.log_level = Some(level),
            (Some(logger), Some(level)) if !logger.is_empty() => {
                self.log_levels.push((logger.to_owned(), level));
            }
            _ => {
                return Err(usage(format!(
                    "--log-level {setting}: allowed: a level or `LOGGER:=LEVEL`; levels are {}",
                    LEVELS.join(", ")
                )));
            }
        }
        Ok(())
    }
}

fn enclave(name: String) -> Result<String> {
    if is_namespace(&name) {
        return Ok(name);
    }
    let allowed = "allowed: `/` or names of letters, digits and underscores, each after a `/`";
    Err(usage(format!("--enclave {name}: {allowed}")))
}

/// An argument that is no path.
///
/// # Errors
/// `Usage` naming it when it is not UTF-8.
fn text(argument: OsString) -> Result<String> {
    argument.into_string().map_err(|argument| not_utf8([&argument]))
}

/// The error of arguments that are not UTF-8.
pub(super) fn not_utf8<'a>(arguments: impl IntoIterator<Item = &'a OsString>) -> Error {
    let named: Vec<String> = arguments.into_iter().map(|one| one.display().to_string()).collect();
    usage(format!("not UTF-8, which only paths may be: {}", named.join(" ")))
}

fn usage(message: String) -> Error {
    Error::new(ErrorKind::Usage, "arguments", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn det_post() -> NodeName {
        NodeName::new("", "det_post").unwrap()
    }

    fn split(text: &str) -> Result<(Vec<String>, RosArguments)> {
        let (ours, ros) = RosArguments::split(text.split_whitespace().map(OsString::from))?;
        Ok((ours.into_iter().map(|argument| argument.into_string().unwrap()).collect(), ros))
    }

    #[test]
    fn what_launch_files_pass_is_understood() {
        let (ours, ros) = split(
            "det_post run --config a.yaml --ros-args -r __node:=eyes -r __ns:=/front \
             --params-file /tmp/p.yaml -p camera.score_threshold:=0.5 -r image:=/cam/image_raw \
             --log-level DEBUG --disable-rosout-logs -- --middleware dds",
        )
        .unwrap();
        assert_eq!(ours.join(" "), "det_post run --config a.yaml --middleware dds");
        let node = ros.remaps.node(&det_post()).unwrap();
        assert_eq!(node.full(), "/front/eyes");
        assert_eq!(ros.remaps.resolve(&node, "image"), "/cam/image_raw");
        let assignment = RosSource::Assignment("camera.score_threshold:=0.5".to_owned());
        assert_eq!(ros.sources, [RosSource::File("/tmp/p.yaml".into()), assignment]);
        assert_eq!(ros.log_level(&node), Some("debug"));
        assert!(ros.disables_rosout && !ros.disables_stdout);
        assert!(ros.without_effect(&det_post(), &node, false).is_empty());
    }

    #[test]
    fn with_ros_args_alone_the_node_runs() {
        for (text, expected) in [
            ("det_post --ros-args", "det_post run"),
            ("det_post --ros-args -r __node:=eyes", "det_post run"),
            ("det_post --ros-args -- --middleware dds", "det_post --middleware dds"),
            ("det_post check --ros-args", "det_post check"),
            ("det_post", "det_post"),
        ] {
            assert_eq!(split(text).unwrap().0.join(" "), expected);
        }
    }

    #[test]
    fn without_ros_args_nothing_changes() {
        let (ours, ros) = split("det_post replay bag -- -x").unwrap();
        assert_eq!(ours.join(" "), "det_post replay bag -- -x");
        assert!(ros.is_empty());
        assert_eq!(ros.remaps.node(&det_post()).unwrap().full(), "/det_post");
    }

    #[test]
    fn only_paths_need_not_be_utf8() {
        use std::os::unix::ffi::OsStringExt;

        let latin = || OsString::from_vec(b"caf\xe9".to_vec());
        let split = |option: &str| {
            RosArguments::split(
                ["det_post", "--ros-args", option].map(OsString::from).into_iter().chain([latin()]),
            )
        };
        let file = RosSource::File(latin().into());
        assert_eq!(split("--params-file").unwrap().1.sources, [file]);
        for option in ["-p", "-r", "--log-level", "--disable-rosout-logs"] {
            let error = split(option).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.message().contains("caf\u{fffd}"), "{error}");
        }
        let (ours, _) = RosArguments::split([latin()]).unwrap();
        assert_eq!(ours, [latin()]);
    }

    #[test]
    fn options_are_taken_and_refused_as_by_rcl() {
        for text in [
            "",
            "--",
            "-- --",
            "--ros-args",
            "-r a:=b --ros-args -r c:=d",
            "-p foo:=bar",
            "--param node:foo.bar:=1",
            "-p qos_overrides./a.publisher.depth:=1",
            "-p a:=[1]",
            "-p a:=b:=c",
            "--log-config-file f.config",
            "--log-file-name front",
            "-e /a/b",
            "--enclave /",
            "--log-level UNSET",
            "--log-level Info",
            "--log-level a.b:=WARN",
            "--log-level a:b:=warn",
            "--enable-rosout-logs",
            "--disable-rosout-logs",
            "--enable-stdout-logs",
            "--disable-stdout-logs",
            "--enable-external-lib-logs",
            "--disable-external-lib-logs",
            "--params-file a.yaml",
        ] {
            let split = split(&format!("det_post run --ros-args {text}"));
            assert!(split.is_ok(), "{text}: {split:?}");
        }
        for text in [
            "-r",
            "--remap",
            "-r image",
            "-r :=x",
            "-r /*:=x",
            "-p",
            "-p :=",
            "-p foo:=",
            "-p :=a",
            "-p 1",
            "-p 1:=a",
            "-p ~:=a",
            "-p __node:=a",
            "-p ~:__node:=a",
            "-p }foo:=/bar",
            "-p /node:a:=1",
            "-p a:b:c:=1",
            "-p a..b:=1",
            "-e",
            "--enclave a",
            "-e /a/",
            "-e /1",
            "--params-file",
            "--log-config-file",
            "--log-file-name",
            "--log-level",
            "--log-level foo",
            "--log-level a:=",
            "--log-level :=info",
            "--log-level a:=foo",
            "--log foo",
            "--loglevel info",
            "--logfile-name f",
            "--fly",
            "__node:=a",
            "a:=/b",
            "file.yaml",
            "stdout-logs",
            "--enable-logs",
        ] {
            let error = split(&format!("det_post run --ros-args {text}")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage, "{text}");
            let option = text.split(' ').next().unwrap();
            assert!(error.message().contains(option), "{text}: {error}");
        }
    }

    #[test]
    fn levels_are_of_the_nearest_logger() {
        let front = NodeName::new("car/front", "eyes").unwrap();
        for (text, level) in [
            ("", None),
            ("--log-level debug", Some("debug")),
            ("--log-level debug --log-level WARN", Some("warn")),
            ("--log-level debug --log-level unset", None),
            ("--log-level rcl:=debug", None),
            ("--log-level car.front.eyes:=error --log-level debug", Some("error")),
            ("--log-level car:=error --log-level car.front:=info", Some("info")),
            ("--log-level car.front:=info --log-level car:=error", Some("info")),
            ("--log-level car:=info --log-level car:=fatal", Some("fatal")),
            ("--log-level ca:=info --log-level car.front.eyes.x:=info", None),
            ("--log-level car:=unset --log-level warn", Some("warn")),
        ] {
            let (_, ros) = split(&format!("det_post run --ros-args {text}")).unwrap();
            assert_eq!(ros.log_level(&front), level, "{text}");
        }
    }

    #[test]
    fn arguments_for_others_have_no_effect_and_are_named() {
        for (text, words) in [
            ("-r det_post:a:=b -r eyes:a:=b -p eyes:a:=1", &[][..]),
            ("-r other:a:=b -p third:a:=1", &["for other, third have no effect on /eyes"]),
            ("-p det_post:a:=1", &["for det_post have no effect on /eyes"]),
            ("--log-level rcl:=debug --log-level eyes:=info", &["of rcl has", "is eyes"]),
            ("--log-file-name front", &["--log-file-name front has no effect"]),
            ("--enable-external-lib-logs", &["--enable-external-lib-logs has no effect"]),
            ("-e /a", &["--enclave /a has no effect"]),
            ("-e /", &[]),
        ] {
            let (_, ros) = split(&format!("det_post --ros-args -r __node:=eyes {text}")).unwrap();
            let node = ros.remaps.node(&det_post()).unwrap();
            let found = ros.without_effect(&det_post(), &node, false);
            assert_eq!(found.len(), usize::from(!words.is_empty()), "{text}: {found:?}");
            assert!(words.iter().all(|word| found[0].contains(word)), "{text}: {found:?}");
        }
    }
}
