//! The channels of a head's points, and the fields of clouds that they are read from.

use std::fmt;

use super::{PointField, PointFields};

/// The transform of a channel of points before the mean of a voxel is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChannelTransform {
    /// None.
    #[default]
    Identity,
    /// The hyperbolic tangent, as `ops::voxel_mean::tanh` computes it.
    Tanh,
}

/// One channel of a head's points beyond x, y, z.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointChannel {
    /// The field `intensity` or `i`.
    Intensity,
    /// The field `ring` or `channel`.
    Ring,
    /// Age of the point's sweep in seconds: not a field, zero in the current
    /// sweep and written by `ops::densify` for past ones.
    TimeLag,
    /// The field of this name.
    Named(String),
}

impl PointChannel {
    /// The field of a cloud to read; `None` when the cloud has none, or the
    /// channel is not a field. Of two possible names the first wins:
    /// `intensity` before `i`, `ring` before `channel`.
    pub fn find_in<'f, 'a>(&self, fields: &'f PointFields<'a>) -> Option<&'f PointField<'a>> {
        match self {
            Self::Intensity => fields.find(&["intensity", "i"]),
            Self::Ring => fields.find(&["ring", "channel"]),
            Self::TimeLag => None,
            Self::Named(name) => fields.find(&[name]),
        }
    }
}

impl fmt::Display for PointChannel {
    /// The names of the field, for error messages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Intensity => "intensity or i",
            Self::Ring => "ring or channel",
            Self::TimeLag => "time lag (not a field)",
            Self::Named(name) => name,
        })
    }
}
