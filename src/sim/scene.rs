//! What a sensor has around it at one time, brought into its frame.

use nalgebra::{Matrix3, Vector2, Vector3};

use super::route::Route;
use super::solid::{Solid, Target};
use super::traffic::{State, Traffic};

/// A sensor's place in the map: it looks from `origin` along its own axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Where it is.
    pub(super) origin: Vector3<f64>,
    /// From the map's axes to its own.
    pub(super) sensor_from_map: Matrix3<f64>,
}

impl View {
    /// A direction of the map in the sensor's axes.
    pub(super) fn direction(&self, in_map: Vector3<f64>) -> Vector3<f32> {
        (self.sensor_from_map * in_map).map(|value| value as f32)
    }
}

/// The solids of one actor in a scene.
#[derive(Clone, Copy, Debug)]
pub(super) struct Present {
    /// Which actor.
    pub(super) actor: usize,
    /// Where it is.
    pub(super) state: State,
    /// Its solids: from here …
    pub(super) first: usize,
    /// … to before here.
    pub(super) end: usize,
}

/// All solids within reach of a sensor: first what never moves, then actor by
/// actor. Its memory is kept from frame to frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    /// The solids in the map.
    pub(super) solids: Vec<Solid>,
    /// The same as the sensor sees them.
    pub(super) targets: Vec<Target>,
    /// How many never move.
    pub(super) num_fixed: usize,
    /// The actors, in the order of their numbers.
    pub(super) present: Vec<Present>,
    /// Of every solid of an actor, the actor's position in `present`.
    owners: Vec<u32>,
}

impl Scene {
    /// Gathers what lies within `reach_m` of a view at a time.
    pub(super) fn gather(
        &mut self,
        (town, traffic, route): (&[Solid], &Traffic, &Route),
        view: &View,
        time_s: f64,
        reach_m: f64,
    ) {
        self.solids.clear();
        self.present.clear();
        self.owners.clear();
        let is_near = |at: &Vector3<f64>, size: f64| {
            let away: Vector2<f64> = (at - view.origin).xy();
            away.norm_squared() < (reach_m + size) * (reach_m + size)
        };
        self.solids.extend(town.iter().filter(|solid| is_near(&solid.center, solid.half.max())));
        self.num_fixed = self.solids.len();
        for (index, actor) in traffic.actors.iter().enumerate() {
            let state = traffic.actor(route, actor, time_s);
            if !is_near(&state.position, 6.0) {
                continue;
            }
            let first = self.solids.len();
            actor.body.build(actor.stride(time_s), &mut self.solids);
            let heading = [state.heading.x, state.heading.y];
            for solid in &mut self.solids[first..] {
                *solid = solid.placed(&state.position, heading);
            }
            self.owners.resize(self.solids.len() - self.num_fixed, self.present.len() as u32);
            self.present.push(Present { actor: index, state, first, end: self.solids.len() });
        }
        self.targets.clear();
        let target = |solid| Target::new(solid, &view.origin, &view.sensor_from_map);
        self.targets.extend(self.solids.iter().map(target));
    }

    /// The actor that a solid belongs to, as a position in `present`.
    pub(super) fn owner(&self, solid: usize) -> Option<usize> {
        let owner = self.owners.get(solid.checked_sub(self.num_fixed)?)?;
        Some(*owner as usize)
    }
}
