"""The plugin for krew: an archive, and the manifest that names it; then install it as krew does, and run it.

python deploy/krew/build.py WHEEL FOLDER RELEASES

RELEASES is the URL below which the archive will be. It is the same for every platform that has a shell: what depends on
a platform is installed at the first run, as `requirements.txt` of the image locks it.
"""

import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
LAUNCHER = HERE / "kubectl-stowplan"
CAVEATS = """\
The first run needs Python 3.11 or newer, and installs the plugin's packages with pip, by version and hash.
krew links the command alone. For completion, link it by a second name:
  ln -sf kubectl-stowplan "${KREW_ROOT:-$HOME/.krew}/bin/kubectl_complete-stowplan"
"""
#: Operating systems and processors, by krew's names.
PLATFORMS = [(system, processor) for system in ("linux", "darwin") for processor in ("amd64", "arm64")]


def archive(wheel: Path) -> bytes:
    """The same bytes for the same wheel. krew unpacks files and folders only, no links."""
    files = {
        "LICENSE": (ROOT / "LICENSE", 0o644),
        "kubectl-stowplan": (LAUNCHER, 0o755),
        "requirements.txt": (ROOT / "deploy" / "container" / "requirements.txt", 0o644),
        wheel.name: (wheel, 0o644),
    }
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, (path, mode) in files.items():
            entry = tarfile.TarInfo(name)
            content = path.read_bytes()
            entry.size, entry.mode = len(content), mode
            tar.addfile(entry, io.BytesIO(content))
    return gzip.compress(packed.getvalue(), mtime=0)


def manifest(version: str, uri: str, sha256: str) -> dict[str, object]:
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": processor}},
            "uri": uri,
            "sha256": sha256,
            "bin": "kubectl-stowplan",
        }
        for system, processor in PLATFORMS
    ]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "stowplan"},
        "spec": {
            "version": f"v{version}",
            "homepage": uri.partition("/releases/")[0],
            "shortDescription": "Why pods are pending, and what would help",
            "description": "Asks what the scheduler of a cluster decides, and why: which node a pod gets, how many "
            "more fit, what a drained or lost node costs, which change would help. Only reads the cluster, except for "
            "`rebalance --apply`.\n",
            "caveats": CAVEATS,
            "platforms": platforms,
        },
    }


def built(wheel: Path, folder: Path, releases: str) -> Path:
    """Write both into the folder; returns the manifest."""
    version = wheel.name.split("-")[1]
    name = f"kubectl-stowplan-v{version}.tar.gz"
    content = archive(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content)
    document = manifest(version, f"{releases}/{name}", hashlib.sha256(content).hexdigest())
    path = folder / "stowplan.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False, width=120))
    return path


def installed(path: Path, root: Path) -> Path:
    """What krew does with a manifest and an archive beside it; returns the folder that is on the PATH."""
    spec = checked(path)["spec"]
    (uri, sha256) = {(one["uri"], one["sha256"]) for one in spec["platforms"]}.pop()
    content = path.with_name(uri.rpartition("/")[2]).read_bytes()
    if hashlib.sha256(content).hexdigest() != sha256:
        sys.exit(f"{uri}: not the archive that the manifest names")
    store = root / "store" / "stowplan" / spec["version"]
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for entry in tar.getmembers():
            if not (entry.isfile() or entry.isdir()) or ".." in entry.name or entry.name.startswith(("/", "\\")):
                sys.exit(f"{entry.name}: krew does not unpack this")
        tar.extractall(store, filter="data")
    (root / "bin").mkdir(parents=True)
    link = root / "bin" / "kubectl-stowplan"
    link.symlink_to(os.path.relpath(store / spec["platforms"][0]["bin"], link.parent))
    return link.parent


def checked(path: Path) -> dict[str, dict[str, object]]:
    """A manifest by the rules that krew has for an index."""
    document = yaml.safe_load(path.read_text())
    spec, name = document["spec"], document["metadata"]["name"]
    rules = {
        "apiVersion": document["apiVersion"] == "krew.googlecontainertools.github.com/v1alpha2",
        "kind": document["kind"] == "Plugin",
        "name": name == path.stem and re.fullmatch(r"[\w-]+", name),
        "version": re.fullmatch(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?", spec["version"]),
        "shortDescription": re.fullmatch(r"[^\r\n]+", spec["shortDescription"]),
        "platforms": spec["platforms"],
    }
    for number, one in enumerate(spec["platforms"]):
        rules |= {
            f"uri {number}": one["uri"],
            f"sha256 {number}": re.fullmatch("[a-f0-9]{64}", one["sha256"]),
            f"bin {number}": one["bin"],
            f"selector {number}": one["selector"]["matchLabels"].keys() == {"os", "arch"},
        }
    for rule, holds in rules.items():
        if not holds:
            sys.exit(f"{path}: {rule} is not as krew wants it")
    return document


def main(wheel: Path, folder: Path, releases: str) -> None:
    path = built(wheel, folder, releases)
    with tempfile.TemporaryDirectory() as root:
        program = installed(path, Path(root)) / "kubectl-stowplan"
        subprocess.run([program, "explain", "--help"], check=True, stdout=subprocess.DEVNULL)
        said = subprocess.run([program, "version"], check=True, capture_output=True, text=True)
    print(f"{path}: installed as krew does, and run: {said.stdout.strip()} {said.stderr.strip()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
