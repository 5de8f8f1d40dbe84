//! What this process holds.

/// Bytes of memory that are resident.
pub fn resident() -> usize {
    status("VmRSS:")
}

/// The most that was resident while `act` ran, beyond what was before, in bytes.
#[allow(dead_code, reason = "each suite uses its part")]
pub fn growth(act: impl FnOnce()) -> usize {
    // Starts to note the most anew.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = resident();
    act();
    status("VmHWM:").saturating_sub(before)
}

fn status(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(key)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}
