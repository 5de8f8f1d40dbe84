//! The inputs of a frame before it is processed: their kinds, and the messages among them whose
//! declarations contradict their data and are corrected.

use crate::config::ChannelConfig;
use crate::detectors::{FrameInput, InputNeeds, MAX_INPUTS, Payload};
use det_post_types::{
    CloudView, CompressedFormat, Count, Error, ErrorKind, FrameReport, Header, ImagePayload, Result,
};

/// The corrections that were warned about, by input.
#[derive(Debug, Default)]
pub(super) struct Corrections {
    is_warned: [[bool; 2]; MAX_INPUTS],
}

impl Corrections {
    /// Counts the corrected messages of a frame. The first of a kind and input is a warning.
    pub(super) fn note(
        &mut self,
        config: &ChannelConfig,
        inputs: &[Option<FrameInput<'_>>],
        report: &mut FrameReport,
    ) {
        for (index, input) in inputs.iter().enumerate() {
            let Some(count) = input.as_ref().and_then(|input| correction(&input.payload)) else {
                continue;
            };
            report.add_count(count, 1);
            let kind = usize::from(count == Count::ImagesMislabelled);
            let Some(is_warned) = self.is_warned.get_mut(index) else { continue };
            if std::mem::replace(&mut is_warned[kind], true) {
                continue;
            }
            let topic = config.inputs.get(index).map_or("", |input| input.topic.as_str());
            if let Some(text) = input.as_ref().and_then(|input| describe(&input.payload)) {
                let (channel, name) = (&config.name, count.name());
                tracing::warn!("channel {channel}: {topic}: {text} (counted as {name})");
            }
        }
    }
}

fn correction(payload: &Payload<'_>) -> Option<Count> {
    let is_corrected = match payload {
        Payload::Cloud(cloud) => cloud.row_step() != cloud.declared_row_step(),
        Payload::CloudOnDevice(cloud) => cloud.row_step() != cloud.declared_row_step(),
        Payload::Image(ImagePayload::Compressed(file)) => {
            return file.is_mislabelled.then_some(Count::ImagesMislabelled);
        }
        Payload::Image(_) | Payload::Tensors(_) => false,
    };
    is_corrected.then_some(Count::RowStepsCorrected)
}

/// The reason of a correction, and how the message is read.
fn describe(payload: &Payload<'_>) -> Option<String> {
    match payload {
        Payload::Cloud(cloud) => Some(describe_rows(cloud)),
        Payload::CloudOnDevice(cloud) => Some(describe_rows(cloud)),
        Payload::Image(ImagePayload::Compressed(file)) => {
            let found = match file.format {
                CompressedFormat::Jpeg => "JPEG",
                CompressedFormat::Png => "PNG",
            };
            Some(format!(
                "the format names another compression, the file has the signature of {found} and is decoded as \
                 {found}; correct the sender"
            ))
        }
        Payload::Image(_) | Payload::Tensors(_) => None,
    }
}

fn describe_rows<B: Copy>(cloud: &CloudView<'_, B>) -> String {
    format!(
        "row_step is {}, rows of {} points of {} bytes need {}; the data has exactly {}x{} points \
         and is read without padding; correct the driver",
        cloud.declared_row_step(),
        cloud.width(),
        cloud.point_step(),
        cloud.row_step(),
        cloud.width(),
        cloud.height()
    )
}

/// Checks the kinds of all inputs and returns the header of the reference.
///
/// # Errors
/// `Argument` for an input of another kind, and for a frame without its reference.
pub(super) fn check<'a>(
    config: &ChannelConfig,
    needs: &[InputNeeds],
    inputs: &[Option<FrameInput<'a>>],
) -> Result<Header<'a>> {
    let refuse = |what: &str| {
        let message = format!("{} was given {what}", config.name);
        Error::new(ErrorKind::Argument, "channel", message)
    };
    let is_taken = |(needs, input): (&InputNeeds, &Option<FrameInput<'_>>)| {
        input.as_ref().is_none_or(|input| input.payload.kind() == needs.kind)
    };
    if inputs.len() != needs.len() || !needs.iter().zip(inputs).all(is_taken) {
        return Err(refuse("a message of another sensor"));
    }
    let reference = inputs.get(config.sync.reference).and_then(Option::as_ref);
    reference.map(|input| input.header).ok_or_else(|| refuse("a frame without its reference"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use det_post_types::{CompressedView, PointFields};

    #[test]
    fn every_corrected_message_is_counted() {
        let overrides = ["c.input:=/i", "c.head:=yolov8", "c.model_path:=m"];
        let config = Config::load(&[], &overrides.map(String::from)).unwrap();
        let data = [0; 48];
        let cloud = |row_step| {
            CloudView::new([2, 3], [8, row_step], false, PointFields::new(), &data).unwrap()
        };
        let (right, wrong) = (cloud(16), cloud(0));
        let file = CompressedView::new(CompressedFormat::Png, &data);
        let mislabelled = CompressedView { is_mislabelled: true, ..file };
        let header = Header::default();
        let image = |file| Some(FrameInput::image(header, ImagePayload::Compressed(file)));
        let inputs = [
            Some(FrameInput::cloud(header, &right)),
            Some(FrameInput::cloud(header, &wrong)),
            image(file),
            image(mislabelled),
            None,
        ];
        let (mut corrections, mut report) = (Corrections::default(), FrameReport::new());
        for _ in 0..2 {
            corrections.note(&config.channels[0], &inputs, &mut report);
        }
        assert_eq!(report.count(Count::RowStepsCorrected), 2);
        assert_eq!(report.count(Count::ImagesMislabelled), 2);
        let warned = corrections.is_warned.map(|[cloud, image]| cloud || image);
        assert_eq!(warned[..5], [false, true, false, true, false]);
        let text = describe(&inputs[1].as_ref().unwrap().payload).unwrap();
        assert!(text.contains("row_step is 0, rows of 2 points of 8 bytes need 16"), "{text}");
    }
}
