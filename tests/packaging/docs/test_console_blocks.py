"""Console blocks: commands that need only files run in a copy of examples/, and give the output that is shown."""

import re
import shlex

import pytest

from support import console
from support.paths import ROOT

PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").glob("*.md"), *ROOT.glob("*.md")])
#: Pages that use examples/: every command that can run there does.
GUIDES = [
    *("use/start.md", "use/explain.md", "use/what-if-recipes.md", "use/what-if.md", "use/faq.md", "use/simulate.md"),
    *("use/agents.md", "run/migrate.md", "extend/port-a-go-plugin.md"),
]
#: Programs that pages may name and that tests do not run.
ELSEWHERE = {
    *("TOKEN", "cd", "cp", "crictl", "curl", "docker", "echo", "export", "git", "helm"),
    *("kubectl", "make", "pip", "python3", "sed", "source"),
}


def test_commands_of_all_pages_exist_with_their_options():
    wrong = []
    for page in PAGES:
        for command in console.all_commands(page.read_text(encoding="utf-8")):
            program = command.program.partition("=")[0]
            if program == "stowplan":
                wrong += [(page.name, command.line, option) for option in console.unknown_options(command)]
            elif program not in ELSEWHERE | {"cat", "python", "kube-scheduler"}:
                wrong.append((page.name, command.line, program))
    assert wrong == []


@pytest.mark.parametrize("name", GUIDES)
def test_commands_give_the_output_that_is_shown(name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    with console.examples_copy() as folder:
        for block in console.blocks(page):
            code = 0
            for command in block:
                if command.line.startswith("echo $?"):
                    assert command.shown == f"{code}\n", name
                elif command.runs_offline and files_exist(command, folder):
                    code, output = console.run(command)
                    assert code in (0, 1, 3), f"{command.line}\n{output}"
                    again = f"PYTHONPATH=tests python -m support.console docs/{name} writes it anew"
                    right = not command.shown.strip() or console.output_matches(command.shown, output)
                    assert right, f"{again}\n$ {command.line}\n{output}"


def test_the_scenario_that_is_shown_is_the_one_that_runs():
    page = (ROOT / "docs/use/simulate.md").read_text("utf-8")
    shown = re.search(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert shown.group(1) == (ROOT / "examples/simulation/day.yaml").read_text("utf-8")


def files_exist(command, folder):
    """A page may also show commands on files that only its readers have."""
    words = shlex.split(command.line, comments=True)
    words = words[: words.index(">")] if ">" in words else words
    named = [word for word in words if re.search(r"\.(ya?ml|json|py)$", word)]
    return all((folder / name).exists() for name in named)


@pytest.mark.parametrize("name", GUIDES)
def test_guides_have_commands_that_run(name):
    commands = console.all_commands((ROOT / "docs" / name).read_text(encoding="utf-8"))
    assert any(command.runs_offline for command in commands)


@pytest.mark.parametrize(
    ("shown", "output", "expected"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\nc\n", "a\nb\nb\nc\n", True),
        ("a\n…\nc\n", "a\nc\n", True),
        ("a\n…\nc\n", "b\nc\n", False),
    ],
)
def test_shown_output_is_compared_line_by_line(shown, output, expected):
    assert console.output_matches(shown, output) is expected


def test_an_option_that_does_not_exist_is_found():
    [[command]] = console.blocks("```console\n$ stowplan fit --replica 3 -f x.yaml web\n```\n")
    assert console.unknown_options(command) == ["--replica"]


# -- Python blocks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["use/start.md", "use/faq.md", "extend/port-a-go-plugin.md"])
def test_python_blocks_run_in_the_examples(name):
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    with console.examples_copy():
        for block in blocks:
            assert "assert " in block
            exec(compile(block, name, "exec"), {"__name__": "guide"})
