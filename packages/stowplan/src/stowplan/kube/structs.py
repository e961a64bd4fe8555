"""What dataclasses are elsewhere: classes that hold fields.

Python compiles the methods of each dataclass when it is defined, which takes 0.4 to 0.8 ms: with 250 of them that was a
fifth of the start of `kube-scheduler`. A struct takes 0.03 ms, and an instance of a frozen one is made in a quarter of
the time. Dataclasses are for what structs lack: fields that `repr` or `==` leave out, other classes as bases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, dataclass_transform

import msgspec

from stowplan.kube import compiled


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A default made anew for each struct. Untyped: compiled code would compare what this returns with the type."""
    return msgspec.field(default_factory=default_factory)


# The base of structs that stay in memory. Nothing evaluates their annotations, so these may name types that are
# imported for type checkers alone; linters know this by the name. What is decoded inherits from `msgspec.Struct`.
# Compiled code does evaluate them: a class that is not there yet, and a builtin exception, are named in quotes.
if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(field,))
    class _PlainMeta(msgspec.StructMeta): ...

    class PlainStruct(msgspec.Struct, metaclass=_PlainMeta): ...
else:
    PlainStruct = compiled.plain_struct() or msgspec.Struct
