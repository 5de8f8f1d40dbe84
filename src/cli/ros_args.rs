//! `--ros-args`, as `ros2 run` and `ros2 launch` pass them to every node.

use std::ffi::OsString;
use std::path::PathBuf;

use det_post_ros::{NodeName, Remaps};
use det_post_types::{Error, ErrorKind, Result};

/// The arguments between `--ros-args` and `--`, or the end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RosArguments {
    /// Rules `from:=to` for topics and services.
    pub(super) remaps: Remaps,
    /// Name of the node, from `__node:=NAME`.
    name: Option<String>,
    /// Namespace, from `__ns:=/SPACE`.
    namespace: Option<String>,
    /// `--params-file PATH`, in their order.
    pub(super) params_files: Vec<PathBuf>,
    /// `-p KEY:=VALUE`, in their order.
    pub(super) overrides: Vec<String>,
    /// `--log-level LEVEL`.
    pub(super) log_level: Option<String>,
    /// `--disable-rosout-logs`.
    pub(super) disables_rosout: bool,
}

impl RosArguments {
    /// Separates the arguments for ROS from those of the program. ROS starts a node with no
    /// others, which stands for the command `run`.
    ///
    /// # Errors
    /// `Usage` naming an argument that is unknown, lacks its value, or is neither a path nor
    /// UTF-8.
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

    /// Name and namespace of the node; those that are not given are of `default`.
    ///
    /// # Errors
    /// `Config` when the name or the namespace is invalid in ROS.
    pub(super) fn node_or(&self, default: &NodeName) -> Result<NodeName> {
        let namespace = self.namespace.as_deref().unwrap_or(default.namespace());
        NodeName::new(namespace, self.name.as_deref().unwrap_or(default.name()))
    }

    /// Whether there were none.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn take(&mut self, option: &str, rest: &mut impl Iterator<Item = OsString>) -> Result<()> {
        let mut value = || {
            let missing = || usage(format!("--ros-args {option}: a value is missing"));
            rest.next().ok_or_else(missing)
        };
        match option {
            "-r" | "--remap" => self.remap(&text(value()?)?)?,
            "-p" | "--param" => self.overrides.push(text(value()?)?),
            "--params-file" => self.params_files.push(value()?.into()),
            "--log-level" => {
                let level = text(value()?)?;
                // A level for one logger is used for all.
                let level = level.rsplit_once(":=").map_or(level.as_str(), |(_, level)| level);
                self.log_level = Some(level.to_ascii_lowercase());
            }
            // Options of the logs and the security of rcl.
            "--log-config-file" | "-e" | "--enclave" => {
                value()?;
            }
            "--enable-rosout-logs" => self.disables_rosout = false,
            "--disable-rosout-logs" => self.disables_rosout = true,
            "--enable-stdout-logs"
            | "--disable-stdout-logs"
            | "--enable-external-lib-logs"
            | "--disable-external-lib-logs" => {}
            _ => return Err(usage(format!("--ros-args does not know the option {option}"))),
        }
        Ok(())
    }

    fn remap(&mut self, rule: &str) -> Result<()> {
        let sides = rule.split_once(":=").filter(|(from, to)| !from.is_empty() && !to.is_empty());
        let (from, to) = sides.ok_or_else(|| usage(format!("-r {rule}: allowed: `FROM:=TO`")))?;
        // `NODE:FROM:=TO` is for a node of that name, and the process has one.
        match from.rsplit_once(':').map_or(from, |(_, from)| from) {
            "__node" | "__name" => self.name = Some(to.to_owned()),
            "__ns" => self.namespace = Some(to.to_owned()),
            from => self.remaps.push(from, to),
        }
        Ok(())
    }
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
        let node = ros.node_or(&det_post()).unwrap();
        assert_eq!(node.full(), "/front/eyes");
        assert_eq!(ros.remaps.resolve(&node, "image"), "/cam/image_raw");
        assert_eq!(ros.params_files, [PathBuf::from("/tmp/p.yaml")]);
        assert_eq!(ros.overrides, ["camera.score_threshold:=0.5"]);
        assert_eq!(ros.log_level.as_deref(), Some("debug"));
        assert!(ros.disables_rosout);
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
        assert_eq!(ros.node_or(&det_post()).unwrap().full(), "/det_post");
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
        assert_eq!(split("--params-file").unwrap().1.params_files, [PathBuf::from(latin())]);
        for option in ["-p", "-r", "--log-level", "--disable-rosout-logs"] {
            let error = split(option).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.message().contains("caf\u{fffd}"), "{error}");
        }
        let (ours, _) = RosArguments::split([latin()]).unwrap();
        assert_eq!(ours, [latin()]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("run --ros-args -r", "-r: a value is missing"),
            ("run --ros-args -r image", "-r image"),
            ("run --ros-args -r :=x", "-r :=x"),
            ("run --ros-args --fly", "does not know the option --fly"),
        ] {
            let error = split(text).unwrap_err();
            assert!(error.message().contains(named), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
        let (_, ros) = split("run --ros-args -r __node:=1x").unwrap();
        assert!(ros.node_or(&det_post()).is_err());
    }
}
