"""Compile the modules of `stowplan` that every decision runs through, from ../stowplan/src.

The code of all is in one shared library, where they call each other directly; each module is a small extension that
loads its part. Environment: MYPYC_OPT_LEVEL (3; 0 and 1 compile faster).
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

from mypyc.build import mypycify
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
# An isolated build does not find what is beside this file.
sys.path.insert(0, str(HERE))
from native_classes import Field, with_native_classes  # noqa: E402 - see above

SOURCES = HERE.parent / "stowplan" / "src"
OPTIMIZED = os.environ.get("MYPYC_OPT_LEVEL", "3")
VERSION = re.findall(r'^__version__ = "(.+)"', (SOURCES / "stowplan/__init__.py").read_text(), re.MULTILINE)[0]

PACKAGES = (
    "stowplan/drivers/virtual_time",
    "stowplan/kube/timing",
    "stowplan/scheduler/cluster",
    "stowplan/scheduler/engine",
    "stowplan/scheduler/framework",
    "stowplan/scheduler/queue",
)
#: Stay as they are: what plugins inherit from and are given; records that are decoded, or shown; what runs seldom.
LEFT_OUT = {
    *(f"stowplan/drivers/virtual_time/{name}.py" for name in ("latency", "patching", "plugin_calls", "resuming")),
    *(f"stowplan/drivers/virtual_time/{name}.py" for name in ("state_store", "stopped_clock", "virtual_api")),
    "stowplan/drivers/virtual_time/volume_controllers.py",
    "stowplan/kube/timing/times.py",
    "stowplan/scheduler/cluster/dumped.py",
    "stowplan/scheduler/cluster/recount.py",
    "stowplan/scheduler/engine/decision/decision.py",
    "stowplan/scheduler/engine/decision/extender_cycle.py",
    "stowplan/scheduler/engine/dumped.py",
    "stowplan/scheduler/engine/effects.py",
    "stowplan/scheduler/engine/eviction",
    "stowplan/scheduler/engine/input_log",
    "stowplan/scheduler/engine/inputs.py",
    "stowplan/scheduler/engine/suspension",
    "stowplan/scheduler/engine/validation.py",
    "stowplan/scheduler/framework/batch_state.py",
    "stowplan/scheduler/framework/declarations.py",
    "stowplan/scheduler/framework/entry_points.py",
    "stowplan/scheduler/framework/explanations",
    "stowplan/scheduler/framework/extender.py",
    "stowplan/scheduler/framework/handle.py",
    "stowplan/scheduler/framework/interface.py",
    "stowplan/scheduler/framework/requests.py",
    "stowplan/scheduler/framework/sources.py",
    "stowplan/scheduler/queue/dumped.py",
}


def compiled_files() -> list[str]:
    """The files to compile, relative to the sources."""
    found = (path.relative_to(SOURCES) for package in PACKAGES for path in (SOURCES / package).rglob("*.py"))
    return sorted(
        str(path)
        for path in found
        if path.name != "__init__.py" and LEFT_OUT.isdisjoint(map(str, (path, *path.parents)))
    )


def prepared_sources() -> Path:
    """A copy of the sources with native classes; unchanged files are not written again."""
    known: dict[str, list[Field]] = {}
    copy, compiled = HERE / "build" / "sources", {SOURCES / file for file in compiled_files()}
    wanted = {path.relative_to(SOURCES): path for path in (SOURCES / "stowplan").rglob("*.py")}
    for path in copy.rglob("*.py"):
        if path.relative_to(copy) not in wanted:
            path.unlink()
    for name, path in sorted(wanted.items()):
        text = path.read_text()
        text = with_native_classes(text, known) if path in compiled else text
        made = copy / name
        if not made.exists() or made.read_text() != text:
            made.parent.mkdir(parents=True, exist_ok=True)
            made.write_text(text)
    return copy


def struct_options(files: list[str]) -> dict[str, dict[str, object]]:
    """Class -> keywords of its statement, for structs of these files (see `stowplan_c.structs`)."""
    return {
        f"{file.removesuffix('.py').replace('/', '.')}.{node.name}": {
            str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords
        }
        for file in files
        for node in ast.parse((SOURCES / file).read_text()).body
        if isinstance(node, ast.ClassDef) and node.keywords
    }


def extensions(files: list[str]) -> list[Extension]:
    # Where tracebacks should find the sources: relative to an entry of sys.path.
    os.chdir(prepared_sources())
    made = mypycify(
        ["--strict", f"--cache-dir={HERE / 'build' / 'types'}", *files],
        opt_level=OPTIMIZED,
        debug_level="0",
        multi_file=True,
        group_name="stowplan_c",
        target_dir=str(HERE / "build" / "c"),
    )
    os.chdir(HERE)
    for extension in made:
        extension.name = f"stowplan_c.modules.{extension.name}"
        extension.sources = [os.path.relpath(source, HERE) for source in extension.sources]
    return made


class BuildExt(build_ext):
    """Compiles on all cores, unless an object is newer than its C code and all headers."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.build_temp = str(HERE / "build" / "objects" / f"{sys.implementation.cache_tag}-O{OPTIMIZED}")

    def build_extensions(self) -> None:
        compile_ = self.compiler.compile
        headers = max((path.stat().st_mtime for path in (HERE / "build/c").rglob("*.h")), default=0.0)

        def compile_one(source: str, options: dict[str, Any]) -> str:
            [made] = self.compiler.object_filenames([source], output_dir=options["output_dir"])
            since = max(headers, os.stat(source).st_mtime)
            if not os.path.exists(made) or os.stat(made).st_mtime < since:
                compile_([source], **options)
            return made

        def compile_each(sources: list[str], **options: Any) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                return pool.map(lambda source: compile_one(source, options), sources, chunksize=1)

        self.compiler.compile = compile_each
        super().build_extensions()


def digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()


class BuildPy(build_py):
    """Writes `stowplan_c.built` beside the package's own modules."""

    def run(self) -> None:
        super().run()
        files = compiled_files()
        modules = {file.removesuffix(".py").replace("/", "."): digest((SOURCES / file).read_bytes()) for file in files}
        Path(self.build_lib, "stowplan_c", "built.py").write_text(
            f'"""Written by the build."""\n\nVERSION = {VERSION!r}\nMODULES = {modules!r}\n'
            f"STRUCT_OPTIONS = {struct_options(files)!r}\n"
        )


setup(
    name="stowplan-c",
    version=VERSION,
    description="The compiled form of Stowplan's scheduler",
    long_description=(HERE / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    install_requires=[f"stowplan=={VERSION}"],
    packages=["stowplan_c"],
    package_dir={"": "src"},
    # pip asks for the metadata first, twice, which needs no compiling.
    ext_modules=[] if {"egg_info", "dist_info"} & {*sys.argv} else extensions(compiled_files()),
    cmdclass={"build_ext": BuildExt, "build_py": BuildPy},
    zip_safe=False,
)
