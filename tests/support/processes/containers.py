"""Runs a Containerfile without a container: its stages are folders, its commands run with this machine's Python.

Only the instructions that ours uses are supported: FROM, WORKDIR, COPY, RUN, ENV, USER, EXPOSE and ENTRYPOINT, one line
each.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Stage:
    base: str
    name: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def said(self, instruction):
        return [text for word, text in self.steps if word == instruction]


def stages(containerfile):
    """The stages in order; each includes the instructions of those that it is built from."""
    found = []
    for line in containerfile.read_text().splitlines():
        word, _, text = line.partition(" ")
        if word == "FROM":
            base, _, name = text.partition(" AS ")
            found.append(Stage(base, name, [step for stage in found if stage.name == base for step in stage.steps]))
        elif found and line and not line.startswith("#"):
            found[-1].steps.append((word, text))
    return found


def environment(stage):
    return dict(setting.split("=", 1) for text in stage.said("ENV") for setting in shlex.split(text))


def entry_point(stage):
    return json.loads(stage.said("ENTRYPOINT")[-1])


def build(stage, context, root, *, python):
    """Run a stage's instructions below `root`, which its absolute paths are relative to."""
    work = root
    for word, text in stage.steps:
        if word == "WORKDIR":
            work = root / text.lstrip("/")
            work.mkdir(parents=True)
        elif word == "COPY":
            *sources, target = shlex.split(text)
            for source in sources:
                _copy(context / source, work / target, into=target.endswith("/"))
        elif word == "RUN":
            subprocess.run(["/bin/sh", "-ec", _here(text, root, python)], cwd=work, check=True, timeout=600)
        else:
            raise AssertionError(f"unsupported instruction: {word} {text}")


def _copy(source, target, *, into):
    """A target that ends with a slash is a folder, which is made."""
    if into:
        target.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


def _here(command, root, python):
    """The command with paths of the stage's folders on this machine, and with this machine's pip."""
    command = re.sub(r"(?<![\w.])/(build|opt)/", lambda found: f"{shlex.quote(str(root))}/{found[1]}/", command)
    command = re.sub(r"^python ", f"{python} ", command)
    return re.sub(r"^pip ", f"{shlex.quote(sys.executable)} -m pip --disable-pip-version-check -q ", command)


def python_for_others():
    """A Python that an unprivileged user can start, if we are root; otherwise ours; None if there is none."""
    if os.geteuid() != 0:
        return Path(sys.executable)
    here = [Path(sys.executable).resolve(), Path("/usr/local/bin/python3"), Path("/usr/bin/python3")]
    return next((path for path in here if path.exists() and _is_open(path.resolve()) and _is_new(path)), None)


def _is_open(path):
    return all(folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


def _is_new(path):
    return subprocess.run([path, "-c", "import sys, ensurepip; sys.exit(sys.version_info < (3, 11))"]).returncode == 0


def unprivileged(command, *, secrets=None):
    """The command as the image's user on a read-only file system, as far as we can arrange that.

    `secrets`: a folder with the files that the kubelet mounts for a service account. This requires root.
    """
    if os.geteuid() != 0:
        return command
    as_user = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--no-new-privs", *command]
    steps = ["mount -o remount,bind,ro /"]
    if secrets is not None:
        there = "/run/secrets/kubernetes.io/serviceaccount"
        copied = f"mkdir -p {there} && cp {shlex.quote(str(secrets))}/* {there} && chown -R 65532 {there}"
        steps = ["mount -t tmpfs tmpfs /run", copied, "mount -o remount,ro /run", *steps]
    return ["unshare", "-m", "sh", "-c", " && ".join([*steps, 'exec "$@"']), "sh", *as_user]
