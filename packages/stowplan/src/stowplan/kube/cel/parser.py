"""Tokens to a syntax tree; macros are expanded on the way.

Syntax errors have the messages of the reference's generated parser. That recovers from most errors and may report more
of them; here only a superfluous or missing token is recovered from, and any other syntax error is the last one.

Upstream: parser/parser.go, parser/gen/CEL.g4.
"""

from __future__ import annotations

import math

from stowplan.kube.cel.cel_errors import NOWHERE, CompileError, Issues
from stowplan.kube.cel.lexer import Kind, LiteralError, Token, bytes_value, string_value, tokens
from stowplan.kube.cel.macros import expanded
from stowplan.kube.cel.syntax import (
    Call,
    Entry,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
    StructField,
    StructLiteral,
)
from stowplan.kube.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

_MAX_DEPTH = 250

_RESERVED = frozenset(
    [
        "as",
        "break",
        "const",
        "continue",
        "else",
        "false",
        "for",
        "function",
        "if",
        "import",
        "in",
        "let",
        "loop",
        "package",
        "namespace",
        "null",
        "return",
        "true",
        "var",
        "void",
        "while",
    ]
)

_OR, _AND, _RELATION, _SUM, _PRODUCT, _ABOVE = 1, 2, 3, 4, 5, 6
_OPERATORS = {
    "||": (_OR, "_||_"),
    "&&": (_AND, "_&&_"),
    "<": (_RELATION, "_<_"),
    "<=": (_RELATION, "_<=_"),
    ">": (_RELATION, "_>_"),
    ">=": (_RELATION, "_>=_"),
    "==": (_RELATION, "_==_"),
    "!=": (_RELATION, "_!=_"),
    "in": (_RELATION, "@in"),
    "+": (_SUM, "_+_"),
    "-": (_SUM, "_-_"),
    "*": (_PRODUCT, "_*_"),
    "/": (_PRODUCT, "_/_"),
    "%": (_PRODUCT, "_%_"),
}

#: Every kind of token in the order of messages.
_LISTED = ["'['", "']'", "'{'", "'}'", "'('", "')'", "'.'", "','", "'-'", "'!'", "'?'", "':'"]
_LISTED += ["'true'", "'false'", "'null'", "NUM_FLOAT", "NUM_INT", "NUM_UINT", "STRING", "BYTES", "IDENTIFIER"]
_LISTED += ["ESC_IDENTIFIER"]
#: Tokens that can start an expression.
_STARTS = frozenset(_LISTED) - {"']'", "'}'", "')'", "','", "'?'", "':'", "ESC_IDENTIFIER"}
_ELEMENT_STARTS = _STARTS | {"'?'"}
_FIELD_STARTS = frozenset({"IDENTIFIER", "ESC_IDENTIFIER", "'?'"})


def parsed(text: str) -> Node:
    """The syntax tree, or a `CompileError` with all syntax errors."""
    issues = Issues(text)
    try:
        node = _Parser(tokens(text, issues), issues).whole()
    except _EndOfParsingError:
        node = None
    except RecursionError:
        # Python's own limit may be reached first if the caller's stack is deep.
        issues.report(NOWHERE, f"expression recursion limit exceeded: {_MAX_DEPTH}")
        node = None
    issues.raise_if_any()
    if node is None:  # only a bug gets here; otherwise we would return no tree
        raise CompileError("compilation failed: no expression")
    return node


class _EndOfParsingError(Exception):
    """A reported problem after which parsing stops."""


class _Parser:
    def __init__(self, tokens: list[Token], issues: Issues) -> None:
        self._tokens = tokens
        self._issues = issues
        self._at = 0
        #: Number of enclosing expressions.
        self._open = 0
        #: The nesting depth of operators, selections, indexes and member calls in nodes.
        self._depths: dict[Node, int] = {}

    def whole(self) -> Node:
        node = self._expression()
        token = self._token
        if token.kind is not Kind.END:
            unwanted = "extraneous" if self._tokens[self._at + 1].kind is Kind.END else "mismatched"
            self._syntax_error(token, f"{unwanted} input '{token.text}' expecting <EOF>")
        return node

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _advance(self) -> Token:
        token = self._tokens[self._at]
        if token.kind is not Kind.END:
            self._at += 1
        return token

    def _take(self, symbol: str) -> bool:
        if self._tokens[self._at].is_symbol(symbol):
            self._at += 1
            return True
        return False

    # --- Expressions, one function per level of nesting, as Python's stack is limited.

    def _expression(self) -> Node:
        self._open += 1
        if self._open > _MAX_DEPTH:
            self._too_deep(f"expression recursion limit exceeded: {_MAX_DEPTH}")
        node = self._binary(_OR)
        mark = self._token.offset
        if self._take("?"):
            chosen = self._binary(_OR)
            self._match(":", follows=_STARTS)
            parts = [node, chosen, self._expression()]
            node = self._deeper(Call(mark, "_?_:_", None, parts), parts)
        self._open -= 1
        return node

    def _binary(self, level: int) -> Node:
        """Operators of this level or tighter ones, grouped to the left."""
        left = self._operand()
        while (operator := self._operator(level)) is not None:
            found, function = operator
            if found <= _AND:
                left = self._logical(left, found, function)
                continue
            mark = self._advance().offset
            parts = [left, self._binary(found + 1)]
            left = self._deeper(Call(mark, function, None, parts), parts)
        return left

    def _operator(self, level: int) -> tuple[int, str] | None:
        token = self._token
        operator = _OPERATORS.get(token.text) if token.kind is Kind.SYMBOL else None
        return operator if operator and operator[0] >= level else None

    def _logical(self, left: Node, level: int, function: str) -> Node:
        terms, marks = [left], []
        symbol = self._token.text
        while self._token.is_symbol(symbol):
            marks.append(self._advance().offset)
            terms.append(self._binary(level + 1))
        return self._as_deep(_balanced(function, terms, marks, 0, len(marks) - 1), terms)

    def _operand(self) -> Node:
        """Signs, a primary expression, and its selections and calls."""
        sign = self._token
        signs = 0
        if sign.is_symbol("!") or (sign.is_symbol("-") and not self._is_signed_number()):
            while self._take(sign.text):
                signs += 1
            self._check_after_sign(sign.text)
        plain_name = self._token.kind is Kind.NAME or self._token.is_symbol(".")
        if self._take("("):
            node = self._expression()
            self._match(")", follows=_AFTER_OPERAND)
        else:
            node = self._primary()
        while True:
            token = self._token
            if token.is_symbol("{") and plain_name and isinstance(node, Ident | Select):
                node = self._struct(node)
            elif token.is_symbol("."):
                node = self._selection(node)
            elif token.is_symbol("["):
                node = self._index(node)
            else:
                break
        if signs % 2 == 0:
            return node
        return self._as_deep(Call(sign.offset, "!_" if sign.text == "!" else "-_", None, [node]), [node])

    def _check_after_sign(self, sign: str) -> None:
        token = self._token
        kind = _listed(token)
        if sign == "!" and kind not in _STARTS:
            self._syntax_error(token, f"extraneous input '{token.text}' expecting {_shown(_STARTS)}")
            raise _EndOfParsingError
        if sign == "-" and kind not in _STARTS - {"'!'"}:
            seen = "" if token.kind is Kind.END else token.text
            self._syntax_error(token, f"no viable alternative at input '-{seen}'")
            if kind not in _STARTS:
                self._syntax_error(token, f"mismatched input '{token.text}' expecting {_shown(_STARTS)}")
            raise _EndOfParsingError

    def _is_signed_number(self) -> bool:
        return self._tokens[self._at + 1].kind in (Kind.INT, Kind.FLOAT)

    def _primary(self) -> Node:
        token = self._token
        if token.kind is Kind.NAME:
            return self._name("", token)
        if token.kind is not Kind.SYMBOL or token.text in ("true", "false", "null", "-"):
            return self._literal()
        match token.text:
            case "[":
                return self._list()
            case "{":
                return self._map()
            case "." if self._tokens[self._at + 1].kind is Kind.NAME:
                self._advance()
                return self._name(".", token)
        return self._wrong_start(_STARTS)

    # --- Names, selections, calls.

    def _name(self, dot: str, start: Token) -> Node:
        token = self._advance()
        name = dot + token.text
        if token.text in _RESERVED:
            self._issues.report(start.offset, f"reserved identifier: {token.text}")
        mark = self._token.offset
        if self._take("("):
            return self._call(mark, name, None)
        return Ident(token.offset, name)

    def _selection(self, operand: Node) -> Node:
        dot = self._advance()
        optional = self._take("?")
        token = self._token
        if token.kind not in (Kind.NAME, Kind.ESCAPED):
            if optional:
                self._syntax_error(token, f"mismatched input '{token.text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}")
            after = "" if token.kind is Kind.END else token.text
            self._syntax_error(token, f"no viable alternative at input '.{after}'")
            raise _EndOfParsingError
        self._advance()
        mark = self._token.offset
        if token.kind is Kind.NAME and not optional and self._take("("):
            return self._call(mark, token.text, operand)
        if token.kind is Kind.ESCAPED:
            self._issues.report(token.offset, "unsupported syntax: '`'")
        if optional:
            optional_select = Call(dot.offset, "_?._", None, [operand, Literal(token.offset, token.text)])
            return self._deeper(optional_select, [operand])
        return self._deeper(Select(dot.offset, operand, token.text), [operand])

    def _call(self, mark: int, function: str, target: Node | None) -> Node:
        args: list[Node] = []
        if not self._take(")"):
            self._check_start(_STARTS | {"')'"})
            args.append(self._expression())
            while self._take(","):
                args.append(self._expression())
            self._match(")", follows=_AFTER_OPERAND)
        node = expanded(mark, function, target, args, self._issues) or Call(mark, function, target, args)
        return self._as_deep(node, args) if target is None else self._deeper(node, [target, *args])

    def _index(self, operand: Node) -> Node:
        mark = self._advance().offset
        function = "_[?_]" if self._take("?") else "_[_]"
        self._check_start(_STARTS | {"'?'"} if function == "_[_]" else _STARTS)
        index = self._expression()
        self._match("]", follows=_AFTER_OPERAND)
        return self._deeper(Call(mark, function, None, [operand, index]), [operand, index])

    # --- Literals of lists, maps and structs.

    def _list(self) -> Node:
        mark = self._advance().offset
        elements: list[Node] = []
        optional: set[int] = set()
        while not self._closes("]", bool(elements)):
            if self._take("?"):
                optional.add(len(elements))
            elements.append(self._expression())
        return self._as_deep(ListLiteral(mark, elements, frozenset(optional)), elements)

    def _map(self) -> Node:
        mark = self._advance().offset
        entries: list[Entry] = []
        while not self._closes("}", bool(entries)):
            optional = self._take("?")
            key = self._expression()
            colon = self._token.offset
            self._match(":", follows=_STARTS)
            entries.append(Entry(colon, key, self._expression(), optional))
        return self._as_deep(
            MapLiteral(mark, entries), [part for entry in entries for part in (entry.key, entry.value)]
        )

    def _struct(self, name: Ident | Select) -> Node:
        mark = self._advance().offset
        fields: list[StructField] = []
        while not self._closes("}", bool(fields), starts=_FIELD_STARTS):
            optional = self._take("?")
            token = self._advance()
            if token.kind not in (Kind.NAME, Kind.ESCAPED):
                self._syntax_error(token, f"mismatched input '{token.text}' expecting {{IDENTIFIER, ESC_IDENTIFIER}}")
                raise _EndOfParsingError
            colon = self._token.offset
            self._match(":", follows=_STARTS)
            fields.append(StructField(colon, token.text, self._expression(), optional))
        return self._as_deep(StructLiteral(mark, _dotted(name), fields), [field.value for field in fields])

    def _closes(self, closer: str, after_element: bool, starts: frozenset[str] = _ELEMENT_STARTS) -> bool:
        """Whether a literal ends here; skips the separator of its elements."""
        if self._take(closer):
            return True
        if after_element:
            if not self._take(","):
                expected = f"{{'{closer}', ','}}"
                self._syntax_error(self._token, f"mismatched input '{self._token.text}' expecting {expected}")
                raise _EndOfParsingError
            if self._take(closer):
                return True
            if _listed(self._token) not in starts:
                self._syntax_error(self._token, f"mismatched input '{self._token.text}' expecting '{closer}'")
                raise _EndOfParsingError
            return False
        if self._take(","):
            self._match(closer, follows=_AFTER_OPERAND)
            return True
        self._check_start(starts | {f"'{closer}'", "','"})
        return False

    def _literal(self) -> Node:
        start = self._token
        sign = "-" if self._take("-") else ""
        token = self._token
        if token.kind is Kind.END:
            return self._wrong_start(_STARTS)
        self._advance()
        match token.kind:
            case Kind.INT:
                return self._integer(start, sign + token.text, INT_MIN, INT_MAX)
            case Kind.UINT:
                return self._integer(start, token.text, 0, UINT_MAX)
            case Kind.FLOAT:
                return self._double(start, float(sign + token.text))
            case Kind.STRING | Kind.BYTES:
                return self._quoted(token)
            case Kind.SYMBOL:
                return Literal(start.offset, {"true": True, "false": False}.get(token.text))
        self._at -= 1
        return self._wrong_start(_STARTS)

    def _double(self, start: Token, number: float) -> Node:
        if math.isinf(number):
            self._issues.report(start.offset, "invalid double literal")
        return Literal(start.offset, number)

    def _integer(self, start: Token, text: str, least: int, most: int) -> Node:
        is_uint = text[-1] in "uU"
        digits = text[:-1] if is_uint else text
        number = int(digits, 16) if "0x" in digits else int(digits) if len(digits) < 40 else UINT_MAX + 1
        if not least <= number <= most:
            self._issues.report(start.offset, f"invalid {'uint' if is_uint else 'int'} literal")
            return Literal(start.offset, 0)
        return Literal(start.offset, UInt(number) if is_uint else number)

    def _quoted(self, token: Token) -> Node:
        try:
            value = string_value(token.text) if token.kind is Kind.STRING else bytes_value(token.text)
        except LiteralError as error:
            self._issues.report(token.offset, str(error))
            value = ""
        return Literal(token.offset, value)

    # --- Errors.

    def _match(self, symbol: str, *, follows: frozenset[str]) -> None:
        """Consume `symbol`. A superfluous or missing token is reported and recovered from."""
        if self._take(symbol):
            return
        token = self._token
        if token.kind is not Kind.END and self._tokens[self._at + 1].is_symbol(symbol):
            self._syntax_error(token, f"extraneous input '{token.text}' expecting '{symbol}'")
            self._at += 2
        elif _listed(token) in follows:
            self._syntax_error(token, f"missing '{symbol}' at '{token.text}'")
        else:
            self._syntax_error(token, f"mismatched input '{token.text}' expecting '{symbol}'")
            raise _EndOfParsingError

    def _check_start(self, expected: frozenset[str]) -> None:
        if _listed(self._token) not in expected:
            self._wrong_start(expected)

    def _wrong_start(self, expected: frozenset[str]) -> Node:
        """Report a token that cannot start an expression; skip it if the next one can."""
        token = self._token
        if token.kind is not Kind.END and _listed(self._tokens[self._at + 1]) in expected:
            self._syntax_error(token, f"extraneous input '{token.text}' expecting {_shown(expected)}")
            self._advance()
            return self._primary()
        self._syntax_error(token, f"mismatched input '{token.text}' expecting {_shown(expected)}")
        raise _EndOfParsingError

    def _syntax_error(self, token: Token, message: str) -> None:
        self._issues.report(token.offset, f"Syntax error: {message}")

    # --- The recursion limit.

    def _deeper(self, node: Node, parts: list[Node]) -> Node:
        """A node that is one level above its parts in the reference's level count."""
        depth = 1 + self._depth_of(parts)
        if depth > _MAX_DEPTH:
            self._too_deep("max recursion depth exceeded")
        self._depths[node] = depth
        return node

    def _as_deep(self, node: Node, parts: list[Node]) -> Node:
        """A node that adds no level."""
        self._depths[node] = self._depth_of(parts)
        return node

    def _depth_of(self, parts: list[Node]) -> int:
        return max((self._depths.get(part, 0) for part in parts), default=0)

    def _too_deep(self, message: str) -> None:
        self._issues.report(NOWHERE, message)
        raise _EndOfParsingError


_AFTER_OPERAND = frozenset({"']'", "'}'", "')'", "'.'", "','", "'?'", "':'", "'['", "<EOF>"})
_AFTER_OPERAND |= {f"'{symbol}'" for symbol in _OPERATORS}


def _listed(token: Token) -> str:
    """The name of a token's kind in messages."""
    return f"'{token.text}'" if token.kind is Kind.SYMBOL else token.kind.value


def _shown(expected: frozenset[str]) -> str:
    return "{" + ", ".join(kind for kind in _LISTED if kind in expected) + "}"


def _dotted(name: Node) -> str:
    if isinstance(name, Select):
        return f"{_dotted(name.operand)}.{name.field}"
    return name.name if isinstance(name, Ident) else ""


def _balanced(function: str, terms: list[Node], marks: list[int], low: int, high: int) -> Node:
    """A chain of `&&` or `||` as a balanced tree."""
    middle = (low + high + 1) // 2
    left = terms[middle] if middle == low else _balanced(function, terms, marks, low, middle - 1)
    right = terms[middle + 1] if middle == high else _balanced(function, terms, marks, middle + 1, high)
    return Call(marks[middle], function, None, [left, right])
