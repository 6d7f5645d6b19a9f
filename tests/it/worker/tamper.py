"""Tries to change each file and directory of its standard input, and prints `CHANGED` if it can."""

import os, shutil, sys

def write(mode):
    def action(path):
        with open(path, mode) as file:
            file.write(b"planted-by-the-agent")
    return action

def replace(path):
    with open("own", "wb") as file:
        file.write(b"planted-by-the-agent")
    os.replace("own", path)

def plant(path):
    write("xb")(os.path.join(os.path.dirname(path), "planted"))

def rename_above(path):
    above = os.path.dirname(path)
    os.rename(above, above + ".moved")

actions = {
    "append": write("ab"), "overwrite": write("r+b"), "truncate": lambda path: os.truncate(path, 0), "replace": replace,
    "link": lambda path: os.link(path, "linked"),
    "rename": lambda path: os.rename(path, path + ".moved"), "move": lambda path: os.rename(path, "moved"),
    "unlink": os.unlink, "remove": shutil.rmtree, "plant": plant, "rename above": rename_above,
}
for path in sys.stdin.read().splitlines():
    for name, action in actions.items():
        try:
            # A directory of the same name may exist inside, without what is outside.
            os.stat(path)
            action(path)
        except OSError as error:
            print("held", name, path, error.strerror)
        else:
            print("CHANGED", name, path)
