"""The base of structs whose classes are made by compiled code.

mypyc calls a metaclass without the keywords of the class statement (`frozen=True`), so the build writes them into a
table, and this metaclass takes them from there.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stowplan_c.built import STRUCT_OPTIONS


class _StructMeta(type(msgspec.Struct)):  # type: ignore[misc]
    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Any:
        known = STRUCT_OPTIONS.get(f"{namespace['__module__']}.{name}", {})
        return super().__new__(cls, name, bases, namespace, **known, **options)


PlainStruct = _StructMeta("PlainStruct", (msgspec.Struct,), {"__module__": __name__})
