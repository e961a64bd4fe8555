"""Differences between two JSON values, and between two verdicts, as readable lines."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Json = Any
#: Scores that may differ by as much as their weight: they depend on the last bit of an exponential function, or on when
#: the reference was asked.
_INEXACT = frozenset({"Peaks", "NodeMetadata"})


_GAP = re.compile(r"resource gap: map\[[^\]]*\]")


def differences(want: Json, got: Json, path: str = "") -> Iterator[str]:
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        for key in sorted({*want, *got}):
            if key not in got:
                yield f"{path}/{key}: missing, want {_shown(want[key])}"
            elif key not in want:
                yield f"{path}/{key}: unexpected {_shown(got[key])}"
            else:
                yield from differences(want[key], got[key], f"{path}/{key}")
    elif want != got:
        yield f"{path}: want {_shown(want)}, got {_shown(got)}"


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 300 else f"{text[:297]}..."


def verdict_differences(want: Json, got: Json, weights: Mapping[str, int]) -> list[str]:
    """`weights` of score plugins decide how far inexact scores may differ."""
    wanted, found = _normal(_loose(want)), _normal(_loose(got))
    preemption, other = wanted.get("preemption"), found.get("preemption")
    if preemption and other and other["selected"] and set(other["selected"]) <= set(preemption["selected"]):
        # Several nodes are a tie: any of them is right.
        other["selected"] = preemption["selected"]
    _level(wanted, found, weights)
    return list(differences(wanted, found))


def _loose(verdict: Json) -> Json:
    """Without the structs that Go prints of missing resources."""
    return json.loads(_GAP.sub("resource gap: ", json.dumps(verdict)))


def _normal(verdict: Json) -> dict[str, Json]:
    """A verdict without what is not compared; what is empty and what is absent are equal."""
    if verdict.get("error") and verdict["error"] != "gated":
        return {"pod": verdict["pod"], "error": verdict["error"]}
    absent = verdict.get("absentNodesStatus") or {}
    scores = verdict.get("scores") or {}
    found = {
        "pod": verdict["pod"],
        "error": verdict.get("error"),
        "absentNodesStatus": _status(absent) if absent.get("reasons") else None,
        "preFilterMessage": verdict.get("preFilterMessage"),
        "message": verdict.get("message"),
        "unschedulablePlugins": sorted(verdict.get("unschedulablePlugins") or ()),
        "feasible": sorted(verdict.get("feasible") or ()),
        "rejected": {node: _status(status) for node, status in (verdict.get("rejected") or {}).items()},
        "totals": verdict.get("totals"),
        "preemption": _preemption(verdict["preemption"]) if verdict.get("preemption") else None,
    }
    if verdict.get("totals"):
        nonzero = {node: {name: score for name, score in of.items() if score} for node, of in scores.items()}
        found["scores"] = {node: of for node, of in nonzero.items() if of}
    return {key: value for key, value in found.items() if value}


def _status(status: Json) -> Json:
    return {
        "plugin": status.get("plugin", ""),
        "code": status["code"],
        "reasons": sorted(status.get("reasons") or ()),
    }


def _preemption(preemption: Json) -> Json:
    return {
        "eligible": bool(preemption.get("eligible")),
        "reason": preemption.get("reason") or "",
        "candidates": {
            node: {key: value for key, value in candidate.items() if value}
            for node, candidate in (preemption.get("candidates") or {}).items()
        },
        "selected": sorted(preemption.get("selected") or ()),
    }


def _level(want: dict[str, Json], got: dict[str, Json], weights: Mapping[str, int]) -> None:
    """Take over inexact scores that are near enough, and correct totals by them."""
    wanted, found = want.get("scores", {}), got.get("scores", {})
    for node in {*wanted, *found} & got.get("totals", {}).keys():
        ours = found.setdefault(node, {})
        for name in _INEXACT & weights.keys():
            exact = wanted.get(node, {}).get(name, 0)
            apart = exact - ours.get(name, 0)
            if apart and abs(apart) <= weights[name]:
                ours[name] = exact
                got["totals"][node] += apart
    got["scores"] = {node: nonzero for node, of in found.items() if (nonzero := {k: v for k, v in of.items() if v})}
    if not got["scores"]:
        del got["scores"]
