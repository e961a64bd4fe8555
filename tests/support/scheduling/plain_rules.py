"""Plain rules on dicts: selectors, affinity, spread and taints, shared by the tests of several plugins.

Of the project's own code they use the codes of statuses only.
"""

from copy import copy
from fractions import Fraction

from stowplan.scheduler.framework.status import Code

TAINTS_THAT_KEEP_OFF = ("NoSchedule", "NoExecute")
NO, NEVER = Code.Unschedulable, Code.UnschedulableAndUnresolvable
AWAY = (NEVER, ["node(s) didn't match pod affinity rules"])
AVOIDED = (NO, ["node(s) didn't match pod anti-affinity rules"])
AVOIDING = (NO, ["node(s) didn't satisfy existing pods anti-affinity rules"])
SKEWED = (NO, ["node(s) didn't match pod topology spread constraints"])
MISSING = (NEVER, ["node(s) didn't match pod topology spread constraints (missing required label)"])


def labels_of(obj):
    return obj["metadata"].get("labels", {})


def namespace_of(pod):
    return pod["metadata"].get("namespace", "default")


def name_of(obj):
    return obj["metadata"]["name"]


def requirements(selector):
    """A LabelSelector as a list of (key, operator, values); None if it is absent and matches nothing."""
    if selector is None:
        return None
    found = [(key, "In", [value]) for key, value in selector.get("matchLabels", {}).items()]
    return found + [(e["key"], e["operator"], e.get("values", [])) for e in selector.get("matchExpressions", [])]


def matches(needed, labels):
    return needed is not None and all(_holds(requirement, labels) for requirement in needed)


def _holds(requirement, labels):
    key, operator, values = requirement
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    try:
        return operator == "Gt" and int(labels[key]) > int(values[0])
    except (KeyError, ValueError):
        return False


def node_is_selected(pod, node):
    """nodeSelector and required node affinity."""
    spec = pod["spec"]
    if not all(labels_of(node).get(k) == v for k, v in spec.get("nodeSelector", {}).items()):
        return False
    required = spec.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is None:
        return True
    return any(
        term.get("matchExpressions") and matches(requirements(term), labels_of(node))
        for term in required["nodeSelectorTerms"]
    )


def taints_are_tolerated(pod, node):
    return all(
        any(_tolerates(toleration, taint) for toleration in pod["spec"].get("tolerations", []))
        for taint in node["spec"].get("taints", [])
        if taint["effect"] in TAINTS_THAT_KEEP_OFF
    )


def _tolerates(toleration, taint):
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key", "") not in ("", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", "")


def on_node(placed, node):
    return [pod for pod in placed if pod["spec"]["nodeName"] == name_of(node)]


def last_versions(objects):
    """The last of several versions of each object."""
    found = {(o["kind"], o["metadata"].get("namespace", ""), name_of(o)): o for o in objects}
    return list(found.values())


UNITS = {"m": Fraction(1, 1000), "Ki": Fraction(1 << 10), "Mi": Fraction(1 << 20), "Gi": Fraction(1 << 30)}


def amount(text):
    for suffix, factor in UNITS.items():
        if text.endswith(suffix):
            return Fraction(text[: -len(suffix)]) * factor
    return Fraction(text)


def integers(resources):
    """cpu in milli-units, the rest in units, rounded up."""
    found = {}
    for name, quantity in resources.items():
        exact = amount(quantity) * (1000 if name == "cpu" else 1)
        found[name] = -((-exact.numerator) // exact.denominator)
    return found


def requests_of(pod, defaults=None):
    """The requests of the only container of these pods."""
    asked = pod["spec"]["containers"][0].get("resources", {}).get("requests", {})
    return integers({**(defaults or {}), **asked})


def own_constraints(pod, action):
    listed = pod["spec"].get("topologySpreadConstraints", [])
    chosen = [c for c in listed if c["whenUnsatisfiable"] == action]
    return [parsed_constraint(c, requirements(c.get("labelSelector")), labels_of(pod)) for c in chosen]


def parsed_constraint(c, needed, labels):
    if needed is not None:
        needed = needed + [(key, "In", [labels[key]]) for key in c.get("matchLabelKeys", []) if key in labels]
    return {
        "key": c["topologyKey"],
        "skew": c["maxSkew"],
        "needed": needed,
        "domains": c.get("minDomains") or 1,
        "affinity": c.get("nodeAffinityPolicy", "Honor") == "Honor",
        "taints": c.get("nodeTaintsPolicy", "Ignore") == "Honor",
    }


def has_all(node, constraints):
    return all(c["key"] in labels_of(node) for c in constraints)


def admitted(c, pod, node):
    return (not c["affinity"] or node_is_selected(pod, node)) and (not c["taints"] or taints_are_tolerated(pod, node))


def count(c, pod, on_it):
    """An empty selector counts no pods."""
    live = [other for other in on_it if "deletionTimestamp" not in other["metadata"]] if c["needed"] else []
    return sum(_is_meant(c, pod, other) for other in live)


def _is_meant(c, pod, other):
    return namespace_of(other) == namespace_of(pod) and matches(c["needed"], labels_of(other))


class Spread:
    """Constraints of a pod that refuse nodes, and matching pods per domain of each."""

    def __init__(self, pod, nodes, placed, constraints):
        self.pod, self.constraints = pod, constraints
        self.tables = [{} for _ in constraints]
        for node in nodes:
            for c, table in self._counting(node):
                at = labels_of(node)[c["key"]]
                table[at] = table.get(at, 0) + count(c, pod, on_node(placed, node))

    def copy(self):
        found = copy(self)
        found.tables = [dict(table) for table in self.tables]
        return found

    def _counting(self, node):
        """(constraint, table) for which a node's pods count."""
        for c, table in zip(self.constraints, self.tables, strict=True):
            if has_all(node, self.constraints) and admitted(c, self.pod, node):
                yield c, table

    def move(self, other, node, sign):
        """A pod comes to a node or leaves it; then terminating pods and empty selectors count, too."""
        for c, table in self._counting(node):
            if _is_meant(c, self.pod, other):
                table[labels_of(node)[c["key"]]] += sign

    def verdict(self, node):
        for c, table in zip(self.constraints, self.tables, strict=True):
            if c["key"] not in labels_of(node):
                return MISSING
            lowest = 0 if len(table) < c["domains"] else min(table.values(), default=0)
            here = table.get(labels_of(node)[c["key"]], 0)
            if here + matches(c["needed"], labels_of(self.pod)) - lowest > c["skew"]:
                return SKEWED
        return None


def terms(pod, kind, when):
    """(weight, term) of one of the four lists."""
    listed = pod["spec"].get("affinity", {}).get(kind, {}).get(f"{when}DuringSchedulingIgnoredDuringExecution", [])
    if when == "required":
        return [(0, term) for term in listed]
    return [(entry["weight"], entry["podAffinityTerm"]) for entry in listed]


class Affinity:
    """Required terms in both directions: pods wanted near, avoided, and avoiding, by (key, value)."""

    def __init__(self, pod, nodes, placed, objects):
        self.pod, self.nodes, self.placed = pod, nodes, placed
        self.namespaces = {name_of(o): labels_of(o) for o in objects if o["kind"] == "Namespace"}
        self.near = [term for _, term in terms(pod, "podAffinity", "required")]
        self.far = [term for _, term in terms(pod, "podAntiAffinity", "required")]
        self.wanted, self.avoided, self.avoiding = {}, {}, {}
        for node in nodes:
            for other in on_node(placed, node):
                self.move(other, node, 1)

    def copy(self):
        found = copy(self)
        found.wanted, found.avoided, found.avoiding = dict(self.wanted), dict(self.avoided), dict(self.avoiding)
        return found

    def reaches(self, term, other):
        """A term of the incoming pod: its namespaces are expanded, but its namespace selector still matches empty
        labels."""
        names = _names_of(term, self.pod)
        selects = requirements(term.get("namespaceSelector"))
        if selects:
            names |= {name for name, labels in self.namespaces.items() if matches(selects, labels)}
        return _term_matches(term, names, other, {})

    def is_reached(self, term, owner):
        """A term of an existing pod: its namespace selector matches the labels of the incoming pod's namespace."""
        labels = self.namespaces.get(namespace_of(self.pod), {})
        return _term_matches(term, _names_of(term, owner), self.pod, labels)

    def _all_near(self, other):
        return bool(self.near) and all(self.reaches(term, other) for term in self.near)

    def move(self, other, node, sign):
        """A pod comes to a node or leaves it."""
        for term in self.near if self._all_near(other) else ():
            self.add(self.wanted, term, node, sign)
        for term in self.far:
            if self.reaches(term, other):
                self.add(self.avoided, term, node, sign)
        for _, term in terms(other, "podAntiAffinity", "required"):
            if self.is_reached(term, other):
                self.add(self.avoiding, term, node, sign)

    @staticmethod
    def add(table, term, node, amount):
        """What adds up to zero is not listed."""
        key = term["topologyKey"]
        if key in labels_of(node):
            at = key, labels_of(node)[key]
            table[at] = table.get(at, 0) + amount
            if not table[at]:
                del table[at]

    def verdict(self, node):
        labels = labels_of(node)
        pairs = [(term["topologyKey"], labels.get(term["topologyKey"])) for term in self.near]
        lonely = any(pair not in self.wanted for pair in pairs)
        if any(value is None for _, value in pairs) or (lonely and (self.wanted or not self._all_near(self.pod))):
            return AWAY
        if any((term["topologyKey"], labels.get(term["topologyKey"])) in self.avoided for term in self.far):
            return AVOIDED
        return AVOIDING if any(pair in self.avoiding for pair in labels.items()) else None


def _names_of(term, owner):
    named = set(term.get("namespaces", ()))
    return named or ({namespace_of(owner)} if "namespaceSelector" not in term else set())


def _term_matches(term, names, pod, namespace_labels):
    there = namespace_of(pod) in names or matches(requirements(term.get("namespaceSelector")), namespace_labels)
    return there and matches(requirements(term.get("labelSelector")), labels_of(pod))
