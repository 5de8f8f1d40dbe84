//! Curves in the unit square as SVG.

use std::fmt::Write as _;

use super::text;
use crate::draw::Curve;

/// Width and height, and the area of the curves: left, top, edge length.
const SIZE: [f64; 2] = [660.0, 470.0];
const AREA: [f64; 3] = [66.0, 30.0, 380.0];

/// Curves over a grid, with a legend beside it.
pub(super) fn plot(title: &str, [x_label, y_label]: [&str; 2], curves: &[Curve]) -> String {
    let [left, top, edge] = AREA;
    let [width, height] = SIZE;
    let [right, bottom] = [left + edge, top + edge];
    let mut svg = format!(
        "<svg class=plot viewBox=\"0 0 {width} {height}\" role=img>\
         <title>{title}</title><text x={left} y=18>{title}</text>\n",
        title = text(title)
    );
    // Writing to a String cannot fail.
    for tick in 0..=10 {
        let share = f64::from(tick) / 10.0;
        let [x, y] = pixel([share, share]);
        let _ =
            write!(svg, "<path class=grid d=\"M{x:.1} {top}V{bottom}M{left} {y:.1}H{right}\"/>");
        if tick % 2 == 0 {
            let _ = write!(
                svg,
                "<text x={x:.1} y={} text-anchor=middle>{share:.1}</text>\
                 <text x={} y={:.1} text-anchor=end>{share:.1}</text>",
                bottom + 20.0,
                left - 6.0,
                y + 4.0
            );
        }
    }
    let _ = writeln!(
        svg,
        "<text x={} y={} text-anchor=middle>{}</text>\
         <text transform=\"translate(14 {}) rotate(-90)\" text-anchor=middle>{}</text>",
        left + 0.5 * edge,
        bottom + 42.0,
        text(x_label),
        top + 0.5 * edge,
        text(y_label)
    );
    for (index, curve) in curves.iter().enumerate() {
        let [r, g, b] = curve.color;
        let points: Vec<String> = curve
            .points
            .iter()
            .map(|&point| pixel(point))
            .map(|[x, y]| format!("{x:.1},{y:.1}"))
            .collect();
        let name = text(&curve.name);
        let _ = writeln!(
            svg,
            "<polyline class=curve stroke=\"rgb({r} {g} {b})\" points=\"{}\"><title>{name}</title>\
             </polyline><text x={} y={} style=\"fill:rgb({r} {g} {b})\">{name}</text>",
            points.join(" "),
            right + 14.0,
            top + 14.0 + 22.0 * index as f64
        );
        for &[x, y] in curve.points.iter().filter(|_| curve.has_dots) {
            let [at, above] = pixel([x, y]);
            let _ = write!(
                svg,
                "<circle cx={at:.1} cy={above:.1} r=5 fill=\"rgb({r} {g} {b})\"><title>score \
                 {x:.2}, precision {y:.2}</title></circle>"
            );
        }
    }
    svg + "</svg>\n"
}

fn pixel([x, y]: [f64; 2]) -> [f64; 2] {
    let [left, top, edge] = AREA;
    [left + x * edge, top + (1.0 - y) * edge]
}
