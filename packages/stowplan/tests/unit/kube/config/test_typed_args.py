"""Arguments of users' plugins: decoded into the plugin's declared type, or refused with a path."""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.kube.config import ConfigError, load_config
from stowplan.scheduler.framework.runtime.registry import PluginLoadError, Registry
from stowplan.scheduler.in_tree.priority_sort.plugin import PrioritySort
from stowplan.scheduler.in_tree.registry import in_tree_registry
from support.plugins.fake_plugins import fake

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ENTRY = "profiles[0].pluginConfig[0].args"


class Weight(msgspec.Struct):
    name: str
    value: int = 1


class StructArgs(msgspec.Struct, frozen=True, rename="camel"):
    weights: tuple[Weight, ...] = ()
    max_pods: int = 5
    mode: Literal["spread", "pack"] = "spread"
    by_zone: dict[str, Weight] = {}
    either: Weight | int | None = None

    def validate(self, path, features):
        if self.max_pods == 13:
            raise ValueError("unlucky")
        if self.max_pods == 14:
            raise KeyError("oops")
        return (f"{path}.maxPods: {self.max_pods} is negative",) if self.max_pods < 0 else None


@dataclass
class DataclassArgs:
    weights: list[Weight] = field(default_factory=list)
    percent: int = 10

    def __post_init__(self):
        if self.percent > 100:
            raise ValueError("more than 100 percent")


@dataclass
class Required:
    percent: int


@dataclass
class Derived:
    """Two fields are computed from the first; one of them has no JSON form."""

    pattern: str = "a"
    compiled: Any = field(default=None, init=False)
    length: int = field(default=0, init=False)

    def __post_init__(self):
        self.compiled, self.length = re.compile(self.pattern), len(self.pattern)


class Nesting(msgspec.Struct, frozen=True, rename="camel", tag="nesting"):
    first_one: Derived = msgspec.field(default_factory=Derived)
    others: tuple[Derived | int, ...] = ()
    by_name: dict[str, list[Derived]] = {}


@dataclass(frozen=True, kw_only=True)
class Frozen:
    annotation: str = "a"
    weight: int = 3
    others: list[int] = field(default_factory=lambda: [1])


@dataclass(slots=True)
class Slots:
    annotation: str = "a"
    weight: int = 3


@attrs.define
class Attrs:
    annotation: str = "a"
    weight: int = 3
    _length: int = attrs.field(init=False, default=1)


class Keyword(msgspec.Struct, kw_only=True, frozen=True, rename="camel", tag="k", omit_defaults=True):
    annotation: str = "a"
    weight: int = 3
    inner_one: Frozen = msgspec.field(default_factory=Frozen)
    inner_list: list[Derived] = msgspec.field(default_factory=list)


class Plain:
    """Its parameters are what can be set."""

    limit: ClassVar[int] = 5

    def __init__(self, annotation: str = "a", weight: int = 3, *, inner: Frozen | None = None, anything=None):
        if weight > 9:
            raise RuntimeError("more than nine")
        self.annotation, self.weight, self.inner, self.anything = annotation, weight, inner, anything


class Attributes:
    """It has no parameters; its attributes are what can be set."""

    annotation = "a"
    weight: int = 3
    limit: ClassVar[int] = 5
    _private = 1

    @property
    def double(self):
        return 2 * self.weight


class Annotated:
    __slots__ = ("weight",)
    weight: int


@dataclass
class Unordered:
    names: frozenset[str] = frozenset()


class Outer(msgspec.Struct):
    one: Plain = msgspec.field(default_factory=Plain)
    more: list[Attributes] = []
    numbered: dict[int, Frozen] = {}


class Forgetting:
    def __init__(self, annotation: str = "a"):
        self._annotation = annotation


@dataclass
class Unknown:
    of: "Nowhere" = None  # noqa: F821


@dataclass
class WithoutValue:
    percent: int = 1
    doubled: int = field(init=False)


def mine(args_type):
    plugin = fake("Mine", filter=None)
    plugin.args_type = args_type
    return plugin


def configured(args_type, *entries):
    registry = in_tree_registry()
    registry.merge(Registry((mine(args_type),)))
    profile = {
        "plugins": {"filter": {"enabled": [{"name": "Mine"}]}},
        "pluginConfig": [{"name": "Mine", "args": args} for args in entries],
    }
    return load_config({**HEADER, "profiles": [profile]}, plugins=registry.declarations), registry


def decoded(args_type, *entries):
    config, _ = configured(args_type, *entries)
    return config.profiles[0].plugin_args("Mine")


@pytest.mark.parametrize(
    ("args_type", "raw", "expected"),
    [
        pytest.param(StructArgs, {}, StructArgs(), id="defaults"),
        pytest.param(StructArgs, None, StructArgs(), id="null"),
        pytest.param(
            StructArgs,
            {"weights": [{"name": "a"}, {"name": "b", "value": 2}], "maxPods": 7, "mode": "pack"},
            StructArgs(weights=(Weight("a"), Weight("b", 2)), max_pods=7, mode="pack"),
            id="struct",
        ),
        pytest.param(StructArgs, {"byZone": {"z": {"name": "a"}}}, StructArgs(by_zone={"z": Weight("a")}), id="map"),
        pytest.param(StructArgs, {"either": {"name": "a"}}, StructArgs(either=Weight("a")), id="either, object"),
        pytest.param(StructArgs, {"either": 3}, StructArgs(either=3), id="either, number"),
        pytest.param(StructArgs, {"apiVersion": "x/v1", "kind": "MineArgs"}, StructArgs(), id="header"),
        pytest.param(DataclassArgs, {"weights": [{"name": "a"}]}, DataclassArgs([Weight("a")]), id="dataclass"),
        pytest.param(Required, {"percent": 3}, Required(3), id="required"),
        pytest.param(Derived, {"pattern": "abc"}, Derived("abc"), id="fields with init=False"),
    ],
)
def test_decoded_arguments(args_type, raw, expected):
    assert decoded(args_type, raw) == expected


@pytest.mark.parametrize(
    ("args_type", "raw", "text"),
    [
        pytest.param(
            StructArgs, {"weights": [{"name": "a"}, {"name": 3}]}, ".weights[1].name: expected str, got int", id="type"
        ),
        pytest.param(StructArgs, {"weights": {}}, ".weights: expected array, got object", id="list"),
        pytest.param(StructArgs, {"maxPods": "5"}, ".maxPods: expected int, got str", id="no conversion"),
        pytest.param(StructArgs, {"mode": "x"}, ".mode: invalid enum value 'x'", id="enum"),
        pytest.param(StructArgs, "x", ": expected object, got str", id="no object"),
        pytest.param(
            StructArgs,
            {"weights": [{"name": "a", "valeu": 1}]},
            ".weights[0].valeu: unknown field; known fields: name, value",
            id="unknown below",
        ),
        pytest.param(
            StructArgs,
            {"byZone": {"z": {"name": "a", "x": 1}}},
            '.byZone["z"].x: unknown field; known fields: name, value',
            id="unknown in a map",
        ),
        pytest.param(
            StructArgs,
            {"either": {"name": "a", "x": 1}},
            ".either.x: unknown field; known fields: name, value",
            id="unknown in one of several",
        ),
        pytest.param(
            DataclassArgs, {"percnt": 1}, ".percnt: unknown field; known fields: weights, percent", id="dataclass"
        ),
        pytest.param(
            Derived, {"length": 3}, ".length: unknown field; known fields: pattern", id="a field with init=False"
        ),
        pytest.param(
            Nesting,
            {"others": [1, {"length": 3}]},
            ".others[1].length: unknown field; known fields: pattern",
            id="a field with init=False, below",
        ),
        pytest.param(DataclassArgs, {"percent": 101}, ": more than 100 percent", id="__post_init__"),
        pytest.param(Attrs, {"_length": 3}, "._length: unknown field; known fields: annotation, weight", id="attrs"),
        pytest.param(
            Plain,
            {"weigth": 1},
            ".weigth: unknown field; known fields: annotation, weight, inner, anything",
            id="plain class",
        ),
        pytest.param(Plain, {"weight": "1"}, ".weight: expected int, got str", id="type in a plain class"),
        pytest.param(Plain, {"weight": 10}, ": Plain raised RuntimeError: more than nine", id="plain class raises"),
        pytest.param(
            Attributes, {"double": 1}, ".double: unknown field; known fields: weight, annotation", id="a property"
        ),
        pytest.param(Annotated, {}, ": object missing required field weight", id="an attribute without a value"),
        pytest.param(Outer, {"more": [{}, {"weight": "1"}]}, ".more[1].weight: expected int, got str", id="type below"),
        pytest.param(
            Outer,
            {"more": [{}, {"weigth": 1}]},
            ".more[1].weigth: unknown field; known fields: weight, annotation",
            id="unknown below a plain class",
        ),
        pytest.param(Outer, {"one": 3}, ".one: expected object, got number", id="no object for a plain class"),
        pytest.param(Outer, {"numbered": {"x": {}}}, ".numbered: expected int, got str", id="key"),
        pytest.param(
            Forgetting,
            {},
            ": an instance of Forgetting has no attribute annotation, as its parameter",
            id="a class that forgets",
        ),
    ],
)
def test_refused_arguments(args_type, raw, text):
    with pytest.raises(ConfigError) as caught:
        decoded(args_type, raw)
    assert str(caught.value) == f"{ENTRY}{text} (plugin Mine)"


@pytest.mark.parametrize(
    ("pods", "text"),
    [
        (-1, f"{ENTRY}.maxPods: -1 is negative"),
        (13, f"{ENTRY}: unlucky"),
        (14, f"{ENTRY}: validate raised KeyError: 'oops'"),
    ],
)
def test_the_arguments_validate_themselves(pods, text):
    with pytest.raises(ConfigError) as caught:
        decoded(StructArgs, {"maxPods": pods})
    assert str(caught.value) == text


def test_several_problems_are_reported_together():
    registry = in_tree_registry()
    registry.register(mine(StructArgs))
    profile = {"percentageOfNodesToScore": 101, "pluginConfig": [{"name": "Mine", "args": {"maxPods": -1}}]}
    with pytest.raises(ConfigError, match=r"^\[profiles\[0\]\.percentageOfNodesToScore: .*maxPods: -1 is negative\]$"):
        load_config({**HEADER, "profiles": [profile]}, plugins=registry.declarations)


def test_without_an_entry_the_defaults_are_used():
    assert decoded(StructArgs) == StructArgs()
    with pytest.raises(ConfigError) as caught:
        decoded(Required)
    assert str(caught.value) == "profiles[0].pluginConfig: object missing required field percent (plugin Mine)"


ANY = {"annotation": "a", "inner": None, "anything": None}


@pytest.mark.parametrize(
    ("args_type", "raw", "complete"),
    [
        (Frozen, {"weight": 5}, {"annotation": "a", "weight": 5, "others": [1]}),
        (Slots, {"weight": 5}, {"annotation": "a", "weight": 5}),
        (Attrs, {"weight": 5}, {"annotation": "a", "weight": 5}),
        (
            Keyword,
            {"innerOne": {"weight": 5}, "innerList": [{}]},
            {"type": "k", "innerOne": {"annotation": "a", "weight": 5, "others": [1]}, "innerList": [{"pattern": "a"}]},
        ),
        (Plain, {"weight": 5}, {**ANY, "weight": 5}),
        (
            Plain,
            {"inner": {"weight": 5}, "anything": [1, {"a": None}]},
            {
                **ANY,
                "weight": 3,
                "inner": {"annotation": "a", "weight": 5, "others": [1]},
                "anything": [1, {"a": None}],
            },
        ),
        (Attributes, {"weight": 5}, {"annotation": "a", "weight": 5}),
        (Unordered, {"names": ["c", "b", "a"]}, {"names": ["a", "b", "c"]}),
        (
            Outer,
            {"one": {}, "more": [{"weight": 5}], "numbered": {"1": {"others": []}}},
            {
                "one": {**ANY, "weight": 3},
                "more": [{"annotation": "a", "weight": 5}],
                "numbered": {"1": {"annotation": "a", "weight": 3, "others": []}},
            },
        ),
    ],
)
def test_classes_keep_their_defaults(args_type, raw, complete):
    config, registry = configured(args_type, raw)
    (written,) = (c["args"] for c in config.to_dict()["profiles"][0]["pluginConfig"] if c["name"] == "Mine")
    assert written == complete
    args = config.profiles[0].plugin_args("Mine")
    assert isinstance(args, args_type)
    if args_type is Frozen:
        assert vars(args) == complete, "as if it were made by a call"
    again = load_config(config.to_dict(), plugins=registry.declarations)
    assert again.to_dict() == config.to_dict()


def test_profiles_may_have_equal_arguments_that_python_does_not_call_equal():
    class Mine(PrioritySort):
        name = "Mine"
        args_type = Plain

    registry = in_tree_registry()
    registry.register(Mine)
    sort = {"queueSort": {"enabled": [{"name": "Mine"}], "disabled": [{"name": "*"}]}}
    profiles = [
        {"schedulerName": name, "plugins": sort, "pluginConfig": [{"name": "Mine", "args": {"weight": weight}}]}
        for name, weight in (("a", 3), ("b", 3), ("c", 4))
    ]
    load_config({**HEADER, "profiles": profiles[:2]}, plugins=registry.declarations)
    with pytest.raises(ConfigError, match="queueSort must be the same for all profiles"):
        load_config({**HEADER, "profiles": profiles}, plugins=registry.declarations)


NESTED = {
    "firstOne": {"pattern": "xy"},
    "others": [2, {"pattern": "z"}],
    "byName": {"one": [{"pattern": "1"}], "none": []},
}


@pytest.mark.parametrize(
    ("args_type", "raw"),
    [
        (StructArgs, {"weights": [{"name": "a"}]}),
        (Required, {"percent": 1}),
        (Derived, {"pattern": "abc"}),
        (Nesting, {"type": "nesting", **NESTED}),
    ],
)
def test_encoded_arguments_decode_again(args_type, raw):
    config, registry = configured(args_type, raw)
    assert load_config(config.to_dict(), plugins=registry.declarations) == config


@pytest.mark.parametrize(
    ("args_type", "raw"), [(Derived, {"pattern": "abc"}), (Nesting, {"type": "nesting", **NESTED})]
)
def test_computed_fields_are_not_encoded(args_type, raw):
    config, _ = configured(args_type, raw)
    (written,) = (c["args"] for c in config.to_dict()["profiles"][0]["pluginConfig"] if c["name"] == "Mine")
    assert written == raw


def test_fields_without_a_value_are_refused():
    with pytest.raises(PluginLoadError, match=r"^args_type of plugin Mine: fields with init=False need .*: doubled$"):
        Registry((mine(WithoutValue),))


@pytest.mark.parametrize(
    ("args_type", "text"),
    [
        *(
            (type_, r"is .*, not a msgspec.Struct, dataclass or other class with fields")
            for type_ in (dict, int, dict[str, int], "StructArgs", re.Pattern, type("Empty", (), {}))
        ),
        (Unknown, "cannot be decoded: NameError: name 'Nowhere' is not defined"),
    ],
)
def test_unsupported_argument_types(args_type, text):
    with pytest.raises(PluginLoadError, match=f"^args_type of plugin Mine {text}$"):
        Registry((mine(args_type),))


_NAMES = st.sampled_from(["weights", "maxPods", "mode", "byZone", "either", "name", "value", "kind", "other"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from(["", "pack", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(_JSON)
def test_any_value_is_accepted_or_refused_with_its_path(raw):
    try:
        args = decoded(StructArgs, raw)
    except ConfigError as error:
        assert str(error).startswith(ENTRY)  # noqa: PT017
    else:
        given_names = set() if raw is None else set(raw) - {"kind"}
        assert given_names <= {"weights", "maxPods", "mode", "byZone", "either"}
        assert msgspec.convert({k: v for k, v in (raw or {}).items() if k != "kind"}, StructArgs) == args
