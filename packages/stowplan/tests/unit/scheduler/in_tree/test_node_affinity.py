"""NodeAffinity: the spec's tables, and masks compared with the plain rule per node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.api.decode import convert
from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.api.types import NodeAffinity as NodeAffinitySpec
from stowplan.scheduler.framework.cycle_state import CycleState
from stowplan.scheduler.framework.interface import PreFilterResult
from stowplan.scheduler.framework.status import SKIP, Code
from stowplan.scheduler.in_tree.common.node_selection import matches_required_affinity, required_node_affinity_mask
from stowplan.scheduler.in_tree.node_affinity.declaration import NodeAffinityArgs
from stowplan.scheduler.in_tree.node_affinity.plugin import NodeAffinity
from stowplan.testing import a_node, a_pod, expression

MISMATCH = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def named(*names, operator="In"):
    return expression("metadata.name", operator, *names)


def added(**fields):
    return NodeAffinityArgs(added_affinity=convert(fields, NodeAffinitySpec))


def required(*terms):
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}


def with_required(*terms):
    return a_pod().spec(affinity={"nodeAffinity": required(*terms)})


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(
            a_pod().requires_node(fields=[named("n1")]).requires_node(fields=[named("n2")]), {"n1", "n2"}, id="union"
        ),
        pytest.param(
            a_pod().requires_node(fields=[named("n1")]).requires_node(expression("zone", "In", "a")),
            None,
            id="a term without names",
        ),
        pytest.param(
            a_pod().requires_node(expression("foo", "In", "bar"), fields=[named("n1")]), {"n1"}, id="and an expression"
        ),
        pytest.param(a_pod().requires_node(fields=[named("n1", operator="NotIn")]), None, id="not in"),
        pytest.param(with_required(), None, id="no terms"),
        pytest.param(a_pod().node_selector(a="b"), None, id="node selector"),
    ],
)
def test_required_names_restrict_the_nodes(bench, pod, expected):
    answer = bench(NodeAffinity).pre_filter(pod)
    assert answer == (None if expected is None else PreFilterResult(frozenset(expected)))


def test_conflicting_names_are_unschedulable(bench):
    status = bench(NodeAffinity).pre_filter(a_pod().requires_node(fields=[named("n1"), named("n2")]))
    assert (status.code, status.message) == (Code.UnschedulableAndUnresolvable, "pod affinity terms conflict")


@pytest.mark.parametrize(
    "pod", [a_pod(), a_pod().spec(affinity={"nodeAffinity": {}}), a_pod().prefers_node(1, named("x"))]
)
def test_pods_without_affinity_skip(bench, pod):
    assert bench(NodeAffinity).pre_filter(pod) is SKIP


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(a_pod().node_selector(foo="bar", x="y"), False, id="selector with a missing label"),
        pytest.param(a_pod().requires_node(expression("none", "NotIn", "x")), True, id="not in, label absent"),
        pytest.param(a_pod().requires_node(expression("gen", "Gt", "5")), True, id="gt, leading zero"),
        pytest.param(a_pod().requires_node(expression("gen", "Lt", "7")), False, id="lt is strict"),
        pytest.param(a_pod().requires_node(expression("foo", "Gt", "5")), False, id="gt, no number"),
        pytest.param(with_required({}), False, id="empty term"),
        pytest.param(a_pod().requires_node(expression("foo", "In", "{il!egal}")), False, id="unparsable"),
        pytest.param(
            a_pod().requires_node(expression("foo", "In", "{il!egal}")).requires_node(expression("foo", "Exists")),
            True,
            id="unparsable beside one that matches",
        ),
        pytest.param(
            a_pod().requires_node(expression("no", "Exists")).requires_node(fields=[named("n1")]),
            True,
            id="name or expression",
        ),
        pytest.param(a_pod().requires_node(fields=[named("n1", "n2")]), False, id="a field takes one value"),
    ],
)
def test_required(bench, pod, fits):
    world = bench(NodeAffinity, a_node("n1").labels({"foo": "bar", "gen": "07"}), *(a_node(f"x{i}") for i in range(20)))
    expected = {} if fits else {"n1": MISMATCH}
    assert world.refusals(pod, "n1") == expected
    assert {n: r for n, r in world.refusals(pod).items() if n == "n1"} == expected


def test_added_affinity_is_enforced_first(bench):
    args = added(**required({"matchExpressions": [expression("pool", "In", "batch")]}))
    world = bench(NodeAffinity, a_node("in").labels({"pool": "batch"}), a_node("out"), args=args)
    assert world.refusals(a_pod()) == {"out": ENFORCED}
    assert world.refusals(a_pod().node_selector(a="b")) == {"in": MISMATCH, "out": ENFORCED}


def test_added_affinity_must_parse(bench):
    with pytest.raises(SelectorError, match=r"^parsing addedAffinity\.requiredDuring"):
        bench(NodeAffinity, args=added(**required({"matchExpressions": [expression("a b", "Exists")]})))


def preferring(*weights):
    pod = a_pod()
    for i, weight in enumerate(weights):
        pod.prefers_node(weight, expression("i", "In", str(i)))
    return pod


def test_added_preferences_are_combined_with_the_pods(bench):
    term = {"weight": 3, "preference": {"matchExpressions": [expression("i", "In", "1")]}}
    args = added(preferredDuringSchedulingIgnoredDuringExecution=[term])
    nodes = [a_node(f"n{i}").labels({"i": str(i)}) for i in range(3)]
    world = bench(NodeAffinity, *nodes, args=args)
    assert list(world.scores(preferring(2, 0, 5)).values()) == [40, 60, 100]
    assert world.scores(a_pod(), "n0", "n1") == {"n0": 0, "n1": 100}


def test_nothing_preferred_skips_scoring(bench):
    assert bench(NodeAffinity, a_node()).scores(a_pod()) is None


def test_an_unparsable_preference_is_an_error(bench):
    world = bench(NodeAffinity, a_node())
    pod = world.pod(a_pod().prefers_node(1, expression("invalid key", "Exists")))
    for status in (
        world.plugin.pre_score(CycleState(), pod, world.nodes()),
        world.plugin.score(CycleState(), pod, world.nodes()),
    ):
        assert status.code is Code.Error
        assert status.message.startswith('[0].matchExpressions[0].key: Invalid value: "invalid key"')


def test_hint_with_added_affinity(bench):
    world = bench(NodeAffinity, args=added(**required({"matchExpressions": [expression("pool", "Exists")]})))
    assert world.hint(a_pod(), None, a_node()) == "Skip"
    assert world.hint(a_pod(), None, a_node().labels({"pool": "x"})) == "Queue"
    # Parity: the pod's own terms match before and after.
    assert world.hint(a_pod(), a_node(), a_node().labels({"pool": "x"})) == "Skip"


def test_hint_with_terms_that_do_not_parse(bench):
    pod = a_pod().requires_node(expression("foo", "In", "{il!egal}"))
    with pytest.raises(SelectorError):
        bench(NodeAffinity).hint(pod, None, a_node())


KEYS, VALUES = st.sampled_from(["a", "b"]), st.sampled_from(["1", "02", "x"])
LABELS = st.dictionaries(KEYS, VALUES)
PRESENCE = st.builds(expression, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))
EXPRESSIONS = st.one_of(
    st.builds(
        lambda k, o, v: expression(k, o, *v), KEYS, st.sampled_from(["In", "NotIn"]), st.lists(VALUES, max_size=2)
    ),
    PRESENCE,
    st.builds(expression, KEYS, st.sampled_from(["Gt", "Lt"]), VALUES),
)
FIELDS = st.builds(
    lambda k, o, v: expression(k, o, *v),
    st.sampled_from(["metadata.name", "metadata.name", "spec.other"]),
    st.sampled_from(["In", "NotIn", "Exists"]),
    st.lists(st.sampled_from(["n0", "n1", "n9", ""]), max_size=2),
)
TERMS = st.fixed_dictionaries(
    {"matchExpressions": st.lists(EXPRESSIONS, max_size=2), "matchFields": st.lists(FIELDS, max_size=2)}
)


def number(text):
    return int(text) if text.isdigit() else None


def plain_expression(e, labels):
    value, values = labels.get(e["key"]), e.get("values", [])
    match e["operator"]:
        case "In":
            return value in values if value is not None else False
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    left, right = number(value or ""), number(values[0])
    if left is None or right is None:
        return False
    return left > right if e["operator"] == "Gt" else left < right


def plain_term(term, labels, name):
    expressions, fields = term["matchExpressions"], term["matchFields"]
    if not expressions and not fields:
        return False
    for e in expressions:
        values = e.get("values", [])
        if e["operator"] in ("In", "NotIn") and not values:
            return False
        if e["operator"] in ("Gt", "Lt") and number(values[0]) is None:
            return False
    if any(f["operator"] not in ("In", "NotIn") or len(f.get("values", [])) != 1 for f in fields):
        return False
    if not all(plain_expression(e, labels) for e in expressions):
        return False
    for f in fields:
        found = (name if f["key"] == "metadata.name" else "") == f["values"][0]
        if found != (f["operator"] == "In"):
            return False
    return True


@given(
    before=st.lists(LABELS, max_size=5),
    after=st.lists(LABELS, min_size=3, max_size=12),
    gone=st.integers(0, 2),
    wanted=LABELS,
    terms=st.lists(TERMS, max_size=3),
    some=st.sets(st.integers(0, 2)),
)
def test_masks_agree_with_the_plain_rule(bench, before, after, gone, wanted, terms, some):
    world = bench(NodeAffinity)
    pod = with_required(*terms).node_selector(wanted)
    info = world.pod(pod)
    for labels_of_nodes in (before, after):
        for i, labels in enumerate(labels_of_nodes):
            world.put(a_node(f"n{i}").without_labels("kubernetes.io/hostname").labels(labels))
        # Columns exist before the next labels are written, so that their updates are tested too.
        required_node_affinity_mask(world.state.table, info)
    world.state.remove_node(f"n{gone}")

    def matches(i, labels):
        selected = all(labels.get(k) == v for k, v in wanted.items())
        return selected and any(plain_term(term, labels, f"n{i}") for term in terms)

    present = [*after, *before[len(after) :]]
    expected = {f"n{i}" for i, labels in enumerate(present) if i != gone and matches(i, labels)}
    table = world.state.table
    mask = required_node_affinity_mask(table, info)
    assert mask.shape == (table.n,)
    assert {table.names[row] for row in range(table.n) if mask[row] and table.valid[row]} == expected
    names = [f"n{i}" for i in some if i != gone]
    if names:
        nodes = world.nodes(*names)
        found = matches_required_affinity(nodes, info.shape.required_node_affinity)
        assert found.tolist() == [name in expected for name in names]


@given(
    labels_of_nodes=st.lists(LABELS, min_size=1, max_size=12),
    preferred=st.lists(
        st.tuples(st.integers(1, 100), PRESENCE),
        min_size=1,
        max_size=4,
    ),
)
def test_preferences_agree_with_the_plain_rule(bench, labels_of_nodes, preferred):
    world = bench(NodeAffinity, *(a_node(f"n{i}").labels(labels) for i, labels in enumerate(labels_of_nodes)))
    pod = a_pod()
    for weight, e in preferred:
        pod.prefers_node(weight, e)
    raw = {
        f"n{i}": sum(w for w, e in preferred if plain_expression(e, labels)) for i, labels in enumerate(labels_of_nodes)
    }
    most = max(raw.values())
    assert world.scores(pod) == {n: 100 * r // most if most else 0 for n, r in raw.items()}
    assert world.scores(pod, "n0", normalized=False) == {"n0": raw["n0"]}
