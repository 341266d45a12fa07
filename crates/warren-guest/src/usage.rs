use warren_wire::guest::GuestUsage;

/// The kernel's figures of the sandbox; the agent's own are left at zero.
pub(crate) fn measure() -> GuestUsage {
    let disk = rustix::fs::statvfs("/").ok();
    let blocks = |count: fn(&rustix::fs::StatVfs) -> u64| {
        disk.as_ref().map_or(0, |disk| count(disk).saturating_mul(disk.f_frsize))
    };
    GuestUsage {
        processes: count_processes(),
        disk_used_bytes: blocks(|disk| disk.f_blocks.saturating_sub(disk.f_bfree)),
        disk_total_bytes: blocks(|disk| disk.f_blocks),
        agent_resident_bytes: resident_bytes().unwrap_or(0),
        ..GuestUsage::default()
    }
}

fn count_processes() -> u32 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let numeric = entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit));
    u32::try_from(numeric.count()).unwrap_or(u32::MAX)
}

fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(pages.saturating_mul(rustix::param::page_size() as u64))
}
