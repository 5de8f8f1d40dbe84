//! `--ros-args`, as `ros2 run` and `ros2 launch` pass them to every node.

use std::path::PathBuf;

use crate::error::{Error, ErrorKind, Result};
use crate::ros::{NodeName, Remaps};

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
    /// `Usage` naming an argument that is unknown or lacks its value.
    pub(super) fn split(arguments: Vec<String>) -> Result<(Vec<String>, Self)> {
        let mut ours = Vec::new();
        let mut ros = Self::default();
        let mut arguments = arguments.into_iter();
        let (mut is_ros, mut is_node) = (false, false);
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--ros-args" => (is_ros, is_node) = (true, true),
                "--" if is_ros => is_ros = false,
                _ if is_ros => ros.take(&argument, &mut arguments)?,
                _ => ours.push(argument),
            }
        }
        if is_node && ours.len() == 1 {
            ours.push("run".to_owned());
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

    fn take(&mut self, option: &str, rest: &mut impl Iterator<Item = String>) -> Result<()> {
        let mut value = || {
            let missing = || usage(format!("--ros-args {option}: a value is missing"));
            rest.next().ok_or_else(missing)
        };
        match option {
            "-r" | "--remap" => self.remap(&value()?)?,
            "-p" | "--param" => self.overrides.push(value()?),
            "--params-file" => self.params_files.push(value()?.into()),
            "--log-level" => {
                let level = value()?;
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
            _ => return Err(usage(format!("--ros-args {option}: unknown option"))),
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
        RosArguments::split(text.split_whitespace().map(str::to_owned).collect())
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
    fn what_is_wrong_is_named() {
        for (text, named) in [
            ("run --ros-args -r", "-r: a value is missing"),
            ("run --ros-args -r image", "-r image"),
            ("run --ros-args -r :=x", "-r :=x"),
            ("run --ros-args --fly", "--fly: unknown"),
        ] {
            let error = split(text).unwrap_err();
            assert!(error.message().contains(named), "{error}");
            assert_eq!(error.kind(), ErrorKind::Usage);
        }
        let (_, ros) = split("run --ros-args -r __node:=1x").unwrap();
        assert!(ros.node_or(&det_post()).is_err());
    }
}
