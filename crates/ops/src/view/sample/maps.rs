//! Feature maps of several views, channels last.

use half::f16;

use det_post_types::{Error, ErrorKind, Result};

/// The most levels of maps on the CPU.
pub const MAX_LEVELS: usize = 8;

/// The feature maps of all views: levels `[views, height, width, channels]`.
#[derive(Clone, Debug)]
pub struct FeatureMaps {
    num_views: usize,
    num_channels: usize,
    levels: Vec<FeatureLevel>,
}

/// One level of feature maps.
#[derive(Clone, Debug)]
pub struct FeatureLevel {
    size: [usize; 2],
    texels: Texels,
}

/// The elements of a level, `[views, height, width, channels]`.
#[derive(Clone, Debug)]
pub enum Texels {
    /// f32.
    F32(Vec<f32>),
    /// IEEE half.
    F16(Vec<f16>),
    /// Integers in -127 to 127, symmetric: a value is `scale` times the integer.
    I8 {
        /// The integers.
        values: Vec<i8>,
        /// The value of 1; positive and finite.
        scale: f32,
    },
}

impl Texels {
    /// Elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::I8 { values, .. } => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FeatureLevel {
    /// A level of `[width, height]`.
    pub fn new(size: [usize; 2], texels: Texels) -> Self {
        Self { size, texels }
    }

    /// Width and height.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// The elements.
    pub fn texels(&self) -> &Texels {
        &self.texels
    }

    /// The elements, to be written.
    pub fn texels_mut(&mut self) -> &mut Texels {
        &mut self.texels
    }
}

impl FeatureMaps {
    /// Maps of `num_views` views and `num_channels` channels.
    ///
    /// # Errors
    /// `Argument` when there are no views, channels or levels or more than [`MAX_LEVELS`], a level has no
    /// texels or not as many as its size says, or a scale is not positive and
    /// finite.
    pub fn new(num_views: usize, num_channels: usize, levels: Vec<FeatureLevel>) -> Result<Self> {
        let error = |message| Err(Error::new(ErrorKind::Argument, "view_sample", message));
        let num_levels = levels.len();
        if num_views == 0 || num_channels == 0 || !(1..=MAX_LEVELS).contains(&num_levels) {
            return error(format!(
                "maps must have views, channels and up to {MAX_LEVELS} levels, found {num_views}, \
                 {num_channels} and {num_levels}"
            ));
        }
        for (index, FeatureLevel { size: [width, height], texels }) in levels.iter().enumerate() {
            let sizes = [num_views, num_channels, *width, *height];
            let expected = sizes.iter().try_fold(1_usize, |len, size| len.checked_mul(*size));
            if texels.is_empty() || expected != Some(texels.len()) {
                return error(format!(
                    "level {index} of {width}x{height} has {} texel values, which do not match \
                     {num_views} views and {num_channels} channels",
                    texels.len()
                ));
            }
            if let Texels::I8 { scale, .. } = texels
                && !(*scale > 0.0 && scale.is_finite())
            {
                return error(format!("level {index} has a scale of {scale}"));
            }
        }
        Ok(Self { num_views, num_channels, levels })
    }

    /// Views.
    pub fn num_views(&self) -> usize {
        self.num_views
    }

    /// Channels.
    pub fn num_channels(&self) -> usize {
        self.num_channels
    }

    /// The levels.
    pub fn levels(&self) -> &[FeatureLevel] {
        &self.levels
    }

    /// A level, to be written.
    pub fn level_mut(&mut self, index: usize) -> Option<&mut FeatureLevel> {
        self.levels.get_mut(index)
    }
}
