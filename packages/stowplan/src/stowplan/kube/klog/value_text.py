"""Format values in log lines as text and JSON.

Text follows klog's serializer: strings are quoted as in Go, or an indented block if they have several lines; numbers
are bare; values with a `__str__` of their own use it; all others are JSON. JSON lines have the same values unquoted.

Upstream: k8s.io/klog/v2/internal/serialize; github.com/go-logr/zapr.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable, Mapping, Set
from dataclasses import is_dataclass
from datetime import timedelta
from typing import Any

import msgspec

from stowplan.kube.structs import PlainStruct

# Objects in log lines: namespace and name only.
#
# Upstream: k8s.io/klog/v2, k8s_references.go (KObj, KRef).


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


# Quote text like Go's `%q` and strconv.Quote.

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_ESCAPES |= {'"': r"\"", "\\": r"\\"}


def go_quote(text: str) -> str:
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_ESCAPES.get(char) or _escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_encode = msgspec.json.Encoder().encode


def text_of_keys(error: BaseException | str | None, keys: Mapping[str, Any]) -> str:
    """Render error and keys: ` err="..." key=value ...`."""
    parts = [] if error is None else [" err" + _after_key(error_text(error))]
    parts += [f" {key}{_after_key(value)}" for key, value in keys.items()]
    return "".join(parts)


def error_text(error: BaseException | str) -> str:
    return str(error) or type(error).__name__


def stack_trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).removesuffix("\n")


def _after_key(value: Any) -> str:
    if type(value) is int:
        return f"={value}"
    plain = value if type(value) is str else plain_value(value)
    if isinstance(plain, ObjectRef):
        return f'="{plain}"'
    if isinstance(plain, str):
        return _block(plain) if "\n" in plain else "=" + go_quote(plain)
    return "=" + _escaped(go_json(plain, reference=str))


def _block(text: str) -> str:
    lines = text.removesuffix("\n").split("\n")
    return "=<\n" + "".join(f"\t{line}\n" for line in lines) + " >"


def _escaped(text: str) -> str:
    # Parity: Go's JSON encoder escapes HTML characters, in text lines only.
    return text.replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e")


def json_text(text: str) -> str:
    try:
        return _encode(text).decode()
    except UnicodeEncodeError:
        return json.dumps(text)


def go_json(value: Any, *, reference: Callable[[ObjectRef], Any]) -> str:
    """Encode a value; `reference` encodes references to objects."""
    if type(value) is str:
        return json_text(value)
    if type(value) is int:
        return str(value)
    return json.dumps(_encodable(value, reference), ensure_ascii=False, separators=(",", ":"))


def _encodable(value: Any, reference: Callable[[ObjectRef], Any]) -> Any:
    plain = plain_value(value)
    if isinstance(plain, ObjectRef):
        return reference(plain)
    if isinstance(plain, float):
        return _float(plain)
    if isinstance(plain, Mapping):
        # Parity: Go sorts map keys.
        return {str(key): _encodable(plain[key], reference) for key in sorted(plain, key=str)}
    if isinstance(plain, list):
        return [_encodable(one, reference) for one in plain]
    return plain


def _float(value: float) -> float | int | str:
    """Whole numbers without a fraction, like Go, and infinities and NaN as text."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def plain_value(value: Any) -> Any:
    """Convert a value to None, bool, int, float, str, ObjectRef, a list or a mapping."""
    if value is None or isinstance(value, str):
        return value if value is None else str(value)
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        # An int with its own `__str__` is a duration or another quantity with a unit.
        return int(value) if _inherits_str_of(value, int) else str(value)
    if isinstance(value, timedelta):
        return duration_text(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return _composed(value)


def _composed(value: Any) -> Any:
    if isinstance(value, ObjectRef):
        return value
    if isinstance(value, BaseException):
        return error_text(value)
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Set):
        return sorted(value, key=str)
    if isinstance(value, list | tuple):
        return list(value)
    reference = reference_to(value)
    if reference is not None:
        return reference
    if (isinstance(value, msgspec.Struct) or is_dataclass(value)) and _inherits_str_of(value, object):
        return msgspec.to_builtins(value, enc_hook=str)
    return str(value)


def _inherits_str_of(value: object, base: type) -> bool:
    own: object = type(value).__str__
    return own in (base.__str__, base.__repr__)


def duration_text(duration: timedelta) -> str:
    """A duration in Go's format: `1h2m3.5s`, `250ms`."""
    microseconds = abs(duration) // timedelta(microseconds=1)
    sign = "-" if duration < timedelta(0) else ""
    if microseconds < 1_000_000:
        if microseconds == 0:
            return "0s"
        if microseconds < 1000:
            return f"{sign}{microseconds}µs"
        return f"{sign}{_decimal(microseconds, 3)}ms"
    minutes, rest = divmod(microseconds, 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = _decimal(rest, 6) + "s"
    if hours:
        return f"{sign}{hours}h{minutes}m{seconds}"
    return f"{sign}{minutes}m{seconds}" if minutes else sign + seconds


def _decimal(amount: int, places: int) -> str:
    whole, rest = divmod(amount, 10**places)
    return f"{whole}.{rest:0{places}d}".rstrip("0") if rest else str(whole)
