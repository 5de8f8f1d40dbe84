//! The parameters of a node that ours replaces.

/// A parameter of their node.
pub(super) struct Key {
    /// Its names, the newest first.
    pub(super) names: &'static [&'static str],
    /// What it becomes: our key, or a word.
    pub(super) becomes: &'static str,
    pub(super) effect: Effect,
    /// Whether it may change while the node runs.
    pub(super) is_live: bool,
    /// What differs, for the table of the manual.
    pub(super) note: &'static str,
}

/// What a parameter does here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is read.
    Used,
    /// Only TensorRT uses it.
    Engine,
    /// It does nothing.
    Nothing,
}

impl Key {
    /// A parameter that is read at the start.
    pub(super) const fn fixed(names: &'static [&'static str], becomes: &'static str) -> Self {
        Self { names, becomes, effect: Effect::Used, is_live: false, note: "" }
    }

    /// A parameter that may change while the node runs.
    pub(super) const fn live(names: &'static [&'static str], becomes: &'static str) -> Self {
        Self { is_live: true, ..Self::fixed(names, becomes) }
    }

    /// A parameter of TensorRT.
    pub(super) const fn engine(names: &'static [&'static str]) -> Self {
        Self { effect: Effect::Engine, ..Self::fixed(names, "") }
    }

    /// A parameter without effect here.
    pub(super) const fn nothing(names: &'static [&'static str]) -> Self {
        Self { effect: Effect::Nothing, ..Self::fixed(names, "") }
    }

    /// With a note.
    pub(super) const fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    /// Whether it has this name; `<CLASS>` at the end of one of its names is any.
    pub(super) fn has_name(&self, name: &str) -> bool {
        self.names.iter().any(|own| match own.strip_suffix("<CLASS>") {
            Some(parent) => name.starts_with(parent),
            None => *own == name,
        })
    }
}
