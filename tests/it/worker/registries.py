"""Serves a package registry of each kind and a git repository on the address that it is given. Prints the URL."""

import functools, hashlib, http.server, io, json, os, subprocess, sys, tarfile, tempfile, zipfile

NAME, MODULE = "sunaba-test-package", "sunaba_test_package"
folder = tempfile.mkdtemp(dir=sys.argv[2])


class Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer((sys.argv[1], 0), functools.partial(Handler, directory=folder))
url = "http://%s:%d" % server.server_address


def write(path, content):
    path = os.path.join(folder, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def archive(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


# npm
package = {"name": NAME, "version": "1.0.0", "main": "index.js"}
npm = archive({"package/package.json": json.dumps(package), "package/index.js": "module.exports = 'from npm'"})
dist = {"tarball": url + "/npm.tgz", "shasum": hashlib.sha1(npm).hexdigest()}
write("npm.tgz", npm)
write("npm/" + NAME, json.dumps({"name": NAME, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": package | {"dist": dist}}}))

# pip
wheel = "%s-1.0.0-py3-none-any.whl" % MODULE
content = io.BytesIO()
with zipfile.ZipFile(content, "w") as files:
    info = MODULE + "-1.0.0.dist-info/"
    files.writestr(MODULE + ".py", "text = 'from pip'\n")
    files.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: 1.0.0\n" % NAME)
    files.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    files.writestr(info + "RECORD", "")
write("wheels/" + wheel, content.getvalue())
write("simple/%s/index.html" % NAME, '<a href="/wheels/%s">%s</a>' % (wheel, wheel))

# cargo
manifest = '[package]\nname = "%s"\nversion = "1.0.0"\nedition = "2024"\n' % NAME
source = 'pub const TEXT: &str = "from cargo";\n'
crate = archive({NAME + "-1.0.0/Cargo.toml": manifest, NAME + "-1.0.0/src/lib.rs": source})
write("crates/%s/1.0.0/download" % NAME, crate)
write("index/config.json", json.dumps({"dl": url + "/crates"}))
row = {"name": NAME, "vers": "1.0.0", "deps": [], "cksum": hashlib.sha256(crate).hexdigest(), "features": {}, "yanked": False}
write("index/%s/%s/%s" % (NAME[:2], NAME[2:4], NAME), json.dumps(row))

# git
work, bare = os.path.join(folder, "work"), os.path.join(folder, "repository.git")
git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.com"]
for command in [
    ["init", "--quiet", work],
    ["-C", work, "commit", "--quiet", "--allow-empty", "-m", "from git"],
    ["clone", "--quiet", "--bare", work, bare],
    ["-C", bare, "update-server-info"],
]:
    subprocess.run(git + command, check=True)

print(url, flush=True)
server.serve_forever()
