//! Tables of figures whose rows can be sorted.

use super::text;
use crate::recordings::figures::{Bin, CameraFigures, CameraRow, Figures, LidarFigures, LidarRow};
use crate::recordings::part_figures::PartFigures;
use crate::recordings::table::few_objects;

/// What a cell shows.
enum Cell {
    Text(String),
    Count(usize),
    /// A figure, if there is one.
    Figure(Option<f64>),
    /// A figure of too few objects.
    FigureOfFew(Option<f64>),
    Bin(Bin),
}

const LIDAR_HEADS: [&str; 12] = [
    "objects",
    "AP",
    "0.5 m",
    "1 m",
    "2 m",
    "4 m",
    "translation, m",
    "scale",
    "heading, rad",
    "velocity, m/s",
    "BEV AP",
    "3D AP",
];
const CAMERA_HEADS: [&str; 4] = ["objects", "AP", "AP50", "AP75"];
const MASK_HEADS: [&str; 3] = ["mask AP", "mask AP50", "mask AP75"];
const KEYPOINT_HEADS: [&str; 3] = ["keypoint AP", "keypoint AP50", "keypoint AP75"];

/// The tables of a sensor: by class, and by class and range or height.
pub(super) fn tables(figures: &Figures) -> String {
    match figures {
        Figures::Lidar(figures) => lidar(figures),
        Figures::Camera(figures) => camera(figures),
    }
}

fn lidar(figures: &LidarFigures) -> String {
    let classes = figures.classes.iter();
    let rows = classes.clone().map(|(name, class)| row(name, None, lidar_cells(&class.all)));
    let mean = row("mean", None, lidar_cells_of_mean(&figures.mean));
    let mut rows_of_all = classes.clone().flat_map(|(_, class)| {
        [&class.all].into_iter().chain(class.by_range_m.iter().map(|(_, row)| row))
    });
    let note = match rows_of_all.any(LidarRow::has_few_objects) {
        true => format!("<p>{}</p>\n", text(&few_objects())),
        false => String::new(),
    };
    let bins = classes.flat_map(|(name, class)| {
        let row = |(bin, of): &(Bin, LidarRow)| row(name, Some(*bin), lidar_cells(of));
        class.by_range_m.iter().map(row)
    });
    let by_class = Caption { text: "By class", is_open: true };
    let by_range = Caption { text: "By class and range", is_open: false };
    table(by_class, &[&["class"], &LIDAR_HEADS[..]].concat(), rows, Some(mean))
        + &table(by_range, &[&["class", "range, m"], &LIDAR_HEADS[..]].concat(), bins, None)
        + &note
}

fn camera(figures: &CameraFigures) -> String {
    let classes = figures.classes.iter();
    let has = HasParts {
        masks: figures.mean.masks.is_some(),
        keypoints: figures.mean.keypoints.is_some(),
    };
    let masks = if has.masks { &MASK_HEADS[..] } else { &[] };
    let keypoints = if has.keypoints { &KEYPOINT_HEADS[..] } else { &[] };
    let heads = [&CAMERA_HEADS[..], masks, keypoints].concat();
    let rows = classes.clone().map(|(name, class)| row(name, None, camera_cells(&class.all, has)));
    let mean = row("mean", None, camera_cells(&figures.mean, has));
    let bins = classes.flat_map(|(name, class)| {
        let row = |(bin, of): &(Bin, CameraRow)| row(name, Some(*bin), camera_cells(of, has));
        class.by_height.iter().map(row)
    });
    let by_class = Caption { text: "By class", is_open: true };
    let by_height = Caption { text: "By class and height", is_open: false };
    table(by_class, &[&["class"], &heads[..]].concat(), rows, Some(mean))
        + &table(by_height, &[&["class", "height, pixels"], &heads[..]].concat(), bins, None)
}

fn row(class: &str, bin: Option<Bin>, cells: impl IntoIterator<Item = Cell>) -> Vec<Cell> {
    let head = [Cell::Text(class.to_owned())].into_iter().chain(bin.map(Cell::Bin));
    head.chain(cells).collect()
}

fn lidar_cells(row: &LidarRow) -> Vec<Cell> {
    let of_overlap = if row.has_few_objects() { Cell::FigureOfFew } else { Cell::Figure };
    cells_by(row, of_overlap)
}

/// Asterisks are for the classes of a mean.
fn lidar_cells_of_mean(row: &LidarRow) -> Vec<Cell> {
    cells_by(row, Cell::Figure)
}

fn cells_by(row: &LidarRow, of_overlap: fn(Option<f64>) -> Cell) -> Vec<Cell> {
    let by_distance = row.ap_by_distance.map_or([None; 4], |ap| ap.map(Some));
    let errors = row.errors;
    let figures = [row.ap].into_iter().chain(by_distance).chain([
        errors.translation_m,
        errors.scale,
        errors.heading_rad,
        errors.velocity_mps,
    ]);
    let by_overlap = [row.ap_bev, row.ap_3d].map(of_overlap);
    let count = [Cell::Count(row.num_truth)].into_iter();
    count.chain(figures.map(Cell::Figure)).chain(by_overlap).collect()
}

/// What the detections of a sensor have beside their boxes.
#[derive(Clone, Copy)]
struct HasParts {
    masks: bool,
    keypoints: bool,
}

fn camera_cells(row: &CameraRow, has: HasParts) -> Vec<Cell> {
    let of_parts = [(has.masks, row.masks), (has.keypoints, row.keypoints)];
    let of_parts = of_parts.into_iter().filter(|(has, _)| *has).flat_map(|(_, of)| {
        of.map_or([None; 3], |PartFigures { ap, ap50, ap75 }| [ap, ap50, ap75])
    });
    let figures = [row.ap, row.ap50, row.ap75].into_iter().chain(of_parts).map(Cell::Figure);
    [Cell::Count(row.num_truth)].into_iter().chain(figures).collect()
}

/// The line that folds and unfolds a table.
struct Caption {
    text: &'static str,
    is_open: bool,
}

/// A table that folds; the last row stays below the sorted ones.
fn table(
    Caption { text: caption, is_open }: Caption,
    heads: &[&str],
    rows: impl Iterator<Item = Vec<Cell>>,
    last: Option<Vec<Cell>>,
) -> String {
    let heads: String =
        heads.iter().map(|head| format!("<th><button>{}</button></th>", text(head))).collect();
    let rows: String = rows.map(|row| line(&row)).collect();
    let last = last.map_or(String::new(), |row| format!("<tfoot>{}</tfoot>", line(&row)));
    let open = if is_open { " open" } else { "" };
    format!(
        "<details{open}><summary>{caption}</summary><div class=scroll><table \
         class=sortable><thead><tr>{heads}</tr></thead>\n\
         <tbody>{rows}</tbody>{last}</table></div></details>\n"
    )
}

fn line(cells: &[Cell]) -> String {
    let cells: String = cells.iter().map(Cell::html).collect();
    format!("<tr>{cells}</tr>\n")
}

impl Cell {
    fn html(&self) -> String {
        match self {
            Self::Text(name) => format!("<td>{}</td>", text(name)),
            Self::Count(num) => format!("<td>{num}</td>"),
            Self::Figure(Some(value)) => format!("<td data-value={value}>{value:.3}</td>"),
            Self::FigureOfFew(Some(value)) => format!("<td data-value={value}>{value:.3}*</td>"),
            Self::Figure(None) | Self::FigureOfFew(None) => "<td data-value=\"\">–</td>".to_owned(),
            Self::Bin(Bin { from, to }) => {
                let to = to.map_or_else(String::new, |to| to.to_string());
                format!("<td data-value={from}>{from}–{to}</td>")
            }
        }
    }
}
