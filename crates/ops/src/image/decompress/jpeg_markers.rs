//! The markers of a JPEG file (ITU-T T.81, annex B), found without decoding the data
//! between them.

use std::io::BufRead;

const HUFFMAN_TABLES: u8 = 0xC4;
const FIRST_RESTART: u8 = 0xD0;
const START_OF_IMAGE: u8 = 0xD8;
const END_OF_IMAGE: u8 = 0xD9;
const START_OF_SCAN: u8 = 0xDA;
const QUANTIZATION_TABLES: u8 = 0xDB;
const ADOBE: u8 = 0xEE;

/// The maximum number of components of an image.
const MAX_COMPONENTS: usize = 4;

/// A file by its markers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Markers {
    /// The first header of a frame.
    pub(super) frame: Option<Frame>,
    /// The number of such headers.
    pub(super) num_frames: u64,
    /// Scans before the end of the image.
    pub(super) num_scans: u64,
    /// Bytes of segments that define Huffman tables.
    pub(super) num_table_bytes: u64,
    /// Whether there is a segment of quantization tables.
    pub(super) has_quantization: bool,
    /// Whether there is a segment of Adobe, which can declare another colour space.
    pub(super) is_adobe: bool,
    /// Whether there is an end-of-image marker. Without it the file is truncated.
    pub(super) has_end: bool,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its marker, 0xC0 to 0xCF: the coding.
    pub(super) coding: u8,
    /// Bits of a sample.
    pub(super) precision: u8,
    /// Columns.
    pub(super) width: u16,
    /// Rows; 0 if a later segment has their number.
    pub(super) height: u16,
    /// The number of components.
    pub(super) num_components: u8,
    /// Identifier and sampling factors (horizontal in the upper four bits) of the first
    /// components.
    pub(super) components: [(u8, u8); MAX_COMPONENTS],
}

impl Frame {
    /// Coefficients in one pass, Huffman-coded, 8 bits.
    pub(super) const BASELINE: u8 = 0xC0;
    /// As baseline, with more tables.
    pub(super) const EXTENDED: u8 = 0xC1;
    /// Coefficients in several passes, Huffman-coded.
    pub(super) const PROGRESSIVE: u8 = 0xC2;

    /// The header in a segment without its length; `None` if it is incomplete.
    fn parse(coding: u8, segment: &[u8]) -> Option<Self> {
        let &[precision, top, bottom, left, right, num_components, ref rest @ ..] = segment else {
            return None;
        };
        let mut components = [(0, 0); MAX_COMPONENTS];
        let num_listed = usize::from(num_components).min(MAX_COMPONENTS);
        let listed = rest.as_chunks::<3>().0.get(..num_listed)?;
        for (to, &[id, sampling, _]) in components.iter_mut().zip(listed) {
            *to = (id, sampling);
        }
        Some(Self {
            coding,
            precision,
            width: u16::from_be_bytes([left, right]),
            height: u16::from_be_bytes([top, bottom]),
            num_components,
            components,
        })
    }
}

/// The first header of a frame. What is after it is not read.
pub(super) fn frame(file: &[u8]) -> Option<Frame> {
    let mut frame = None;
    for_each_segment(file, |marker, segment| {
        if is_frame(marker) {
            frame = Frame::parse(marker, segment);
        }
        frame.is_none() && marker != START_OF_SCAN
    });
    frame
}

/// Reads the markers from the start of the image to its end.
pub(super) fn read(file: &[u8]) -> Markers {
    let mut markers = Markers::default();
    for_each_segment(file, |marker, segment| {
        match marker {
            END_OF_IMAGE => markers.has_end = true,
            START_OF_SCAN => markers.num_scans += 1,
            HUFFMAN_TABLES => markers.num_table_bytes += segment.len() as u64 + 2,
            QUANTIZATION_TABLES => markers.has_quantization = true,
            ADOBE => markers.is_adobe = true,
            _ if is_frame(marker) => {
                markers.num_frames += 1;
                markers.frame = markers.frame.or_else(|| Frame::parse(marker, segment));
            }
            _ => {}
        }
        true
    });
    markers
}

fn is_frame(marker: u8) -> bool {
    matches!(marker, 0xC0..=0xC3 | 0xC5..=0xC7 | 0xC9..=0xCB | 0xCD..=0xCF)
}

/// Calls `visit` with each marker and its segment, without the length, up to the end of
/// the image or until it returns false. Segments are skipped by their length, as decoders
/// do: embedded thumbnails and bytes after the end of the image are not visited. A
/// segment that reaches beyond the file is cut.
fn for_each_segment(file: &[u8], mut visit: impl FnMut(u8, &[u8]) -> bool) {
    let mut rest = file;
    while let Some(marker) = next_marker(&mut rest) {
        match marker {
            FIRST_RESTART..=START_OF_IMAGE => continue,
            END_OF_IMAGE => {
                visit(marker, &[]);
                return;
            }
            _ => {}
        }
        let Some(&len) = rest.first_chunk() else { return };
        let len = usize::from(u16::from_be_bytes(len)).max(2);
        let segment = rest.get(2..len.min(rest.len())).unwrap_or_default();
        if !visit(marker, segment) {
            return;
        }
        rest = rest.get(len..).unwrap_or_default();
    }
}

/// Bytes that are passed over together where none of them begins a marker.
const BLOCK: usize = 64;

/// The next marker of `rest`, which is advanced past it. Entropy-coded data contains
/// no marker: there, a zero follows every byte 0xFF.
fn next_marker(rest: &mut &[u8]) -> Option<u8> {
    loop {
        // In entropy-coded data 0xFF is frequent: without branches, vector instructions do this.
        while let Some(block) = rest.first_chunk::<{ BLOCK + 1 }>() {
            let begins =
                |(first, second): (&u8, &u8)| u8::from(*first == 0xFF) & u8::from(*second != 0);
            if block.iter().zip(&block[1..]).map(begins).fold(0, |any, begins| any | begins) != 0 {
                break;
            }
            *rest = &rest[BLOCK..];
        }
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
            let expected = Markers { num_scans, num_table_bytes, has_end, ..Markers::default() };
            assert_eq!(read(&file), expected, "{file:x?}");
        }
    }

    #[test]
    fn markers_are_found_at_every_place_of_a_block() {
        for at in 0..3 * BLOCK {
            // The data may end in 0xFF, which is then a fill byte.
            let data = |len: usize| [0xFF, 0, 7].into_iter().cycle().take(len).collect::<Vec<u8>>();
            for num_fill in [0, 1, BLOCK] {
                let marker = [&[0xFF].repeat(num_fill)[..], &[0xFF, END_OF_IMAGE]].concat();
                let file = [data(at), marker, data(2 * BLOCK)].concat();
                let mut rest = &file[..];
                assert_eq!(next_marker(&mut rest), Some(END_OF_IMAGE), "{at} {num_fill}");
                assert_eq!(rest.len(), 2 * BLOCK, "{at} {num_fill}");
                assert_eq!(next_marker(&mut rest), None, "{at} {num_fill}");
            }
        }
    }

    #[test]
    fn headers_of_frames_are_read() {
        let header = [0xFF, 0xC2, 0, 14, 8, 1, 2, 3, 4, 2, 7, 0x21, 0, 9, 0x11, 1];
        let expected = Frame {
            coding: Frame::PROGRESSIVE,
            precision: 8,
            width: 0x0304,
            height: 0x0102,
            num_components: 2,
            components: [(7, 0x21), (9, 0x11), (0, 0), (0, 0)],
        };
        let adobe = [0xFF, 0xEE, 0, 3, 0];
        let scan = [0xFF, 0xDA, 0, 2];
        let file = [&[0xFF, 0xD8][..], &adobe, &header, &scan].concat();
        assert_eq!(frame(&file), Some(expected));
        let markers = read(&file);
        assert_eq!(
            (markers.frame, markers.num_frames, markers.is_adobe, markers.num_scans),
            (Some(expected), 1, true, 1)
        );
        // After a scan, cut, and with more components than the segment lists.
        assert_eq!(frame(&[&scan[..], &header].concat()), None);
        for len in 0..header.len() {
            assert_eq!(frame(&header[..len]), None, "{len}");
        }
        let mut more = header;
        more[9] = 3;
        assert_eq!(frame(&more), None);
    }
}
