"""InterPodAffinity: the spec's tables and quirks, and counts per domain compared with the plain rule per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import stowplan
from stowplan.kube.config.features import default_features
from stowplan.kube.kubernetes_versions import V1_36, V1_37
from stowplan.scheduler.cluster.view import Nodes
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.events import Hint
from stowplan.scheduler.framework.handle import Handle
from stowplan.scheduler.in_tree.inter_pod_affinity.declaration import InterPodAffinityArgs
from stowplan.scheduler.in_tree.inter_pod_affinity.hints import after_node_change, after_pod_change
from stowplan.scheduler.in_tree.inter_pod_affinity.plugin import InterPodAffinity
from stowplan.testing import a_node, a_pod, expression, selector
from support.examples import examples
from support.plugins.per_node_answers import SKIPPED, filtered, plugin_on, scored
from support.scheduling.plain_rules import (
    AVOIDED,
    AVOIDING,
    AWAY,
    NEVER,
    Affinity,
    labels_of,
    last_versions,
    name_of,
    on_node,
    terms,
)
from support.scheduling.worlds import HOST, ZONE, bound, clusters, namespace, pods, state_of, struct

DB, WEB, TIER = (selector(labels=labels) for labels in ({"app": "db"}, {"app": "web"}, {"tier": "1"}))


def four_nodes():
    """n1 and n2 in zone a, n3 in zone b, n4 without labels."""
    nodes = [a_node("n1").zone("a"), a_node("n2").zone("a"), a_node("n3").zone("b"), a_node("n4").without_labels(HOST)]
    return nodes


def pod_on(node, name="e", **labels):
    return a_pod(f"{name}-{node}").labels(labels).on(node)


def refusals(pod, *existing, objects=(), nodes=None, args=None):
    state = state_of(nodes or four_nodes(), existing, objects)
    plugin = plugin_on(InterPodAffinity, state, args or InterPodAffinityArgs())
    found = filtered(plugin, state, state.pod_info(struct(pod)))
    return list(found.values()) if isinstance(found, dict) else found


# -- filter: examples --------------------------------------------------------------------------------------------------

NEAR_DB = a_pod().requires_pods(ZONE, DB)
OK = None


@pytest.mark.parametrize(
    ("pod", "existing", "expected"),
    [
        pytest.param(NEAR_DB, [pod_on("n1", app="db")], [OK, OK, AWAY, AWAY], id="near db"),
        pytest.param(
            a_pod().labels(app="db").requires_pods(ZONE, DB), [], [OK, OK, OK, AWAY], id="the first of its group"
        ),
        pytest.param(
            a_pod().labels(app="db").requires_pods(ZONE, DB),
            [pod_on("n4", app="db")],
            [OK, OK, OK, AWAY],
            id="the only one is on a node without the key",
        ),
        pytest.param(
            a_pod().avoids_pods(ZONE, WEB), [pod_on("n1", app="web")], [AVOIDED, AVOIDED, OK, OK], id="away, by zone"
        ),
        pytest.param(
            a_pod().labels(app="web"),
            [pod_on("n3").avoids_pods(ZONE, WEB)],
            [OK, OK, AVOIDING, OK],
            id="excluded by an existing pod",
        ),
        pytest.param(
            a_pod().requires_pods(ZONE, DB).requires_pods(HOST, TIER),
            [pod_on("n1", app="db", tier="1")],
            [OK, AWAY, AWAY, AWAY],
            id="all terms must match",
        ),
        pytest.param(a_pod(), [pod_on("n1", app="web")], SKIPPED, id="nothing to do"),
    ],
)
def test_rules(pod, existing, expected):
    assert refusals(pod, *existing) == expected


NAMESPACES = [
    namespace("default", team="red"),
    namespace("blue", team="blue"),
    namespace("green", team="green", kind="prod"),
]


@pytest.mark.parametrize(
    ("where", "reached"),
    [
        pytest.param({}, ["default"], id="default: its own"),
        pytest.param({"namespace_selector": selector(labels={"team": "blue"})}, ["blue"], id="selected"),
        pytest.param(
            {"namespaces": ("default",), "namespace_selector": selector(labels={"kind": "prod"})},
            ["default", "green"],
            id="listed and selected",
        ),
        # Parity: only negative requirements match "no labels", so they reach every namespace.
        pytest.param(
            {"namespace_selector": selector(expression("team", "NotIn", "blue"))},
            ["default", "blue", "green", "unknown"],
            id="negative only",
        ),
        pytest.param(
            {"namespace_selector": selector(expression("team", "NotIn", "blue"), labels={"kind": "prod"})},
            ["green"],
            id="negative and positive",
        ),
    ],
)
def test_namespaces_that_an_incoming_pods_term_reaches(where, reached):
    found = []
    for name in ("default", "blue", "green", "unknown"):
        there = a_pod("e", name).labels(app="web").on("n1")
        if refusals(a_pod().avoids_pods(HOST, WEB, **where), there, objects=NAMESPACES)[0] == AVOIDED:
            found.append(name)
    assert found == reached


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(
            a_pod().requires_pods(ZONE, selector(labels={"service": "{{.bad-value.}}"})),
            'requiredAffinityTerms: values[0][service]: Invalid value: "{{.bad-value.}}": a valid label must be an '
            "empty string or consist of ",
            id="bad value",
        ),
        pytest.param(
            a_pod().prefers_pods(1, ZONE, selector(expression("app", "Likes"))),
            'preferredAffinityTerms: "Likes" is not a valid label selector operator',
            id="preferred",
        ),
        pytest.param(
            a_pod()
            .avoids_pods(ZONE, selector(expression("a", "X")))
            .prefers_no_pods(1, ZONE, selector(expression("b", "Y"))),
            '[requiredAntiAffinityTerms: "X" is not a valid label selector operator, '
            'preferredAntiAffinityTerms: "Y" is not a valid label selector operator]',
            id="several",
        ),
    ],
)
def test_invalid_terms(pod, text):
    status = refusals(pod)
    assert status.code is NEVER
    assert status.message.startswith(f"parsing pod: {text}")


# -- scores: examples --------------------------------------------------------------------------------------------------


def scores_of(pod, *existing, args=None, nodes=None, objects=()):
    state = state_of(nodes or four_nodes()[:3], existing, objects)
    plugin = plugin_on(InterPodAffinity, state, args or InterPodAffinityArgs())
    found = scored(plugin, state, state.pod_info(struct(pod)))
    return found if found == SKIPPED else tuple(list(part.values()) for part in found)


def test_preferred_terms():
    pod = a_pod().prefers_pods(8, ZONE, DB).prefers_no_pods(3, HOST, WEB)
    assert scores_of(pod, pod_on("n1", app="db"), pod_on("n2", app="web")) == ([8, 5, 0], [100, 62, 0])


@pytest.mark.parametrize(
    ("holder", "args", "expected"),
    [
        pytest.param(a_pod("e").requires_pods(ZONE, WEB), {}, ([0, 0, 1], [0, 0, 100]), id="hard affinity"),
        pytest.param(a_pod("e").requires_pods(ZONE, WEB), {"hard_pod_affinity_weight": 0}, SKIPPED, id="no weight"),
        pytest.param(a_pod("e").prefers_pods(4, ZONE, WEB), {}, ([0, 0, 4], [0, 0, 100]), id="likes"),
        pytest.param(a_pod("e").prefers_no_pods(4, ZONE, WEB), {}, ([0, 0, -4], [100, 100, 0]), id="dislikes"),
        pytest.param(a_pod("e").avoids_pods(ZONE, WEB), {}, SKIPPED, id="required anti-affinity is no preference"),
        pytest.param(
            a_pod("e").prefers_pods(4, ZONE, WEB),
            {"ignore_preferred_terms_of_existing_pods": True},
            SKIPPED,
            id="ignored",
        ),
    ],
)
def test_scores_from_existing_pods(holder, args, expected):
    found = scores_of(a_pod().labels(app="web"), holder.on("n3"), args=InterPodAffinityArgs(**args))
    assert found == expected


# -- compared with the plain rule per node -----------------------------------------------------------------------------


class Plain(Affinity):
    """The rule of the spec for an incoming pod."""

    def filter(self):
        if not self.near and not self.far and not self.avoiding:
            return SKIPPED
        return {name_of(node): self.verdict(node) for node in self.nodes}

    def score(self, hard_weight, ignore_existing, feasible):
        likes = terms(self.pod, "podAffinity", "preferred")
        dislikes = terms(self.pod, "podAntiAffinity", "preferred")
        if ignore_existing and not likes and not dislikes:
            return SKIPPED
        table = {}
        for node in self.nodes:
            for other in on_node(self.placed, node):
                self.weigh(table, node, other, likes, dislikes, hard_weight)
        if not table:
            return SKIPPED
        raw = {name_of(n): sum(table.get(pair, 0) for pair in labels_of(n).items()) for n in self.nodes}
        raw = {name: score for name, score in raw.items() if name in feasible}
        low, high = min(raw.values()), max(raw.values())
        return {n: 0 if low == high else int(100.0 * (float(s - low) / float(high - low))) for n, s in raw.items()}

    def weigh(self, table, node, other, likes, dislikes, hard_weight):
        for sign, listed in ((1, likes), (-1, dislikes)):
            for weight, t in listed:
                if self.reaches(t, other):
                    self.add(table, t, node, sign * weight)
        for _, t in terms(other, "podAffinity", "required") if hard_weight else ():
            if self.is_reached(t, other):
                self.add(table, t, node, hard_weight)
        for sign, kind in ((1, "podAffinity"), (-1, "podAntiAffinity")):
            for weight, t in terms(other, kind, "preferred"):
                if self.is_reached(t, other):
                    self.add(table, t, node, sign * weight)


TERM_KINDS = ("near", "away", "prefers", "prefers no")
crowded = clusters(most_nodes=6, most_pods=12, special=TERM_KINDS)


@examples(250)
@given(crowded, pods(special=TERM_KINDS, most=3))
def test_filter_equals_the_rule(cluster, pod):
    nodes, placed, objects = cluster
    objects = last_versions(objects)
    state = state_of(nodes, placed, objects)
    got = filtered(plugin_on(InterPodAffinity, state, InterPodAffinityArgs()), state, state.pod_info(struct(pod)))
    assert got == Plain(pod, nodes, placed, objects).filter()


@examples(250)
@given(
    crowded,
    pods(special=("prefers", "prefers no", "near"), most=3),
    st.sampled_from((0, 1, 50)),
    st.sampled_from((False, False, True)),
    st.integers(0, 5),
)
def test_scores_equal_the_rule(cluster, pod, hard_weight, ignore, left_out):
    nodes, placed, objects = cluster
    objects = last_versions(objects)
    state = state_of(nodes, placed, objects)
    args = InterPodAffinityArgs(hard_pod_affinity_weight=hard_weight, ignore_preferred_terms_of_existing_pods=ignore)
    feasible = [name_of(n) for n in nodes if name_of(n) != f"n{left_out}"] or [name_of(nodes[0])]
    got = scored(plugin_on(InterPodAffinity, state, args), state, state.pod_info(struct(pod)), feasible)
    want = Plain(pod, nodes, placed, objects).score(hard_weight, ignore, feasible)
    # A plugin that skips is equivalent to one that scores all nodes zero.
    nothing = dict.fromkeys(feasible, 0)
    assert (nothing if got == SKIPPED else got[1]) == (nothing if want == SKIPPED else want)


@given(crowded, pods(special=TERM_KINDS, most=3), st.data())
def test_counts_follow_changes_of_pods_and_namespaces(cluster, pod, data):
    """The same plugin is called again after changes, so its cached state must be kept current."""
    nodes, placed, objects = cluster
    objects = last_versions(objects)
    state = state_of(nodes, placed, objects)
    plugin, info = plugin_on(InterPodAffinity, state, InterPodAffinityArgs()), state.pod_info(struct(pod))
    for i in range(5):
        plain = Plain(pod, nodes, placed, last_versions(objects))
        assert filtered(plugin, state, info) == plain.filter()
        what = data.draw(st.sampled_from(("take", "put", "put", "namespace")))
        if what == "take" and placed:
            gone = placed.pop(data.draw(st.integers(0, len(placed) - 1)))
            state.remove_pod(gone["metadata"]["uid"])
        elif what == "put":
            new = bound(data.draw(pods(f"new{i}", special=TERM_KINDS)), name_of(data.draw(st.sampled_from(nodes))))
            placed.append(new)
            state.add_pod(struct(new))
        elif what == "namespace":
            objects = [*objects, namespace("blue", team=data.draw(st.sampled_from(("blue", "red"))))]
            state.put_object(struct(objects[-1]))


# -- events ------------------------------------------------------------------------------------------------------------


def test_update_hints_ignore_binding():
    """Binding a pod is an add event, not an update."""
    state = state_of([a_node("n")])
    handle = plugin_on(InterPodAffinity, state, InterPodAffinityArgs()).handle
    pod = state.pod_info(struct(NEAR_DB))
    bare, labelled = a_pod("o").on("n"), a_pod("o").labels(app="db").on("n")
    assert after_pod_change(handle, pod, struct(bare), struct(labelled)) is Hint.QUEUE
    assert after_pod_change(handle, pod, struct(a_pod("o")), struct(labelled)) is Hint.SKIP
    assert after_pod_change(handle, pod, None, struct(labelled)) is Hint.QUEUE


NEAR = {"near": [("service", "securityscan", "value2")]}
FAR = {"far": [("service", "securityscan", "value2")]}
#: Upstream's Test_isSchedulableAfterPodChange: the waiting pod's labels and terms (key, values…), the changed pod
#: before and after, and whether the waiting pod is tried again. "Until 1.36" cases are ours.
POD_CHANGES = {
    "add a pod which matches the pod affinity": (NEAR, None, {"service": "securityscan"}, True),
    "add an un-scheduled pod": (NEAR, None, {"service": "securityscan", "node": ""}, False),
    "add a pod which doesn't match the pod affinity": (NEAR, None, {"aaa": "a"}, False),
    "update from non-match to match": (NEAR, {"aaa": "a"}, {"service": "securityscan"}, True),
    "matches both before and after": (NEAR, {"service": "value2"}, {"service": "securityscan"}, False),
    "update an un-scheduled pod": (NEAR, {"aaa": "a", "node": ""}, {"service": "securityscan", "node": ""}, False),
    "update from match to non-match": (NEAR, {"service": "securityscan"}, {"aaa": "a"}, False),
    "match to non-match of several terms": (
        {"near": [("aaa",), ("bbb",)]},
        {"aaa": "a"},
        {"service": "securityscan"},
        False,
    ),
    "non-match to match of several terms": ({"near": [("aaa",), ("bbb",)]}, {"aaa": "a"}, {"aaa": "", "bbb": ""}, True),
    "updated pod is the target pod": ({"foo": "baz"}, {"foo": "bar", "own": ""}, {"foo": "baz", "own": ""}, True),
    "no longer avoided": (FAR, {"service": "securityscan"}, {"service": "aaaa"}, True),
    "avoided from now on": (FAR, {"service": "bbb"}, {"service": "securityscan"}, False),
    "delete a pod which doesn't match the anti-affinity": (FAR, {"aaa": "a"}, None, False),
    "delete a pod which matches the anti-affinity": (FAR, {"service": "securityscan"}, None, True),
    "delete a pod that avoided the pending one": ({"service": "securityscan"}, FAR, None, True),
    "delete a pod that avoided others": ({"service": "foo"}, FAR, None, False),
    "delete a pod, neither avoids the other": (FAR | {"service": "foo"}, FAR | {"service": "foo"}, None, False),
}
FAR_FROM_TWO = {"far": [("aaa",), ("bbb",)]}
#: With several anti-affinity terms: before, after, and the hints of 1.36 and 1.37.
SEVERAL_AVOIDED = [
    ({"aaa": ""}, None, (False, True)),
    ({"aaa": "", "bbb": ""}, None, (True, True)),
    ({"aaa": ""}, {"ccc": ""}, (False, True)),
    ({"aaa": "", "bbb": ""}, {"bbb": ""}, (True, False)),
]


def pod_of(labels, name="other"):
    """`near` and `far` are its terms; `node` is "" for a pod without one, `own` marks the waiting pod itself."""
    plain = {key: value for key, value in labels.items() if key not in ("near", "far", "node", "own")}
    made = a_pod("p" if "own" in labels else name).labels(plain)
    for key, *values in labels.get("near", ()):
        made = made.requires_pods("region", selector(expression(key, "In" if values else "Exists", *values)))
    for key, *values in labels.get("far", ()):
        made = made.avoids_pods("region", selector(expression(key, "In" if values else "Exists", *values)))
    return struct(made if labels.get("node") == "" or name == "p" else made.on("fake-node"))


def hint_after(waiting, before, after, version):
    state = state_of([a_node("fake-node")])
    handle = Handle(cluster=state, profile_name="default-scheduler", features=default_features(version))
    old, new = (None if labels is None else pod_of(labels) for labels in (before, after))
    return after_pod_change(handle, state.pod_info(pod_of(waiting, "p")), old, new) is Hint.QUEUE


@pytest.mark.parametrize("version", [V1_36, V1_37], ids=str)
@pytest.mark.parametrize(("waiting", "before", "after", "queued"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_upstreams_hints_after_changes_of_pods(waiting, before, after, queued, version):
    assert hint_after(waiting, before, after, version) == queued


@pytest.mark.parametrize(("before", "after", "queued"), SEVERAL_AVOIDED)
def test_since_1_37_a_single_anti_affinity_term_suffices(before, after, queued):
    assert tuple(hint_after(FAR_FROM_TWO, before, after, version) for version in (V1_36, V1_37)) == queued


ZONE_1, ZONE_2, OTHER = {"zone": "zone1"}, {"zone": "zone2"}, {"aaa": "a"}
#: Upstream's Test_isSchedulableAfterNodeChange: the term, the node's labels before and after, whether it is tried.
NODE_CHANGES = [
    ("requires_pods", "zone", None, ZONE_1, True),
    ("requires_pods", "region", None, ZONE_1, False),
    ("requires_pods", "zone", OTHER, {"aaa": "b"}, False),
    ("requires_pods", "zone", ZONE_1, ZONE_1 | {"unrelated-label": "unrelated"}, False),
    ("requires_pods", "zone", ZONE_1, ZONE_2, True),
    ("requires_pods", "zone", OTHER, ZONE_1, True),
    ("avoids_pods", "zone", None, ZONE_1, True),
    ("avoids_pods", "zone", None, {}, True),
    ("avoids_pods", "zone", ZONE_1, ZONE_1 | {"unrelated-label": "unrelated"}, False),
    ("avoids_pods", "zone", ZONE_1, ZONE_2, True),
    ("avoids_pods", "zone", OTHER, ZONE_1, False),
    ("avoids_pods", "zone", ZONE_1, OTHER, True),
]


@pytest.mark.parametrize(("term", "key", "before", "after", "queued"), NODE_CHANGES)
def test_upstreams_hints_after_changes_of_nodes(term, key, before, after, queued):
    pod = state_of([]).pod_info(struct(getattr(a_pod("p"), term)(key, selector(labels={"another": "label"}))))
    old, new = (None if labels is None else struct(a_node("node-a").labels(labels)) for labels in (before, after))
    assert (after_node_change(pod, old, new) is Hint.QUEUE) == queued


def test_hints_for_invalid_terms_are_errors():
    cluster = stowplan.Cluster([a_node("a").obj()])
    broken = a_pod().requires_pods(ZONE, selector(labels={"service": "{{.bad-value.}}"})).obj()
    added = a_pod("other").on("a").obj()
    assert cluster.hints(None, added, broken)["hints"]["InterPodAffinity"] == "Error"
    assert cluster.hints(None, a_node("b").obj(), broken)["hints"]["InterPodAffinity"] == "Error"


@pytest.mark.parametrize(
    ("pod", "existing", "lasting"),
    [
        pytest.param(a_pod().labels(app="web"), a_pod("e").on("n1"), "1234", id="no terms"),
        pytest.param(a_pod().labels(app="web"), a_pod("e").avoids_pods(ZONE, WEB).on("n4"), None, id="may be avoided"),
        pytest.param(a_pod().labels(app="db"), a_pod("e").avoids_pods(ZONE, WEB).on("n1"), "1234", id="others are"),
        pytest.param(a_pod().avoids_pods(ZONE, DB), a_pod("e").on("n1"), None, id="avoids in a zone"),
        pytest.param(a_pod().avoids_pods(HOST, DB), a_pod("e").labels(app="db").on("n1"), "234", id="avoids on a node"),
        pytest.param(a_pod().requires_pods(HOST, DB), a_pod("e").labels(app="db").on("n1"), "", id="may be lost"),
        pytest.param(a_pod().prefers_pods(1, ZONE, DB), a_pod("e").on("n1"), "1234", id="prefers"),
    ],
)
def test_nodes_that_are_not_refused_wherever_others_go(pod, existing, lasting):
    """A term's holder on a node without the topology key may get another node."""
    state = state_of(four_nodes(), [existing])
    plugin, info, cycle = (
        plugin_on(InterPodAffinity, state, InterPodAffinityArgs()),
        state.pod_info(struct(pod)),
        CycleState(),
    )
    plugin.pre_filter(cycle, info, Nodes(state))
    found = plugin.guaranteed_feasible_sets(cycle, info, 1)
    assert (found and ["".join(str(row + 1) for row in sorted(rows.nonzero()[0])) for rows in found.sets]) == (
        None if lasting is None else [lasting]
    )


def test_pods_to_be_near_on_two_nodes_outlast_the_loss_of_one():
    state = state_of(four_nodes(), [pod_on(node, app="db") for node in ("n1", "n2", "n3")])
    plugin, info, cycle = (
        plugin_on(InterPodAffinity, state, InterPodAffinityArgs()),
        state.pod_info(struct(NEAR_DB)),
        CycleState(),
    )
    plugin.pre_filter(cycle, info, Nodes(state))
    sets = [plugin.guaranteed_feasible_sets(cycle, info, lost) for lost in (0, 1, 2)]
    assert [found.sets[0].tolist() for found in sets] == [[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
