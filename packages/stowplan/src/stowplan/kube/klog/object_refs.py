"""Objects in log lines: namespace and name only.

Upstream: k8s.io/klog/v2, k8s_references.go (KObj, KRef).
"""

from __future__ import annotations

from typing import Any

from stowplan.kube.structs import PlainStruct


class ObjectRef(PlainStruct, frozen=True):
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def to_dict(self) -> dict[str, str]:
        """The form of JSON lines."""
        return {"name": self.name, "namespace": self.namespace} if self.namespace else {"name": self.name}


def reference_to(value: Any) -> ObjectRef | None:
    """A reference to an API object, or to the pod of a PodInfo; None for everything else.

    Recognized by attributes, because this layer must not import their types.
    """
    metadata = getattr(value, "metadata", None) or getattr(getattr(value, "pod", None), "metadata", None)
    name = getattr(metadata, "name", None)
    return ObjectRef(name, getattr(metadata, "namespace", "")) if isinstance(name, str) else None
