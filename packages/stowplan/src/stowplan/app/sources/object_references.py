"""References to objects on the command line, as kubectl takes them.

`NAME`, `NAMESPACE/NAME`, `KIND/NAME`, `KIND/NAMESPACE/NAME`, and `KIND NAME…`. A kind may be singular, plural or short,
and may have its group: `deploy`, `deployments.apps`, `deployment.v1.apps`.

Completion imports this module, so it imports no objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from urllib.parse import quote

from stowplan.app.command_line.error_reporting import InputError
from stowplan.kube.structs import PlainStruct

#: Kind -> (group, singular, plural and short names).
_NAMES = {
    "Pod": ("", ("pod", "pods", "po")),
    "Node": ("", ("node", "nodes", "no")),
    "ReplicationController": ("", ("replicationcontroller", "replicationcontrollers", "rc")),
    "Deployment": ("apps", ("deployment", "deployments", "deploy")),
    "StatefulSet": ("apps", ("statefulset", "statefulsets", "sts")),
    "DaemonSet": ("apps", ("daemonset", "daemonsets", "ds")),
    "ReplicaSet": ("apps", ("replicaset", "replicasets", "rs")),
    "Job": ("batch", ("job", "jobs")),
    "CronJob": ("batch", ("cronjob", "cronjobs", "cj")),
    "PodGroup": ("scheduling.k8s.io", ("podgroup", "podgroups")),
}
_KIND_OF = {name: kind for kind, (_, names) in _NAMES.items() for name in names}
#: Kinds of pods and of their owners.
WORKLOADS = tuple(kind for kind in _NAMES if kind not in ("Node", "PodGroup"))
#: The name of each kind that completion offers.
SINGULARS = {kind: names[0] for kind, (_, names) in _NAMES.items()}


#: Kinds without a namespace, and versions other than v1.
_OF_CLUSTER = ("Node", "Namespace")
_VERSIONS = {"PodGroup": ("v1beta1", "v1alpha2")}


class Reference(PlainStruct, frozen=True):
    """What a user names."""

    #: "" if none was given.
    kind: str
    #: None if none was given.
    namespace: str | None
    name: str

    def __str__(self) -> str:
        parts = (SINGULARS.get(self.kind), self.namespace, self.name)
        return "/".join(part for part in parts if part)

    def workload(self, default: str | None) -> tuple[str, str, str]:
        """Kind, namespace and name; without any namespace it is "", for the context's."""
        return self.kind, (default or "") if self.namespace is None else self.namespace, self.name

    def in_namespace(self, default: str) -> str:
        """The `namespace/name` of the object."""
        return f"{default if self.namespace is None else self.namespace}/{self.name}"


def collections_of(kind: str, namespace: str | None) -> list[str]:
    """The paths of a kind's objects in the API, newest version first; of all namespaces without `namespace`."""
    group, names = _NAMES.get(kind, ("", (kind.lower(), f"{kind.lower()}s")))
    roots = [f"/apis/{group}/{version}" if group else "/api/v1" for version in _VERSIONS.get(kind, ("v1",))]
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind not in _OF_CLUSTER else ""
    return [f"{root}{within}/{names[1]}" for root in roots]


def kind_of(word: str) -> str:
    """The kind that a word names; "" if it names none."""
    name, _, rest = word.lower().partition(".")
    kind = _KIND_OF.get(name, "")
    group = _NAMES[kind][0] if kind else ""
    version, _, versioned = rest.partition(".")
    is_version = version[:1] == "v" and version[1:2].isdigit()
    return kind if not rest or rest == group or (is_version and versioned == group) else ""


def kind_meant(key: str) -> str:
    """The kind that was meant where a word of `namespace/name` looks like one, as a question; "" if none does."""
    near = (get_close_matches(word, _KIND_OF, n=1) for word in key.split("/") if word.isalpha())
    return next((f"; did you mean the kind {SINGULARS[_KIND_OF[found[0]]]}?" for found in near if found), "")


def reference(text: str, *, kind: str = "") -> Reference:
    """Parse `[KIND/][NAMESPACE/]NAME`; `kind`: of a reference that does not say its own. Raises InputError."""
    head, slash, rest = text.partition("/")
    if slash and (own := kind_of(head)):
        kind, text = own, rest
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace) or (slash and kind == "Node"):
        raise InputError(f"{_as_given(kind, text)} is not a name: want {_form_of(kind)}")
    return Reference(kind, namespace if slash else None, name)


def references(words: Sequence[str]) -> list[Reference]:
    """Parse `KIND NAME…`, or references that each have a kind or none. Raises InputError."""
    return list(_parsed(words))


def _parsed(words: Sequence[str]) -> Iterator[Reference]:
    kind = kind_of(words[0]) if words else ""
    if kind and len(words) == 1:
        raise InputError(f"{words[0]} is a kind: give a name, too, as in {_example_of(kind)}")
    yield from (reference(word, kind=kind) for word in words[bool(kind) :])


def _as_given(kind: str, text: str) -> str:
    return repr(f"{SINGULARS[kind]}/{text}" if kind else text)


def _form_of(kind: str) -> str:
    if kind == "Node":
        return "the name of a node"
    return "[NAMESPACE/]NAME of a pod, or KIND/[NAMESPACE/]NAME such as deployment/shop/web"


def _example_of(kind: str) -> str:
    name = {"Node": "node-1", "Pod": "shop/web-0"}.get(kind, "shop/web")
    return f"{SINGULARS[kind]}/{name}"
