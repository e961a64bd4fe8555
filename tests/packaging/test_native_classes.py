"""Structs that the build of the compiled form turns into plain classes: these take the same arguments."""

import copy
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = '''
from stowplan.kube.compiled import mypyc_attr
from stowplan.kube.structs import PlainStruct, field

STARTS = 7


@mypyc_attr(native_class=True)
class Entry(PlainStruct, kw_only=True, eq=False):
    """An entry."""

    key: str
    #: Fresh for each.
    names: set[str] = field(
        default_factory=set,
    )
    number: int = STARTS
    entry: "Entry | None" = None

    @property
    def twice(self) -> int:
        return 2 * self.number


@mypyc_attr(native_class=True)
class Group(Entry, kw_only=True, eq=False):
    """A group of them."""

    name: str
    rows: list[int] = field(default_factory=lambda: [1])


@mypyc_attr(native_class=True)
class Call(PlainStruct, eq=False):
    """In order."""

    key: str
    writes: bool = False


LAST = 1
'''


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


native_classes = loaded("native_classes", ROOT / "packages/stowplan-c/native_classes.py")


def classes(source):
    names = {}
    exec(compile("from __future__ import annotations\n" + source, "records.py", "exec"), names)
    return names


@pytest.fixture(params=["struct", "native"])
def made(request):
    source = SOURCE if request.param == "struct" else native_classes.with_native_classes(SOURCE, {})
    return classes(source)


def test_fields_and_defaults(made):
    entry = made["Entry"](key="a")
    assert (entry.key, entry.names, entry.number, entry.entry, entry.twice) == ("a", set(), 7, None, 14)
    assert made["Entry"](key="b").names is not entry.names
    group = made["Group"](key="g", name="n", number=2, entry=entry, names={"x"})
    assert (group.name, group.rows, group.twice, group.entry, group.names) == ("n", [1], 4, entry, {"x"})
    assert isinstance(group, made["Entry"])
    assert made["Call"]("a", True).writes


@pytest.mark.parametrize("arguments", [("a",), ()], ids=["positional", "missing"])
def test_arguments_that_are_refused(made, arguments):
    with pytest.raises(TypeError):
        made["Entry"](*arguments)


def test_copies_are_shallow_and_equal_only_to_themselves(made):
    group = made["Group"](key="g", name="n")
    copied = copy.copy(group)
    assert (copied.key, copied.name) == ("g", "n")
    assert copied.names is group.names
    assert copied != group


def test_lines_keep_their_numbers():
    """Tracebacks of compiled code name those of the sources."""
    native = native_classes.with_native_classes(SOURCE, {})
    lines = SOURCE.split("\n")
    assert len(native.split("\n")) == len(lines)
    assert native.split("\n").index("LAST = 1") == lines.index("LAST = 1")


def test_structs_that_are_compared_are_refused():
    with pytest.raises(
        ValueError, match="class Entry: a native class is a PlainStruct, or inherits from one, with eq=False"
    ):
        native_classes.with_native_classes(SOURCE.replace("kw_only=True, eq=False", "kw_only=True"), {})
