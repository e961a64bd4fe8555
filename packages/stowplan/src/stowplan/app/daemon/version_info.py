"""Version information for `--version=raw` and metrics."""

from __future__ import annotations

import platform

from msgspec.structs import asdict

from stowplan import __version__
from stowplan.app.command_line.flags.flag_kinds import KUBERNETES_VERSION
from stowplan.app.command_line.flags.gates import Versions
from stowplan.kube import compiled
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.metrics.component import BuildInfo, CompatibilityVersions

_COMPATIBLE = ("EmulationMajor", "EmulationMinor", "MinCompatibilityMajor", "MinCompatibilityMinor")


def build_info() -> BuildInfo:
    major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    return BuildInfo(
        major=major,
        minor=minor,
        git_version=KUBERNETES_VERSION,
        git_commit=f"stowplan-{__version__}",
        git_tree_state="clean",
        build_date="",
        go_version=f"python{platform.python_version()}",
        compiler=platform.python_implementation().lower() if compiled.form == "pure" else "mypyc",
        platform=_platform(),
    )


def compatibility_versions(versions: Versions) -> CompatibilityVersions:
    return CompatibilityVersions(
        binary=KUBERNETES_VERSION.removeprefix("v"),
        emulation=str(versions.emulated),
        min_compat=str(versions.min_compatibility),
    )


def version_text() -> str:
    """In Go's format, which scripts parse."""
    build = build_info()
    # Parity: only an API server fills these.
    compatible = dict.fromkeys(_COMPATIBLE, "")
    fields_of_build = {_as_go_names_it(name): value for name, value in asdict(build).items()}
    release = {name: fields_of_build.pop(name) for name in ("Major", "Minor")}
    listed = (release | compatible | fields_of_build).items()
    return "version.Info{" + ", ".join(f"{name}:{go_quote(value)}" for name, value in listed) + "}"


def _as_go_names_it(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _platform() -> str:
    from stowplan.net.client.http.user_agent import user_agent

    return user_agent(command="", version="").partition("(")[2].partition(")")[0]
