"""Node selectors, preferred terms, and a pod's required node affinity."""

import pytest

from stowplan.kube.api.decode import convert
from stowplan.kube.api.label_selectors import SelectorError
from stowplan.kube.api.node_selectors import (
    RequiredNodeAffinity,
    compile_node_selector,
    compile_preferred_terms,
    node_selector_errors,
    preferred_terms_errors,
)
from stowplan.kube.api.types import NodeSelector, Pod, PreferredSchedulingTerm

LABELS = {"foo": "bar", "gen": "07"}


def a_term(*expressions, fields=()):
    def entries(rows):
        return [{"key": key, "operator": operator, "values": list(values)} for key, operator, *values in rows]

    return {"matchExpressions": entries(expressions), "matchFields": entries(fields)}


def a_node_selector(*terms):
    return convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


NAMED = ("metadata.name", "In", "n1")
FALSE = ("foo", "In", "no")


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param((), False, id="no terms"),
        pytest.param((a_term(),), False, id="empty term"),
        pytest.param((a_term(("foo", "In", "bar", "v2")),), True, id="In"),
        pytest.param((a_term(("foo", "NotIn", "x")),), True, id="NotIn"),
        pytest.param((a_term(("gen", "Gt", "5")),), True, id="Gt"),
        pytest.param((a_term(("foo", "Lt", "5")),), False, id="Lt on a word"),
        pytest.param((a_term(("foo", "Exists"), FALSE),), False, id="AND"),
        pytest.param((a_term(FALSE), a_term(("foo", "Exists"))), True, id="OR"),
        pytest.param((a_term(fields=[NAMED]),), True, id="field In"),
        pytest.param((a_term(fields=[("metadata.name", "NotIn", "n1")]),), False, id="field NotIn"),
        pytest.param((a_term(fields=[("metadata.foo", "In", "")]),), True, id="unknown field reads empty"),
        pytest.param((a_term(fields=[("metadata.name", "In", "n1", "n2")]),), False, id="field with two values"),
        pytest.param((a_term(FALSE, fields=[NAMED]),), False, id="field AND expression"),
        pytest.param((a_term(FALSE), a_term(fields=[NAMED])), True, id="field OR expression"),
        pytest.param(
            (a_term(("foo", "In", "b@d")), a_term(("foo", "Exists"))), True, id="unparsable term, then a match"
        ),
    ],
)
def test_terms(terms, expected):
    matcher = compile_node_selector(a_node_selector(*terms))
    assert matcher.matches(LABELS, "n1") is expected
    assert isinstance(hash(matcher), int)


def test_fields_count_as_satisfied_without_a_name():
    matcher = compile_node_selector(a_node_selector(a_term(fields=[NAMED])))
    assert matcher.matches({}, "")
    assert not matcher.matches({}, "n2")


BAD_OPERATOR = (
    'nodeSelectorTerms[0].matchExpressions[0].operator: Unsupported value: "Bogus": '
    'supported values: "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"'
)
BAD_FIELD = 'nodeSelectorTerms[1].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"'


def test_errors_are_reported_only_without_a_match():
    bad = (a_term(("a", "Bogus", "x")), a_term(fields=[("metadata.name", "Exists")]))
    assert compile_node_selector(a_node_selector(*bad, a_term(("foo", "Exists")))).match_or_error(LABELS, "n1")
    with pytest.raises(SelectorError) as caught:
        compile_node_selector(a_node_selector(*bad)).match_or_error(LABELS, "n1")
    assert str(caught.value) == f"[{BAD_OPERATOR}, {BAD_FIELD}]"
    assert not compile_node_selector(a_node_selector(a_term(FALSE))).match_or_error(LABELS, "n1")


@pytest.mark.parametrize(
    ("term", "error"),
    [
        (
            a_term(("a", "Exists", "x")),
            'matchExpressions[0].values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        ),
        (
            a_term(("a", "Gt", "1", "2")),
            'matchExpressions[0].values: Invalid value: ["1","2"]: '
            "for 'Gt', 'Lt' operators, exactly one value is required",
        ),
        (
            a_term(("a", "Gt", "x")),
            'matchExpressions[0].values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
        (a_term(fields=[("metadata.name", "In")]), "matchFields[0].values: Invalid value: null: must have one element"),
    ],
    ids=["values for Exists", "two for Gt", "word for Gt", "no field value"],
)
def test_errors_carry_the_path(term, error):
    path = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    assert node_selector_errors(a_node_selector(term), path) == [f"{path}.nodeSelectorTerms[0].{error}"]


def some_preferred(*weighted):
    return convert(
        [{"weight": weight, "preference": term} for weight, term in weighted], tuple[PreferredSchedulingTerm, ...]
    )


def test_preferred_terms_without_effect_are_dropped():
    terms = some_preferred((0, a_term(("a b", "Exists"))), (5, a_term()), (7, a_term(("foo", "Exists"))))
    ((weight, term),) = compile_preferred_terms(terms)
    assert weight == 7
    assert term.matches(LABELS, "n1")


def test_preferred_terms_report_any_error():
    terms = some_preferred((1, a_term(("invalid key", "Exists"))), (1, a_term(("foo", "Exists"))))
    with pytest.raises(SelectorError) as caught:
        compile_preferred_terms(terms)
    assert str(caught.value) == (
        '[0].matchExpressions[0].key: Invalid value: "invalid key": name part must consist of alphanumeric '
        "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
        "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )
    assert preferred_terms_errors(terms, "p") == ["p" + str(caught.value)]


def a_pod(node_selector=None, affinity=None):
    spec = {"nodeSelector": node_selector, "affinity": affinity}
    return convert({"spec": {key: value for key, value in spec.items() if value is not None}}, Pod)


def required(*terms):
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(a_pod(), True, id="nothing demanded"),
        pytest.param(a_pod({"foo": "bar"}), True, id="selector"),
        pytest.param(a_pod({"foo": "bar", "x": "y"}), False, id="selector, one label missing"),
        pytest.param(a_pod(affinity={}), True, id="empty affinity"),
        pytest.param(a_pod(affinity={"nodeAffinity": {}}), True, id="empty node affinity"),
        pytest.param(a_pod(affinity=required()), False, id="required without terms"),
        pytest.param(a_pod({"foo": "bar"}, required(a_term(FALSE))), False, id="selector yes, affinity no"),
        pytest.param(a_pod({"foo": "no"}, required(a_term(("foo", "Exists")))), False, id="selector no, affinity yes"),
    ],
)
def test_required_node_affinity(pod, expected):
    affinity = RequiredNodeAffinity.from_pod(pod)
    assert affinity.matches(LABELS, "n1") is expected
    assert affinity.match_or_error(LABELS, "n1") is expected
    assert isinstance(hash(affinity), int)
