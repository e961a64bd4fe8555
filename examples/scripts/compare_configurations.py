"""Place the pods of a cluster anew under several configurations.

    python compare_configurations.py cluster.yaml a.yaml b.yaml

Print for each how many pods get a node and how many nodes stay empty.
"""

import sys

import yaml

import stowplan


def placed_anew(cluster_file, config):
    """(pods with a node, pods without, empty nodes) when all pods of the file come again, in its order."""
    with open(cluster_file) as file:
        objects = list(yaml.safe_load_all(file))
    for obj in objects:
        if obj["kind"] == "Pod":
            obj["spec"].pop("nodeName", None)
    cluster = stowplan.Cluster(objects, config=config)
    decisions = cluster.schedule()
    placed = sum(1 for decision in decisions if decision.node_name)
    used = {info.node_name for info in cluster.state.placed_pods()}
    return placed, len(decisions) - placed, cluster.state.table.count - len(used)


def main():
    cluster_file, *configs = sys.argv[1:]
    print(f"{'configuration':<36}{'placed':>8}{'pending':>9}{'empty nodes':>13}")
    for config in [None, *configs]:
        placed, pending, empty = placed_anew(cluster_file, config)
        print(f"{config or 'default':<36}{placed:>8}{pending:>9}{empty:>13}")


if __name__ == "__main__":
    main()
