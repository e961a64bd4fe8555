"""How much more of each Deployment fits, and what runs out first: python capacity_report.py cluster.yaml"""

import sys

import stowplan
from stowplan.ask.what_if import fit


def report(cluster):
    """(workload, how many more pods, what runs out) for each controller with pods in the cluster."""
    seen = set()
    for info in cluster.state.placed_pods():
        owner = next((one for one in info.pod.metadata.owner_references if one.controller), None)
        if owner is None or (info.namespace, owner.name) in seen:
            continue
        seen.add((info.namespace, owner.name))
        answer = fit(cluster, info.key)
        first = answer.limited_by[0].reason if answer.limited_by else ""
        yield f"{info.namespace}/{owner.name}", answer.fits, first


def main():
    cluster = stowplan.Cluster.from_files(*sys.argv[1:])
    for workload, more, reason in sorted(report(cluster)):
        print(f"{workload:<28}{more:>4} more  {reason}")


if __name__ == "__main__":
    main()
