//! Colours of classes.

/// Red, green and blue of a class; the eight colours repeat.
pub fn class_rgb(class: u32) -> [u8; 3] {
    const COLORS: [[u8; 3]; 8] = [
        [255, 64, 64],
        [64, 255, 64],
        [96, 160, 255],
        [255, 200, 0],
        [255, 0, 255],
        [0, 255, 255],
        [255, 128, 0],
        [180, 120, 255],
    ];
    COLORS[class as usize % COLORS.len()]
}
