//! The markers of a JPEG file (ITU-T T.81, annex B), found without decoding the data
//! between them.

use std::io::BufRead;

/// The work of decoding a file, by its markers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Markers {
    /// Scans before the end of the image.
    pub(super) num_scans: u64,
    /// Bytes of segments that define Huffman tables.
    pub(super) num_table_bytes: u64,
    /// Whether there is an end-of-image marker. Without it the file is truncated.
    pub(super) has_end: bool,
}

/// Iterates over the markers from the start of the image to its end. Segments are
/// skipped by their length, as decoders do: embedded thumbnails and bytes after the
/// end of the image are not counted.
pub(super) fn walk(file: &[u8]) -> Markers {
    const HUFFMAN_TABLES: u8 = 0xC4;
    const FIRST_RESTART: u8 = 0xD0;
    const START_OF_IMAGE: u8 = 0xD8;
    const END_OF_IMAGE: u8 = 0xD9;
    const START_OF_SCAN: u8 = 0xDA;
    let mut markers = Markers::default();
    let mut rest = file;
    while let Some(marker) = next_marker(&mut rest) {
        match marker {
            FIRST_RESTART..=START_OF_IMAGE => continue,
            END_OF_IMAGE => {
                markers.has_end = true;
                break;
            }
            START_OF_SCAN => markers.num_scans += 1,
            _ => {}
        }
        let Some(&len) = rest.first_chunk() else { break };
        let len = usize::from(u16::from_be_bytes(len));
        if marker == HUFFMAN_TABLES {
            markers.num_table_bytes += len as u64;
        }
        rest = rest.get(len.max(2)..).unwrap_or_default();
    }
    markers
}

/// The next marker of `rest`, which is advanced past it. Entropy-coded data contains
/// no marker: there, a zero follows every byte 0xFF.
fn next_marker(rest: &mut &[u8]) -> Option<u8> {
    loop {
        // Does not fail for a slice; the end is detected below.
        rest.skip_until(0xFF).ok()?;
        let num_fill = rest.iter().position(|&byte| byte != 0xFF)?;
        let marker = rest[num_fill];
        *rest = &rest[num_fill + 1..];
        if marker != 0 {
            return Some(marker);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scans_tables_and_the_end_are_found() {
        let start = [0xFF, 0xD8];
        let scan = [0xFF, 0xDA, 0, 4, 0xFF, 0xDA, 1, 0xFF, 0, 2, 0xFF, 0xD3, 3];
        let tables = [0xFF, 0xFF, 0xFF, 0xC4, 0, 3, 0];
        let thumbnail = [0xFF, 0xE1, 0, 8, 0xFF, 0xDA, 0xFF, 0xD9, 0xFF, 0xDA];
        let end = [0xFF, 0xD9];
        // (file, scans, bytes of tables, has an end)
        let cases: [(Vec<u8>, u64, u64, bool); 8] = [
            (vec![], 0, 0, false),
            (start.to_vec(), 0, 0, false),
            ([&start[..], &end].concat(), 0, 0, true),
            ([&start[..], &tables, &scan, &end].concat(), 1, 3, true),
            ([&start[..], &tables, &scan, &tables, &scan, &end, &scan].concat(), 2, 6, true),
            ([&start[..], &thumbnail, &scan].concat(), 1, 0, false),
            ([&start[..], &thumbnail, &scan, &end].concat(), 1, 0, true),
            // A segment of no length, and one that reaches beyond the file.
            ([&start[..], &[0xFF, 0xFE, 0, 0], &scan, &[0xFF, 0xFE, 9]].concat(), 1, 0, false),
        ];
        for (file, num_scans, num_table_bytes, has_end) in cases {
            let expected = Markers { num_scans, num_table_bytes, has_end };
            assert_eq!(walk(&file), expected, "{file:x?}");
        }
    }
}
