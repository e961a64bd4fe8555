"""Compile the modules of `stowplan` that every decision runs through, from ../stowplan/src.

The code of all is in one shared library, where they call each other directly; each module is a small extension that
loads its part. Environment: MYPYC_OPT_LEVEL (3; 0 and 1 compile faster).
"""

from __future__ import annotations

import ast
import os
import re
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path

from mypyc.build import mypycify
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent / "stowplan" / "src"
VERSION = re.findall(r'^__version__ = "(.+)"', (SOURCES / "stowplan/__init__.py").read_text(), re.MULTILINE)[0]

PACKAGES = (
    "stowplan/kube/timing",
    "stowplan/scheduler/cluster",
    "stowplan/scheduler/engine",
    "stowplan/scheduler/framework",
    "stowplan/scheduler/queue",
)
#: Stay as they are: what plugins inherit from, several classes at a time; records that are decoded; what runs seldom.
LEFT_OUT = {
    "stowplan/kube/timing/times.py",
    "stowplan/scheduler/cluster/dumped.py",
    "stowplan/scheduler/cluster/recount.py",
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
    "stowplan/scheduler/framework/interface.py",
    "stowplan/scheduler/framework/requests.py",
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
    os.chdir(SOURCES)
    made = mypycify(
        ["--strict", f"--cache-dir={HERE / 'build' / 'types'}", *files],
        opt_level=os.environ.get("MYPYC_OPT_LEVEL", "3"),
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
    """Compiles on all cores."""

    def build_extensions(self) -> None:
        compile_ = self.compiler.compile

        def compile_each(sources: list[str], **options: object) -> list[str]:
            with ThreadPool(os.cpu_count()) as pool:
                return [made for [made] in pool.map(lambda source: compile_([source], **options), sources, chunksize=1)]

        self.compiler.compile = compile_each
        super().build_extensions()


class BuildPy(build_py):
    """Writes `stowplan_c.built` beside the package's own modules."""

    def run(self) -> None:
        super().run()
        files = compiled_files()
        modules = [file.removesuffix(".py").replace("/", ".") for file in files]
        Path(self.build_lib, "stowplan_c", "built.py").write_text(
            f'"""Written by the build."""\n\nVERSION = {VERSION!r}\nMODULES = frozenset({modules!r})\n'
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
