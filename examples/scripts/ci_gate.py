"""Fail a pull request whose manifests would not be placed: python ci_gate.py cluster.yaml new.yaml…

Place all pods of the manifests, one after the other, on a copy of the cluster. Exit code 1 if one stays pending or
evicts another pod.
"""

import sys

import stowplan


def problems(cluster_file, manifests):
    """A line for each pod that would stay pending or whose placement would evict somebody."""
    before = stowplan.Cluster.from_files(cluster_file)
    waiting = set(before.pending())
    after = stowplan.Cluster.from_files(cluster_file, *manifests)
    placed = {info.key for info in after.state.placed_pods()}
    new = [key for key in after.pending() if key not in waiting]
    for decision in after.schedule(new):
        if not decision.node_name:
            yield f"{decision.pod.key} would stay pending: {after.explain(decision.pod.key).message}"
    for evicted in sorted(placed - {info.key for info in after.state.placed_pods()}):
        yield f"{evicted} would be evicted"


def main():
    found = list(problems(sys.argv[1], sys.argv[2:]))
    print("\n".join(found) or "all pods would be placed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
