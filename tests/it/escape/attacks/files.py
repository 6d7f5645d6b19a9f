# Files outside.


@attempt("read canary files")
def _():
    return each(canaries, read)


@attempt("change canary files")
def _():
    return each(canaries, change)


@attempt("change permissions of canary files")
def _():
    # To what they are: where this is possible, the canary stays as it is.
    return each(canaries, lambda path: os.chmod(path, stat.S_IMODE(os.stat(path).st_mode)))


@attempt("change times of canary files")
def _():
    return each(canaries, lambda path: os.utime(path, ns=(os.stat(path).st_atime_ns, os.stat(path).st_mtime_ns)))


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


@attempt("change the system")
def _():
    paths = ["/usr/planted", "/etc/planted", "/bin/planted", "/lib/planted", "/opt/planted", "/planted", "/var/planted"]
    return each(paths, lambda path: open(path, "w").close())


@attempt("read the passwords of the system")
def _():
    return each(["/etc/shadow", "/etc/gshadow", "/etc/sudoers"], read)


@attempt("change files of the worker's user that are visible")
def _():
    return each(target["visible_files"], change)
