//! Recordings of detections against recordings of truth: the figures of `det_post eval`.

mod coco;
mod companions;
mod detections;
mod drives;
mod figures;
mod file_names;
mod filters;
mod page;
mod pair;
mod part_figures;
mod plots;
mod run;
mod streams;
mod table;
mod truth;
mod worst;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use self::coco::CocoFiles;
use self::detections::Detections;
pub use self::drives::{Drive, read_drives};
use self::figures::SensorFigures;
use self::file_names::file_names;
pub use self::filters::Filters;
pub use self::pair::{TopicPair, parse_pair};
use self::pair::{Topics, describe, is_called, pair};
use self::run::Run;
pub use self::streams::{Classes, Stream};
use self::streams::{OutsideScores, Streams};
use self::truth::Truth;
use self::worst::WorstFrames;
use crate::{GroundTruth2d, GroundTruth3d};
use det_post_ros::output_folder::OutputFolder;
use det_post_types::{Detection2d, Detection3d, Error, ErrorKind, ImageBox, Result, Stamp};

/// Detections and truth of one drive, read into memory.
pub struct Sides {
    names: DriveNames,
    /// Where the detections are read from.
    detections_path: PathBuf,
    /// The recording of the truth.
    truth_path: PathBuf,
    /// The detections, by topic.
    pub detections: Detections,
    /// The truth, by topic.
    pub truth: Truth,
}

/// How detections and truth are compared.
#[derive(Default)]
pub struct Terms<'a> {
    /// Topics of detections and of truth that belong together; empty: by name.
    pub pairs: &'a [TopicPair],
    /// Which objects count.
    pub filters: Filters,
    /// Whether frames of truth without detections count as frames without boxes.
    pub count_missing: bool,
    /// Whether boxes in images are kept as files of COCO.
    pub keeps_coco: bool,
    /// Whether the worst frames, devices and times are kept for a page.
    pub keeps_worst: bool,
}

/// Where the two sides of a drive were read from.
#[derive(Clone, Serialize)]
struct DriveNames {
    detections: String,
    truth: String,
}

/// The figures of all sensors; also the file that `--json` names.
#[derive(Serialize)]
pub struct Evaluation {
    drives: Vec<DriveNames>,
    filters: Filters,
    sensors: Vec<SensorFigures>,
    num_repeated_frames: usize,
    num_incomplete_frames: usize,
    /// Of each drive with scores outside 0 to 1.
    scores_outside: Vec<OutsideScores>,
    /// What is wrong with the recordings.
    damage: Vec<String>,
    #[serde(skip)]
    coco: Vec<CocoFiles>,
    /// Of each sensor, where the terms keep them.
    #[serde(skip)]
    worst: Vec<WorstFrames>,
    /// How the detections were made, where the terms keep the worst frames and a report says it.
    #[serde(skip)]
    runs: Vec<Run>,
    /// Class names by their indices.
    #[serde(skip)]
    class_names: Vec<String>,
    /// Of each name the number by which it has its colour.
    class_numbers: Vec<u32>,
    /// Of each drive the recording of its truth.
    #[serde(skip)]
    recordings: Vec<PathBuf>,
    /// Of each drive the first stamp of its truth.
    #[serde(skip)]
    starts: Vec<Option<Stamp>>,
}

impl Sides {
    /// Reads both sides, up to where the user stops it.
    ///
    /// # Errors
    /// `Io`, `Message` or `DamagedBag` when one cannot be read, `Argument` when
    /// there is no truth.
    pub fn read(
        detections: &Path,
        truth: &Path,
        classes: &mut Classes,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let [found_in, truth_in] = [detections, truth].map(|path| path.display().to_string());
        let [detections_path, truth_path] = [detections, truth].map(Path::to_owned);
        let truth = truth::read(truth, classes, stop)?;
        let detections = detections::read(detections, classes, stop)?;
        let names = DriveNames { detections: found_in, truth: truth_in };
        Ok(Self { names, detections_path, truth_path, detections, truth })
    }

    /// Says where the detections will be once they are complete.
    pub fn name_detections(&mut self, path: &Path) {
        self.names.detections = path.display().to_string();
    }

    fn lidars(&self) -> Topics<'_, GroundTruth3d, Detection3d> {
        let Self { names, detections, truth, .. } = self;
        let (detections, truth) = (&detections.lidars, &truth.lidars);
        Topics { drive: &names.detections, detections, truth }
    }

    fn cameras(&self) -> Topics<'_, GroundTruth2d, Detection2d<ImageBox>> {
        let Self { names, detections, truth, .. } = self;
        let (detections, truth) = (&detections.cameras, &truth.cameras);
        Topics { drive: &names.detections, detections, truth }
    }

    fn start(&self) -> Option<Stamp> {
        let Streams { lidars, cameras, .. } = &self.truth;
        let firsts = lidars.iter().filter_map(|stream| stream.frames.keys().next());
        let firsts = firsts.chain(cameras.iter().filter_map(|stream| stream.frames.keys().next()));
        firsts.min().copied()
    }

    fn has_pairs(&self, wanted: &[TopicPair]) -> bool {
        self.lidars().has_pairs(wanted) || self.cameras().has_pairs(wanted)
    }

    fn nothing_in_common(&self) -> Error {
        let Self { names, detections, truth, .. } = self;
        let joined = |[lidars, cameras]: [String; 2]| match lidars.is_empty() || cameras.is_empty()
        {
            true => lidars + &cameras,
            false => format!("{lidars}, {cameras}"),
        };
        let found = joined([describe(&detections.lidars), describe(&detections.cameras)]);
        let there = joined([describe(&truth.lidars), describe(&truth.cameras)]);
        let damage = detections.damage.first().or(truth.damage.first());
        let damage = damage.map_or(String::new(), |damage| format!("; {damage}"));
        let message = match found.is_empty() {
            true => format!(
                "{} holds no detections; allowed: a detections.jsonl of a replay with frames, or a recording with topics of \
                 vision_msgs/msg/Detection2DArray or Detection3DArray{damage}",
                names.detections
            ),
            false => format!(
                "no detections of {} ({found}) belong to truth of {} ({there}); see --pair{damage}",
                names.detections, names.truth
            ),
        };
        Error::new(ErrorKind::Argument, "eval", message)
    }
}

/// Refuses a pair whose topics are in no drive, or of different sensors.
fn check_pairs(pairs: &[TopicPair], drives: &[Sides]) -> Result<()> {
    fn has<T>(streams: &[Stream<T>], topic: &str) -> bool {
        streams.iter().any(|stream| is_called(&stream.topic, topic))
    }
    for pair in pairs {
        let has_pair = |Sides { detections, truth, .. }: &Sides| {
            let of_lidars =
                has(&detections.lidars, &pair.detections) && has(&truth.lidars, &pair.truth);
            let of_cameras =
                has(&detections.cameras, &pair.detections) && has(&truth.cameras, &pair.truth);
            of_lidars || of_cameras
        };
        let Some(Sides { detections, truth, .. }) = drives.first() else { return Ok(()) };
        if !drives.iter().any(has_pair) {
            let message = format!(
                "--pair {}={}: no such topics of one kind; there are detections {} {} and truth {} {}",
                pair.detections,
                pair.truth,
                describe(&detections.lidars),
                describe(&detections.cameras),
                describe(&truth.lidars),
                describe(&truth.cameras)
            );
            return Err(Error::new(ErrorKind::Argument, "eval", message));
        }
    }
    Ok(())
}

impl Evaluation {
    /// Compares the sides of each drive. Topics of the same names are one
    /// sensor, whose frames of all drives are measured together. A drive whose
    /// sides have nothing in common is named in the log.
    ///
    /// # Errors
    /// `Argument` when the sides of no drive, or of no drive on a pair of topics,
    /// have anything in common.
    pub fn of(drives: &[Sides], classes: &Classes, terms: &Terms<'_>) -> Result<Self> {
        let Terms { pairs, filters, count_missing, keeps_coco, keeps_worst } = terms;
        check_pairs(pairs, drives)?;
        let of_lidars: Vec<_> = drives.iter().map(Sides::lidars).collect();
        let of_cameras: Vec<_> = drives.iter().map(Sides::cameras).collect();
        let lidars = pair(&of_lidars, pairs, *count_missing)?;
        let cameras = pair(&of_cameras, pairs, *count_missing)?;
        for drive in drives.iter().filter(|drive| !drive.has_pairs(pairs)) {
            if lidars.is_empty() && cameras.is_empty() {
                return Err(drive.nothing_in_common());
            }
            tracing::warn!("{}", drive.nothing_in_common());
        }
        let names = classes.by_name();
        let coco = cameras.iter().filter(|_| *keeps_coco);
        let coco =
            coco.map(|paired| CocoFiles::of(paired, &names, filters)).collect::<Result<_>>()?;
        let (mut worst, mut runs) = (Vec::new(), Vec::new());
        if *keeps_worst {
            let each = drives.iter().enumerate();
            runs = each.flat_map(|(drive, of)| run::beside(&of.detections_path, drive)).collect();
            worst.extend(lidars.iter().map(|of| WorstFrames::in_space(of, &names, filters)));
            worst.extend(cameras.iter().map(|of| WorstFrames::in_images(of, &names, filters)));
        }
        let lidars = lidars.iter().map(|paired| SensorFigures::of_lidar(paired, &names, filters));
        let cameras =
            cameras.iter().map(|paired| SensorFigures::of_camera(paired, &names, filters));
        let left_out = |of: fn(&Sides) -> usize| drives.iter().map(of).sum();
        let damage = drives.iter().flat_map(|d| d.truth.damage.iter().chain(&d.detections.damage));
        Ok(Self {
            drives: drives.iter().map(|drive| drive.names.clone()).collect(),
            filters: *filters,
            sensors: lidars.chain(cameras).collect(),
            num_repeated_frames: left_out(|d| d.detections.num_repeated + d.truth.num_repeated),
            num_incomplete_frames: left_out(|d| d.truth.num_incomplete),
            scores_outside: drives.iter().filter_map(|d| d.detections.outside.clone()).collect(),
            damage: damage.cloned().collect(),
            coco,
            worst,
            runs,
            class_names: classes.names().to_vec(),
            class_numbers: classes.numbers(),
            recordings: drives.iter().map(|drive| drive.truth_path.clone()).collect(),
            starts: drives.iter().map(Sides::start).collect(),
        })
    }

    /// Writes two files of COCO for every camera into a folder, where the terms kept them.
    ///
    /// # Errors
    /// `Usage` and `Io` of the folder.
    pub fn write_coco(&self, folder: &mut OutputFolder) -> Result<()> {
        let names = file_names(self.coco.iter().map(|files| &*files.name));
        self.coco.iter().zip(names).try_for_each(|(files, name)| files.write(&name, folder))
    }

    /// Whether a recording is damaged.
    pub fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Every figure as JSON.
    ///
    /// # Errors
    /// `Io` when a figure has no form in JSON.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n").map_err(|e| {
            Error::new(ErrorKind::Io, "eval", "the figures have no form in JSON").with_source(e)
        })
    }
}
