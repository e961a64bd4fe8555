"""Help: flags by section, aligned, and wrapped on a terminal.

Upstream: github.com/spf13/pflag, flag.go (FlagUsagesWrapped); k8s.io/component-base/cli/flag/sectioned.go.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stowplan.app.command_line.flags.flag_set import Flag

#: Minimum columns for wrapped text; with fewer it starts below its flag.
_NARROWEST = 24
_INDENT_BELOW = 16


def usage_of(flags: Iterable[Flag], *, columns: int = 0) -> str:
    """Sections in order of appearance, with flags by name; 0 columns: without wrapping."""
    order: dict[str, list[Flag]] = {}
    for section, members in groupby(flags, key=lambda flag: flag.section):
        order.setdefault(section, []).extend(members)
    return "".join(f"\n{section} flags:\n\n{_section(members, columns)}" for section, members in order.items())


def _section(flags: list[Flag], columns: int) -> str:
    rows = [(_head(flag), _description(flag)) for flag in sorted(flags, key=lambda flag: flag.name)]
    width = max(len(head) for head, _ in rows)
    return "".join(f"{head:<{width}}   {_wrapped(text, width + 3, columns)}\n" for head, text in rows)


def _head(flag: Flag) -> str:
    line = f"  {flag.shown_name}" if flag.shorthand else f"      {flag.shown_name}"
    if flag.kind.name:
        line += f" {flag.kind.name}"
        if flag.kind.alone is not None:
            line += f"[={flag.kind.alone}]"
    return line


def _description(flag: Flag) -> str:
    default = flag.shown_default
    if default in flag.kind.zero:
        return flag.usage
    return flag.usage + (f' (default "{default}")' if flag.kind.quotes_default else f" (default {default})")


def _wrapped(text: str, indent: int, columns: int) -> str:
    if not columns:
        return text.replace("\n", "\n" + " " * indent)
    below = columns - indent < _NARROWEST
    margin = " " * (_INDENT_BELOW if below else indent)
    room = max(columns - len(margin), _NARROWEST)
    wrapper = textwrap.TextWrapper(room, break_long_words=False, break_on_hyphens=False)
    lines = [line for part in text.split("\n") for line in wrapper.wrap(part) or [""]]
    return ("\n" + margin if below else "") + ("\n" + margin).join(lines)
