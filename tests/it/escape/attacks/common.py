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
    # An int of Python would leave the upper half of an argument undefined.
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    result = libc.syscall(NUMBERS[name][0 if X86 else 1], *words)
    if result == -1:
        raise Denied(errno.errorcode.get(ctypes.get_errno(), "?"))
    return result


attempts = []


def attempt(name):
    def add(function):
        attempts.append((name, function))
        return function
    return add


def each(targets, action):
    """Succeeds for the attacker if it succeeds for one target."""
    got, errors = [], []
    for one in targets:
        try:
            action(one)
            got.append(one)
        except OSError as error:
            errors.append(errno.errorcode.get(error.errno, "?"))
        except Denied as denied:
            errors.append(str(denied))
    if not got:
        raise Denied(" ".join(sorted(set(errors))))
    return got


def read(path):
    with open(path, "rb") as file:
        return file.read(1)


def change(path):
    with open(path, "r+b") as file:
        file.write(b"changed")


canaries = target["canaries"]
