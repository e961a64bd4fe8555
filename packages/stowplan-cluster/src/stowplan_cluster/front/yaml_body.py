"""Decode YAML request bodies as Kubernetes does, within limits.

Limits (on aliases, for instance) are in `api/yaml_text.py`; this module has the reference's error messages.

Upstream: sigs.k8s.io/yaml on go.yaml.in/yaml.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from stowplan.kube.api.yaml_text import HostileYamlError, TooDeepError, first_value


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
