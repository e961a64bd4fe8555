"""Run the console blocks of Markdown pages, and update the output that they show.

    PYTHONPATH=tests python -m support.console docs/use/start.md

A block has commands after `$`, each with the output that it shows. They run one after the other in a copy of examples/,
`stowplan` commands in this process. A line `…` stands for any lines that are left out. Commands without output are run
and not compared.
"""

import contextlib
import io
import os
import re
import runpy
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click import Context
from click.testing import CliRunner

from stowplan.app.cli.main import cli
from support.paths import ROOT

WIDTH = 100
LEFT_OUT = "…"
#: Commands that work on files alone.
OFFLINE = {"explain", "fit", "drain", "survive", "what-if", "config", "completion", "simulate"}
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Command:
    """A command of a block and the output below it."""

    line: str
    shown: str
    root: bool = False

    @property
    def words(self):
        return shlex.split(self.line.removesuffix("&"), comments=True)

    @property
    def program(self):
        return self.words[0].rpartition("/")[2]

    @property
    def runs_offline(self):
        """Whether it needs neither a cluster nor an optional program."""
        words = self.words
        if any(word in ("|", "<(") or word.startswith("<(") for word in words):
            return False
        if self.program in ("cat", "python"):
            return True
        if self.program != "stowplan" or len(words) < 2 or words[1] not in OFFLINE:
            return False
        return words[1] in ("config", "completion", "simulate") or not {"-f", "--rbac"}.isdisjoint(words)


def blocks(markdown):
    return [commands(match.group(1)) for match in _BLOCK.finditer(markdown)]


def all_commands(markdown):
    return [command for block in blocks(markdown) for command in block]


def commands(block):
    found = []
    # A line that ends in a backslash continues on the next one.
    for line in block.replace("\\\n", "").splitlines():
        # Root's prompt looks like a comment in output, so it counts before the first `$` only.
        if line.startswith("$ ") or (line.startswith("# ") and all(command.root for command in found)):
            found.append(Command(line[2:], "", root=line.startswith("#")))
        elif found:
            found[-1].shown += line + "\n"
    return found


def run(command):
    """Runs a command in the current folder; returns (exit code, output)."""
    words = command.words
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    code, stdout, output = _outcome(command.program, words[1:])
    if target is not None:
        Path(target).write_text(stdout, encoding="utf-8")
        output = output.replace(stdout, "")
    return code, "\n".join(line.rstrip() for line in output.splitlines()) + "\n" if output else ""


def _outcome(program, arguments):
    if program == "cat":
        text = "".join(Path(name).read_text(encoding="utf-8") for name in arguments)
        return 0, text, text
    if program == "python":
        return _script(arguments)
    if arguments[0] == "simulate":
        # Slow machines show progress.
        arguments = [*arguments, "--quiet"]
    result = CliRunner().invoke(cli, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.output


def _script(arguments):
    output, before = io.StringIO(), sys.argv
    sys.argv = arguments
    try:
        with contextlib.redirect_stdout(output):
            runpy.run_path(arguments[0], run_name="__main__")
        code: Any = 0
    except SystemExit as end:
        code = end.code or 0
    finally:
        sys.argv = before
    return code, output.getvalue(), output.getvalue()


def output_matches(shown, output):
    parts = [re.escape(part) for part in re.split(rf"^\s*{LEFT_OUT}\n", shown, flags=re.MULTILINE)]
    return re.fullmatch("(?:.*\n)*".join(parts), output) is not None


def unknown_options(command):
    """Options of a `stowplan` command line that the command does not have."""
    words = command.words[1:]
    context, parameters = Context(cli), list(cli.params)
    group: Any = cli
    while words and hasattr(group, "get_command") and not words[0].startswith("-"):
        group = group.get_command(context, words.pop(0))
        if group is None:
            return [command.line]
        parameters += group.params
    known = {option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)}
    known |= {"-h", "--help", "--version"}
    words = words[: next((i for i, word in enumerate(words) if word in ("|", ">", "&&")), len(words))]
    return [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]


@contextlib.contextmanager
def examples_copy():
    """Changes to a copy of examples/, with the width of a usual terminal."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples", folder, dirs_exist_ok=True)
        environment = {"COLUMNS": str(WIDTH), "TERM": "dumb", "NO_COLOR": "1", "KUBECONFIG": f"{folder}/none"}
        with contextlib.chdir(folder), _environment(environment), _import_path(folder):
            yield Path(folder)


@contextlib.contextmanager
def _environment(values):
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


@contextlib.contextmanager
def _import_path(folder):
    modules, path = set(sys.modules), list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            # Forget modules that were imported from the folder.
            if str(getattr(sys.modules[name], "__file__", None) or "").startswith(folder):
                del sys.modules[name]


def rewritten(markdown):
    """The page with current output, where a command shows all of its output."""

    def block(match):
        text = ""
        for command in commands(match.group(1)):
            output = run(command)[1] if command.runs_offline else command.shown
            shows = command.shown.strip() and f"{LEFT_OUT}\n" not in command.shown
            text += f"$ {command.line}\n" + (output if shows else command.shown)
        return f"```console\n{text}```"

    with examples_copy():
        return _BLOCK.sub(block, markdown)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        page = Path(name).absolute()
        page.write_text(rewritten(page.read_text(encoding="utf-8")), encoding="utf-8")
