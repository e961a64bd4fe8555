"""The minimal ClusterRoles for reading a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stowplan.api.resources import resource_of
from stowplan.api.types import Event, Pod
from stowplan.api.yaml_text import to_yaml
from stowplan.engine.engine import Engine
from stowplan.engine.watched_kinds import watched_kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from stowplan.api.meta import ApiStruct
    from stowplan.config import Configuration
    from stowplan.framework.runtime.registry import Registry


class _NoMeter:
    @staticmethod
    def clock() -> float:
        return 0.0

    @staticmethod
    def random() -> float:
        return 0.0


def role_of_follower(configuration: Configuration, registry: Registry, *, name: str) -> str:
    """For whoever lists and watches what the scheduler reads; as YAML for `kubectl apply`."""
    return _role(name, dict.fromkeys(_kinds(configuration, registry), ("list", "watch")))


def role_of_reader(configuration: Configuration, registry: Registry, *, name: str) -> str:
    """For whoever reads it once, to answer a question: also finished pods by their names, and Events."""
    verbs: dict[type[ApiStruct], tuple[str, ...]] = dict.fromkeys(_kinds(configuration, registry), ("list",))
    return _role(name, {**verbs, Pod: ("get", "list"), Event: ("list",)})


def _kinds(configuration: Configuration, registry: Registry) -> list[type[ApiStruct]]:
    engine = Engine(configuration, registry=registry, now=0.0, meter=_NoMeter())
    watched = watched_kinds(engine.frameworks.values(), report=lambda problem: None)
    return [one.kind for one in watched]


def _role(name: str, verbs: Mapping[type[ApiStruct], tuple[str, ...]]) -> str:
    plurals: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, allowed in verbs.items():
        resource = resource_of(kind)
        plurals.setdefault((resource.group, allowed), []).append(resource.plural)
    rules = [
        {"apiGroups": [group], "resources": sorted(resources), "verbs": list(allowed)}
        for (group, allowed), resources in sorted(plurals.items())
    ]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": rules,
    }
    return to_yaml(role)
