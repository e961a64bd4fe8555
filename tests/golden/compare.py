"""Compare Stowplan's answers with the recorded answers of the reference scheduler.

`data/` has the reference's answers on random clusters; data/README.md describes their format and what a comparison
ignores: the order of reasons and of maps, a score of 0 versus none, and which of several equally good nodes preemption
selects. Everything else must be equal.

Both sides are normalized (`normal_verdict`) and compared value by value, so that a failing test lists the paths that
differ.
"""

import functools
import gzip
import json
import os
import pathlib
import re

import pytest

import stowplan
from support.examples import sampled

#: The version that gave the recorded answers.
REFERENCE = "1.36"

DATA = pathlib.Path(__file__).parent / "data"

#: Categories in which every verdict must equal the reference's.
CLAIMED = (
    "resources",
    "scoring",
    "taints",
    "nodeaffinity",
    "ports",
    "podaffinity",
    "spread",
    "defaultspread",
    "images",
    "preemption",
    "pdb",
    "mixed",
    "csilimits",
    "volumes",
    "dra",
)

SHOWN = 12

DEVICE_ID = re.compile(r"[a-z0-9.-]+/n\d+/[a-z]+-\d+")
SCHEME_POSITION = re.compile(r' in scheme "[^"]*"')
ECHOED_STRUCT = re.compile(r"(?<=Invalid value: )\{.*?\}(?=: )")


@functools.cache
def rows(name, choose=list):
    """The chosen rows of a data file, by default all, read once per process."""
    with gzip.open(DATA / f"{name}.jsonl.gz", "rb") as lines:
        return [json.loads(line) for line in choose(lines.readlines())]


def scenarios(category):
    """The recorded clusters of a category; `make test` takes a tenth of them."""
    return rows(category, sampled)


def cluster_of(scenario):
    """The cluster, as the version that answered sees it."""
    objects = scenario["objects"] + scenario["pods"]
    return stowplan.Cluster(objects, config=scenario["config"], emulated_version=REFERENCE)


def compared(category):
    """The clusters that tests compare: a tenth if `.ci/run` has just compared all of them."""
    return scenarios(category)[::10] if os.environ.get("STOWPLAN_GOLDEN_CHECKED") else scenarios(category)


def key_of(pod):
    metadata = pod["metadata"]
    return f"{metadata.get('namespace', 'default')}/{metadata['name']}"


# -- verdicts


def normal_status(status):
    return {
        "plugin": status.get("plugin", ""),
        "code": status["code"],
        "reasons": sorted(status.get("reasons") or []),
    }


def normal_preemption(preemption):
    return {
        "eligible": bool(preemption.get("eligible")),
        "reason": preemption.get("reason") or "",
        # The order of victims is part of the answer.
        "candidates": preemption.get("candidates") or {},
        "selected": sorted(preemption.get("selected") or []),
    }


def normal_verdict(verdict):
    """The verdict without what a comparison must ignore; absent and empty become the same."""
    error = DEVICE_ID.sub("<device>", verdict.get("error") or "")
    if error and error != "gated":
        # The cycle was aborted: partial results are not an answer.
        return {"pod": verdict["pod"], "error": error}
    absent = verdict.get("absentNodesStatus") or {}
    scores = verdict.get("scores") or {}
    totals = verdict.get("totals") or {}
    preemption = verdict.get("preemption")
    return {
        "pod": verdict["pod"],
        "error": error,
        "preFilterMessage": verdict.get("preFilterMessage") or "",
        "absentNodesStatus": normal_status(absent) if absent.get("reasons") else None,
        "unschedulablePlugins": sorted(verdict.get("unschedulablePlugins") or []),
        "rejected": {node: normal_status(status) for node, status in (verdict.get("rejected") or {}).items()},
        "feasible": sorted(verdict.get("feasible") or []),
        "scores": {
            node: {plugin: score for plugin, score in by_plugin.items() if score} for node, by_plugin in scores.items()
        }
        if totals
        else {},
        "totals": totals,
        "message": verdict.get("message") or "",
        "preemption": normal_preemption(preemption) if preemption else None,
    }


def verdict_differences(want, got):
    want, got = normal_verdict(want), normal_verdict(got)
    if want.get("preemption") and got.get("preemption"):
        allowed, selected = want["preemption"]["selected"], got["preemption"]["selected"]
        if selected and set(selected) <= set(allowed):
            # Several allowed nodes are a tie: any of them is correct.
            got["preemption"]["selected"] = allowed
    return differences(want, got)


# -- hints


def hint_differences(want_events, want_hints, got):
    return differences(
        {"events": sorted(want_events or []), "hints": want_hints},
        {"events": sorted(got["events"]), "hints": got["hints"]},
    )


# -- configurations


def normal_error(text):
    """An error without Go's source positions and formatting of structs."""
    return ECHOED_STRUCT.sub("{}", SCHEME_POSITION.sub("", text))


# -- the comparison itself


def differences(want, got, path=""):
    """All differences, as readable lines."""
    if isinstance(want, dict) and isinstance(got, dict):
        found = []
        for key in sorted(want.keys() | got.keys()):
            below = f"{path}/{key}"
            if key not in got:
                found.append(f"{below}: missing, the reference has {show(want[key])}")
            elif key not in want:
                found.append(f"{below}: {show(got[key])}, the reference has nothing")
            else:
                found += differences(want[key], got[key], below)
        return found
    if same(want, got):
        return []
    return [f"{path}: {show(got)}, the reference has {show(want)}"]


def same(want, got):
    """Equality of JSON values, which unlike Python's distinguishes true from 1."""
    if isinstance(want, dict) and isinstance(got, dict):
        return want.keys() == got.keys() and all(same(value, got[key]) for key, value in want.items())
    if isinstance(want, list) and isinstance(got, list):
        return len(want) == len(got) and all(map(same, want, got))
    return isinstance(want, bool) == isinstance(got, bool) and want == got


def show(value):
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 300 else text[:297] + "..."


def fail_on(found):
    """Fail with the first of the differences, each a `place: difference` line."""
    if found:
        more = f"\n  (+{len(found) - SHOWN} more)" if len(found) > SHOWN else ""
        pytest.fail("differs from the reference:\n  " + "\n  ".join(found[:SHOWN]) + more, pytrace=False)
