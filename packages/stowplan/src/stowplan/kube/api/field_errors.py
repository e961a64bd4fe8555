"""Field validation errors in Kubernetes' wording: `path: Invalid value: "x": why`.

Users match these texts, so values are quoted as in Go: strings with `%q`, lists as compact JSON with `<`, `>` and `&`
escaped, an absent list as `null`.

Upstream: k8s.io/apimachinery/pkg/util/validation/field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from stowplan.kube.klog.value_text import go_quote

__all__ = ["aggregate", "child", "go_json", "go_quote", "invalid", "invalid_list", "not_supported"]


def go_json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def child(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def invalid(path: str, value: str, detail: str) -> str:
    return f"{path}: Invalid value: {go_quote(value)}: {detail}"


def invalid_list(path: str, values: Sequence[str], detail: str) -> str:
    return f"{path}: Invalid value: {go_json(list(values) or None)}: {detail}"


def not_supported(path: str, value: str, supported: Iterable[str]) -> str:
    listed = ", ".join(go_quote(name) for name in supported)
    return f"{path}: Unsupported value: {go_json(value)}: supported values: {listed}"


def aggregate(errors: Iterable[str]) -> str:
    """Join like Go's error aggregate: a single text as it is, several in brackets, without duplicates."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"
