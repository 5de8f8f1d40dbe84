//! `--model` and `--topic`: a channel without a parameter file.

use std::path::{Path, PathBuf};

use det_post_ros::bag::{BagReader, TopicInfo};
use det_post_ros::middleware::InputKind;
use det_post_types::{Error, ErrorKind, Result};

/// The network of one channel and its topic.
#[derive(Debug, clap::Args)]
pub(super) struct OneModel {
    /// The network of one channel, an ONNX file, instead of a parameter file. The channel is called `camera`,
    /// for a topic of clouds `lidar`; its head is the one that fits, unless `-p camera.head:=NAME` gives it.
    #[arg(long, value_name = "ONNX", conflicts_with_all = ["config", "like"])]
    model: Option<PathBuf>,
    /// The topic of that channel. A replay takes the only topic of images where none is given; `run` needs it.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<String>,
}

impl OneModel {
    /// A network and its topic, as a command gives them.
    pub(super) fn of(model: Option<&Path>, topic: Option<&str>) -> Self {
        Self { model: model.map(Path::to_owned), topic: topic.map(str::to_owned) }
    }

    /// The parameters that a channel of this network has, as overrides ahead of others.
    ///
    /// # Errors
    /// `Usage` naming the topics of images when the recording has none or several, or lacks the one
    /// that is given; those of opening the recording.
    pub(super) fn overrides(&self, bag: &Path) -> Result<Vec<String>> {
        let Some(model) = self.model()? else { return Ok(Vec::new()) };
        let Some(path) = model.to_str() else { return Err(not_utf8(model)) };
        let reader = BagReader::open(bag)?;
        let topics = reader.topics();
        let of_images = names(topics, is_image);
        let topic = match (&self.topic, &of_images[..]) {
            (Some(topic), _) => topic.as_str(),
            (None, [only]) => only,
            (None, _) => {
                let allowed = listed(&of_images, &names(topics, is_cloud));
                return Err(usage(format!("--topic is missing; {allowed}")));
            }
        };
        let allowed = || {
            let meant = match &of_images[..] {
                [only] => format!("; did you mean {only}?"),
                _ => String::new(),
            };
            format!("{}{meant}", listed(&of_images, &names(topics, is_cloud)))
        };
        let is_named = |found: &&TopicInfo| found.name == topic;
        let found = topics.iter().find(is_named);
        let Some(found) = found.or_else(|| topics.iter().find(|found| is_called(found, topic)))
        else {
            return Err(usage(format!("--topic {topic} is not in the recording; {}", allowed())));
        };
        if !found.name.starts_with('/') {
            let message = format!(
                "--topic {topic}: the recording has {topic} and /{topic}, which is another topic; allowed: /{topic}"
            );
            return Err(usage(message));
        }
        if !is_image(found) && !is_cloud(found) {
            let message = format!("--topic {topic} carries {}; {}", found.type_name, allowed());
            return Err(usage(message));
        }
        Ok(parameters(if is_cloud(found) { "lidar" } else { "camera" }, &found.name, path))
    }

    /// As [`Self::overrides`], of a camera in a graph.
    ///
    /// # Errors
    /// `Usage` without a topic.
    pub(super) fn live_overrides(&self) -> Result<Vec<String>> {
        let Some(model) = self.model()? else { return Ok(Vec::new()) };
        match (&self.topic, model.to_str()) {
            (Some(topic), Some(path)) => Ok(parameters("camera", topic, path)),
            (None, _) => Err(usage(
                "--topic is missing; allowed: the topic of the images, as `ros2 topic list` names it, such as \
                 `--topic /camera/image_raw`"
                    .to_owned(),
            )),
            (_, None) => Err(not_utf8(model)),
        }
    }

    /// The network.
    ///
    /// # Errors
    /// `Usage` for a topic without one.
    fn model(&self) -> Result<Option<&Path>> {
        match (&self.model, &self.topic) {
            (None, Some(topic)) => Err(usage(format!(
                "--topic {topic} belongs to --model; allowed with --config or --like: `-p NAME.input:={topic}`, where NAME \
                 is the channel, or a remapping, `--ros-args -r FROM:={topic}`"
            ))),
            (model, _) => Ok(model.as_deref()),
        }
    }

    /// The error of a configuration, which says what the channel is called where an override names
    /// another.
    pub(super) fn with_name(&self, error: Error, overrides: &[String]) -> Error {
        let names_channel = |key: &String| key.starts_with("camera.") || key.starts_with("lidar.");
        let is_meant = |key: &&String| key.contains('.') && !names_channel(key);
        match overrides.iter().find(is_meant).filter(|_| self.is_given()) {
            Some(other) if error.kind() == ErrorKind::Config => {
                let message = format!(
                    "-p {other}: the channel of --model is called `camera`, or `lidar` for a topic of clouds"
                );
                usage(message).with_source(error)
            }
            _ => error,
        }
    }

    /// Whether a network is given.
    pub(super) fn is_given(&self) -> bool {
        self.model.is_some()
    }
}

/// The parameters of a channel of one network.
pub(super) fn parameters(channel: &str, topic: &str, model: &str) -> Vec<String> {
    [("input", topic), ("model_path", model)]
        .map(|(key, text)| format!("{channel}.{key}:='{}'", text.replace('\'', "''")))
        .into()
}

/// The error of a path that no parameter can have.
pub(super) fn not_utf8(model: &Path) -> Error {
    usage(format!("--model: '{}' is not UTF-8", model.display()))
}

/// What to give for a recording where nothing is configured.
///
/// # Errors
/// Those of opening the recording.
pub(super) fn advice(bag: &Path) -> Result<Error> {
    let reader = BagReader::open(bag)?;
    let topics = reader.topics();
    let (images, clouds) = (names(topics, is_image), names(topics, is_cloud));
    let topic = images.first().copied().unwrap_or("TOPIC");
    Ok(usage(format!(
        "no channel is configured; allowed: a network, `det_post replay {} --model NETWORK.onnx --topic {topic}`, or a \
         parameter file, `--config FILE` (config/demo.param.yaml is an example); {}",
        bag.display(),
        listed(&images, &clouds)
    )))
}

/// Topics of images and clouds in words.
fn listed(images: &[&str], clouds: &[&str]) -> String {
    let of = |kind: &str, names: &[&str]| match names {
        [] => format!("no topic of {kind} is in the recording"),
        names => format!("topics of {kind}: {}", names.join(" ")),
    };
    format!("{}; {}", of("images", images), of("clouds", clouds))
}

fn names(topics: &[TopicInfo], is: fn(&TopicInfo) -> bool) -> Vec<&str> {
    let of_sensors = |topic: &&TopicInfo| is(topic) && !topic.name.starts_with("/truth/");
    topics.iter().filter(of_sensors).map(|topic| topic.name.as_str()).collect()
}

/// Whether a topic has a name, with or without its leading slash: other tools write it without.
fn is_called(topic: &TopicInfo, name: &str) -> bool {
    topic.name == name || topic.name.strip_prefix('/') == Some(name)
}

fn is_image(topic: &TopicInfo) -> bool {
    InputKind::is_image(&topic.type_name)
}

fn is_cloud(topic: &TopicInfo) -> bool {
    InputKind::is_cloud(&topic.type_name)
}

fn usage(message: String) -> Error {
    Error::new(ErrorKind::Usage, "arguments", message)
}
