//! Texts beside boxes in a drawing, none over another.

use std::fmt::Write as _;

use super::text;

/// Height of a text as a share of the width of the drawing, and width of a character as a share of
/// that height: of sans-serif fonts it is less.
const HEIGHT: f64 = 0.027;
const WIDTH: f64 = 0.6;

/// Left, top, right, bottom.
type Area = [f64; 4];

/// A text for each box, of its corners, text and style, over a view of left, top, width and height. A
/// box whose label has no free place near it, or that is outside the view, has none.
pub(super) fn labels<'a>(
    [left, top, width, height]: [f64; 4],
    boxes: impl Iterator<Item = (&'a [[f64; 2]; 4], String, &'static str)>,
) -> String {
    let view = [left, top, left + width, top + height];
    let size = HEIGHT * width;
    let (mut svg, mut taken) = (String::new(), Vec::<Area>::new());
    for (corners, label, style) in boxes {
        let length = WIDTH * size * label.chars().count() as f64;
        let place = places(bounds(corners), [length, 1.2 * size]).into_iter().find(|place| {
            is_inside(place, &view) && !taken.iter().any(|other| overlaps(place, other))
        });
        let Some(place) = place else { continue };
        taken.push(place);
        // Writing to a String cannot fail.
        let _ = write!(
            svg,
            "<text class=\"mark {style}\" font-size={size:.2} x={:.2} y={:.2}>{}</text>",
            place[0],
            place[3] - 0.25 * size,
            text(&label)
        );
    }
    svg
}

/// Above, below, beside and inside a box.
fn places([left, top, right, bottom]: Area, [width, height]: [f64; 2]) -> [Area; 6] {
    [
        [left, top - height],
        [left, bottom],
        [right - width, top - height],
        [right, top],
        [left - width, top],
        [left, top],
    ]
    .map(|[x, y]| [x, y, x + width, y + height])
}

fn bounds(corners: &[[f64; 2]; 4]) -> Area {
    let least = |axis: usize| corners.iter().map(|at| at[axis]).fold(f64::INFINITY, f64::min);
    let most = |axis: usize| corners.iter().map(|at| at[axis]).fold(f64::NEG_INFINITY, f64::max);
    [least(0), least(1), most(0), most(1)]
}

fn is_inside(inner: &Area, outer: &Area) -> bool {
    inner[0] >= outer[0] && inner[1] >= outer[1] && inner[2] <= outer[2] && inner[3] <= outer[3]
}

fn overlaps(a: &Area, b: &Area) -> bool {
    a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn square(x: f64, y: f64, side: f64) -> [[f64; 2]; 4] {
        [[x, y], [x + side, y], [x + side, y + side], [x, y + side]]
    }

    /// Places of the labels, from their texts of one length.
    fn placed(boxes: &[[[f64; 2]; 4]]) -> Vec<[f64; 2]> {
        let each = boxes.iter().map(|corners| (corners, "car".to_owned(), "missed"));
        let svg = labels([0.0, 0.0, 1000.0, 500.0], each);
        let number = |part: &str, name: &str| -> f64 {
            let from = part.find(name).unwrap() + name.len();
            part[from..].split([' ', '>']).next().unwrap().parse().unwrap()
        };
        svg.split("<text").skip(1).map(|part| [number(part, " x="), number(part, " y=")]).collect()
    }

    #[test]
    fn labels_are_above_their_boxes_and_apart() {
        assert_eq!(placed(&[square(100.0, 100.0, 50.0)]), [[100.0, 93.25]]);
        // At the upper edge it is below; outside the view there is none.
        assert_eq!(placed(&[square(100.0, 0.0, 50.0)]), [[100.0, 75.65]]);
        assert_eq!(placed(&[square(2000.0, 100.0, 50.0)]), [[0.0; 2]; 0]);
        let crowd: Vec<_> = (0..20).map(|at| square(100.0 + f64::from(at), 100.0, 50.0)).collect();
        let found = placed(&crowd);
        assert!((3..20).contains(&found.len()), "{found:?}");
        let is_apart =
            |a: &[f64; 2], b: &[f64; 2]| (a[0] - b[0]).abs() >= 48.5 || (a[1] - b[1]).abs() >= 32.3;
        for (at, a) in found.iter().enumerate() {
            assert!(found[..at].iter().all(|b| is_apart(a, b)), "{found:?}");
        }
    }
}
