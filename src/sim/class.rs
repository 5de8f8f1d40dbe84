//! Classes of actors.

/// The class of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// A car.
    Car,
    /// A lorry or a van.
    Truck,
    /// A bus.
    Bus,
    /// A bicycle with its rider.
    Bicycle,
    /// A person on foot.
    Pedestrian,
}

impl Class {
    /// All classes, in the order of their indices.
    pub const ALL: [Self; 5] = [Self::Car, Self::Truck, Self::Bus, Self::Bicycle, Self::Pedestrian];

    /// The class's name in the truth.
    pub fn name(self) -> &'static str {
        match self {
            Self::Car => "car",
            Self::Truck => "truck",
            Self::Bus => "bus",
            Self::Bicycle => "bicycle",
            Self::Pedestrian => "pedestrian",
        }
    }
}
