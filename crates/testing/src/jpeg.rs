//! JPEG files that no encoder writes.

/// A progressive JPEG, grey, whose scans have no data. A comment of zeros makes it long
/// enough for its pixels.
pub fn empty_scans(width: u16, height: u16, num_scans: usize) -> Vec<u8> {
    scans(width, height, num_scans, 0)
}

/// A progressive JPEG, grey, all of whose coefficients are zero in every scan.
pub fn zero_scans(width: u16, height: u16, num_scans: usize) -> Vec<u8> {
    let num_blocks = usize::from(width).div_ceil(8) * usize::from(height).div_ceil(8);
    // One bit for each block, and zeros to fill the last byte.
    scans(width, height, num_scans, num_blocks.div_ceil(8))
}

/// A progressive JPEG whose scans have this many bytes of zeros.
fn scans(width: u16, height: u16, num_scans: usize, num_bytes: usize) -> Vec<u8> {
    let [top, bottom] = height.to_be_bytes();
    let [left, right] = width.to_be_bytes();
    let header = [0xFF, 0xC2, 0, 11, 8, top, bottom, left, right, 1, 1, 0x11, 0];
    let mut file = [&[0xFF, 0xD8, 0xFF, 0xDB, 0, 67, 0][..], &[1; 64], &header].concat();
    for class in [0x00, 0x10] {
        // One code of one bit: no difference, end of block.
        file.extend([0xFF, 0xC4, 0, 20, class, 1]);
        file.extend([0; 16]);
    }
    for scan in 0..num_scans {
        let (first, last) = if scan == 0 { (0, 0) } else { (1, 63) };
        file.extend([0xFF, 0xDA, 0, 8, 1, 1, 0, first, last, 0]);
        file.resize(file.len() + num_bytes, 0);
    }
    let num_bytes = usize::from(width) * usize::from(height) / 512;
    while file.len() < num_bytes {
        file.extend([0xFF, 0xFE, 0xF0, 0]);
        file.resize(file.len() + 0xF000 - 2, 0);
    }
    file.extend([0xFF, 0xD9]);
    file
}
