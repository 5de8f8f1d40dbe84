//! Classes of actors.

use det_post_types::named;

named! {
    /// The class of an actor.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Class {
        /// A car.
        Car => "car",
        /// A lorry or a van.
        Truck => "truck",
        /// A bus.
        Bus => "bus",
        /// A bicycle with its rider.
        Bicycle => "bicycle",
        /// A person on foot.
        Pedestrian => "pedestrian",
    }
    /// The class's name in the truth.
    pub fn name;
}
