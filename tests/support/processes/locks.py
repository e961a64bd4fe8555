"""Lock files as pip reads them: `name==version ; marker`, and a line for each hash."""

import re
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


@dataclass
class Pin:
    requirement: Requirement
    hashes: list[str]

    @property
    def name(self):
        return canonicalize_name(self.requirement.name)

    @property
    def version(self):
        (specifier,) = self.requirement.specifier
        assert specifier.operator == "=="
        return Version(specifier.version)


def pins(lock):
    """ValueError for anything but pins: options, addresses, files, open versions."""
    text = re.sub(r"^#.*\n", "", lock.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [_pin(line) for line in text.splitlines() if line.strip()]


def _pin(line):
    named, *hashes = re.split(r"\s--hash=", line)
    if named.startswith("-") or "://" in line or not re.fullmatch(r"[\w.-]+==[\w.]+( ; .+)?", named.strip()):
        raise ValueError(f"not a pinned version: {line[:80]}")
    return Pin(Requirement(named), [each.strip() for each in hashes])
