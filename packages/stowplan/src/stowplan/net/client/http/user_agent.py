"""The User-Agent header in upstream's format: `stowplan/v0.1.0 (linux/amd64) python/3.11.7/scheduler`.

The last component identifies the client within a program in server logs.

Upstream: staging/src/k8s.io/client-go/rest/config.go (buildUserAgent, AddUserAgent).
"""

from __future__ import annotations

import platform

#: Python's machine names to Go's.
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386", "armv7l": "arm"}


def user_agent(*, command: str, version: str, purpose: str = "") -> str:
    machine = platform.machine().lower()
    system = f"{platform.system().lower() or 'unknown'}/{_ARCHITECTURES.get(machine, machine) or 'unknown'}"
    name = f"{command}/v{version} ({system}) python/{platform.python_version()}"
    return f"{name}/{purpose}" if purpose else name
