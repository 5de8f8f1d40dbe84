//! The solids in the range of a sensor at one time, in its frame.

use nalgebra::{Matrix3, Vector2, Vector3};

use super::route::Route;
use super::solid::{Solid, Target};
use super::traffic::{State, Traffic};

/// The pose of a sensor in the map.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    /// Its position.
    pub(super) origin: Vector3<f64>,
    /// Rotation from the map's axes to its own.
    pub(super) sensor_from_map: Matrix3<f64>,
}

impl View {
    /// A direction of the map in the axes of the sensor.
    pub(super) fn direction(&self, in_map: Vector3<f64>) -> Vector3<f32> {
        (self.sensor_from_map * in_map).map(|value| value as f32)
    }
}

/// The solids of one actor in a scene.
#[derive(Clone, Copy, Debug)]
pub(super) struct SceneActor {
    /// Its index in the traffic.
    pub(super) actor: usize,
    /// Its state.
    pub(super) state: State,
    /// The first of its solids.
    pub(super) first: usize,
    /// One past the last of its solids.
    pub(super) end: usize,
}

/// All solids in the range of a sensor: first the static ones, then actor by
/// actor. Its memory is reused from frame to frame.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    /// The solids in the map.
    pub(super) solids: Vec<Solid>,
    /// The same solids in the frame of the sensor.
    pub(super) targets: Vec<Target>,
    /// Number of static solids.
    pub(super) num_fixed: usize,
    /// The actors, in the order of their numbers.
    pub(super) actors: Vec<SceneActor>,
    /// The index in `actors` of the actor of each solid after the static ones.
    owners: Vec<u32>,
}

impl Scene {
    /// Gathers the solids within `max_range_m` of a view at a time.
    pub(super) fn gather(
        &mut self,
        (town, traffic, route): (&[Solid], &Traffic, &Route),
        view: &View,
        time_s: f64,
        max_range_m: f64,
    ) {
        self.solids.clear();
        self.actors.clear();
        self.owners.clear();
        let is_near = |at: &Vector3<f64>, size: f64| {
            let away: Vector2<f64> = (at - view.origin).xy();
            away.norm_squared() < (max_range_m + size) * (max_range_m + size)
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
            self.owners.resize(self.solids.len() - self.num_fixed, self.actors.len() as u32);
            self.actors.push(SceneActor { actor: index, state, first, end: self.solids.len() });
        }
        self.targets.clear();
        let target = |solid| Target::new(solid, &view.origin, &view.sensor_from_map);
        self.targets.extend(self.solids.iter().map(target));
    }

    /// The index in `actors` of the actor that a solid belongs to.
    pub(super) fn owner(&self, solid: usize) -> Option<usize> {
        let owner = self.owners.get(solid.checked_sub(self.num_fixed)?)?;
        Some(*owner as usize)
    }
}
