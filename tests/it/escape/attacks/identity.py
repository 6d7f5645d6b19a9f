# Variables, users and privileges.


@attempt("find variables of the programs around this one")
def _():
    wrapped = [name for name in os.environ if name.startswith("confined.")]
    if "LD_DEBUG" in os.environ and not wrapped:
        raise Denied("none")
    return wrapped or "its own variables are missing"


@attempt("get variables of the worker")
def _():
    secret = target["secret"][::-1]
    found = [name for name, value in os.environ.items() if secret in value]
    if not found:
        raise Denied("none")
    return found


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
