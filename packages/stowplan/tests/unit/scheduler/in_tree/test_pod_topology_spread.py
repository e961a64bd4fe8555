"""PodTopologySpread: the spec's tables, and counts per domain compared with the plain rule per node."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.scheduler.framework.status import Code
from stowplan.scheduler.in_tree.pod_topology_spread.declaration import PodTopologySpreadArgs
from stowplan.scheduler.in_tree.pod_topology_spread.plugin import PodTopologySpread
from stowplan.testing import a_node, a_pod, expression, selector
from support.examples import examples
from support.plugins.per_node_answers import SKIPPED, filtered, plugin_on, scored
from support.scheduling.plain_rules import (
    SKEWED,
    Spread,
    admitted,
    count,
    has_all,
    labels_of,
    last_versions,
    name_of,
    namespace_of,
    on_node,
    own_constraints,
    parsed_constraint,
    requirements,
)
from support.scheduling.worlds import (
    HOST,
    RACK,
    ZONE,
    bound,
    clusters,
    pods,
    replica_set,
    service,
    spread_constraints,
    state_of,
    struct,
)

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
SYSTEM = PodTopologySpreadArgs(defaulting_type="System")
NO_DEFAULTS = PodTopologySpreadArgs(defaulting_type="List")

WEB = selector(labels={"app": "web"})


def list_defaults(*constraints):
    """Arguments with these default constraints (as dicts)."""
    parsed = struct(a_pod().spec(topologySpreadConstraints=list(constraints))).spec.topology_spread_constraints
    return PodTopologySpreadArgs(default_constraints=parsed, defaulting_type="List")


# -- filter: examples --------------------------------------------------------------------------------------------------


def spread_out(counts, pod=None, **options):
    """Node -> refusal; each node is a domain, with as many matching pods as `counts` says."""
    nodes = [a_node(f"n-{zone}").zone(zone) for zone in counts]
    placed = [a_pod(f"{z}{i}").labels(app="web").on(f"n-{z}") for z, n in counts.items() for i in range(n)]
    state = state_of(nodes, placed)
    pod = pod or a_pod().labels(app="web")
    plugin = plugin_on(PodTopologySpread, state, NO_DEFAULTS)
    found = filtered(plugin, state, state.pod_info(struct(pod.spreads(ZONE, **{"matching": WEB, **options}))))
    return {name.removeprefix("n-"): refusal for name, refusal in found.items()}


@pytest.mark.parametrize(
    ("counts", "options", "pod", "refused"),
    [
        pytest.param({"a": 0, "b": 0}, {}, None, "", id="empty"),
        pytest.param({"a": 3, "b": 2}, {}, None, "a", id="the fuller one is refused"),
        pytest.param({"a": 3, "b": 2}, {"max_skew": 2}, None, "", id="a larger skew is allowed"),
        pytest.param({"a": 3, "b": 1, "c": 0}, {}, a_pod(), "a", id="a pod that does not match itself"),
        pytest.param({"a": 2, "b": 2, "c": 1}, {"min_domains": 4, "max_skew": 2}, None, "ab", id="too few domains"),
        pytest.param({"a": 2, "b": 2, "c": 1}, {"min_domains": 3, "max_skew": 2}, None, "", id="enough domains"),
        pytest.param({"a": 5, "b": 0}, {"matching": None}, None, "", id="no selector"),
        pytest.param({"a": 5, "b": 0}, {"matching": {}}, None, "", id="the empty selector counts no pods"),
    ],
)
def test_skew(counts, options, pod, refused):
    found = spread_out(counts, pod, **options)
    assert found == {zone: SKEWED if zone in refused else None for zone in counts}


@pytest.mark.parametrize(
    ("keys", "matching", "refused"),
    [
        pytest.param((), WEB, "a", id="without"),
        pytest.param(("version",), WEB, "", id="only pods of the same version"),
        pytest.param(("none",), WEB, "a", id="a label that the pod lacks"),
        pytest.param(("version",), None, "", id="no selector, no effect"),
        pytest.param(("app",), {}, "a", id="the empty selector becomes one"),
    ],
)
def test_match_label_keys(keys, matching, refused):
    state = state_of(
        [a_node("a").zone("a"), a_node("b").zone("b")], [a_pod("o").labels(app="web", version="1").on("a")]
    )
    pod = a_pod().labels(app="web", version="2").spreads(ZONE, matching, match_label_keys=keys)
    found = filtered(plugin_on(PodTopologySpread, state, NO_DEFAULTS), state, state.pod_info(struct(pod)))
    assert "".join(name for name, refusal in found.items() if refusal) == refused


@pytest.mark.parametrize(
    ("when", "text"),
    [
        (HARD, "get constraints from pod: obtaining pod's hard topology spread constraints: "),
        (SOFT, "calculating preScoreState: obtaining pod's soft topology spread constraints: "),
    ],
)
def test_a_selector_that_does_not_parse_is_an_error(when, text):
    state = state_of([a_node("a").zone("a")])
    pod = a_pod().spreads(ZONE, selector(expression("app", "Likes", "x")), when_unsatisfiable=when)
    plugin, info = plugin_on(PodTopologySpread, state, NO_DEFAULTS), state.pod_info(struct(pod))
    status = (filtered if when == HARD else scored)(plugin, state, info)
    assert (status.code, status.message) == (Code.Error, text + '"Likes" is not a valid label selector operator')


# -- scores: examples --------------------------------------------------------------------------------------------------


def soft_scores(nodes, counts, pod, args=NO_DEFAULTS, feasible=None, objects=()):
    placed = [a_pod(f"{n}-{i}").labels(app="web").on(n) for n, count in counts.items() for i in range(count)]
    state = state_of(nodes, placed, objects)
    found = scored(plugin_on(PodTopologySpread, state, args), state, state.pod_info(struct(pod)), feasible)
    return found if found == SKIPPED else tuple(list(part.values()) for part in found)


def web_pod(*keys, max_skew=1):
    pod = a_pod().labels(app="web")
    for key in keys:
        pod.spreads(key, WEB, when_unsatisfiable=SOFT, max_skew=max_skew)
    return pod


@pytest.mark.parametrize(
    ("max_skew", "raw", "normal"),
    [
        pytest.param(1, [6, 2, 2, 0, 4], [0, 66, 66, 100, 33], id="1"),
        pytest.param(4, [9, 5, 5, 3, 7], [33, 77, 77, 100, 55], id="4"),
    ],
)
def test_soft_by_host(max_skew, raw, normal):
    nodes = [a_node(f"n{i}") for i in range(5)]
    counts = dict(zip(("n0", "n1", "n2", "n3", "n4"), (3, 1, 1, 0, 2), strict=True))
    assert soft_scores(nodes, counts, web_pod(HOST, max_skew=max_skew)) == (raw, normal)


@pytest.mark.parametrize(
    ("zones", "raw", "normal"),
    [
        pytest.param("1122", [14, 12, 6, 6], [42, 57, 100, 100], id="two zones"),
        pytest.param(["", "", "", ""], [6, 4, 2, 2], [33, 66, 100, 100], id="no zones"),
    ],
)
def test_system_defaults(zones, raw, normal):
    nodes = [a_node(n).zone(z) if z else a_node(n) for n, z in zip("abcd", zones, strict=True)]
    pod = a_pod().labels(app="web")
    assert soft_scores(nodes, {"a": 2, "b": 1}, pod, SYSTEM, objects=[service("web", app="web")]) == (raw, normal)


def test_an_empty_zone_and_no_zone_are_one_domain_to_system_defaults():
    """Nodes without a zone are not scored by it, but their pods count for the empty zone."""
    nodes = [a_node("a").zone("1"), a_node("b").labels({ZONE: ""}), a_node("c")]
    pod, objects = a_pod().labels(app="web"), [service("web", app="web")]
    raw, _ = soft_scores(nodes, {"a": 1, "c": 2}, pod, SYSTEM, objects=objects)
    by_host, by_zone = math.log(3 + 2), math.log(2 + 2)
    assert raw == [round(by_host + 2 + by_zone + 4), round(2 + 2 * by_zone + 4), round(2 * by_host + 2)]


@pytest.mark.parametrize(("gate", "refused"), [(True, []), (False, ["a"])])
def test_feature_gate_of_match_label_keys(gate, refused):
    state = state_of([a_node("a").zone("a"), a_node("b").zone("b")], [a_pod("o").labels(app="w", v="1").on("a")])
    pod = a_pod().labels(app="w", v="2").spreads(ZONE, selector(labels={"app": "w"}), match_label_keys=("v",))
    plugin = plugin_on(PodTopologySpread, state, NO_DEFAULTS, MatchLabelKeysInPodTopologySpread=gate)
    found = filtered(plugin, state, state.pod_info(struct(pod)))
    assert [name for name, refusal in found.items() if refusal] == refused


@pytest.mark.parametrize(
    ("pod", "args", "objects"),
    [
        pytest.param(a_pod().labels(app="web"), SYSTEM, (), id="no service, no default"),
        pytest.param(a_pod().labels(app="web"), SYSTEM, [service("web", "blue", app="web")], id="in another namespace"),
        pytest.param(a_pod().labels(app="web"), SYSTEM, [service("db", app="db")], id="of other pods"),
        pytest.param(a_pod().labels(app="web"), SYSTEM, [service("all")], id="that adds nothing"),
        pytest.param(a_pod().labels(app="web"), NO_DEFAULTS, [service("web", app="web")], id="no defaults configured"),
        pytest.param(
            a_pod().labels(app="web").spreads(ZONE, WEB), SYSTEM, [service("web", app="web")], id="own ones, all hard"
        ),
    ],
)
def test_skips(pod, args, objects):
    assert soft_scores([a_node("a").zone("1")], {}, pod, args, objects=objects) == SKIPPED


# -- compared with the plain rule per node -----------------------------------------------------------------------------


def default_requirements(pod, objects):
    equal, others = {}, []
    for obj in objects:
        if obj["kind"] == "Service" and obj["metadata"]["namespace"] == namespace_of(pod):
            chosen = obj["spec"]["selector"]
            if all(labels_of(pod).get(k) == v for k, v in chosen.items()):
                equal.update(chosen)
    owners = [o for o in pod["metadata"].get("ownerReferences", []) if o["controller"]]
    for obj in objects:
        same = owners and obj["kind"] == "ReplicaSet" and name_of(obj) == owners[0]["name"]
        if same and obj["metadata"]["namespace"] == namespace_of(pod):
            others = requirements(obj["spec"]["selector"])
    return [(k, "In", [v]) for k, v in equal.items()] + others


SYSTEM_CONSTRAINTS = (
    {"topologyKey": HOST, "maxSkew": 3, "whenUnsatisfiable": SOFT},
    {"topologyKey": ZONE, "maxSkew": 5, "whenUnsatisfiable": SOFT},
)


def constraint_set(pod, action, defaults, objects):
    if pod["spec"].get("topologySpreadConstraints"):
        return own_constraints(pod, action)
    needed = default_requirements(pod, objects)
    return [parsed_constraint(c, needed, {}) for c in defaults if c["whenUnsatisfiable"] == action] if needed else []


def plain_filter(pod, nodes, placed, defaults=(), objects=()):
    constraints = constraint_set(pod, HARD, defaults, objects)
    if not constraints:
        return SKIPPED
    rule = Spread(pod, nodes, placed, constraints)
    return {name_of(node): rule.verdict(node) for node in nodes}


def plain_scores(pod, nodes, placed, feasible, defaults=(), objects=(), *, system=False):
    constraints = constraint_set(pod, SOFT, defaults, objects)
    if not constraints:
        return SKIPPED
    all_keys = bool(pod["spec"].get("topologySpreadConstraints")) or not system
    candidates = [node for node in nodes if name_of(node) in feasible]
    ignored = [n for n in candidates if all_keys and not has_all(n, constraints)]
    kept = [n for n in candidates if n not in ignored]
    weights, tables = [], []
    for c in constraints:
        if c["key"] == HOST:
            weights.append(math.log(len(kept) + 2))
            tables.append(None)
            continue
        domains = {labels_of(node).get(c["key"], ""): 0 for node in kept}
        for node in nodes:
            value = labels_of(node).get(c["key"], "")
            if (has_all(node, constraints) or not all_keys) and admitted(c, pod, node) and value in domains:
                domains[value] += count(c, pod, on_node(placed, node))
        weights.append(math.log(len(domains) + 2))
        tables.append(domains)
    raw = {name_of(n): _raw(pod, n, placed, constraints, weights, tables) for n in kept}
    return raw, _stretched(raw, candidates)


def _raw(pod, node, placed, constraints, weights, tables):
    total = 0.0
    for c, weight, domains in zip(constraints, weights, tables, strict=True):
        if c["key"] in labels_of(node):
            here = count(c, pod, on_node(placed, node)) if domains is None else domains[labels_of(node)[c["key"]]]
            total += float(here) * weight + float(c["skew"] - 1)
    return math.floor(total + 0.5)


def _stretched(raw, candidates):
    low, high = min(raw.values(), default=0), max([0, *raw.values()])
    found = {}
    for node in candidates:
        name = name_of(node)
        if name not in raw:
            found[name] = 0
        else:
            found[name] = 100 if high == 0 else 100 * (high + low - raw[name]) // high
    return found


@st.composite
def spreading_pods(draw, when):
    pod = draw(pods(special=("toleration", "node affinity"), most=1))
    for c in draw(st.lists(spread_constraints(when=(when, when, HARD, SOFT)), min_size=1, max_size=3)):
        builder = a_pod().spreads(**c).obj()
        pod["spec"].setdefault("topologySpreadConstraints", []).extend(builder["spec"]["topologySpreadConstraints"])
    return pod


crowded = clusters(most_nodes=7, most_pods=14, special=())


@examples(200)
@given(crowded, spreading_pods(HARD))
def test_filter_equals_the_rule(cluster, pod):
    nodes, placed, objects = cluster
    state = state_of(nodes, placed, objects)
    got = filtered(plugin_on(PodTopologySpread, state, NO_DEFAULTS), state, state.pod_info(struct(pod)))
    assert got == plain_filter(pod, nodes, placed)


@st.composite
def candidates(draw, nodes):
    left_out = draw(st.lists(st.sampled_from([name_of(n) for n in nodes]), max_size=2, unique=True))
    return [name_of(n) for n in nodes if name_of(n) not in left_out] or [name_of(nodes[0])]


def assert_scores(got, want):
    if want == SKIPPED or got == SKIPPED:
        assert got == want
        return
    # Scores before normalization need not agree.
    assert got[1] == want[1]


@examples(200)
@given(crowded, spreading_pods(SOFT), st.data())
def test_scores_equal_the_rule(cluster, pod, data):
    nodes, placed, objects = cluster
    state = state_of(nodes, placed, objects)
    feasible = data.draw(candidates(nodes))
    plugin, info = plugin_on(PodTopologySpread, state, NO_DEFAULTS), state.pod_info(struct(pod))
    assert_scores(scored(plugin, state, info, feasible), plain_scores(pod, nodes, placed, feasible))


LISTS = (
    (),
    SYSTEM_CONSTRAINTS,
    ({"topologyKey": ZONE, "maxSkew": 1, "whenUnsatisfiable": HARD},),
    (
        {"topologyKey": ZONE, "maxSkew": 2, "whenUnsatisfiable": HARD},
        {"topologyKey": RACK, "maxSkew": 1, "whenUnsatisfiable": SOFT},
    ),
)
EXTRA = (service("db", app="db"), service("tier", tier="1"), replica_set("rs2", WEB), replica_set("rs1", {}, "blue"))


@examples(150)
@given(
    crowded,
    st.one_of(pods(special=("owner",), most=1), spreading_pods(SOFT)),
    st.sampled_from((None, *LISTS)),
    st.lists(st.sampled_from(EXTRA), max_size=2),
    st.data(),
)
def test_defaults_equal_the_rule(cluster, pod, listed, extra, data):
    nodes, placed, objects = cluster
    objects = last_versions([*objects, *extra])
    state = state_of(nodes, placed, objects)
    args, defaults = (SYSTEM, SYSTEM_CONSTRAINTS) if listed is None else (list_defaults(*listed), listed)
    plugin, info = plugin_on(PodTopologySpread, state, args), state.pod_info(struct(pod))
    assert filtered(plugin, state, info) == plain_filter(pod, nodes, placed, defaults, objects)
    feasible = data.draw(candidates(nodes))
    want = plain_scores(pod, nodes, placed, feasible, defaults, objects, system=listed is None)
    assert_scores(scored(plugin, state, info, feasible), want)


@given(crowded, spreading_pods(HARD), st.data())
def test_counts_follow_changes_of_pods(cluster, pod, data):
    """The same plugin is called again after changes, so its cached state must be kept current."""
    nodes, placed, _ = cluster
    state = state_of(nodes, placed)
    plugin, info = plugin_on(PodTopologySpread, state, NO_DEFAULTS), state.pod_info(struct(pod))
    for i in range(4):
        assert filtered(plugin, state, info) == plain_filter(pod, nodes, placed)
        if placed and data.draw(st.booleans()):
            gone = placed.pop(data.draw(st.integers(0, len(placed) - 1)))
            state.remove_pod(gone["metadata"]["uid"])
        else:
            new = bound(data.draw(pods(f"new{i}", special=())), name_of(data.draw(st.sampled_from(nodes))))
            placed.append(new)
            state.add_pod(struct(new))
