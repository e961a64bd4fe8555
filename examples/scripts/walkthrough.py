# %% [markdown]
# A cluster as a Python object. Editors that know `# %%` run this file cell by cell, as a notebook;
# `python walkthrough.py` runs all of it.

# %%
import stowplan
from stowplan.testing import a_node, a_pod

zones = ["a", "a", "b"]
nodes = [a_node(f"node-{i}").zone(zone).allocatable(cpu="4", memory="8Gi", pods="110") for i, zone in enumerate(zones)]
cluster = stowplan.Cluster([node.obj() for node in nodes])
print(cluster)

# %% [markdown]
# Six pods, at most one more in one zone than in the other.

# %%
constraint = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
web = a_pod().labels(app="web").requests(cpu="1500m").spec(topologySpreadConstraints=[constraint]).obj()
pods = [web | {"metadata": web["metadata"] | {"name": f"web-{i}", "uid": f"web-{i}"}} for i in range(6)]
decisions = cluster.schedule(pods)
for decision in decisions:
    print(decision.pod.name, "→", decision.node_name or "pending")

# %% [markdown]
# Zone b is full after two pods, so a fifth pod would unbalance the zones. What would help?

# %%
verdict = cluster.explain("web-5")
print(verdict.message)
for suggestion in verdict.suggestions():
    print("-", suggestion.text)

# %% [markdown]
# In a transaction everything may be tried; leaving it undoes the changes.

# %%
with cluster.transaction():
    cluster.add(a_node("node-3").zone("b").allocatable(cpu="4", memory="8Gi", pods="110").obj())
    after = {decision.pod.name: decision.node_name for decision in cluster.schedule()}
    print(after)
print(cluster)
