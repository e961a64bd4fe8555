"""Rules about the structure of the code that no linter has."""

import ast
import re
from pathlib import Path

import pytest

import stowplan
import stowplan_cluster

MAX_CALLABLES = 3

PACKAGES = [Path(package.__file__).parent for package in (stowplan, stowplan_cluster)]
SOURCES = [source for package in PACKAGES for source in sorted(package.rglob("*.py"))]


def callables_of_constructors(source, aliases=frozenset()):
    """(class, line) -> arguments of its constructor that are callables; fields count where they are arguments."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            named = [name for name, annotation in _arguments(node) if _is_callable(annotation, aliases)]
            if named:
                found[node.name, node.lineno] = named
    return found


def callable_aliases(source):
    """Names in the module that stand for a callable."""
    for node in ast.parse(source).body:
        for statement in node.body if isinstance(node, ast.If) else [node]:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_callable(value, frozenset()):
                    yield name
                case ast.AnnAssign(target=ast.Name(id=name), value=value) if _is_callable(value, frozenset()):
                    yield name


def _arguments(node):
    constructor = next((one for one in node.body if getattr(one, "name", "") == "__init__"), None)
    if constructor is not None:
        arguments = constructor.args
        yield from (
            (one.arg, one.annotation) for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        )
        return
    if any("dataclass" in ast.unparse(one) for one in node.decorator_list) or node.bases:
        # Fields of a dataclass, a struct or a named tuple.
        for one in node.body:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                yield one.target.id, one.annotation


def _is_callable(annotation, aliases):
    match annotation:
        case ast.Constant(value=str() as text):
            try:
                return _is_callable(ast.parse(text, mode="eval").body, aliases)
            except SyntaxError:
                return False
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _is_callable(left, aliases) or _is_callable(right, aliases)
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            return _is_callable(inner, aliases)
        case ast.Subscript(value=value):
            return _is_callable(value, aliases)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name == "Callable" or name in aliases
    return False


@pytest.mark.slow
def test_no_constructor_takes_more_than_three_callables():
    """A constructor that needs more takes an object with a name and an owner."""
    texts = {source: source.read_text(encoding="utf-8") for source in SOURCES}
    aliases = frozenset(name for text in texts.values() if "Callable" in text for name in callable_aliases(text))
    # Files without these names need no check.
    worth_a_look = re.compile("|".join(("Callable", *map(re.escape, aliases))))
    too_many = {
        f"{source.name}:{line} {name}": named
        for source, text in texts.items()
        if worth_a_look.search(text)
        for (name, line), named in callables_of_constructors(text, aliases).items()
        if len(named) > MAX_CALLABLES
    }
    assert too_many == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param(
            "class A:\n def __init__(self, a: Callable[[], int], b: int, *, c: Callable[..., int] | None): ...",
            ["a", "c"],
            id="arguments",
        ),
        pytest.param("@dataclass\nclass A:\n a: Callable[[], int]\n b: str", ["a"], id="fields of a dataclass"),
        pytest.param("class A(NamedTuple):\n a: 'Callable[[], int]'", ["a"], id="fields of a named tuple"),
        pytest.param("class A:\n def __init__(self, a: Report, b: Mapping[str, Report]): ...", ["a"], id="an alias"),
        pytest.param("class A:\n def f(self, a: Callable[[], int]): ...", None, id="a method"),
    ],
)
def test_callables_are_counted(source, expected):
    assert callables_of_constructors(source, {"Report"}).get(("A", 2 if source[0] == "@" else 1)) == expected


def test_aliases_of_callables_are_found():
    guarded = 'if TYPE_CHECKING:\n    Gate: TypeAlias = "Callable[[], int]"\n'
    source = f"Report = Callable[[str], None]\n{guarded}Not = Mapping[str, int]"
    assert list(callable_aliases(source)) == ["Report", "Gate"]
