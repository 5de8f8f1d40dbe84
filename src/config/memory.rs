//! Checks that the capacities of a channel fit into memory.

use super::reader::Reader;
use det_post_types::{Error, ErrorKind, Result};

/// What a process needs of a limited address space beside buffers: an arena of the allocator of
/// another thread.
const RESERVE: u64 = 64 << 20;

/// Refuses capacities whose buffers are larger than the memory that the process
/// may use. Where that is not known, nothing is refused.
pub(super) fn check(p: &mut Reader<'_>, buffers: &[Buffers]) {
    let Some(available) = available_bytes() else { return };
    if let Some((key, found, allowed)) = refusal(buffers, available) {
        p.refuse(key, found, &allowed);
    }
}

/// The same once networks are loaded, before the buffers are allocated: what is left of a limit of
/// the address space.
///
/// # Errors
/// `Config` with the parameter of the largest.
pub(super) fn check_left(buffers: &[Buffers]) -> Result<()> {
    let Some(left) = address_space_left() else { return Ok(()) };
    match refusal(buffers, left.saturating_sub(RESERVE)) {
        Some((key, found, allowed)) => {
            let message = format!("{key}: found {found}; allowed: {allowed} (`ulimit -v`)");
            Err(Error::new(ErrorKind::Config, "config", message))
        }
        None => Ok(()),
    }
}

/// A parameter, what it holds in words, and the bytes of the buffers whose size
/// follows from it.
pub(super) type Buffers = (&'static str, String, u64);

/// Size in bytes of a number of rows.
pub(super) fn bytes(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product: u64, &factor| product.saturating_mul(factor as u64))
}

/// The largest of the buffers, what was found and what is allowed, when all of
/// them together do not fit.
fn refusal(buffers: &[Buffers], available: u64) -> Option<(&'static str, String, String)> {
    let total = buffers.iter().fold(0_u64, |total, (.., bytes)| total.saturating_add(*bytes));
    let (key, found, bytes) = buffers.iter().max_by_key(|(.., bytes)| *bytes)?;
    let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
    (total > available).then(|| {
        (
            *key,
            format!("{found}, which takes {}", mebibytes(*bytes)),
            format!("what fits into {} of memory", mebibytes(available)),
        )
    })
}

/// The memory of the machine, or of the control group or the limit of the address space
/// (`ulimit -v`) where that is less.
pub(crate) fn available_bytes() -> Option<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok();
    let machine = meminfo.as_deref().and_then(total_of_meminfo);
    let limit = std::fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
    let group = limit.and_then(|text| text.trim().parse().ok());
    machine.into_iter().chain(group).chain(address_space_left()).min()
}

/// What is left of a limit of the address space; `None` where there is none.
fn address_space_left() -> Option<u64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let used = kibibytes_of(&status, "VmSize:").unwrap_or(0);
    Some(address_space_of(&limits)?.saturating_sub(used))
}

/// The limit of the address space in bytes, of `/proc/self/limits`.
fn address_space_of(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max address space"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// `MemTotal` in bytes.
fn total_of_meminfo(text: &str) -> Option<u64> {
    kibibytes_of(text, "MemTotal:")
}

/// The value of a line `NAME: N kB` in bytes.
fn kibibytes_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_do_not_fit_are_refused_by_the_largest() {
        let buffers = [("a", "1".to_owned(), 3 << 20), ("b", "2".to_owned(), 5 << 20)];
        assert_eq!(refusal(&buffers, 8 << 20), None);
        let (key, found, allowed) = refusal(&buffers, (8 << 20) - 1).unwrap();
        assert_eq!((key, &*found), ("b", "2, which takes 5 MiB"));
        assert_eq!(allowed, "what fits into 7 MiB of memory");
        assert!(
            refusal(&[("a", String::new(), u64::MAX), buffers[0].clone()], u64::MAX - 1).is_some()
        );
        assert_eq!(total_of_meminfo("MemFree: 1 kB\nMemTotal:  2048 kB\n"), Some(2 << 20));
        assert_eq!(total_of_meminfo(""), None);
        let limits = |soft: &str| {
            format!("Max cpu time  1 2 s\nMax address space    {soft}   unlimited   bytes\n")
        };
        assert_eq!(address_space_of(&limits("1048576")), Some(1 << 20));
        assert_eq!(address_space_of(&limits("unlimited")), None);
        assert_eq!(address_space_of(""), None);
        assert!(check_left(&buffers).is_ok());
    }
}
