"""Content negotiation of responses, and decoding of request bodies.

Accept headers recur, so results are cached. The first clause by weight that the endpoint supports wins: clients such as
kubectl request protobuf or a Table first and fall back to JSON.

Upstream: staging/src/k8s.io/apiserver/pkg/endpoints/handlers/negotiation.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Literal

import msgspec
import yaml

from stowplan.kube.api.api_errors import BadRequest, UnsupportedMediaType
from stowplan.kube.api.yaml_text import HostileYamlError, TooDeepError, first_value
from stowplan.net.serving.requests import forms
from stowplan.net.serving.requests.forms import YAML, Clause, Form, Target
from stowplan.net.serving.requests.messages import JSON
from stowplan_cluster.apiserver.discovery import AGGREGATED_GROUP, AGGREGATED_KIND, AGGREGATED_VERSIONS
from stowplan_cluster.apiserver.objects import JsonObject
from stowplan_cluster.apiserver.schema.parse import built_in
from stowplan_cluster.apiserver.schema.protobuf import decode

# Decode YAML request bodies as Kubernetes does, within limits.
#
# Limits (on aliases, for instance) are in `api/yaml_text.py`; this module has the reference's error messages.
#
# Upstream: sigs.k8s.io/yaml on go.yaml.in/yaml.


def read_yaml(body: bytes) -> Any:
    """Decode the first document of the body; raise UnreadableError if it is invalid."""
    if body[:1] == b"{":
        # Most YAML bodies are JSON, which parses ten times as fast.
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    try:
        return first_value(body.decode("utf-8"))
    except UnicodeDecodeError:
        raise UnreadableError("yaml: invalid UTF-8") from None
    except yaml.YAMLError as error:
        raise UnreadableError(f"yaml: {_in_words(error)}") from None
    except TooDeepError:
        raise UnreadableError("yaml: exceeded max depth") from None
    except HostileYamlError as error:
        raise UnreadableError(f"yaml: {error.reason}") from None


class UnreadableError(ValueError):
    """A body that cannot be decoded; the message says why."""


def _in_words(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    return f"line {error.problem_mark.line + 1}: {error.problem}"


#: Accepted in requests for built-in resources; never sent.
PROTOBUF = "application/vnd.kubernetes.protobuf"
MEDIA_TYPES = (JSON, YAML)

PatchKind = Literal["json", "merge", "strategic", "apply"]
PATCH_KINDS: dict[str, PatchKind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}

_NO_KIND = "couldn't get version/kind; json parse error: "
#: Bytes of a body that are quoted in errors.
_SHOWN = 30

#: Conversions that an endpoint supports: none, Tables and metadata, or aggregated discovery.
Endpoint = Literal["plain", "objects", "discovery"]
_TABLE_KINDS = ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
_TABLE_VERSIONS = ("v1", "v1beta1")


@lru_cache(maxsize=1024)
def negotiate(accept: str, endpoint: Endpoint = "objects") -> Form:
    """Choose the response's form; raise NotAcceptable if the endpoint supports none that the client accepts."""
    if not accept:
        return Form()
    return forms.negotiate(accept, MEDIA_TYPES, allows=lambda media_type, clause: _allows(endpoint, clause))


def _allows(endpoint: Endpoint, clause: Clause) -> bool:
    if clause.parameters.get("stream", "") not in ("", "watch"):
        return False
    target = clause.target or Target()
    if endpoint == "discovery":
        return (target.group, target.kind) == (AGGREGATED_GROUP, AGGREGATED_KIND) and (
            target.version in AGGREGATED_VERSIONS
        )
    if target == Target():
        return True
    known = target.kind in _TABLE_KINDS and target.group == "meta.k8s.io" and target.version in _TABLE_VERSIONS
    return endpoint == "objects" and known


def _media_type_of(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def read_body(body: bytes, content_type: str, *, custom: bool = False) -> Any:
    """Decode a request body; raise UnsupportedMediaType, BadRequest or UnreadableError."""
    media_type = _media_type_of(content_type)
    if media_type in ("", JSON):
        return read_json(body)
    if media_type == YAML:
        return read_yaml(body)
    if media_type == PROTOBUF and not custom:
        return decode(body, built_in())
    raise _unsupported(MEDIA_TYPES if custom else (*MEDIA_TYPES, PROTOBUF))


def read_object(body: bytes, content_type: str, *, kind: str, custom: bool = False) -> JsonObject:
    """Decode an object of this kind; errors quote the beginning of the body."""
    try:
        obj = read_body(body, content_type, custom=custom)
        if not isinstance(obj, dict):
            raise UnreadableError(f"{_NO_KIND}json: cannot unmarshal {_json_type(obj)} into an object")
    except UnreadableError as error:
        raise BadRequest(
            f"the object provided is unrecognized (must be of type {kind}): {error} ({_beginning(body)})"
        ) from None
    return obj


def read_options(body: bytes, content_type: str) -> Any:
    try:
        return read_body(body, content_type)
    except UnreadableError as error:
        raise BadRequest(str(error)) from None


def patch_kind_of(content_type: str) -> PatchKind:
    kind = PATCH_KINDS.get(content_type.partition(";")[0].strip())
    if kind is None:
        raise _unsupported(PATCH_KINDS)
    return kind


def unsupported_patch(*, custom: bool) -> UnsupportedMediaType:
    """The error for a patch type that the resource does not support."""
    missing = "strategic" if custom else "apply"
    return _unsupported([name for name, kind in PATCH_KINDS.items() if kind != missing])


def read_patch(body: bytes, kind: PatchKind) -> Any:
    try:
        return read_yaml(body) if kind == "apply" else read_json(body)
    except UnreadableError as error:
        raise BadRequest(f"error decoding patch: {str(error).removeprefix(_NO_KIND)}") from None


def read_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = "unexpected end of JSON input" if "truncated" in str(error) else str(error)
        raise UnreadableError(_NO_KIND + why) from None
    except RecursionError:
        raise UnreadableError(_NO_KIND + "exceeded max depth") from None


def _json_type(value: object) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "null" if value is None else "number"


def _beginning(body: bytes) -> str:
    """The first bytes of the body, as text if it looks like JSON."""
    if not body:
        return "<empty>"
    shown = body[:_SHOWN]
    text = shown.decode(errors="replace") if shown.startswith(b"{") else shown.hex()
    return text if len(body) <= _SHOWN else f"{text} ..."


def _unsupported(accepted: Iterable[str]) -> UnsupportedMediaType:
    return UnsupportedMediaType(
        f"the body of the request was in an unknown format - accepted media types include: {', '.join(accepted)}"
    )
