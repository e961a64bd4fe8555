"""Parse Go-style flags.

`--name=value` and `--name value`; switches alone or with `=`; `-v3`, `-v=3`, `-v 3`; `--` ends the flags; `_` in names
is equivalent to `-`. Anything else is an argument, at any position.

Upstream: github.com/spf13/pflag, flag.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import field

from stowplan.app.command_line.flags.flag_kinds import Kind
from stowplan.kube.api.field_errors import go_quote
from stowplan.kube.config.config_errors import nearest
from stowplan.kube.structs import PlainStruct

Options = TypeVar("Options", bound=PlainStruct)


class FlagError(ValueError):
    """An invalid command line; `str()` is upstream's message, `hints` are our own."""

    def __init__(self, message: object, *hints: str) -> None:
        super().__init__(message)
        self.hints = hints


class Flag(PlainStruct, frozen=True, kw_only=True):
    name: str
    kind: Kind
    default: Any
    #: Heading in help.
    section: str
    usage: str
    shorthand: str = ""
    #: False: the flag is parsed and validated, but its feature is not implemented.
    built: bool = True

    @property
    def shown_name(self) -> str:
        return f"-{self.shorthand}, --{self.name}" if self.shorthand else f"--{self.name}"

    @property
    def shown_default(self) -> str:
        return self.kind.show(self.default)


class CommandLine(PlainStruct):
    """A parsed command line: each flag's value, set or default, and the arguments."""

    values: dict[str, Any]
    #: Names of the flags that were set, in order.
    given: dict[str, None] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def is_given(self, name: str) -> bool:
        return name in self.given


def options_of(kind: type[Options], line: CommandLine) -> Options:
    """A struct whose fields have the names of flags."""
    return kind(**{name: line[name.replace("_", "-")] for name in kind.__struct_fields__})


class FlagSet:
    def __init__(self, flags: Iterable[Flag], *, gone: Mapping[str, str] | None = None) -> None:
        """`gone` maps removed flags to their replacement."""
        self._gone = gone or {}
        self._flags = {flag.name: flag for flag in flags}
        self._by_shorthand = {flag.shorthand: flag for flag in self._flags.values() if flag.shorthand}

    def __iter__(self) -> Iterator[Flag]:
        return iter(self._flags.values())

    def parse(self, arguments: Iterable[str]) -> CommandLine:
        """Parse a command line without the command's name; raises FlagError for the first problem."""
        line = CommandLine({flag.name: flag.default for flag in self})
        left = list(arguments)
        while left:
            word = left.pop(0)
            if word == "--":
                line.arguments += left
                break
            if word.startswith("--"):
                self._read_long(word, left, line)
            elif word.startswith("-") and word != "-":
                self._read_short(word[1:], left, line)
            else:
                line.arguments.append(word)
        return line

    def _read_long(self, word: str, left: list[str], line: CommandLine) -> None:
        name, equals, value = word[2:].partition("=")
        if not name or name.startswith("-"):
            raise FlagError(f"bad flag syntax: {word}")
        flag = self._flags.get(name.replace("_", "-"))
        if flag is None:
            raise FlagError(f"unknown flag: --{name}", *self._hints(name.replace("_", "-")))
        if not equals:
            value = _value_of(flag, left, f"--{name}")
        _set(line, flag, value)

    def _hints(self, name: str) -> Iterator[str]:
        if name in self._gone:
            yield f"--{name}: {self._gone[name]}"
            return
        yield from (f"did you mean --{found}?" for found in [nearest(name, self._flags)] if found is not None)

    def _read_short(self, letters: str, left: list[str], line: CommandLine) -> None:
        """Parse `-abc`: switches, until one takes the rest as its value."""
        while letters:
            letter, rest = letters[0], letters[1:]
            flag = self._by_shorthand.get(letter)
            if flag is None:
                raise FlagError(f"unknown shorthand flag: '{letter}' in -{letters}")
            if len(rest) > 1 and rest.startswith("="):
                _set(line, flag, rest[1:])
                return
            if flag.kind.alone is None:
                _set(line, flag, rest or _value_of(flag, left, f"'{letter}' in -{letters}"))
                return
            _set(line, flag, flag.kind.alone)
            letters = rest


def _value_of(flag: Flag, left: list[str], asked: str) -> str:
    """The value of a flag without `=`."""
    if flag.kind.alone is not None:
        return flag.kind.alone
    if not left:
        raise FlagError(f"flag needs an argument: {asked}")
    return left.pop(0)


def _set(line: CommandLine, flag: Flag, text: str) -> None:
    before = line.values[flag.name] if line.is_given(flag.name) else None
    try:
        line.values[flag.name] = flag.kind.read(text, before)
    except ValueError as error:
        raise FlagError(f'invalid argument {go_quote(text)} for "{flag.shown_name}" flag: {error}') from None
    line.given[flag.name] = None
