"""Named formats: `format.dns1123Label().validate(text)`. Upstream: k8s.io/apiserver/pkg/cel/library/format.go."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from stowplan.kube.api.labels import dns1123_subdomain_errors, is_qualified_name_errors, label_value_errors
from stowplan.kube.cel import costs
from stowplan.kube.cel import static_types as t
from stowplan.kube.cel import values as v
from stowplan.kube.cel.declarations import function, member, overload
from stowplan.kube.cel.functions.urls import UrlError, read_url
from stowplan.kube.cel.values import NONE, Optional, Value

_Complaints = list[str]

_MAX_LABEL = 63
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_LABEL_RE, _LABEL_1035_RE = re.compile(_LABEL), re.compile(_LABEL_1035)
_UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"
_TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"
_UUID_RE, _TIME_RE = re.compile(_UUID, re.ASCII), re.compile(_TIME)
_DATE_RE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BASE64_RE = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
#: Lengths that the reference assumes for expressions that it does not have.
_BASE64_SIZE, _URI_SIZE = 84, 1103


@dataclass(frozen=True, slots=True)
class NamedFormat:
    name: str
    complaints: Callable[[str], _Complaints] = field(compare=False)


v.register(NamedFormat, t.NAMED_FORMAT)
v.register_strict_equality(NamedFormat)


def _label(text: str) -> _Complaints:
    says = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        "and must start and end with an alphanumeric character"
        f" (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
    )
    return _label_complaints(text, _LABEL_RE, says)


def _label_1035(text: str) -> _Complaints:
    says = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
        f" (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')"
    )
    return _label_complaints(text, _LABEL_1035_RE, says)


def _label_complaints(text: str, pattern: re.Pattern[str], says: str) -> _Complaints:
    too_long = len(text.encode(errors="surrogatepass")) > _MAX_LABEL
    complaints = [f"must be no more than {_MAX_LABEL} bytes"] if too_long else []
    return complaints if pattern.fullmatch(text) else [*complaints, says]


def _as_prefix(complaints: Callable[[str], _Complaints]) -> Callable[[str], _Complaints]:
    """The errors for a name prefix, which may end with a dash."""
    return lambda text: complaints(f"{text[:-1]}a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> _Complaints:
    try:
        read_url(text)
    except UrlError as error:
        return [str(error)]
    return []


def _uuid(text: str) -> _Complaints:
    return [] if _UUID_RE.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> _Complaints:
    return [] if _BASE64_RE.fullmatch(text) else ["invalid base64"]


def _date(text: str) -> _Complaints:
    return [] if _is_date(text) else ["invalid date"]


def _datetime(text: str) -> _Complaints:
    parts = text.lower().split("t")
    match = _TIME_RE.fullmatch(parts[1]) if len(parts) > 1 and _is_date(parts[0]) else None
    if match and match[1] <= "23" and match[2] <= "59" and match[3] <= "59":
        return []
    return ["invalid datetime"]


def _is_date(text: str) -> bool:
    if not _DATE_RE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return text.startswith("0000-")  # Go has a year 0
    return True


def _format(name: str, complaints: Callable[[str], _Complaints], regex_size: int) -> NamedFormat:
    costs.register_format(name, regex_size)
    return NamedFormat(name, complaints)


_FORMATS = {
    "dns1123Label": _format("DNS1123Label", _label, 30),
    "dns1123Subdomain": _format("DNS1123Subdomain", dns1123_subdomain_errors, 60),
    "dns1035Label": _format("DNS1035Label", _label_1035, 30),
    "qualifiedName": _format("QualifiedName", is_qualified_name_errors, 60),
    "dns1123LabelPrefix": _format("DNS1123LabelPrefix", _as_prefix(_label), 30),
    "dns1123SubdomainPrefix": _format("DNS1123SubdomainPrefix", _as_prefix(dns1123_subdomain_errors), 60),
    "dns1035LabelPrefix": _format("DNS1035LabelPrefix", _as_prefix(_label_1035), 30),
    "labelValue": _format("LabelValue", label_value_errors, 40),
    "uri": _format("URI", _uri, _URI_SIZE),
    "uuid": _format("uuid", _uuid, len(_UUID)),
    "byte": _format("byte", _byte, _BASE64_SIZE),
    "date": _format("date", _date, len(_TIME)),
    "datetime": _format("datetime", _datetime, len(_TIME)),
}


def _named(name: str) -> Value:
    return Optional(_FORMATS[name]) if name in _FORMATS else NONE


def _validate(named_format: NamedFormat, text: str) -> Value:
    complaints = named_format.complaints(text)
    return Optional(list(complaints)) if complaints else NONE


def _constant(named_format: NamedFormat) -> Callable[[], Value]:
    return lambda: named_format


FUNCTIONS = [
    function("format.named", overload("format-named", "string -> optional(NamedFormat)", _named)),
    function("validate", member("format-validate", "NamedFormat, string -> optional(list(string))", _validate)),
    *[
        function(f"format.{name}", overload(f"format.{name}", "-> NamedFormat", _constant(named_format)))
        for name, named_format in _FORMATS.items()
    ],
]
