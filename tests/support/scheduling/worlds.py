"""Strategies for random nodes, pods and lookup objects, from small vocabularies so that they collide often.

Everything is drawn as plain dicts, as Kubernetes serialises them; `struct` decodes one.
"""

from functools import cache

from hypothesis import strategies as st

from stowplan.kube.api.decode import decode_object
from stowplan.kube.api.types import ApiStruct
from stowplan.testing import a_node, a_pod, expression, selector

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
GPU, FPGA = "example.com/gpu", "example.com/fpga"

#: No Namespace object is ever made for "lost".
NAMESPACES = ("default", "blue", "lost")

LABELS = ({}, {"app": "web"}, {"app": "db"}, {"app": "web", "tier": "1"}, {"app": "db", "tier": "2"}, {"tier": "1"})

#: None is absent and matches nothing; {} matches everything.
SELECTORS = (
    selector(labels={"app": "web"}),
    selector(labels={"app": "db"}),
    selector(labels={"app": "web", "tier": "1"}),
    selector(expression("app", "In", "web", "db")),
    selector(expression("app", "NotIn", "web")),
    selector(expression("tier", "Exists")),
    selector(expression("tier", "DoesNotExist")),
    selector(expression("app", "Exists"), labels={"tier": "1"}),
    {},
    None,
)

NAMESPACE_SELECTORS = (
    None,
    None,
    {},
    selector(labels={"team": "blue"}),
    selector(expression("team", "Exists")),
    selector(expression("team", "NotIn", "red")),
    selector(expression("nobody", "DoesNotExist")),
    selector(expression("team", "NotIn", "blue"), labels={"kind": "prod"}),
)

NODE_EXPRESSIONS = (
    expression("disk", "In", "ssd"),
    expression("disk", "NotIn", "ssd"),
    expression(ZONE, "Exists"),
    expression("disk", "DoesNotExist"),
    expression("cores", "Gt", "4"),
)

#: Name -> size: one size per image, as the size that is kept depends on which node reported it first.
IMAGES = {"docker.io/library/app:1": 300 << 20, "docker.io/library/app:2": 80 << 20, "big:latest": 2000 << 20}

MOMENTS = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", "2026-01-02T00:00:00Z")


def struct(obj):
    """Converts builders and dicts to structs; structs are returned unchanged."""
    if obj is None or isinstance(obj, ApiStruct):
        return obj
    return decode_object(obj.obj() if hasattr(obj, "obj") else obj)


def named_like(shape, name, **metadata):
    """A pod like this one, as a struct, whose name is also its UID."""
    return struct({**shape, "metadata": {**shape["metadata"], "name": name, "uid": name, **metadata}})


def remove_placed(state, which):
    """Remove one of the placed pods, if there are any."""
    placed = sorted(info.uid for info in state.placed_pods())
    if placed:
        state.remove_pod(placed[which % len(placed)])


def maybe(strategy, *, otherwise=None):
    """The strategy in one case of three."""
    return st.integers(0, 2).flatmap(lambda n: strategy if n == 2 else st.just(otherwise))


# Strategies that are the same for each node and pod are built once: building costs more than drawing.
_NODE_LABELS = st.tuples(
    st.sampled_from(("a", "b", "c", "", "a")),
    st.sampled_from(("", "", "r1", "r2")),
    st.sampled_from(("", "ssd", "hdd")),
    st.sampled_from(("", "2", "8", "many")),
)
_ALLOCATABLE = st.tuples(
    st.sampled_from(("4", "2", "1500m", "16", "0")),
    st.sampled_from(("8Gi", "2Gi", "1Gi", "64Gi")),
    st.sampled_from((110, 110, 4, 1, 0)),
    st.sampled_from(({}, {}, {GPU: 2}, {"ephemeral-storage": "10Gi"}, {GPU: 4, "hugepages-2Mi": "64Mi"})),
)
_ODD = st.integers(0, 15)
_TAINT_VALUES = st.sampled_from(("x", "y"))
_IMAGES = st.sampled_from(sorted(IMAGES))


@st.composite
def nodes(draw, name="n0", *, names=None):
    """A node as a dict."""
    node = a_node(draw(st.sampled_from(names)) if names else name)
    zone, rack, disk, cores = draw(_NODE_LABELS)
    node.labels({k: v for k, v in {ZONE: zone, RACK: rack, "disk": disk, "cores": cores}.items() if v})
    cpu, memory, pods, extra = draw(_ALLOCATABLE)
    node.allocatable(extra, cpu=cpu, memory=memory, pods=pods)
    odd = draw(_ODD)
    if odd == 1:
        node.without_labels(HOST)
    elif odd == 2:
        node.unschedulable()
    elif odd in (3, 4):
        node.tainted("dedicated", draw(_TAINT_VALUES), effect="NoSchedule")
    elif odd == 5:
        node.tainted("soft", effect="PreferNoSchedule")
    elif odd == 6:
        node.declares("SomeFeature")
    elif odd in (7, 8):
        image = draw(_IMAGES)
        node.image(image, size=IMAGES[image])
    return node.obj()


@cache
def spread_constraints(*, when=("DoNotSchedule", "ScheduleAnyway"), keys=(ZONE, HOST, RACK)):
    """Keyword arguments of `PodBuilder.spreads`."""
    return st.fixed_dictionaries(
        {
            "topology_key": st.sampled_from(keys),
            "matching": st.sampled_from(SELECTORS),
            "max_skew": st.sampled_from((1, 1, 2, 5)),
            "when_unsatisfiable": st.sampled_from(when),
            "min_domains": st.sampled_from((None, None, 1, 2, 4)),
            "node_affinity_policy": st.sampled_from(("", "Honor", "Ignore")),
            "node_taints_policy": st.sampled_from(("", "Honor", "Ignore")),
            "match_label_keys": st.sampled_from(((), (), ("tier",), ("app", "tier"))),
        }
    )


@cache
def affinity_terms(*, keys=(ZONE, HOST, RACK)):
    """Keyword arguments of `PodBuilder.requires_pods` and its siblings."""
    return st.fixed_dictionaries(
        {
            "topology_key": st.sampled_from(keys),
            "matching": st.sampled_from(SELECTORS),
            "namespaces": st.sampled_from(((), (), ("blue",), ("default", "lost"))),
            "namespace_selector": st.sampled_from(NAMESPACE_SELECTORS),
        }
    )


REQUESTS = (
    {},
    {"cpu": "500m", "memory": "512Mi"},
    {"cpu": "1", "memory": "1Gi"},
    {"cpu": "250m"},
    {"memory": "700Mi"},
    {"cpu": "100m", GPU: 1},
    {"cpu": "2", "ephemeral-storage": "4Gi"},
    {FPGA: 1},
)

PLAIN = ("requests",)
SPECIAL = (
    "spread",
    "near",
    "away",
    "prefers",
    "prefers no",
    "port",
    "node affinity",
    "node preference",
    "toleration",
    "disk",
    "claim",
    "image",
    "owner",
)


_NAMESPACES = st.sampled_from(NAMESPACES)
_LABELS = st.sampled_from(LABELS)
_REQUESTS = st.sampled_from(REQUESTS)
_PRIORITIES = st.sampled_from((0, 0, 10, 100))
_WEIGHTS = st.sampled_from((1, 50, 100))
_NODE_WEIGHTS = st.sampled_from((1, 40))
_NODE_EXPRESSIONS = st.sampled_from(NODE_EXPRESSIONS)
_PORTS = st.sampled_from((80, 443))
_HOST_IPS = st.sampled_from(("", "10.0.0.1", "10.0.0.2"))
_TOLERATED_VALUES = st.sampled_from(("x", None))
_DISKS = st.sampled_from(("d1", "d2"))
_CLAIMS = st.sampled_from(("c1", "c2"))
_REPLICA_SETS = st.sampled_from(("rs1", "rs2"))


@cache
def _wishes(special, most):
    return st.lists(st.sampled_from(special), max_size=most)


@st.composite
def pods(draw, name="p0", *, names=None, special=SPECIAL, most=2, namespaces=NAMESPACES):
    """A pending pod as a dict, with up to `most` scheduling constraints."""
    pod = a_pod(draw(st.sampled_from(names)) if names else name)
    namespace_names = _NAMESPACES if namespaces is NAMESPACES else st.sampled_from(namespaces)
    pod.namespace(draw(namespace_names)).labels(draw(_LABELS)).requests(draw(_REQUESTS))
    priority = draw(_PRIORITIES)
    if priority:
        pod.priority(priority)
    for wish in draw(_wishes(tuple(special), most)) if special else ():
        _grant(draw, pod, wish)
    return pod.obj()


def _grant(draw, pod, wish):
    if wish == "spread":
        pod.spreads(**draw(spread_constraints()))
    elif wish == "near":
        pod.requires_pods(**draw(affinity_terms()))
    elif wish == "away":
        pod.avoids_pods(**draw(affinity_terms()))
    elif wish == "prefers":
        pod.prefers_pods(draw(_WEIGHTS), **draw(affinity_terms()))
    elif wish == "prefers no":
        pod.prefers_no_pods(draw(_WEIGHTS), **draw(affinity_terms()))
    elif wish == "port":
        pod.host_port(draw(_PORTS), host_ip=draw(_HOST_IPS))
    elif wish == "node affinity":
        pod.requires_node(draw(_NODE_EXPRESSIONS))
    elif wish == "node preference":
        pod.prefers_node(draw(_NODE_WEIGHTS), draw(_NODE_EXPRESSIONS))
    elif wish == "toleration":
        pod.tolerates("dedicated", draw(_TOLERATED_VALUES))
    elif wish == "disk":
        read_only = draw(st.booleans())
        pod.volume("disk", gcePersistentDisk={"pdName": draw(_DISKS), "readOnly": read_only})
    elif wish == "claim":
        pod.claims_volume(draw(_CLAIMS))
    elif wish == "image":
        pod.image(draw(_IMAGES))
    elif wish == "owner":
        pod.owner("ReplicaSet", draw(_REPLICA_SETS))


#: Constraints of a workload's pods that can be placed today.
PLACEABLE = tuple(wish for wish in SPECIAL if wish != "claim")


def namespace(name, **labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def service(name, namespace_name="default", **selects):
    metadata = {"name": name, "namespace": namespace_name}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": selects}}


def replica_set(name, matching, namespace_name="default"):
    metadata = {"name": name, "namespace": namespace_name}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": {"selector": matching}}


def budget(name, matching, allowed, *, namespace_name="default", disrupted=()):
    status = {"disruptionsAllowed": allowed, "disruptedPods": dict.fromkeys(disrupted, MOMENTS[0])}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace_name},
        "spec": {} if matching is None else {"selector": matching},
        "status": status,
    }


LOOKUP_OBJECTS = (
    namespace("default", team="red", kind="prod"),
    namespace("default"),
    namespace("blue", team="blue"),
    namespace("blue", team="red", kind="prod"),
    service("web", app="web"),
    service("web", "blue", app="web"),
    service("all"),
    replica_set("rs1", selector(labels={"app": "db"})),
    replica_set("rs1", selector(expression("tier", "Exists"))),
)


@cache
def lookup_objects():
    return st.sampled_from(LOOKUP_OBJECTS)


_LOOKUP_OBJECTS = st.lists(lookup_objects(), max_size=4)
_STARTS = st.sampled_from((*MOMENTS, None))
_ONE_IN_TEN = st.integers(0, 9)


def bound(pod, node_name, **changes):
    """The pod on a node, with changed metadata, spec or status."""
    found = {**pod, "metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "nodeName": node_name}}
    for part, values in changes.items():
        found[part] = {**found.get(part, {}), **values}
    return found


@st.composite
def clusters(draw, *, most_nodes=6, most_pods=10, special=PLACEABLE, least_nodes=1):
    """(nodes, bound pods, lookup objects) as dicts."""
    count = draw(st.integers(least_nodes, most_nodes))
    found = [draw(nodes(f"n{i}")) for i in range(count)]
    placed = []
    on = st.integers(0, count - 1)
    for i in range(draw(st.integers(0, most_pods))):
        pod = draw(pods(f"e{i}", special=special, most=1))
        metadata = {"deletionTimestamp": MOMENTS[0]} if draw(_ONE_IN_TEN) == 9 else {}
        started = draw(_STARTS)
        status = {"startTime": started} if started else {}
        node_name = f"n{draw(on)}"
        placed.append(bound(pod, node_name, metadata=pod["metadata"] | metadata, status=status))
    objects = draw(_LOOKUP_OBJECTS)
    return found, placed, objects


def state_of(nodes_, pods_=(), objects=(), *, state=None):
    """A ClusterState with all of it."""
    from stowplan.scheduler.cluster.state import ClusterState

    state = state or ClusterState()
    for node in nodes_:
        state.add_node(struct(node))
    for pod in pods_:
        state.add_pod(struct(pod))
    for obj in objects:
        state.put_object(struct(obj))
    return state
