"""Definitions with CEL rules, and objects that they accept or refuse, as requests to an API server.

A case is the schema of the field `part` and a list of its values: the first value creates the object, the others update
it. A definition that is refused ends the case.
"""

import json
import re
import time

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def obj(*rules, required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), **_with(rules)}


def ruled(schema, *rules):
    return {**schema, **_with(rules)}


def array(items, *rules, **more):
    return {"type": "array", "items": items, **more, **_with(rules)}


def mapping(values, *rules, **more):
    return {"type": "object", "additionalProperties": values, **more, **_with(rules)}


def _with(rules):
    made = [rule if isinstance(rule, dict) else {"rule": rule} for rule in rules]
    return {"x-kubernetes-validations": made} if made else {}


def rule(text, message="", **more):
    return {"rule": text, **({"message": message} if message else {}), **more}


LIST_MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SHORT = {"type": "string", "maxLength": 10}
NAMED = obj(name=SHORT, size=INTEGER, required=["name"])

CASES = {
    "message expression": (
        obj(rule("self.a == 'x'", messageExpression="'a is ' + self.a"), a=SHORT),
        [{"a": "y"}, {"a": ""}],
    ),
    "message expression that fails": (
        obj(rule("self.a == 1", "plain", messageExpression="string(10 / self.b)"), a=INTEGER, b=INTEGER),
        [{"a": 2, "b": 0}, {"a": 2, "b": 5}],
    ),
    "message expression that is empty": (
        obj(rule("self.a == 'x'", messageExpression="self.a"), a=SHORT),
        [{"a": " "}, {"a": "b\nc"}, {"a": "w"}],
    ),
    "reasons": (
        obj(
            rule("self.a != 1", reason="FieldValueForbidden"),
            rule("self.a != 2", reason="FieldValueRequired"),
            rule("self.a != 3", reason="FieldValueDuplicate"),
            rule("self.a != 4", reason="FieldValueInvalid"),
            a=INTEGER,
        ),
        [{"a": 1}, {"a": 2}, {"a": 3}, {"a": 4}, {"a": 5}],
    ),
    "field path of a map": (
        obj(rule("self.a['x.y'] < 5", fieldPath=".a['x.y']"), a=mapping(INTEGER, maxProperties=3)),
        [{"a": {"x.y": 7}}, {"a": {"x.y": 3}}],
    ),
    "optional old self": (
        ruled(INTEGER, rule("!oldSelf.hasValue() || self > oldSelf.value()", optionalOldSelf=True)),
        [3, 2, 4],
    ),
    "transition in a list map": (
        array(ruled(NAMED, "self.size >= oldSelf.size"), maxItems=5, **LIST_MAP),
        [[{"name": "a", "size": 2}], [{"name": "b", "size": 1}, {"name": "a", "size": 1}], [{"name": "a", "size": 3}]],
    ),
    "transition in a map": (
        mapping(ruled(INTEGER, "self >= oldSelf"), maxProperties=5),
        [{"a": 2}, {"a": 1, "b": 1}, {"a": 3}],
    ),
    "items": (array(ruled(INTEGER, "self > 1"), maxItems=9), [[2], [0, 3, 1]]),
    "int or string": (
        ruled(
            {"x-kubernetes-int-or-string": True, "maxLength": 9},
            "type(self) == int ? self < 5 : self.endsWith('%')",
            "self != 3",
        ),
        [4, "50%", 3, "x", 9],
    ),
    "formats": (
        obj(
            "!has(self.date) || self.date < timestamp('2024-01-01T00:00:00Z')",
            "!has(self.when) || self.when.getFullYear() == 2023",
            "!has(self.long) || self.long > duration('1h')",
            "!has(self.bytes) || self.bytes == b'abc'",
            date={"type": "string", "format": "date"},
            when={"type": "string", "format": "date-time"},
            long={"type": "string", "format": "duration"},
            bytes={"type": "string", "format": "byte", "maxLength": 20},
        ),
        [
            {"date": "2023-01-01", "when": "2023-05-05T01:02:03Z", "long": "2h", "bytes": "YWJj"},
            {"date": "2025-01-01", "when": "2024-05-05T01:02:03+02:00", "long": "30m", "bytes": "YWJk"},
            {"long": "1 day"},
        ],
    ),
    "names that must be escaped": (
        obj(
            "self.__namespace__ == 'a'",
            "self.x__dash__y == 'b'",
            "self.x__dot__y == 'c'",
            "self.a__underscores__b > 1",
            **{"namespace": SHORT, "x-y": SHORT, "x.y": SHORT, "a__b": INTEGER},
        ),
        [{"namespace": "a", "x-y": "b", "x.y": "c", "a__b": 2}, {"namespace": "z", "x-y": "z", "x.y": "z", "a__b": 1}],
    ),
    "null": (
        obj("!has(self.a) || self.a > 3", a={**INTEGER, "nullable": True}, b=INTEGER),
        [{"a": None}, {"a": 2}, {"b": 1}],
    ),
    "unknown fields": (
        obj("self == oldSelf", a=INTEGER) | {"x-kubernetes-preserve-unknown-fields": True},
        [{"a": 1, "x": 1}, {"a": 1, "x": 2}, {"a": 1, "y": 2}],
    ),
    "what fails at run time": (
        obj(
            "10 / self.a > 1",
            "self.l[5] == 1",
            "self.m['x'] == 1",
            a=INTEGER,
            l=array(INTEGER, maxItems=9),
            m=mapping(INTEGER, maxProperties=3),
        ),
        [{"a": 0, "l": [1], "m": {}}],
    ),
    "schema errors come first": (
        obj("self.a < 5", a=INTEGER, b={"type": "integer", "maximum": 3}),
        [{"a": 7, "b": 5}, {"a": "x"}, {"a": 7, "b": 2}],
    ),
    "embedded": (
        obj(
            e=obj("self.kind == 'A' && self.metadata.name == 'n'", x=INTEGER)
            | {"x-kubernetes-embedded-resource": True},
        ),
        [
            {"e": {"apiVersion": "v1", "kind": "A", "metadata": {"name": "n"}}},
            {"e": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "n"}}},
        ],
    ),
    "maps of objects": (
        mapping(obj(rule("self.a > 1", "too small", fieldPath=".a"), a=INTEGER), maxProperties=5),
        [{"x": {"a": 2}}, {"x": {"a": 1}, "y": {"a": 0}}],
    ),
}


def definition(name, schema):
    root = {"type": "object", "properties": {"part": schema}}
    names = {"plural": name, "singular": name, "kind": name.title(), "listKind": f"{name.title()}List"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}.rules.example.com"},
        "spec": {"group": "rules.example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }


class CaseRunner:
    """Runs cases against an API server."""

    def __init__(self, target):
        self._target = target

    def answers(self, name, schema, values):
        """The errors for the definition, and then for each object; empty where it is accepted."""
        made = definition(name, schema)
        found = [self._errors("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", made)]
        if found[0]:
            return found
        path = f"/apis/rules.example.com/v1/{name}"
        self._until_served(path)
        stored = False
        for value in values:
            if not stored:
                body = {"apiVersion": "rules.example.com/v1", "kind": name.title(), "metadata": {"name": "a"}}
                told = self._errors("POST", path, body | {"part": value})
                stored = not told
            else:
                told = self._errors("PATCH", f"{path}/a", {"part": value}, "application/merge-patch+json")
            found.append(told)
        return found

    def _errors(self, method, path, body, content_type="application/json"):
        code, answer = self._ask(method, path, body, content_type)
        if code < 400:
            return []
        causes = answer.get("details", {}).get("causes")
        if not causes:
            return [f"{code} {answer.get('message')}"]
        told = [f"{cause['field']}: {cause['message']} ({cause['reason']})" for cause in causes]
        # Type names are generated each time, and pointers vary.
        return sorted(re.sub(r"selfType\d+", "selfType", re.sub(r"0xc[0-9a-f]+", "0xc", one)) for one in told)

    def _ask(self, method, path, body=None, content_type="application/json"):
        sent = None if body is None else json.dumps(body)
        status, text, _ = self._target.ask(method, path, sent, Content_Type=content_type)
        # A resource that is not served yet gives a plain text answer.
        return status, json.loads(text) if text.startswith(b"{") else {}

    def _until_served(self, path):
        deadline = time.monotonic() + 60
        while self._ask("GET", path)[0] != 200:
            assert time.monotonic() < deadline, path
            time.sleep(0.05)
