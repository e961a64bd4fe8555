"""Definitions with CEL rules, and objects that they accept or refuse, as requests to an API server.

A case is the schema of the field `part` and a list of its values: the first value creates the object, the others update
it. A definition that is refused ends the case.
"""

import json
import re
import time
from http.client import HTTPConnection

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
    "a field": (ruled(INTEGER, "self < 5"), [4, 7, 3]),
    "an object": (obj("self.min <= self.max", min=INTEGER, max=INTEGER), [{"min": 1, "max": 2}, {"min": 3, "max": 2}]),
    "a missing field": (obj("self.min < 5", min=INTEGER, other=INTEGER), [{"other": 1}, {"min": 1}]),
    "has": (obj("has(self.min) || self.other > 3", min=INTEGER, other=INTEGER), [{"other": 1}, {"min": 1}]),
    "message": (obj(rule("self.a == 'x'", " must be x "), a=SHORT), [{"a": "y"}, {"a": "x"}]),
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
    "reasons of a scalar": (
        ruled(
            INTEGER,
            rule("self != 1", reason="FieldValueForbidden"),
            rule("self != 2", reason="FieldValueRequired"),
            rule("self != 3", reason="FieldValueDuplicate"),
        ),
        [1, 2, 3, 5],
    ),
    "field path": (
        obj(rule("self.a.b < 5", fieldPath=".a.b"), a=obj(b=INTEGER)),
        [{"a": {"b": 7}}, {"a": {"b": 3}}],
    ),
    "field path of a map": (
        obj(rule("self.a['x.y'] < 5", fieldPath=".a['x.y']"), a=mapping(INTEGER, maxProperties=3)),
        [{"a": {"x.y": 7}}, {"a": {"x.y": 3}}],
    ),
    "transition": (ruled(INTEGER, "self >= oldSelf"), [3, 5, 4]),
    "immutable": (ruled(SHORT, rule("self == oldSelf", "is immutable")), ["a", "b", "a"]),
    "optional old self": (
        ruled(INTEGER, rule("!oldSelf.hasValue() || self > oldSelf.value()", optionalOldSelf=True)),
        [3, 2, 4],
    ),
    "optional old self on create": (
        ruled(SHORT, rule("oldSelf.hasValue() || self == 'first'", optionalOldSelf=True)),
        ["second", "first", "second"],
    ),
    "optional old self without use": (ruled(INTEGER, rule("self > 1", optionalOldSelf=True)), [2]),
    "transition in a list map": (
        array(ruled(NAMED, "self.size >= oldSelf.size"), maxItems=5, **LIST_MAP),
        [[{"name": "a", "size": 2}], [{"name": "b", "size": 1}, {"name": "a", "size": 1}], [{"name": "a", "size": 3}]],
    ),
    "transition in a plain list": (array(ruled(INTEGER, "self >= oldSelf"), maxItems=5), [[1]]),
    "transition in a map": (
        mapping(ruled(INTEGER, "self >= oldSelf"), maxProperties=5),
        [{"a": 2}, {"a": 1, "b": 1}, {"a": 3}],
    ),
    "lists": (
        array(INTEGER, "self.all(x, x > 1)", "self.exists(x, x == 5)", "size(self) < 3", maxItems=9),
        [[2, 5], [1], [5, 5, 5], [2, 2]],
    ),
    "items": (array(ruled(INTEGER, "self > 1"), maxItems=9), [[2], [0, 3, 1]]),
    "maps": (
        mapping(INTEGER, "self.all(k, self[k] > 1)", "'a' in self", maxProperties=9),
        [{"a": 2}, {"b": 1}],
    ),
    "sets are equal in any order": (
        array(SHORT, "self == ['a', 'b']", "oldSelf == self", maxItems=5, **{"x-kubernetes-list-type": "set"}),
        [["b", "a"], ["a", "b"], ["a", "c"]],
    ),
    "list maps are equal in any order": (
        array(NAMED, "oldSelf == self", "size(oldSelf + self) == size(self)", maxItems=5, **LIST_MAP),
        [
            [{"name": "a", "size": 1}, {"name": "b", "size": 2}],
            [{"name": "b", "size": 2}, {"name": "a", "size": 1}],
            [{"name": "b", "size": 2}, {"name": "a", "size": 2}],
        ],
    ),
    "plain lists are equal in order": (array(SHORT, "oldSelf == self", maxItems=5), [["b", "a"], ["a", "b"]]),
    "int or string": (
        ruled(
            {"x-kubernetes-int-or-string": True, "maxLength": 9},
            "type(self) == int ? self < 5 : self.endsWith('%')",
            "self != 3",
        ),
        [4, "50%", 3, "x", 9],
    ),
    "int or string, no overload": (ruled({"x-kubernetes-int-or-string": True, "maxLength": 9}, "self < 5"), ["x", 7]),
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
    "numbers": (
        obj("self.a < 1.5", "self.b + 1 == 3", a={"type": "number"}, b=INTEGER),
        [{"a": 1, "b": 2}, {"a": 1.75, "b": 1}],
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
    "null in a list": (
        array({**INTEGER, "nullable": True}, "self.all(x, x == null || x > 3)", maxItems=5),
        [[None, 4], [3, None]],
    ),
    "unknown fields": (
        obj("self == oldSelf", a=INTEGER) | {"x-kubernetes-preserve-unknown-fields": True},
        [{"a": 1, "x": 1}, {"a": 1, "x": 2}, {"a": 1, "y": 2}],
    ),
    "libraries": (
        obj(
            "self.a.matches('^[a-z]+$')",
            "self.a.lowerAscii() == self.a",
            "isQuantity(self.q) && quantity(self.q).isLessThan(quantity('2Gi'))",
            "ip(self.ip).family() == 4",
            "self.a.split(',').size() < 3",
            "!format.dns1123Label().validate(self.a).hasValue()",
            "!has(self.a) || self.a.startsWith('a')",
            a=SHORT,
            q=SHORT,
            ip={"type": "string", "maxLength": 20},
        ),
        [
            {"a": "abc", "q": "1Gi", "ip": "10.0.0.1"},
            {"a": "A,b,c", "q": "3Gi", "ip": "::1"},
            {"a": "a", "q": "x", "ip": ""},
        ],
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
    "ratcheting": (
        obj("self.a < 5", a=INTEGER, b=ruled(INTEGER, "self < 5")),
        [{"a": 1, "b": 1}],
    ),
    "does not compile": (obj("self.x < 5", a=INTEGER), []),
    "does not parse": (ruled(INTEGER, "self <"), []),
    "wrong types": (obj("self.a < 'x'", a=INTEGER), []),
    "types of objects": (obj("self.a + 1 == 2", a=obj(b=INTEGER), l=array(obj(b=INTEGER))), []),
    "no bool": (ruled(INTEGER, "self + 1"), []),
    "unknown function": (ruled(SHORT, "self.foo()"), []),
    "wrong message expression": (
        ruled(INTEGER, rule("self < 5", messageExpression="self")),
        [],
    ),
    "message expression does not compile": (ruled(INTEGER, rule("self < 5", messageExpression="self.x + 'a'")), []),
    "message expression of spaces": (ruled(INTEGER, rule("self < 5", messageExpression="  ")), []),
    "wrong field path": (obj(rule("self.a < 5", fieldPath=".b"), a=INTEGER), []),
    "field path without a dot": (obj(rule("self.a < 5", fieldPath="a"), a=INTEGER), []),
    "field path of spaces": (obj(rule("self.a < 5", fieldPath="  "), a=INTEGER), []),
    "old self in items": (array(obj("oldSelf.a == self.a", a=INTEGER), maxItems=3), []),
    "too costly": (array(STRING, "self.all(x, self.all(y, x == y))"), []),
    "too costly by repetition": (array(ruled(STRING, "self.contains('abc')")), []),
    "a little too costly": (
        array({"type": "string", "maxLength": 100}, "self.all(x, self.exists_one(y, y == x))", maxItems=2000),
        [],
    ),
    "message expression too costly": (
        array(STRING, rule("self.size() < 5", messageExpression="self.map(x, self.join(x)).join(',')")),
        [],
    ),
    "total too costly": (
        obj(
            *(f"self.l.all(x, x.contains('a{i}'))" for i in range(12)),
            l=array({"type": "string", "maxLength": 1000}, maxItems=80_000),
        ),
        [],
    ),
    "not exposed": (
        obj("self.u == 1", u={"x-kubernetes-preserve-unknown-fields": True}, a=INTEGER),
        [],
    ),
    "rule on what is not exposed": (
        obj(u={"x-kubernetes-preserve-unknown-fields": True} | _with(["true"])),
        [],
    ),
    "default that breaks a rule": (obj(a=ruled(INTEGER, "self < 5") | {"default": 7}), []),
    "default": (obj(a=ruled(INTEGER, "self < 5") | {"default": 3}, b=INTEGER), [{"b": 1}, {"a": 8}]),
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
    "nested objects are compared": (
        obj("self.a == self.a", "self.l == [1, 2]", a=obj(b=INTEGER), l=array(INTEGER, maxItems=3)),
        [{"a": {"b": 1}, "l": [1, 2]}, {"a": {"b": 1}, "l": [2, 1]}],
    ),
    "optionals": (
        obj("self.?a.orValue(3) < 5", "self.?b.c.hasValue()", a=INTEGER, b=obj(c=INTEGER)),
        [{"b": {"c": 1}}, {"a": 6, "b": {}}],
    ),
    "comprehensions": (
        obj(
            "self.m.all(k, v, v > 1)",
            "self.l.map(x, x * 2).sum() < 10",
            "self.l.filter(x, x > 2).size() == 1",
            "self.l.isSorted()",
            m=mapping(INTEGER, maxProperties=3),
            l=array(INTEGER, maxItems=9),
        ),
        [{"m": {"a": 2}, "l": [1, 3]}, {"m": {"a": 1}, "l": [5, 4, 3, 1]}],
    ),
    "no cel.bind": (ruled(INTEGER, "cel.bind(n, self, n < 4)"), []),
    "a cost that a limit keeps low": (
        array(obj("self.l.all(x, self.l.exists(y, x == y))", l=array(SHORT, maxItems=10)), maxItems=10),
        [[{"l": ["a"]}]],
    ),
    "enums": (obj("self.e in ['a', 'b']", e={"type": "string", "enum": ["a", "b", "ccc"]}), [{"e": "a"}, {"e": "ccc"}]),
    "null in a nullable list": (
        array({**INTEGER, "nullable": True}, "self.size() < 2", maxItems=5),
        [[None], [None, 1]],
    ),
    "an object in a list": (
        array(obj("self.a > 1", a=INTEGER), maxItems=5),
        [[{"a": 2}], [{"a": 1}, {"a": 2}], [{}]],
    ),
    "maps of objects": (
        mapping(obj(rule("self.a > 1", "too small", fieldPath=".a"), a=INTEGER), maxProperties=5),
        [{"x": {"a": 2}}, {"x": {"a": 1}, "y": {"a": 0}}],
    ),
    "several rules, one of which cannot be evaluated": (
        obj("self.a > 1", "self.b > 1", a=INTEGER, b=INTEGER),
        [{"a": 0}, {"a": 2, "b": 2}],
    ),
    "messages with spaces and quotes": (
        ruled(SHORT, rule('self != "x"', '  say "y"  '), rule("  self != 'z'  ")),
        ["x", "z", "y"],
    ),
    "unchanged violation": (
        obj("!has(self.b) || self.a < 5", a=ruled(INTEGER, "self < 9"), b=INTEGER),
        [{"a": 7}, {"b": 1}, {"a": 3, "b": 1}],
    ),
    "all but one": (
        ruled(obj(a=INTEGER), rule("self.a < 5"), rule("self.a < 4", "small"), rule("self.a > 1")),
        [{"a": 6}, {"a": 3}],
    ),
    "string of int": (
        obj(
            rule("self.min <= self.max", messageExpression="'min ' + string(self.min) + ' above'", fieldPath=".min"),
            min=INTEGER,
            max=INTEGER,
        ),
        [{"min": 2, "max": 1}],
    ),
    "string of bool": (
        obj(rule("self.min", messageExpression="'min ' + string(self.min)"), min={"type": "boolean"}),
        [{"min": False}],
    ),
    "string of double": (
        obj(rule("self.min < 2.0", messageExpression="'min ' + string(self.min)"), min={"type": "number"}),
        [{"min": 5.5}],
    ),
    "string of duration": (
        obj(
            rule("self.min < duration('2s')", messageExpression="'min ' + string(self.min)"),
            min={"type": "string", "format": "duration"},
        ),
        [{"min": "5s"}],
    ),
    "format": (
        obj(rule("self.min < 2", messageExpression="'min %d of %s'.format([self.min, self.s])"), min=INTEGER, s=SHORT),
        [{"min": 5, "s": "a"}],
    ),
    "size": (
        obj(rule("self.s.size() < 2", messageExpression="'size ' + string(self.s.size())"), s=SHORT),
        [{"s": "abc"}],
    ),
    "ternary": (
        obj(rule("self.min < 2", messageExpression="self.min > 5 ? 'large' : 'small'"), min=INTEGER),
        [{"min": 5}, {"min": 6}],
    ),
    "join": (
        obj(rule("self.l.size() < 2", messageExpression="'got ' + self.l.join(', ')"), l=array(SHORT, maxItems=5)),
        [{"l": ["a", "b"]}],
    ),
    "root name": (obj(a=INTEGER), [{"a": 1}]),
    "keys of maps": (mapping(INTEGER, "self.all(k, k.startsWith('a'))", maxProperties=5), [{"a": 1}, {"b": 2}]),
    "unbounded list of small ints": (array(INTEGER, "self.all(x, x > 1)"), [[2], [1]]),
    "unbounded list nested rule": (array(ruled(INTEGER, "self > 1")), [[2], [1]]),
    "unbounded map": (mapping(INTEGER, "self.all(k, self[k] > 1)"), [{"a": 2}]),
    "unbounded string": (ruled(STRING, "self.startsWith('a')"), ["ab", "b"]),
    "unbounded regex": (ruled(STRING, "self.matches('^a+$')"), ["a", "b"]),
    "unbounded contains": (ruled(STRING, "self.contains('a')"), ["a", "b"]),
    "enum list": (
        array(
            {"type": "string", "enum": ["aa", "b"]},
            "self.exists_one(x, x == 'aa')",
            maxItems=100,
            **{"x-kubernetes-list-type": "set"},
        ),
        [["aa"], ["b"]],
    ),
    "quantities": (
        obj(
            "quantity(self.a).compareTo(quantity(self.b)) <= 0",
            a={"x-kubernetes-int-or-string": True, "maxLength": 20},
            b=SHORT,
        ),
        [{"a": "1", "b": "2"}],
    ),
    "quantities of texts": (
        obj("quantity(self.a).compareTo(quantity(self.b)) <= 0", a=SHORT, b=SHORT),
        [{"a": "1", "b": "2"}, {"a": "3", "b": "2"}, {"a": "x", "b": "2"}],
    ),
    "sum of sizes": (
        obj("(has(self.a) ? 1 : 0) + (has(self.b) ? 1 : 0) == 1", a=obj(), b=obj()),
        [{"a": {}}, {"a": {}, "b": {}}, {}],
    ),
    "set operations": (array(SHORT, "sets.contains(['a','b','c'], self)", maxItems=5), [["a"], ["d"]]),
    "url": (
        ruled({"type": "string", "maxLength": 50}, "isURL(self) && url(self).getScheme() == 'https'"),
        ["https://a", "http://a", "x"],
    ),
    "timestamps": (
        obj(
            "self.a < self.b",
            "self.b - self.a < duration('24h')",
            a={"type": "string", "format": "date-time"},
            b={"type": "string", "format": "date-time"},
        ),
        [
            {"a": "2024-01-01T00:00:00Z", "b": "2024-01-01T10:00:00Z"},
            {"a": "2024-01-03T00:00:00Z", "b": "2024-01-01T10:00:00Z"},
        ],
    ),
    "type": (obj("type(self.a) == int", "type(self) == map", a=INTEGER), [{"a": 1}]),
    "dyn": (obj("dyn(self.a) == 1.0", a=INTEGER), [{"a": 1}, {"a": 2}]),
    "old self field": (obj("!has(oldSelf.a) || has(self.a)", a=INTEGER, b=INTEGER), [{"a": 1}, {"b": 1}, {"a": 2}]),
    "nested maps in lists": (
        array(obj(m=mapping(ruled(SHORT, rule("self != 'x'", "no x")), maxProperties=3)), maxItems=3),
        [[{"m": {"k": "x"}}], [{"m": {"k": "y"}}]],
    ),
    "deep field path": (
        obj(rule("self.a.all(x, x.b > 1)", fieldPath=".a"), a=array(obj(b=INTEGER), maxItems=4)),
        [{"a": [{"b": 1}]}],
    ),
    "field path into list": (obj(rule("true", fieldPath=".a[0]"), a=array(obj(b=INTEGER), maxItems=4)), []),
    "two errors of a rule": (obj(rule("self.x > 1", messageExpression="self.y"), a=INTEGER), []),
    "reason unknown": (ruled(INTEGER, rule("self > 1", reason="Foo")), []),
    "two variables": (
        array(INTEGER, "self.all(i, v, i < 3 && v > 0)", "self.transformList(i, v, v * 2).size() == 2", maxItems=5),
        [[1, 2], [0, 1, 2, 3]],
    ),
    "flatten": (
        array(array(INTEGER, maxItems=3), "self.flatten().sum() < 10", maxItems=3),
        [[[1], [2, 3]], [[9], [9]]],
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
        target = self._target
        with target.raw() as sock:
            connection = HTTPConnection(target.host, target.port)
            connection.sock = sock
            sent = None if body is None else json.dumps(body)
            connection.request(method, path, sent, target.headers(Content_Type=content_type))
            answer = connection.getresponse()
            text = answer.read()
            # A resource that is not served yet gives a plain text answer.
            return answer.status, json.loads(text) if text.startswith(b"{") else {}

    def _until_served(self, path):
        deadline = time.monotonic() + 60
        while self._ask("GET", path)[0] != 200:
            assert time.monotonic() < deadline, path
            time.sleep(0.05)
