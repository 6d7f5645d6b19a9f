# Memory, disk and processes.


@attempt("write a large file")
def _():
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with open("large", "wb") as file:
        file.seek(target["file_bytes"])
        file.write(b"x")
        file.flush()


@attempt("use much memory")
def _():
    try:
        return len(bytearray(2 * target["memory_bytes"]))
    except MemoryError:
        raise Denied("MemoryError")


@attempt("use much memory as shared memory")
def _():
    import mmap
    mmap.mmap(-1, 2 * target["memory_bytes"]).close()


@attempt("use much memory in several processes")
def _():
    # Each stays within its limit. Reserved and not used, so that the test needs none.
    import mmap
    reserved = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            mmap.mmap(-1, target["memory_bytes"] // 2, flags=flags)
            os._exit(0)
        reserved.append(os.waitpid(child, 0)[1])
    if any(reserved):
        raise Denied("a process failed")
    return "%d processes" % len(reserved)


@attempt("fill the disk with several files")
def _():
    for name in ("fill-1", "fill-2", "fill-3"):
        with open(name, "wb") as file:
            file.write(bytes(target["file_bytes"] // 2))
    for name in ("fill-1", "fill-2", "fill-3"):
        os.unlink(name)


@attempt("make a file that claims a large size")
def _():
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    descriptor = os.open("sparse", os.O_CREAT | os.O_WRONLY)
    os.truncate(descriptor, 2 * target["file_bytes"])


def reap():
    """Waits for all processes of this attempt, so that they do not count for the next."""
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


@attempt("start a fork bomb")
def _():
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: those whose parent has exited are reaped here.
    # A tree, deep enough to have more processes than allowed. Each leaves its session and reports how many it started.
    depth = target["processes_limit"].bit_length()
    count_read, count_write = os.pipe()
    stop_read, stop_write = os.pipe()

    def grow(level):
        os.setsid()
        started = 0
        for _ in range(2 if level < depth else 0):
            try:
                child = os.fork()
            except OSError:
                continue
            if child == 0:
                grow(level + 1)
            started += 1
        os.write(count_write, b"%d" % started)
        os.read(stop_read, 1)
        os._exit(0)

    if os.fork() == 0:
        os.close(stop_write)
        grow(0)
    processes, reports = 1, 0
    while reports < processes:
        processes += int(os.read(count_read, 1))
        reports += 1
    os.close(stop_write)
    reap()
    if processes > target["processes_limit"]:
        return processes
    raise Denied("stopped at %d" % processes)


@attempt("start many processes")
def _():
    children = []
    try:
        while len(children) <= target["processes_limit"]:
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            children.append(child)
        return len(children)
    finally:
        for child in children:
            os.kill(child, 9)
        reap()
