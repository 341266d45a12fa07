"""Makes what the benchmark installs, below the directory that is named."""
import base64
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import zipfile

MODULES, PACKAGES, EACH, FILES = 300, 20, 20, 10_000
place = pathlib.Path(sys.argv[1])


def lines(name, count):
    return "".join(f"value_{number} = '{name} {number}'\n" for number in range(count))


def wheel():
    """A pure wheel, and an index of one page that leads to it."""
    name, index = "bench_wheel-1.0-py3-none-any.whl", place / "index" / "bench-wheel"
    index.mkdir(parents=True)
    files = {f"bench_wheel/part_{number}.py": lines(number, 60) for number in range(MODULES)}
    files["bench_wheel/__init__.py"] = ""
    about = "bench_wheel-1.0.dist-info"
    files[f"{about}/METADATA"] = "Metadata-Version: 2.1\nName: bench-wheel\nVersion: 1.0\n"
    files[f"{about}/WHEEL"] = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = "".join(f"{path},{digest(text.encode())},{len(text)}\n" for path, text in files.items())
    files[f"{about}/RECORD"] = record + f"{about}/RECORD,,\n"
    with zipfile.ZipFile(index / name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    (index / "index.html").write_text(f'<!DOCTYPE html><a href="{name}">{name}</a>')


def digest(content):
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def tree():
    """Packages as files, and the lock file that `npm ci` wants."""
    home = place / "tree"
    (home / "packages").mkdir(parents=True)
    wanted, locked = {}, {}
    for number in range(PACKAGES):
        name = f"bench-package-{number}"
        path = f"packages/{name}-1.0.0.tgz"
        content = package(name)
        (home / path).write_bytes(content)
        wanted[name] = f"file:{path}"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()
        locked[f"node_modules/{name}"] = {"version": "1.0.0", "resolved": f"file:{path}", "integrity": integrity}
    root = {"name": "bench-tree", "version": "1.0.0", "dependencies": wanted}
    (home / "package.json").write_text(json.dumps(root))
    lock = {"name": "bench-tree", "version": "1.0.0", "lockfileVersion": 3, "requires": True}
    lock["packages"] = {"": root, **locked}
    (home / "package-lock.json").write_text(json.dumps(lock))


def package(name):
    files = {f"package/part_{number}.js": f"module.exports = {number};\n" * 40 for number in range(EACH)}
    files["package/package.json"] = json.dumps({"name": name, "version": "1.0.0", "main": "part_0.js"})
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(text), 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def repository():
    """Small files in a hundred directories, packed as on a server. None of them is written on its own: removing them would slow down
    some disks for minutes."""
    home = place / "repository"
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", home], check=True)
    told = ["commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\ndata 5\nfiles\n"]
    for number in range(FILES):
        text = lines(number, 10)
        told.append(f"M 644 inline directory_{number // 100}/file_{number}.txt\ndata {len(text)}\n{text}\n")
    subprocess.run(["git", "-C", home, "fast-import", "--quiet"], input="".join(told).encode(), check=True)


wheel()
tree()
repository()
