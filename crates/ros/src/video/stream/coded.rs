//! The NAL units of a picture, as a decoder gets them.

use crate::video::nal::push_unit;

/// NAL units of one picture with start codes: of a key frame all parameter sets first, then slices.
#[derive(Default)]
pub(in crate::video) struct CodedPicture {
    units: Vec<u8>,
    /// Where the profiles of the sequence parameter sets are.
    profiles: Vec<usize>,
}

impl CodedPicture {
    /// Removes all units.
    pub(super) fn clear(&mut self) {
        self.units.clear();
        self.profiles.clear();
    }

    /// Appends a unit.
    pub(super) fn push(&mut self, unit: &[u8]) {
        push_unit(&mut self.units, unit);
    }

    /// Appends a sequence parameter set.
    pub(super) fn push_sequence(&mut self, unit: &[u8]) {
        self.push(unit);
        // Behind its first byte.
        self.profiles.push(self.units.len() - unit.len() + 1);
    }

    /// The units as they are in the stream.
    pub(in crate::video) fn units(&self) -> &[u8] {
        &self.units
    }

    /// The units with the profiles that the decoder by openh264 gets in place of the stream's.
    pub(in crate::video) fn without_reordering(&mut self) -> &[u8] {
        for place in self.profiles.drain(..) {
            if let Some(profile) = self.units.get_mut(place) {
                *profile = without_reordering(*profile);
            }
        }
        &self.units
    }
}

/// A profile of the same syntax that has no B frames. In other profiles openh264 holds images back to bring them in
/// order, and never frees those that are flushed one by one; without B frames, which are refused, there is nothing to
/// bring in order.
fn without_reordering(profile: u8) -> u8 {
    match profile {
        77 | 88 => 66,
        // Scalable baseline, whose sets state chroma and depth as sets of high do.
        100 => 83,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_replaced_in_sequence_parameter_sets_only() {
        let mut coded = CodedPicture::default();
        coded.push_sequence(&[0x67, 100, 7]);
        coded.push_sequence(&[0x67, 77]);
        coded.push(&[0x68, 100]);
        let stream = [0, 0, 0, 1, 0x67, 100, 7, 0, 0, 0, 1, 0x67, 77, 0, 0, 0, 1, 0x68, 100];
        assert_eq!(coded.units(), stream);
        let mut replaced = stream;
        (replaced[5], replaced[12]) = (83, 66);
        assert_eq!(coded.without_reordering(), replaced);
        coded.clear();
        coded.push(&[0x65, 9]);
        assert_eq!(coded.without_reordering(), [0, 0, 0, 1, 0x65, 9]);
    }
}
