"""Runs one plugin on a state and returns its answer per node, to compare with a plain rule."""

import numpy as np

from stowplan.kube.config import DEFAULT_FEATURES
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.framework.interface import PreFilterPlugin, PreScorePlugin
from stowplan.scheduler.framework.status import Code, Status

SKIPPED = "skipped"


def plugin_on(kind, state, args=None, **gates):
    features = DEFAULT_FEATURES.with_gates(gates)
    return kind(args, Handle(cluster=state, profile_name="default-scheduler", features=features))


def filtered(plugin, state, info):
    """Node -> None, or (code, reasons) of its refusal; or `SKIPPED`, or the Status that ended the attempt."""
    cycle, nodes = CycleState(), Nodes(state)
    if isinstance(plugin, PreFilterPlugin):
        answer = plugin.pre_filter(cycle, info, nodes)
        if isinstance(answer, Status):
            return SKIPPED if answer.code is Code.Skip else answer
    rejections = plugin.filter(cycle, info, nodes)
    if isinstance(rejections, Status):
        return rejections
    found = dict.fromkeys(state.table.row_of)
    for name, row in state.table.row_of.items():
        if rejections is not None and rejections.mask[row]:
            status = rejections.status(row)
            found[name] = (status.code, list(status.reasons))
    assert_views_agree(plugin, state, cycle, info, rejections)
    return found


def assert_views_agree(plugin, state, cycle, info, rejections):
    """A view of some rows gets the same answers as a view of all."""
    rows = np.array(sorted(state.table.row_of.values())[::2], np.intp)
    part = plugin.filter(cycle, info, Nodes(state, rows))
    whole = np.zeros(state.table.n, bool) if rejections is None else rejections.mask
    got = np.zeros(len(rows), bool) if part is None else part.mask
    assert got.tolist() == whole[rows].tolist()
    for i in np.flatnonzero(got).tolist():
        assert part.status(i) == rejections.status(int(rows[i]))


def scored(plugin, state, info, feasible=None):
    """(raw, normalized) scores, node -> int, of the feasible nodes (names; None: all); or SKIPPED, or the Status."""
    cycle, nodes = CycleState(), Nodes(state)
    mask = state.table.valid[: state.table.n].copy()
    if feasible is not None:
        mask[[row for name, row in state.table.row_of.items() if name not in feasible]] = False
    nodes.candidates = mask
    if isinstance(plugin, PreScorePlugin):
        answer = plugin.pre_score(cycle, info, nodes)
        if isinstance(answer, Status):
            return SKIPPED if answer.code is Code.Skip else answer
    raw = plugin.score(cycle, info, nodes)
    if isinstance(raw, Status):
        return raw
    rows = np.flatnonzero(mask)
    part = plugin.score(cycle, info, Nodes(state, rows))
    assert part.tolist() == raw[rows].tolist()
    before = [int(raw[row]) for row in rows]
    normal = plugin.normalize(cycle, info, raw, mask)
    names = [state.table.names[row] for row in rows]
    return dict(zip(names, before, strict=True)), {n: int(normal[r]) for n, r in zip(names, rows, strict=True)}
