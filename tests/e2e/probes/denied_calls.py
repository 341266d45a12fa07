# Arguments are harmless even if a call went through: null pointers, descriptor -1, zero lengths.
DENIED = {
    "io_uring_setup": (425, 1, 0), "io_uring_enter": (426, -1), "io_uring_register": (427, -1),
    "userfaultfd": (323, 1), "keyctl": (250, 0, 0, 0), "add_key": (248, 0, 0, 0, 0, 0),
    "request_key": (249, 0, 0, 0, 0), "bpf": (321, 0, 0, 0), "perf_event_open": (298, 0, 0, -1, -1, 0),
    "mount": (165, 0, 0, 0, 0, 0), "umount2": (166, 0, 0), "pivot_root": (155, 0, 0), "open_tree": (428, -1, 0, 0),
    "move_mount": (429, -1, 0, -1, 0, 0), "fsopen": (430, 0, 0), "fsconfig": (431, -1, 0, 0, 0, 0),
    "fsmount": (432, -1, 0, 0), "fspick": (433, -1, 0, 0), "mount_setattr": (442, -1, 0, 0, 0, 0),
    "open_tree_attr": (467, -1, 0, 0, 0, 0),
    "chroot": (161, 0), "unshare": (272, 0), "setns": (308, -1, 0), "pidfd_getfd": (438, -1, 0, 0),
    "kcmp": (312, 1, 1, 0, 0, 0), "process_madvise": (440, -1, 0, 0, 0, 0), "open_by_handle_at": (304, -1, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0), "kexec_file_load": (320, -1, -1, 0, 0, 0), "init_module": (175, 0, 0, 0),
    "finit_module": (313, -1, 0, 0), "delete_module": (176, 0, 0), "create_module": (174, 0, 0),
    "query_module": (178, 0, 0, 0, 0, 0), "get_kernel_syms": (177, 0), "reboot": (169, 0, 0, 0, 0),
    "swapon": (167, 0, 0), "swapoff": (168, 0), "quotactl": (179, 0, 0, 0, 0), "quotactl_fd": (443, -1, 0, 0, 0),
    "acct": (163, 0), "syslog": (103, 10, 0, 0), "iopl": (172, 0), "ioperm": (173, 0, 0, 0),
    "settimeofday": (164, 0, 0), "clock_settime": (227, 0, 0), "lookup_dcookie": (212, 0, 0, 0),
    "fanotify_init": (300, 0, 0), "fanotify_mark": (301, -1, 0, 0, -1, 0), "move_pages": (279, 0, 0, 0, 0, 0, 0),
    "migrate_pages": (256, 0, 0, 0, 0), "mbind": (237, 0, 0, 0, 0, 0, 0), "set_mempolicy": (238, 0, 0, 0),
    "set_mempolicy_home_node": (450, 0, 0, 0, 0), "nfsservctl": (180, 0, 0, 0), "uselib": (134, 0),
    "ustat": (136, 0, 0), "vhangup": (153,), "sysfs": (139, 0, 0), "_sysctl": (156, 0),
    "lsm_get_self_attr": (459, 0, 0, 0, 0), "lsm_set_self_attr": (460, 0, 0, 0, 0), "lsm_list_modules": (461, 0, 0, 0),
    "sethostname": (170, 0, 0), "setdomainname": (171, 0, 0), "personality": (135, 0x0040000),
    "mknod 0:0": (133, b"/tmp/whiteout", 0o020600, 0), "mknodat 0:0": (259, -100, b"/tmp/whiteout", 0o020600, 0),
    "mknod disk": (133, b"/tmp/disk", 0o060600, 0xfe00),
}
ABSENT = {"clone3": (435, 0, 0), "io_setup": (206, 1, 0), "statmount": (457, 0, 0, 0, 0), "listmount": (458, 0, 0, 0, 0),
          "unknown": (470,), "far": (100000,), "negative": (-1,)}
wrong = {name: answer for name, words in DENIED.items() if (answer := call(*words)) != "EPERM"}
wrong |= {name: answer for name, words in ABSENT.items() if (answer := call(*words)) != "ENOSYS"}
assert not wrong, wrong
assert not os.path.lexists("/tmp/whiteout") and not os.path.lexists("/tmp/disk")
print("ok")
