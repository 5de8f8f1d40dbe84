//! The collections in which everything that peers can make the participant keep is
//! kept: each has a limit, and counts what it refused or evicted.

use std::collections::{BTreeMap, VecDeque};

/// A map of at most `limit` entries.
#[derive(Debug)]
pub(crate) struct Bounded<K, V> {
    entries: BTreeMap<K, V>,
    limit: usize,
    /// Entries that were refused or evicted.
    pub over: u64,
}

impl<K: Ord + Copy, V> Bounded<K, V> {
    /// An empty map.
    pub fn new(limit: usize) -> Self {
        Self { entries: BTreeMap::new(), limit, over: 0 }
    }

    /// Whether a new key would be refused.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.limit
    }

    /// Adds or replaces an entry. A new one is refused, and counted, when the map is full;
    /// returns whether it is in.
    pub fn insert(&mut self, key: K, value: V) -> bool {
        if self.is_full() && !self.entries.contains_key(&key) {
            self.over += 1;
            return false;
        }
        self.entries.insert(key, value);
        true
    }

    /// Adds an entry; when the map is full, the one with the least `rank` goes first, and is
    /// counted. Returns what was evicted.
    pub fn insert_evicting<R: Ord>(
        &mut self,
        key: K,
        value: V,
        rank: impl Fn(&K, &V) -> R,
    ) -> Option<(K, V)> {
        let mut evicted = None;
        if self.is_full() && !self.entries.contains_key(&key) {
            let least = self.entries.iter().min_by_key(|(k, v)| rank(k, v)).map(|(k, _)| *k);
            evicted = least.and_then(|key| self.entries.remove_entry(&key));
            self.over += 1;
        }
        if self.limit > 0 {
            self.entries.insert(key, value);
        }
        evicted
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.entries.remove(key)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.entries.iter_mut()
    }

    pub fn keys(&self) -> impl Iterator<Item = K> {
        self.entries.keys().copied()
    }

    pub fn retain(&mut self, keep: impl FnMut(&K, &mut V) -> bool) {
        self.entries.retain(keep);
    }

    pub fn first(&self) -> Option<(&K, &V)> {
        self.entries.first_key_value()
    }

    pub fn pop_first(&mut self) -> Option<(K, V)> {
        self.entries.pop_first()
    }
}

/// A queue of at most `limit` items.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    items: VecDeque<T>,
    limit: usize,
    /// Items that were dropped.
    pub over: u64,
}

impl<T> Queue<T> {
    /// An empty queue.
    pub fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), limit, over: 0 }
    }

    pub fn is_full(&self) -> bool {
        self.items.len() >= self.limit
    }

    /// Appends an item, which replaces the oldest when the queue is full; returns that.
    pub fn push(&mut self, item: T) -> Option<T> {
        let replaced = if self.is_full() { self.items.pop_front() } else { None };
        self.over += u64::from(replaced.is_some() || self.limit == 0);
        if self.limit > 0 {
            self.items.push_back(item);
        }
        replaced
    }

    /// Appends an item, unless the queue is full; returns whether it is in.
    pub fn offer(&mut self, item: T) -> bool {
        if self.is_full() {
            self.over += 1;
            return false;
        }
        self.items.push_back(item);
        true
    }

    pub fn pop(&mut self) -> Option<T> {
        self.items.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_map_refuses_or_evicts_and_counts() {
        let mut map = Bounded::new(2);
        assert!(map.insert(1, 'a') && map.insert(2, 'b') && map.insert(2, 'c'));
        assert!(!map.insert(3, 'd'));
        assert_eq!((map.len(), map.over, map.get(&3)), (2, 1, None));
        let evicted = map.insert_evicting(4, 'e', |key, _| *key);
        assert_eq!((evicted, map.len(), map.over), (Some((1, 'a')), 2, 2));
        assert_eq!(map.insert_evicting(4, 'f', |key, _| *key), None);
        assert_eq!((map.get(&4), map.over), (Some(&'f'), 2));
        let mut none = Bounded::new(0);
        assert!(!none.insert(1, 'a'));
        assert_eq!((none.insert_evicting(1, 'a', |key, _| *key), none.len()), (None, 0));
    }

    #[test]
    fn a_full_queue_replaces_or_refuses_and_counts() {
        let mut queue = Queue::new(2);
        assert_eq!((queue.push(1), queue.push(2), queue.push(3)), (None, None, Some(1)));
        assert!(!queue.offer(4));
        assert_eq!(
            (queue.over, queue.pop(), queue.pop(), queue.pop()),
            (2, Some(2), Some(3), None)
        );
        let mut none = Queue::new(0);
        assert_eq!((none.push(1), none.over, none.pop()), (None, 1, None));
    }
}
