"""How large the house is at a commit: a row of the table in docs/project/house.md.

    python benchmarks/house.py [COMMIT ...]

Lines of source and tests are those of their Python files. The median module is that of the scheduler and the lab (one
package once), outside the core's folders and without `__init__.py`; the share of imports is that of import statements'
lines among all lines of source. Entries are folders and modules at the top of the package `stowplan`.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from statistics import median

CORE = re.compile(r"stowplan/((scheduler|drivers)/)?(engine|framework|in_tree|queue|cluster|preemption|live)/")


def files(commit: str) -> dict[str, str]:
    """Python files, and those that may hold import contracts: path -> text."""
    names = git("ls-tree", "-r", "--name-only", commit).splitlines()
    wanted = [name for name in names if name.endswith((".py", "pyproject.toml", ".importlinter"))]
    asked = "".join(f"{commit}:{name}\n" for name in wanted)
    content = subprocess.run(
        ["git", "cat-file", "--batch"], input=asked.encode(), capture_output=True, check=True
    ).stdout
    found, at = {}, 0
    for name in wanted:
        head, start = content[at : content.index(b"\n", at)], content.index(b"\n", at) + 1
        at = start + int(head.split()[-1])
        found[name] = content[start:at].decode()
        at += 1
    return found


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, check=True, text=True).stdout


def lines(text: str) -> int:
    return text.count("\n")


def import_lines(text: str) -> int:
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import | ast.ImportFrom)]
    return sum(node.end_lineno - node.lineno + 1 for node in imports if node.end_lineno is not None)


def row(commit: str) -> list[str]:
    texts = files(commit)
    tests = {name: text for name, text in texts.items() if re.search(r"(^|/)tests/.*\.py$", name)}
    inside = {name: re.search(r"(?:^|/)src/(stowplan\w*/.*\.py)$", name) for name in texts.keys() - tests.keys()}
    source = {match[1]: texts[name] for name, match in inside.items() if match}
    outside = [path for path in source if not re.match(r"stowplan_cluster/|.*/__init__", path) and not CORE.match(path)]
    contracts = sum(len(re.findall(r"^\[(?:\[tool\.)?importlinter[.:]contract", text, re.M)) for text in texts.values())
    top = {path.split("/")[1] for path in source if path.startswith("stowplan/")} - {"__init__.py", "__main__.py"}
    total = sum(map(lines, source.values()))
    share = sum(map(import_lines, source.values())) / total
    return [
        f"{total:,} in {len(source):,}",
        f"{sum(map(lines, tests.values())):,} in {len(tests):,}",
        f"{median(lines(source[path]) for path in outside):.0f} lines",
        f"{share:.1%}",
        str(contracts),
        str(len(top)),
    ]


if __name__ == "__main__":
    print(
        "| commit | source, in modules | tests, in modules | median module | imports | contracts | entries at the top |"
    )
    for commit in sys.argv[1:] or ["HEAD"]:
        print(f"| {git('rev-parse', '--short=8', commit).strip()} | " + " | ".join(row(commit)) + " |")
