//! Recordings of detections against recordings of truth: the figures of `det_post eval`.

mod coco;
mod detections;
mod drives;
mod figures;
mod pair;
mod plots;
mod streams;
mod table;
mod truth;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde::Serialize;

use self::coco::CocoFiles;
use self::detections::Detections;
pub(crate) use self::drives::{Drive, read_drives};
pub(crate) use self::figures::Filters;
use self::figures::SensorFigures;
pub(crate) use self::pair::{TopicPair, parse_pair};
use self::pair::{describe, pair, pool};
pub(crate) use self::streams::{Classes, Stream};
use self::truth::Truth;
use crate::error::{Error, ErrorKind, Result};

/// Detections and truth of one drive, read into memory.
pub(crate) struct Sides {
    names: DriveNames,
    pub(crate) detections: Detections,
    pub(crate) truth: Truth,
}

/// How detections and truth are compared.
#[derive(Default)]
pub(crate) struct Terms<'a> {
    pub(crate) pairs: &'a [TopicPair],
    pub(crate) filters: Filters,
    pub(crate) count_missing: bool,
    /// Whether boxes in pictures are kept as files of COCO.
    pub(crate) keeps_coco: bool,
}

/// Where the two sides of a drive were read from.
#[derive(Clone, Serialize)]
struct DriveNames {
    detections: String,
    truth: String,
}

/// The figures of all sensors; also the file that `--json` names.
#[derive(Serialize)]
pub(crate) struct Evaluation {
    drives: Vec<DriveNames>,
    filters: Filters,
    sensors: Vec<SensorFigures>,
    num_repeated_frames: usize,
    num_incomplete_frames: usize,
    /// What is wrong with the recordings.
    damage: Vec<String>,
    #[serde(skip)]
    coco: Vec<CocoFiles>,
}

impl Sides {
    /// Reads both sides, up to where the user stops it.
    ///
    /// # Errors
    /// `Io`, `Message` or `DamagedBag` when one cannot be read, `Argument` when
    /// there is no truth.
    pub(crate) fn read(
        detections: &Path,
        truth: &Path,
        classes: &mut Classes,
        stop: &AtomicBool,
    ) -> Result<Self> {
        let [found_in, truth_in] = [detections, truth].map(|path| path.display().to_string());
        let truth = truth::read(truth, classes, stop)?;
        let detections = detections::read(detections, classes, stop)?;
        Ok(Self { names: DriveNames { detections: found_in, truth: truth_in }, detections, truth })
    }

    /// Says where the detections will be once they are complete.
    pub(crate) fn name_detections(&mut self, path: &Path) {
        self.names.detections = path.display().to_string();
    }

    fn nothing_in_common(&self) -> Error {
        let Self { names, detections, truth } = self;
        let [found, there] = [
            [describe(&detections.lidars), describe(&detections.cameras)].join(" "),
            [describe(&truth.lidars), describe(&truth.cameras)].join(" "),
        ];
        let message = format!(
            "no detections of {} ({found}) belong to truth of {} ({there}); see --pair",
            names.detections, names.truth
        );
        Error::new(ErrorKind::Argument, "eval", message)
    }
}

/// Refuses a pair whose topics are not there or of different sensors.
fn check_pairs(pairs: &[TopicPair], detections: &Detections, truth: &Truth) -> Result<()> {
    fn has<T>(streams: &[Stream<T>], topic: &str) -> bool {
        streams.iter().any(|stream| stream.topic == topic)
    }
    for pair in pairs {
        let of_lidars =
            has(&detections.lidars, &pair.detections) && has(&truth.lidars, &pair.truth);
        let of_cameras =
            has(&detections.cameras, &pair.detections) && has(&truth.cameras, &pair.truth);
        if !of_lidars && !of_cameras {
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
    /// sensor, whose frames of all drives are measured together.
    ///
    /// # Errors
    /// `Argument` when the sides of a drive have nothing in common.
    pub(crate) fn of(drives: &[Sides], classes: &Classes, terms: &Terms<'_>) -> Result<Self> {
        let Terms { pairs, filters, count_missing, keeps_coco } = terms;
        let (mut lidars, mut cameras) = (Vec::new(), Vec::new());
        for drive in drives {
            let Sides { detections, truth, .. } = drive;
            check_pairs(pairs, detections, truth)?;
            let of_lidars = pair(&detections.lidars, &truth.lidars, pairs, *count_missing)?;
            let of_cameras = pair(&detections.cameras, &truth.cameras, pairs, *count_missing)?;
            if of_lidars.is_empty() && of_cameras.is_empty() {
                return Err(drive.nothing_in_common());
            }
            pool(&mut lidars, of_lidars);
            pool(&mut cameras, of_cameras);
        }
        let names = classes.by_name();
        let coco = cameras.iter().filter(|_| *keeps_coco);
        let coco =
            coco.map(|paired| CocoFiles::of(paired, &names, filters)).collect::<Result<_>>()?;
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
            damage: damage.cloned().collect(),
            coco,
        })
    }

    /// Whether a recording is damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Every figure as JSON.
    ///
    /// # Errors
    /// `Io` when a figure has no form in JSON.
    pub(crate) fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n").map_err(|e| {
            Error::new(ErrorKind::Io, "eval", "the figures have no form in JSON").with_source(e)
        })
    }
}
