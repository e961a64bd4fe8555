"""Mutants of functions, with names that outlive a move of the code.

A mutant is one small fault in the body of a function or method: another comparison, `and` for `or`, `+` for `-`, a
number that is one off, a missing `not` or statement, None in place of what is returned. Nested functions belong to the
one around them; defaults of arguments, decorators and annotations are left alone.

A mutant's id is a hash of the function's arguments and body, the kind of fault, and which of that kind it is. The names
of function and module, docstrings, annotations and imports do not count: what is moved or renamed keeps its ids. Where
a function is edited elsewhere, the mutant is known by the names of class and function and the line before and after, or
by fewer of these where classes were merged or renamed, if only one function has such a line.
`ast.unparse` differs between Python's versions: compare within one.
"""

import ast
import copy
import hashlib
import importlib.util
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import CodeType

_PAIRS = (
    (ast.Lt, ast.LtE),
    (ast.Gt, ast.GtE),
    (ast.Eq, ast.NotEq),
    (ast.Is, ast.IsNot),
    (ast.In, ast.NotIn),
    (ast.And, ast.Or),
    (ast.Add, ast.Sub),
    (ast.Mult, ast.FloorDiv),
    (ast.BitAnd, ast.BitOr),
    (ast.LShift, ast.RShift),
)
_SWAPPED = {**dict(_PAIRS), **{b: a for a, b in _PAIRS}, ast.Div: ast.Mult, ast.Mod: ast.Mult}
_LEFT_ALONE = {"annotation", "args", "decorator_list", "returns", "type_params"}
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(eq=False)
class Mutation:
    """Attribute or item `key` of `holder` is to be `new`, in a statement or clause."""

    kind: str
    statement: ast.AST
    holder: object
    key: str | int
    new: object

    def swap(self):
        """Puts the fault into the tree, or takes it out again."""
        if isinstance(self.key, int):
            self.holder[self.key], self.new = self.new, self.holder[self.key]
        else:
            old = getattr(self.holder, self.key)
            setattr(self.holder, self.key, self.new)
            self.new = old

    def lines(self):
        """The statement, or its head if it holds others: before and after."""
        before = _head(self.statement)
        self.swap()
        after = "pass" if self.kind == "statement" else _head(self.statement)
        self.swap()
        return before, after


@dataclass(eq=False)
class Function:
    """A function of a module or class; mutants go by their ids."""

    module: str
    file: Path
    qualname: str
    node: ast.AST
    tree: ast.Module

    @property
    def name(self):
        return self.qualname.rpartition(".")[2]

    @property
    def place(self):
        return f"{self.module}:{self.qualname}"

    @property
    def first_line(self):
        """As code objects have it: that of the first decorator."""
        return min(node.lineno for node in (self.node, *self.node.decorator_list))

    @cached_property
    def digest(self):
        return _digest(ast.unparse(_normal(copy.deepcopy(self.node))))

    @cached_property
    def mutants(self):
        found, numbers = {}, Counter()
        for one in _mutations_below(self.node.body, None):
            found[f"{self.digest}:{one.kind}:{numbers[one.kind]}"] = one
            numbers[one.kind] += 1
        return found

    @property
    def edit_keys(self):
        """Keys of the mutants that edits elsewhere in the function leave as they are."""
        return self.edit_keys_as(self.qualname)

    def edit_keys_as(self, qualname):
        """The same of the function under another name, which it may have had."""
        return {name: _digest(repr((qualname, *text))) for name, text in self._edits.items()}

    @cached_property
    def _edits(self):
        """Mutant -> kind, the line before and after, and which of those with the same ones it is."""
        found, numbers = {}, Counter()
        for name, one in self.mutants.items():
            text = (one.kind, *one.lines())
            found[name] = (*text, numbers[text])
            numbers[text] += 1
        return found

    def code(self):
        """The code object, of the tree as it is now."""
        ast.fix_missing_locations(self.tree)
        codes = _codes(compile(self.tree, self.file, "exec", dont_inherit=True))
        return codes[self.qualname, self.first_line]

    def mutated(self, name):
        """The code object of a mutant; None if it does not compile, or closes over other names than the original."""
        free = self.code().co_freevars
        mutation = self.mutants[name]
        mutation.swap()
        try:
            code = self.code()
        except SyntaxError:
            return None
        finally:
            mutation.swap()
        return code if code.co_freevars == free else None


def functions(packages):
    """All functions of importable packages."""
    for package in packages:
        (root,) = importlib.util.find_spec(package).submodule_search_locations
        for file in sorted(Path(root).rglob("*.py")):
            module = ".".join([package, *file.relative_to(root).with_suffix("").parts]).removesuffix(".__init__")
            tree = ast.parse(file.read_bytes())
            for qualname, node in _functions(tree, ""):
                yield Function(module, file, qualname, node, tree)


def find(sample, packages):
    """Id -> (function, its mutant's id now), of the mutants in the sample that are in the packages as they are now."""
    everything = list(functions(packages))
    by_digest = defaultdict(list)
    for function in everything:
        by_digest[function.digest].append(function)
    found = {}
    for line in sample:
        name, place = line["id"], line["place"]
        same = by_digest[name.partition(":")[0]]
        if same:
            qualname = place.partition(":")[2]
            found[name] = min(same, key=lambda f: (f.place != place, f.qualname != qualname)), name
            continue
        function, mutant = _edited(line, everything)
        if function is not None and function.mutated(mutant):
            found[name] = function, mutant
    return found


def _edited(line, everything):
    """The function of the same class and name, else the only one of this name, else the only one with such lines."""
    qualname = line["place"].partition(":")[2]
    same_name = [function for function in everything if function.name == qualname.rpartition(".")[2]]
    same_class = [function for function in same_name if function.qualname == qualname]
    for candidates in (same_class, same_name, everything):
        hits = [(f, name) for f in candidates for name, key in f.edit_keys_as(qualname).items() if key == line["edit"]]
        if hits:
            return hits[0] if len(hits) == 1 else (None, None)
    return None, None


def _functions(node, prefix):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")
        elif isinstance(child, ast.If | ast.Try):
            yield from _functions(child, prefix)


def _codes(code):
    """(qualified name, first line) -> code object, of all that is defined in it."""
    found = {}
    for one in code.co_consts:
        if isinstance(one, CodeType):
            found |= {(one.co_qualname, one.co_firstlineno): one, **_codes(one)}
    return found


def _mutations_below(holder, statement):
    """All mutations in a node or list of nodes, in the order of the tree."""
    slots = enumerate(holder) if isinstance(holder, list) else ast.iter_fields(holder)
    for key, node in slots:
        if isinstance(node, list) and key not in _LEFT_ALONE:
            yield from _mutations_below(node, statement)
        elif isinstance(node, ast.AST) and key not in _LEFT_ALONE:
            own = node if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler) else statement
            for kind, *slot in _mutations_of(holder, key, node):
                yield Mutation(kind, own, *slot)
            yield from _mutations_below(node, own)


def _mutations_of(holder, key, node):
    match node:
        case ast.Compare():
            for i, operator in enumerate(node.ops):
                yield "comparison", node.ops, i, _SWAPPED[type(operator)]()
        case ast.BoolOp():
            yield "boolean", node, "op", _SWAPPED[type(node.op)]()
        case ast.UnaryOp(op=ast.Not()):
            yield "not", holder, key, node.operand
        case ast.Constant(value=bool()):
            yield "constant", holder, key, ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield "constant", holder, key, ast.Constant(node.value + 1)
            yield "constant", holder, key, ast.Constant(node.value - 1)
        case ast.Return(value=ast.Constant(value=None)):
            pass
        case ast.Return(value=ast.expr()):
            yield "return", node, "value", ast.Constant(None)
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Break() | ast.Continue() | ast.Raise() | ast.Delete():
            yield "statement", holder, key, ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]) | ast.AugAssign():
            yield "statement", holder, key, ast.Pass()
    if isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _SWAPPED:
        yield "arithmetic", node, "op", _SWAPPED[type(node.op)]()


def _head(node):
    node = copy.copy(node)
    for block in _BLOCKS:
        if hasattr(node, block):
            setattr(node, block, [])
    return ast.unparse(node)


def _normal(function):
    """Leaves what the function's behaviour depends on."""
    for node in ast.walk(function):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.name, node.decorator_list, node.returns = "_", [], None
            if ast.get_docstring(node, clean=False) is not None:
                node.body = node.body[1:] or [ast.Pass()]
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("_")
        for name, value in ast.iter_fields(node):
            if name in _BLOCKS and isinstance(value, list):
                setattr(node, name, [ast.Pass() if isinstance(s, ast.Import | ast.ImportFrom) else s for s in value])
    return function


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]
