"""Expressions compared with Kubernetes 1.36.2: value, type, cost, evaluation errors and compile errors.

`reference.jsonl` was recorded from its device environment, for the device below. Each line is an expression and either
a `compile_error`, a `program_error` (found when a checked expression is prepared) or the outcome of an evaluation.
`matches` is present if the expression may be a selector: the result or the error.

Expressions whose outcome depends on the reference's random map order are left out, and so are these differences:

- Only the first syntax error is reported where the reference would have to guess how the text continues.
- Messages about IP addresses do not say which part is wrong.
- Messages of type `google.protobuf.…` cannot be constructed: `google.protobuf.Duration{seconds: 1}`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.cel_errors import EvaluationStopped, ValueProblem
from stowplan.kube.cel.device_selectors import (
    CompileError,
    Device,
    EvaluationError,
    Version,
    compile_selector,
    device_environment,
)
from support.tables import every_case

pytest.importorskip("re2")

DEVICE = Device(
    driver="gpu.example.com",
    attributes={"model": "a100", "memory": 40, "ecc": True, "ver": Version("1.2.3"), "dom/other": "x"},
    capacity={"memory": "40Gi", "dom/cores": "8"},
)
ROWS = [json.loads(line) for line in (Path(__file__).parent / "reference.jsonl").read_text().splitlines()]
NO_LIMIT = 1 << 62


def shown(value: object) -> str:
    """A value as in the file."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int):
        return f"{int(value)}u" if isinstance(value, v.UInt) else str(value)
    if isinstance(value, float):
        return f"double({v.go_float(value)})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bytes):
        return f"b{value.hex()}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(sorted(f'{shown(v.key_value(key))}: {shown(item)}' for key, item in value.items()))}}}"
    if isinstance(value, v.Optional):
        return "optional.none" if value is v.NONE else f"optional({shown(value.value)})"
    assert isinstance(value, t.Type)
    return f"type({value})"


def outcome(expression: str, row: dict[str, Any]) -> dict[str, Any]:
    """The outcome of our implementation, as far as the row has the reference's."""
    found: dict[str, Any] = {"expression": expression}
    try:
        compiled = device_environment(False).compiled(expression)
    except CompileError as error:
        kind, _, detail = str(error).partition(": ")
        return found | {"compile_error" if kind == "compilation failed" else "program_error": detail}
    found["type"] = str(compiled.type)
    try:
        value, cost = compiled.program.run({"device": DEVICE.variable}, limit=NO_LIMIT)
    except (ValueProblem, EvaluationStopped) as error:
        found["error"] = str(error)
    else:
        found["cost"] = cost
        if "value" in row:
            found["value"] = shown(value)
    if "matches" in row:
        found["matches"] = matches(expression)
    return found


def matches(expression: str) -> bool | str:
    try:
        return compile_selector(expression).matches(DEVICE)
    except EvaluationError as error:
        return str(error)


def test_agrees_with_the_reference():
    with every_case() as case:
        for row in ROWS:
            with case(row["expression"]):
                found = outcome(row["expression"], row)
                # The cost of a failed evaluation is not visible from outside.
                assert found == {key: value for key, value in row.items() if not (key == "cost" and "error" in row)}
