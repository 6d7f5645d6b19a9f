# System calls and devices.


@attempt("create namespaces")
def _():
    flags = [0x10000000, 0x20000, 0x40000000, 0x20000000]
    def clone(flag):
        if call("clone", flag | 17, 0, 0, 0, 0) == 0:
            os._exit(0)
    try:
        return each(flags, lambda flag: call("unshare", flag))
    except Denied:
        return each(flags, clone)


@attempt("create a namespace with clone3")
def _():
    arguments = struct.pack("11Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
    if call("clone3", arguments, len(arguments)) == 0:
        os._exit(0)


@attempt("mount")
def _():
    return call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, 0)


@attempt("mount with the new calls")
def _():
    return each([("fsopen", b"tmpfs", 0), ("open_tree", -100, b"/", 1)], lambda words: call(*words))


@attempt("change the root directory")
def _():
    return call("chroot", b".")


@attempt("use keys of the kernel")
def _():
    return call("add_key", b"user", b"canary", b"x", 1, -3)


@attempt("use rarely needed parts of the kernel")
def _():
    calls = [
        ("bpf", 0, 0, 0), ("perf_event_open", bytes(128), 0, -1, -1, 0), ("userfaultfd", 0), ("io_uring_setup", 1, bytes(120)),
        ("init_module", 0, 0, b""), ("kexec_load", 0, 0, 0, 0),
    ]
    def allowed(words):
        try:
            call(*words)
        except Denied as denied:
            if str(denied) in ("EPERM", "ENOSYS", "EACCES"):
                raise
    return each(calls, allowed)


@attempt("type into the terminal")
def _():
    import fcntl
    leader, follower = os.openpty()
    fcntl.ioctl(follower, 0x5412, b"x")


@attempt("change settings of the kernel")
def _():
    paths = [
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sysrq-trigger",
        "/sys/fs/cgroup/cgroup.procs", "/sys/kernel/mm/transparent_hugepage/enabled", "/proc/1/oom_score_adj",
    ]
    return each(paths, lambda path: os.close(os.open(path, os.O_WRONLY)))


@attempt("open disks and memory")
def _():
    paths = ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm"]
    return each(paths, lambda path: os.close(os.open(path, os.O_RDONLY)))


@attempt("create device files")
def _():
    # Only one that can be opened is an escape.
    os.mknod("device", stat.S_IFBLK | 0o600, os.makedev(254, 0))
    os.close(os.open("device", os.O_RDONLY))
