//! DDS domains for tests.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// A DDS domain that no other test of this machine uses, also of another process.
pub struct Domain {
    pub id: u16,
    /// The TCP port of the number of its first UDP port: whoever holds it has the domain.
    _held: TcpListener,
}

impl Domain {
    /// Waits for none: takes the next that is free.
    pub fn reserve() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        let base = u16::try_from(std::process::id() % 89).unwrap();
        let free = (0..89).find_map(|_| {
            let id = 10 + (base + 7 * NEXT.fetch_add(1, Ordering::Relaxed)) % 89;
            let held = TcpListener::bind(("127.0.0.1", 7400 + 250 * id)).ok()?;
            Some(Self { id, _held: held })
        });
        free.unwrap()
    }
}
