"""What a hostile agent tries from inside. Prints a line for each attempt: its name, `held` or `ESCAPED`, and why."""

import ctypes, errno, json, os, select, socket, stat, struct, sys, time

target = json.loads(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
X86 = os.uname().machine == "x86_64"
# Numbers of system calls on x86-64 and arm64.
NUMBERS = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "add_key": (248, 217), "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268),
    "clone": (56, 220), "clone3": (435, 435), "fsopen": (430, 430), "open_tree": (428, 428), "init_module": (175, 105),
    "kexec_load": (246, 104), "chroot": (161, 51),
}


class Denied(Exception):
    pass


def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(NUMBERS[name][0 if X86 else 1], *arguments)
    if result == -1:
        raise Denied(errno.errorcode.get(ctypes.get_errno(), "?"))
    return result


attempts = []


def attempt(name):
    def add(function):
        attempts.append((name, function))
        return function
    return add


def each(paths, action):
    """Succeeds for the attacker if it succeeds for one path."""
    got = []
    for path in paths:
        try:
            action(path)
            got.append(path)
        except (OSError, Denied):
            pass
    if not got:
        raise Denied("none")
    return got


def read(path):
    with open(path, "rb") as file:
        return file.read(1)


def change(path):
    with open(path, "r+b") as file:
        file.write(b"changed")


canaries = target["canaries"]


@attempt("read canary files")
def _():
    return each(canaries, read)


@attempt("change canary files")
def _():
    return each(canaries, change)


@attempt("list directories of canary files")
def _():
    # A directory above the workspace may exist inside, with nothing else in it.
    def listed(path):
        if os.path.basename(path) not in os.listdir(os.path.dirname(path)):
            raise Denied("empty")
    return each(canaries, listed)


@attempt("create files beside canary files")
def _():
    def create(path):
        os.stat(path)
        open(os.path.join(os.path.dirname(path), "planted"), "w").close()
    return each(canaries, create)


@attempt("delete or rename canary files")
def _():
    return each(canaries, lambda path: os.rename(path, path + ".moved"))


@attempt("reach canary files through symbolic links")
def _():
    def through(path):
        link = "link-%d" % len(os.listdir("."))
        os.symlink(path, link)
        read(link)
    return each(canaries, through)


@attempt("reach canary files through hard links")
def _():
    return each(canaries, lambda path: os.link(path, "hard-%d" % len(os.listdir("."))))


@attempt("replace own directories by links to the spool")
def _():
    spool = next(path for path in canaries if path.endswith("outbox/events"))
    def replace(name):
        own = os.path.join(os.path.dirname(os.getcwd()), name)
        os.rename(own, own + ".moved")
        os.symlink(os.path.dirname(spool), own)
    return each(["workspace", "home", "tmp"], replace)


@attempt("move the spool by moving a directory above it")
def _():
    def move(path):
        # A directory of the same name may exist inside, without what is outside.
        os.stat(path)
        above = os.path.dirname(path)
        each([above, os.path.dirname(above)], lambda above: os.rename(above, above + ".moved"))
    return each(canaries, move)


@attempt("reach the spool through a descriptor of its directory")
def _():
    # Links in /proc skip the directories on the way.
    def through(path):
        descriptor = os.open(os.path.dirname(path), os.O_PATH)
        read("/proc/self/fd/%d/%s" % (descriptor, os.path.basename(path)))
    return each(canaries, through)


@attempt("read environment, memory and files of other processes")
def _():
    def look(pid):
        for name in ("environ", "mem", "maps", "fd", "root", "cwd"):
            path = "/proc/%d/%s" % (pid, name)
            if name in ("fd",):
                os.listdir(path)
            elif name in ("root", "cwd"):
                os.readlink(path)
            else:
                read(path)
            return
    return each(target["processes"], look)


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
    return each(target["processes"], lambda pid: call("process_vm_readv", pid, local, 1, local, 1, 0))


@attempt("take a file descriptor of another process")
def _():
    return each(target["processes"], lambda pid: call("pidfd_getfd", call("pidfd_open", pid, 0), 1, 0))


@attempt("enter namespaces of another process")
def _():
    def enter(pid):
        for kind in ("user", "mnt", "net"):
            call("setns", os.open("/proc/%d/ns/%s" % (pid, kind), os.O_RDONLY), 0)
    return each(target["processes"], enter)


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


@attempt("open sockets of other families")
def _():
    families = [(17, 3, 0), (40, 1, 0), (38, 5, 0), (16, 3, 9), (44, 3, 0), (31, 3, 0), (29, 3, 1)]
    def allowed(words):
        try:
            socket.socket(*words).close()
        except OSError as error:
            # Not denied by the filter, but unknown to this kernel.
            if error.errno == errno.EAFNOSUPPORT:
                return
            raise
    return each(families, allowed)


@attempt("open an MPTCP socket")
def _():
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)


@attempt("connect to a Unix socket by path")
def _():
    socket.socket(socket.AF_UNIX).connect(target["path_socket"])


@attempt("connect to an abstract Unix socket")
def _():
    socket.socket(socket.AF_UNIX).connect("\0" + target["abstract_socket"])


@attempt("connect to a port of the machine")
def _():
    return socket.create_connection(("127.0.0.1", target["ports"][0]), timeout=5)


@attempt("connect to a port of the machine over IPv6")
def _():
    return socket.create_connection(("::1", target["ports"][1]), timeout=5)


@attempt("connect to a port of the machine with MPTCP")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262) as mptcp:
        mptcp.connect(("127.0.0.1", target["ports"][0]))


@attempt("send a datagram to the machine")
def _():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        # A connected socket learns that the port is closed.
        datagrams.connect(("127.0.0.1", target["udp_port"]))
        datagrams.send(b"x")
        closed = select.poll()
        closed.register(datagrams, 0)
        if closed.poll(2000):
            raise Denied("the port is closed")


@attempt("send to other addresses")
def _():
    # Nothing is sent: this only asks for a route. The second is that of the metadata of clouds.
    def route(address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as datagrams:
            datagrams.connect((address, 9))
    return each(["192.0.2.1", "169.254.169.254", "10.0.0.1", "2001:db8::1", "fe80::1%lo"], route)


@attempt("take the place of the plane")
def _():
    socket.create_server(("127.0.0.1", target["plane_port"]))
    # A namespace has the same ports. It is an escape if this one is not its own.
    links = [os.readlink("/proc/self/ns/net")]
    if target["network"] not in links:
        raise Denied("another network")
    return links


@attempt("find variables of the programs around this one")
def _():
    wrapped = [name for name in os.environ if name.startswith("confined.")]
    if "LD_DEBUG" in os.environ and not wrapped:
        raise Denied("none")
    return wrapped or "its own variables are missing"


@attempt("type into the terminal")
def _():
    import fcntl
    leader, follower = os.openpty()
    fcntl.ioctl(follower, 0x5412, b"x")


@attempt("change the system")
def _():
    paths = ["/usr/planted", "/etc/planted", "/bin/planted", "/lib/planted", "/opt/planted", "/planted", "/var/planted"]
    return each(paths, lambda path: open(path, "w").close())


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


@attempt("read the passwords of the system")
def _():
    return each(["/etc/shadow", "/etc/gshadow", "/etc/sudoers"], read)


def status(field):
    with open("/proc/self/status") as file:
        return next(line.split()[1] for line in file if line.startswith(field + ":"))


@attempt("use capabilities")
def _():
    sets = ["CapEff", "CapPrm", "CapInh", "CapAmb"]
    # A plain user cannot empty the last; without new privileges it has no effect.
    sets += [] if os.getuid() else ["CapBnd"]
    if all(int(status(field), 16) == 0 for field in sets):
        raise Denied("none")
    return [status("CapEff"), status("CapPrm"), status("CapBnd")]


@attempt("gain privileges with setuid files")
def _():
    if status("NoNewPrivs") == "1":
        raise Denied("none")


def identity_of(program):
    """Effective user and capabilities of a program that prints its status."""
    lines = os.popen("%s /proc/self/status 2>/dev/null" % program).read().splitlines()
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    if not fields:
        raise Denied("not executed")
    return int(fields["Uid"].split()[1]), int(fields["CapEff"], 16)


def changes_identity(program):
    found = identity_of(program)
    if found == (os.geteuid(), 0):
        raise Denied("same user")
    return found


@attempt("run a setuid file of the worker's user")
def _():
    return changes_identity(target["setuid_file"])


@attempt("run a setuid file in the workspace")
def _():
    # It was there, with the worker's user as its owner, before the agent started.
    return changes_identity("./setuid-of-the-worker")


@attempt("make a setuid file")
def _():
    import shutil
    shutil.copy("/usr/bin/cat", "own-setuid")
    os.chmod("own-setuid", 0o6755)
    if os.stat("own-setuid").st_uid == target["worker_user"] != os.getuid():
        return "it belongs to the worker's user"
    return changes_identity("./own-setuid")


@attempt("become another user")
def _():
    others = [user for user in (0, 1, 65534, target["worker_user"]) if user != os.getuid()]
    def become(user):
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    try:
        return each(others, become)
    except Denied:
        return each(others, os.setuid)


@attempt("have the user of the worker")
def _():
    if target["worker_user"] in (os.getuid(), os.geteuid()):
        return os.getuid()
    if target["worker_user"] in os.getgroups() + [os.getgid()]:
        return "a group of the worker"
    raise Denied("user %d" % os.getuid())


@attempt("change files of the worker's user that are visible")
def _():
    return each(target["visible_files"], change)


@attempt("get variables of the worker")
def _():
    secret = target["secret"][::-1]
    found = [name for name, value in os.environ.items() if secret in value]
    if not found:
        raise Denied("none")
    return found


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


for name, function in attempts:
    # A process of its own, so that no attempt changes the next.
    sys.stdout.flush()
    child = os.fork()
    if child:
        _, code = os.waitpid(child, 0)
        if code & 0x7f:
            print("%s\theld\tsignal %d" % (name, code & 0x7f))
        continue
    try:
        print("%s\tESCAPED\t%s" % (name, function()))
    except Denied as why:
        print("%s\theld\t%s" % (name, why))
    except OSError as why:
        print("%s\theld\t%s" % (name, errno.errorcode.get(why.errno, why)))
    except Exception as why:
        print("%s\tBROKEN\t%r" % (name, why))
    sys.stdout.flush()
    os._exit(0)
