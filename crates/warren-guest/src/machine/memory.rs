use std::fmt::Write;

/// A sandbox's memory in bytes, as its control group counts it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Memory {
    used: u64,
    anonymous: u64,
    /// Page cache, shared memory included.
    cached: u64,
    shared: u64,
    mapped: u64,
    dirty: u64,
    writeback: u64,
    active_anonymous: u64,
    inactive_anonymous: u64,
    active_file: u64,
    inactive_file: u64,
    unevictable: u64,
    reclaimable_slab: u64,
    other_slab: u64,
    stacks: u64,
    page_tables: u64,
}

impl Memory {
    /// Reads both files of the control group. Versions 1 and 2 name the same things differently.
    pub(super) fn parse(used: &str, stat: &str) -> Self {
        let mut memory = Self { used: used.trim().parse().unwrap_or(0), ..Self::default() };
        for line in stat.lines() {
            let Some((name, value)) = line.split_once(' ') else { continue };
            let field = match name {
                "anon" | "rss" => &mut memory.anonymous,
                "file" | "cache" => &mut memory.cached,
                "shmem" => &mut memory.shared,
                "file_mapped" | "mapped_file" => &mut memory.mapped,
                "file_dirty" | "dirty" => &mut memory.dirty,
                "file_writeback" | "writeback" => &mut memory.writeback,
                "active_anon" => &mut memory.active_anonymous,
                "inactive_anon" => &mut memory.inactive_anonymous,
                "active_file" => &mut memory.active_file,
                "inactive_file" => &mut memory.inactive_file,
                "unevictable" => &mut memory.unevictable,
                "slab_reclaimable" => &mut memory.reclaimable_slab,
                "slab_unreclaimable" => &mut memory.other_slab,
                "kernel_stack" => &mut memory.stacks,
                "pagetables" => &mut memory.page_tables,
                _ => continue,
            };
            *field = value.trim().parse().unwrap_or(0);
        }
        memory
    }

    /// The memory that a program could still get: free memory, and memory that the kernel gives up
    /// when asked.
    fn available(&self, total: u64) -> u64 {
        let given_up =
            self.active_file.saturating_add(self.inactive_file).saturating_add(self.reclaimable_slab);
        total.saturating_sub(self.used.saturating_sub(given_up))
    }

    /// `/proc/meminfo` in the kernel's order and columns. There is no swap: the limit covers memory
    /// and swap together.
    pub(super) fn text(&self, total: u64) -> String {
        let slab = self.reclaimable_slab.saturating_add(self.other_slab);
        let lines = [
            ("MemTotal:", total),
            ("MemFree:", total.saturating_sub(self.used)),
            ("MemAvailable:", self.available(total)),
            ("Buffers:", 0),
            ("Cached:", self.cached),
            ("SwapCached:", 0),
            ("Active:", self.active_anonymous.saturating_add(self.active_file)),
            ("Inactive:", self.inactive_anonymous.saturating_add(self.inactive_file)),
            ("Active(anon):", self.active_anonymous),
            ("Inactive(anon):", self.inactive_anonymous),
            ("Active(file):", self.active_file),
            ("Inactive(file):", self.inactive_file),
            ("Unevictable:", self.unevictable),
            ("Mlocked:", 0),
            ("SwapTotal:", 0),
            ("SwapFree:", 0),
            ("Dirty:", self.dirty),
            ("Writeback:", self.writeback),
            ("AnonPages:", self.anonymous),
            ("Mapped:", self.mapped),
            ("Shmem:", self.shared),
            ("KReclaimable:", self.reclaimable_slab),
            ("Slab:", slab),
            ("SReclaimable:", self.reclaimable_slab),
            ("SUnreclaim:", self.other_slab),
            ("KernelStack:", self.stacks),
            ("PageTables:", self.page_tables),
            ("CommitLimit:", total),
            ("Committed_AS:", self.anonymous.saturating_add(self.shared)),
            ("VmallocTotal:", 0),
            ("VmallocUsed:", 0),
            ("VmallocChunk:", 0),
        ];
        let mut text = String::with_capacity(1280);
        for (name, bytes) in lines {
            writeln!(text, "{name:<16}{:>8} kB", bytes / 1024).ok();
        }
        text.push_str("HugePages_Total:       0\nHugePages_Free:        0\nHugePages_Rsvd:        0\n");
        text.push_str("HugePages_Surp:        0\nHugepagesize:       2048 kB\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn both_versions_of_control_groups_are_understood() {
        let v1 = "cache 4096\nrss 8192\nrss_huge 1\nshmem 1024\nmapped_file 512\ndirty 256\nwriteback 128\n\
                  inactive_anon 1\nactive_anon 2\ninactive_file 3\nactive_file 4\nunevictable 5\n\
                  hierarchical_memory_limit 999\ntotal_cache 777\n";
        let v2 = "anon 8192\nfile 4096\nkernel 9\nkernel_stack 0\npagetables 0\nshmem 1024\nfile_mapped 512\n\
                  file_dirty 256\nfile_writeback 128\ninactive_anon 1\nactive_anon 2\ninactive_file 3\n\
                  active_file 4\nunevictable 5\n";
        let memory = Memory::parse("20480\n", v1);
        assert_eq!(memory, Memory::parse("20480\n", v2));
        assert_eq!((memory.used, memory.anonymous, memory.cached), (20_480, 8192, 4096));
    }

    #[test]
    fn what_cannot_be_read_is_zero() {
        for (used, stat) in [("", ""), ("x", "anon\nfile x\n\n file 3\n"), ("-1", "anon -1\n")] {
            assert_eq!(Memory::parse(used, stat), Memory::default(), "{used:?} {stat:?}");
        }
    }

    #[test]
    fn file_cache_counts_as_available_and_not_as_free() {
        let stat = "anon 10485760\nfile 52428800\nactive_file 20971520\ninactive_file 31457280\n";
        let memory = Memory::parse(&(64 * MIB).to_string(), stat);
        assert_eq!(memory.available(256 * MIB), 242 * MIB);
        let text = memory.text(256 * MIB);
        assert!(text.starts_with(
            "MemTotal:         262144 kB\n\
             MemFree:          196608 kB\n\
             MemAvailable:     247808 kB\n\
             Buffers:               0 kB\n\
             Cached:            51200 kB\n\
             SwapCached:            0 kB\n\
             Active:            20480 kB\n\
             Inactive:          30720 kB\n\
             Active(anon):          0 kB\n"
        ));
        assert!(text.ends_with("HugePages_Surp:        0\nHugepagesize:       2048 kB\n"));
    }

    #[test]
    fn more_used_than_there_is_leaves_nothing() {
        let memory = Memory::parse("300", "");
        assert_eq!(memory.available(256), 0);
        assert!(memory.text(256 * 1024).contains("MemFree:             255 kB\n"));
        assert!(Memory::parse("9999999", "").text(1024).contains("MemFree:               0 kB\n"));
    }

    #[test]
    fn columns_are_the_kernels() {
        for line in Memory::default().text(4096 * MIB).lines() {
            assert_eq!(line.len(), if line.starts_with("HugePages_") { 24 } else { 27 }, "{line}");
        }
    }
}
