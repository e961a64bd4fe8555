"""apiVersion and kind.

Upstream: k8s.io/apimachinery/pkg/runtime/serializer/json.
"""

from dataclasses import dataclass
from typing import NoReturn

from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.config.config_documents import members_of
from stowplan.kube.config.config_errors import ConfigError
from stowplan.kube.config.walk import json_kind

_SCHEME = "pkg/scheduler/apis/config/scheme/scheme.go:29"
_HEADER_STRUCT = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


@dataclass(frozen=True)
class Header:
    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version


def read_header(value: object, text: str, default: Header | None = None) -> Header:
    api_version, kind = _read_header(value)
    if api_version.count("/") > 1:
        raise ConfigError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    if default is not None:
        group, version = (group, version) if version else (default.group, default.version)
        kind = kind or default.kind
    if not kind:
        raise ConfigError(f"Object 'Kind' is missing in '{text}'")
    if not version:
        raise ConfigError(f"Object 'apiVersion' is missing in '{text}'")
    return Header(group, version, kind)


def _read_header(value: object) -> tuple[str, str]:
    if value is None:
        return "", ""
    if not isinstance(value, dict):
        _refuse_header(f"json: cannot unmarshal {json_kind(value)} into Go value of type {_HEADER_STRUCT}")
    found = {"apiVersion": "", "kind": ""}
    names = {name.lower(): name for name in found}
    for key, element in members_of(value):
        # This first look at the file ignores case; the strict decoding afterwards does not.
        name = names.get(key.lower())
        if name is None or element is None:
            continue
        if not isinstance(element, str):
            _refuse_header(f"json: cannot unmarshal {json_kind(element)} into Go struct field .{name} of type string")
        found[name] = element
    return found["apiVersion"], found["kind"]


def _refuse_header(reason: str) -> NoReturn:
    raise ConfigError(f"couldn't get version/kind; json parse error: {reason}")


def no_kind(header: Header) -> ConfigError:
    return ConfigError(
        f"no kind {go_quote(header.kind)} is registered for version {go_quote(header.api_version)} in scheme "
        f"{go_quote(_SCHEME)}"
    )
