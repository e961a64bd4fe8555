"""What dataclasses are elsewhere: classes that hold fields.

Python compiles the methods of each dataclass when it is defined, which takes 0.4 to 0.8 ms: with 250 of them that was a
fifth of the start of `kube-scheduler`. A struct takes 0.03 ms, and an instance of a frozen one is made in a quarter of
the time. Dataclasses are for what structs lack: fields that `repr` or `==` leave out, other classes as bases.
"""

from __future__ import annotations

import msgspec

#: The base of structs that stay in memory. Nothing evaluates their annotations, so these may name types that are
#: imported for type checkers alone; linters know this by the name. What is decoded inherits from `msgspec.Struct`.
PlainStruct = msgspec.Struct
