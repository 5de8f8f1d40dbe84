//! The colours of every image, plot and page, which readers with any colour vision tell apart.

use embedded_graphics::pixelcolor::Rgb888;

/// Colours of classes, which repeat: the palette of Okabe and Ito, "Color Universal Design" (2008),
/// without black, which is the background.
pub(crate) const CLASS_COLORS: [[u8; 3]; 7] =
    [SKY_BLUE, ORANGE, GREEN, YELLOW, VERMILION, PURPLE, BLUE];

const SKY_BLUE: [u8; 3] = [86, 180, 233];
const ORANGE: [u8; 3] = [230, 159, 0];
const GREEN: [u8; 3] = [0, 158, 115];
const YELLOW: [u8; 3] = [240, 228, 66];
const VERMILION: [u8; 3] = [213, 94, 0];
const PURPLE: [u8; 3] = [204, 121, 167];
const BLUE: [u8; 3] = [0, 114, 178];

/// Ground truth, which is drawn below the detections, in a thin line.
pub(super) const TRUTH: [u8; 3] = [255, 255, 255];

/// What a page says about boxes, by the name of its style: correct and wrong detections and
/// missed objects differ by more than red and green.
pub(crate) const VERDICTS: [(&str, [u8; 3]); 5] = [
    ("truth", TRUTH),
    ("missed", VERMILION),
    ("right", SKY_BLUE),
    ("false", YELLOW),
    ("ignored", [138, 146, 154]),
];

/// Background of plots and pages, lines of grids, plain text.
pub(crate) const BACKGROUND: [u8; 3] = [20, 23, 26];
pub(crate) const GRID: [u8; 3] = [57, 65, 74];
pub(crate) const TEXT: [u8; 3] = [216, 221, 226];

/// The line on which a calibrated detector would be.
pub(crate) const IDEAL: [u8; 3] = [138, 146, 154];

/// Rings of distance, the own vehicle.
pub(super) const RINGS: [u8; 3] = [72, 72, 72];
pub(super) const VEHICLE: [u8; 3] = [150, 150, 150];

/// Red, green and blue of a class; the seven colours repeat.
pub fn class_rgb(class: u32) -> [u8; 3] {
    CLASS_COLORS[class as usize % CLASS_COLORS.len()]
}

/// The colour of a class.
pub fn class_color(class: u32) -> Rgb888 {
    color(class_rgb(class))
}

pub(super) const fn color([r, g, b]: [u8; 3]) -> Rgb888 {
    Rgb888::new(r, g, b)
}

/// Black or white, whichever is easier to read on a colour: the higher contrast by WCAG 2.
pub(super) fn text_on([r, g, b]: [u8; 3]) -> Rgb888 {
    let linear = |value: u8| (f64::from(value) / 255.0).powf(2.2);
    let luminance = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    let is_bright = luminance > 0.179;
    if is_bright { color([0; 3]) } else { color([255; 3]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What eyes without one kind of cones see, by Viénot, Brettel and Mollon (1999) for red
    /// and green, in linear light.
    fn seen(rgb: [u8; 3], kind: &str) -> [f64; 3] {
        let [r, g, b] = rgb.map(|value| (f64::from(value) / 255.0).powf(2.2));
        let [r, g, b] = match kind {
            "protan" => {
                let yellow = 0.11238 * r + 0.88762 * g;
                [yellow, yellow, 0.00401 * r - 0.00401 * g + b]
            }
            "deutan" => {
                let yellow = 0.29275 * r + 0.70725 * g;
                [yellow, yellow, -0.02234 * r + 0.02234 * g + b]
            }
            _ => [r, g, b],
        };
        lab([r, g, b])
    }

    /// CIE L*a*b* of linear red, green and blue.
    fn lab([r, g, b]: [f64; 3]) -> [f64; 3] {
        let x = (0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505;
        let y = 0.2126 * r + 0.7152 * g + 0.0722 * b;
        let z = (0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089;
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        [116.0 * f(y) - 16.0, 500.0 * (f(x) - f(y)), 200.0 * (f(y) - f(z))]
    }

    fn distance(a: [f64; 3], b: [f64; 3]) -> f64 {
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }

    /// A difference of 2.3 is just noticeable; thin lines on images need several times that.
    #[test]
    fn colours_differ_for_readers_with_any_colour_vision() {
        for kind in ["all", "protan", "deutan"] {
            let classes = CLASS_COLORS.iter().chain([&TRUTH]);
            let all: Vec<_> = classes.map(|&rgb| (rgb, seen(rgb, kind))).collect();
            for (index, (rgb, one)) in all.iter().enumerate() {
                for (other, two) in &all[..index] {
                    let found = distance(*one, *two);
                    assert!(found > 12.0, "{kind}: {rgb:?} and {other:?} differ by {found:.1}");
                }
            }
            let verdicts = VERDICTS.map(|(name, rgb)| (name, seen(rgb, kind)));
            for (index, (name, one)) in verdicts.iter().enumerate() {
                for (other, two) in &verdicts[..index] {
                    let found = distance(*one, *two);
                    assert!(found > 20.0, "{kind}: {name} and {other} differ by {found:.1}");
                }
            }
        }
    }

    #[test]
    fn text_is_dark_on_bright_colours() {
        assert_eq!(text_on(YELLOW), color([0; 3]));
        assert_eq!(text_on(BLUE), color([255; 3]));
    }
}
