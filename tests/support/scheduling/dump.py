"""A ClusterState written out by node name, for comparison.

`dump` leaves out what may differ between equivalent states: row and slot numbers, shape ids, codes of label values,
versions, and the order of pods. `exact` keeps all of that: it is for states that must not have changed.
"""

from collections import Counter

import numpy as np

from stowplan.scheduler.cluster.pod_info import Disk

#: Disks that probe the disk index: each conflicts with every mount of the name.
PROBES = [Disk("gcePersistentDisk", frozenset((name,)), (), False) for name in ("d1", "d2")]


def dump(state, keys=()):
    """`keys`: the label columns to compare; missing ones are created."""
    table = state.table
    return {
        "nodes": {name: _node(state, row) for name, row in table.row_of.items()},
        "holes": _holes(state),
        "labels": {key: _column(state, key) for key in keys},
        "images": {
            name: (image.size, sorted(table.names[row] for row in image.rows)) for name, image in table.images.items()
        },
        "unschedulable": table.unschedulable_count,
        "count": table.count,
        "claims": dict(state.claim_users),
        "disks": [sorted({table.names[row] for row in state.disks.conflicting_rows([disk])}) for disk in PROBES],
        "held": {held for held, _ in state.held.items()},
        "pods": {info.uid: _pod(state, info) for info in state.placed_pods()},
        "slots": sum(info is not None for info in state.pods.infos),
    }


def _amounts(state, matrix, row):
    return {name: int(matrix[i, row]) for name, i in state.table.resources.items() if matrix[i, row]}


def _node(state, row):
    table = state.table
    return {
        "object": table.nodes[row],
        "valid": bool(table.valid[row]),
        "allocatable": _amounts(state, table.allocatable, row),
        "requested": _amounts(state, table.requested, row),
        "non_zero": table.non_zero_requested[:, row].tolist(),
        "allowed_pods": int(table.allowed_pods[row]),
        "pod_count": int(table.pod_count[row]),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": table.taints(row),
        "features": table.feature_sets.values[table.feature_set[row]],
        "ports": state.ports.on(row),
        "pods": Counter(info.uid for info in state.row_pods[row]),
        "matches": {term: int(state.matches.counts[slot, row]) for term, slot in state.matches.items()},
        "held": {held: int(state.held.counts[slot, row]) for held, slot in state.held.items()},
    }


def _holes(state):
    """Everything that is not zero on rows without a node."""
    table = state.table
    holes = np.flatnonzero(~table.valid)
    columns = {
        "allocatable": table.allocatable,
        "requested": table.requested,
        "non_zero": table.non_zero_requested,
        "allowed_pods": table.allowed_pods,
        "pod_count": table.pod_count,
        "unschedulable": table.unschedulable,
        "taint_set": table.taint_set,
        "feature_set": table.feature_set,
        "matches": state.matches.counts,
        "held": state.held.counts,
    }
    found = {name: column[..., holes].tolist() for name, column in columns.items() if column[..., holes].any()}
    listed = [row for row in holes.tolist() if row < len(state.row_pods) and state.row_pods[row]]
    ports = [row for row in holes.tolist() if state.ports.on(row)]
    return {**found, **({"pods": listed} if listed else {}), **({"ports": ports} if ports else {})}


def _column(state, key):
    column = state.table.label(key)
    codes = column.codes[: state.table.n]
    values = {name: column.values[codes[row]] if codes[row] else None for name, row in state.table.row_of.items()}
    domains = {value for value, _ in column.items()}
    found = all(column.code(value) and column.values[column.code(value)] == value for value in domains)
    in_range = bool((column.codes < column.size).all()) and not codes[~state.table.valid[: state.table.n]].any()
    return {"values": values, "domains": domains, "unique": column.unique, "found": found, "in range": in_range}


def _pod(state, info):
    pods, slot, shape = state.pods, info.slot, info.shape
    row = int(pods.row[slot])
    vector = pods.shape_requests[:, shape.id]
    return {
        "object": info.pod,
        "node": info.node_name,
        "row": state.table.names[row] if row >= 0 else None,
        "rows agree": row == info.row,
        "in its slot": pods.infos[slot] is info,
        "assumed": state.is_assumed(info.uid),
        "priority": int(pods.priority[slot]),
        "start_time": int(pods.start_time[slot]),
        "terminating": bool(pods.terminating[slot]),
        "shape": (shape.key, int(pods.shape[slot]) == shape.id, shape.refs),
        "requests": {
            name: int(vector[i]) for name, i in state.table.resources.items() if i < len(vector) and vector[i]
        },
        "non_zero": pods.shape_non_zero[:, shape.id].tolist(),
    }


def exact(state):
    """The same with every number that readers may have kept, every order, and the next numbers to be assigned."""
    pods, table = state.pods, state.table
    placed = state.placed_pods()
    n = pods.n
    used = np.array([info is not None for info in pods.infos[:n]], bool)
    return {
        "dump": dump(state),
        "rows": (table.n, list(table.names), dict(table.row_of), list(table._free)),
        "node columns": [getattr(table, name)[: table.n].tolist() for name in ("taint_set", "feature_set", "valid")],
        "numbers of taints": (list(table.taint_sets.values), list(table.taint_sets._free)),
        "node order": (table.order.rows.tolist(), table.order.by_zone()),
        "generation": table.generation,
        "position": state.changes.position,
        "pods version": pods.version,
        "objects": (
            state.objects.total_version,
            {kind: version for kind, version in state.objects._versions.items() if version},
            state.objects.dump(),
        ),
        "matches": (list(state.matches.versions), dict(state.matches.items())),
        "held": (list(state.held.versions), state.held.epoch, dict(state.held.items())),
        "order on nodes": [[info.uid for info in of_row] for of_row in state.row_pods],
        "ghosts": {name: [info.uid for info in of_node] for name, of_node in state._on_unknown_nodes.items()},
        "slots": [(info.uid, info.slot, info.row, info.node_name, info.shape.id, info.shape.refs) for info in placed],
        "order": [(info.uid, int(pods.order[info.slot])) for info in placed],
        "identity": [id(info) for info in placed],
        "next slots": [*reversed(pods._free), *range(n, n + 100)][:50],
        "pod columns": [getattr(pods, name)[:n][used].tolist() for name in ("row", "priority", "shape", "terminating")],
        "pending": [(key, id(state.pending.get(key))) for key in state.pending],
        "nominations": (
            state.nominator.version,
            [(name, [info.uid for info in state.nominator.on(name)]) for name in state.nominator.nodes()],
        ),
    }


def label_codes(state, keys):
    """The exact codes of label columns; missing ones are created."""
    found = {}
    for key in keys:
        column = state.table.label(key)
        found[key] = (column.codes[: state.table.n].tolist(), list(column.values), column.unique, list(column.items()))
    return found
