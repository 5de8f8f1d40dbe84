//! What does not fit the facts of a decoder is refused by name.
