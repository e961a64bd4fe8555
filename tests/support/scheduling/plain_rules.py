"""Plain implementations of selectors, affinity and taints on dicts, shared by the plain rules of several plugins.

They do not use the project's own code.
"""

TAINTS_THAT_KEEP_OFF = ("NoSchedule", "NoExecute")


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
