# Other processes.


def of_other_process(name):
    return lambda pid: "/proc/%d/%s" % (pid, name)


def attempt_on_file(name, action):
    path = of_other_process(name)
    attempt("%s of another process" % name)(lambda: each(target["processes"], lambda pid: action(path(pid))))


for name in ("environ", "auxv", "maps", "io"):
    attempt_on_file(name, read)
for name in ("root", "cwd", "exe"):
    attempt_on_file(name, os.readlink)


@attempt("mem of another process")
def _():
    def look(pid):
        memory = os.open(of_other_process("mem")(pid), os.O_RDONLY)
        try:
            with open(of_other_process("maps")(pid)) as maps:
                address = int(maps.readline().split("-")[0], 16)
        except OSError:
            # Open is enough: addresses can be guessed.
            return
        os.pread(memory, 8, address)
    return each(target["processes"], look)


@attempt("names of files that another process has open")
def _():
    def look(pid):
        folder = of_other_process("fd")(pid)
        each(os.listdir(folder), lambda number: os.readlink(os.path.join(folder, number)))
    return each(target["processes"], look)


@attempt("files that another process has open")
def _():
    def look(pid):
        folder = of_other_process("fd")(pid)
        # Numbers of its standard streams and of further files.
        each(map(str, range(8)), lambda number: os.close(os.open(os.path.join(folder, number), os.O_PATH)))
    return each(target["processes"], look)


@attempt("number of files that another process has open")
def _():
    return each(target["processes"], lambda pid: os.listdir(of_other_process("fd")(pid)))


@attempt("find the secret in /proc")
def _():
    secret = target["secret"].encode()[::-1]
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for name in ("environ", "cmdline"):
            try:
                with open("/proc/%s/%s" % (pid, name), "rb") as file:
                    if secret in file.read():
                        found.append(pid)
            except OSError:
                pass
    if not found:
        raise Denied("none")
    return found


@attempt("signal other processes")
def _():
    return each(target["processes"], lambda pid: os.kill(pid, 0))


@attempt("ptrace another process")
def _():
    return each(target["processes"], lambda pid: call("ptrace", 16, pid, 0, 0))


@attempt("ptrace an own child")
def _():
    return call("ptrace", 0, 0, 0, 0)


@attempt("read the memory of another process")
def _():
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PN", ctypes.addressof(buffer), 8)
    def look(pid):
        try:
            call("process_vm_readv", pid, local, 1, local, 1, 0)
        except Denied as denied:
            # The call is allowed. Only the address is not one of that process.
            if str(denied) != "EFAULT":
                raise
    return each(target["processes"], look)


@attempt("take a file descriptor of another process")
def _():
    return each(target["processes"], lambda pid: call("pidfd_getfd", call("pidfd_open", pid, 0), 1, 0))


@attempt("enter namespaces of another process")
def _():
    def enter(pid):
        namespaces = [of_other_process("ns/" + kind)(pid) for kind in ("user", "mnt", "net")]
        each(namespaces, lambda path: call("setns", os.open(path, os.O_RDONLY), 0))
    return each(target["processes"], enter)


@attempt("call setns")
def _():
    # With the own user namespace, which the kernel refuses with EINVAL. So EPERM is the answer of the filter.
    try:
        return call("setns", os.open("/proc/self/ns/user", os.O_RDONLY), 0x10000000)
    except Denied as denied:
        if str(denied) == "EPERM":
            raise
        return "refused by the kernel with %s" % denied
