//! Objects of the library by number.
//!
//! A number is never used twice, so that every number of a closed object is refused. A call
//! holds its object; closing it meanwhile takes its number away, and the object ends with the
//! call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use super::status::{self, Failure};

/// The objects of a kind.
pub(super) struct Handles<T> {
    /// In messages.
    kind: &'static str,
    /// The highest byte of its numbers, above 0.
    tag: u8,
    table: Mutex<Table<T>>,
}

struct Table<T> {
    slots: Vec<Slot<T>>,
}

struct Slot<T> {
    /// How often the slot has been used.
    generation: u32,
    object: Option<Arc<Mutex<T>>>,
}

/// Uses of a slot, after which it is not used again.
const MAX_GENERATION: u32 = (1 << 24) - 1;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T> Handles<T> {
    pub(super) const fn new(kind: &'static str, tag: u8) -> Self {
        Self { kind, tag, table: Mutex::new(Table { slots: Vec::new() }) }
    }

    /// Adds an object and returns its number: tag, generation and slot, in 8, 24 and 32 bits.
    pub(super) fn open(&self, object: T) -> u64 {
        let slots = &mut lock(&self.table).slots;
        let is_free = |slot: &Slot<T>| slot.object.is_none() && slot.generation < MAX_GENERATION;
        let index = slots.iter().position(is_free).unwrap_or_else(|| {
            slots.push(Slot { generation: 0, object: None });
            slots.len() - 1
        });
        let slot = &mut slots[index];
        slot.generation += 1;
        slot.object = Some(Arc::new(Mutex::new(object)));
        let id = u64::from(self.tag) << 56 | u64::from(slot.generation) << 32 | index as u64;
        status::opened(id);
        id
    }

    /// Runs work on an object.
    ///
    /// # Errors
    /// For the number of no open object, for an object that is in use and for one that an
    /// earlier panic has ended; those of `work`.
    pub(super) fn with<R>(
        &self,
        id: u64,
        work: impl FnOnce(&mut T) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let found = self.slot(&mut lock(&self.table), id).and_then(|slot| slot.object.clone());
        let object = found.ok_or_else(|| Failure::handle(self.kind, id))?;
        let mut object = match object.try_lock() {
            Ok(object) => object,
            Err(TryLockError::WouldBlock) => return Err(Failure::busy(self.kind)),
            Err(TryLockError::Poisoned(_)) => return Err(Failure::unusable(self.kind)),
        };
        work(&mut object)
    }

    /// A copy of an object that several threads may use, such as an `Arc`.
    ///
    /// # Errors
    /// For the number of no open object.
    pub(super) fn shared(&self, id: u64) -> Result<T, Failure>
    where
        T: Clone,
    {
        let found = self.slot(&mut lock(&self.table), id).and_then(|slot| slot.object.clone());
        let object = found.ok_or_else(|| Failure::handle(self.kind, id))?;
        Ok(lock(&object).clone())
    }

    /// Takes the number of an object away; the object ends with the call that uses it.
    ///
    /// # Errors
    /// For the number of no open object.
    pub(super) fn close(&self, id: u64) -> Result<(), Failure> {
        let closed = self.slot(&mut lock(&self.table), id).and_then(|slot| slot.object.take());
        let object = closed.ok_or_else(|| Failure::handle(self.kind, id))?;
        status::closed(id);
        // Ends the object, which may take long, while the table is free.
        drop(object);
        Ok(())
    }

    /// Takes the number of an object away, and returns the copy of the table: see
    /// [`Self::shared`].
    ///
    /// # Errors
    /// For the number of no open object.
    pub(super) fn take(&self, id: u64) -> Result<T, Failure>
    where
        T: Clone,
    {
        let object = self.shared(id)?;
        self.close(id)?;
        Ok(object)
    }

    fn slot<'t>(&self, table: &'t mut Table<T>, id: u64) -> Option<&'t mut Slot<T>> {
        let [tag, generation] = [id >> 56, id >> 32 & u64::from(MAX_GENERATION)];
        let slot = table.slots.get_mut(usize::try_from(id & u64::from(u32::MAX)).ok()?)?;
        (tag == u64::from(self.tag) && generation == u64::from(slot.generation)).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::super::status;
    use super::*;

    #[test]
    fn numbers_of_closed_objects_are_refused() {
        let handles = Handles::new("thing", 7);
        let first = handles.open(1);
        handles.close(first).unwrap();
        let second = handles.open(2);
        assert_ne!(first, second);
        for id in [0, first, second ^ 1 << 56, second + 1, u64::MAX] {
            assert_eq!(handles.with(id, |_| Ok(())).unwrap_err().status, status::HANDLE, "{id:#x}");
            assert_eq!(handles.close(id).unwrap_err().status, status::HANDLE, "{id:#x}");
        }
        assert_eq!(handles.with(second, |value| Ok(*value)).unwrap(), 2);
    }

    #[test]
    fn an_object_in_use_is_busy_and_may_be_closed() {
        let handles = Handles::new("thing", 7);
        let id = handles.open(5);
        handles
            .with(id, |value| {
                assert_eq!(handles.with(id, |_| Ok(())).unwrap_err().status, status::BUSY);
                handles.close(id)?;
                assert_eq!(*value, 5);
                Ok(())
            })
            .unwrap();
        assert_eq!(handles.with(id, |_| Ok(())).unwrap_err().status, status::HANDLE);
    }

    #[test]
    fn a_panic_ends_its_object() {
        let handles = Handles::new("thing", 7);
        let id = handles.open(5);
        let work = || handles.with(id, |_| -> Result<(), Failure> { panic!("planned") });
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).is_err());
        assert_eq!(handles.with(id, |_| Ok(())).unwrap_err().status, status::PANIC);
        handles.close(id).unwrap();
    }
}
