"""Roots of groups: upstream's tables, backend/cache/hierarchy_test.go (September 2026, equal to what 1.37 does).

TestHierarchyWrapper_FindRootKeyForGroup, all 9 cases, and …_FindRootGroup, whose 6 cases are the same with the objects.
An error for a cycle is no root here, as for a group that does not exist.
"""

import pytest

from stowplan.scheduler.cluster.state import ClusterState
from support.scheduling.groups import a_composite, a_group
from support.scheduling.worlds import struct

GROUPS = [
    a_group("pg1", parent="cpg1"),
    a_group("pg-root"),
    a_group("pg-cycle", parent="cycle1"),
    a_group("pg-missing-parent", parent="nobody"),
    a_composite("cpg1", parent="cpg2"),
    a_composite("cpg2"),
    a_composite("cycle1", parent="cycle2"),
    a_composite("cycle2", parent="cycle1"),
]


def key(name):
    return f"default/{name}" if name.startswith("pg") or not name else f"compositepodgroup/default/{name}"


@pytest.mark.parametrize(
    ("exist", "group", "root"),
    [
        (True, "pg1", "cpg2"),
        (True, "cpg1", "cpg2"),
        (True, "cpg2", "cpg2"),
        (True, "pg-root", "pg-root"),
        (False, "pg1", "pg1"),
        (True, "pg-missing-parent", None),
        (True, "pg-nobody", None),
        (True, "pg-cycle", None),
    ],
)
def test_roots(exist, group, root):
    state = ClusterState(has_group_trees=exist)
    for one in GROUPS:
        state.put_object(struct(one))
    trees = state.group_trees
    assert trees.root(key(group)) == ("" if root is None else key(root))
    if root is not None:
        assert trees.get(trees.root(key(group))).metadata.name == root
