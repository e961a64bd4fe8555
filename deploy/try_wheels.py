"""Install each wheel alone into an empty environment, and run its commands from there.

python deploy/try_wheels.py FOLDER [compiled]
"""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

#: Distribution -> (commands, Python code) that must succeed where it is installed with what it needs, and nothing else.
TRIED = {
    "stowplan": (
        ["stowplan --version", "kube-scheduler --version", "stowplan config defaults", "stowplan explain --help"],
        "from stowplan.ui.assets import assets; assert 'assets/page.js' in assets()",
    ),
    "stowplan_cluster": (["stowplan demo", "stowplan up --help"], "import stowplan_cluster"),
    "stowplan_lab": (
        ["stowplan simulate --schema", "stowplan compare --help", "stowplan tune --help"],
        "import stowplan_lab",
    ),
    "stowplan_scheduler_plugins": (
        ["stowplan config explain PeaksArgs"],
        "from stowplan.scheduler.framework.runtime.registry import installed_plugins; assert installed_plugins()",
    ),
}


#: The same for the compiled form, which is built apart, as that takes minutes.
TRIED_COMPILED = {
    "stowplan_c": (
        ["stowplan --version", "kube-scheduler --version", "stowplan config defaults", "stowplan explain --help"],
        "import stowplan, stowplan_c, stowplan.scheduler.engine.engine as engine; "
        "from stowplan.kube import compiled; from stowplan.testing import a_node, a_pod; "
        "assert compiled.with_sources('1') == '1, compiled', compiled.with_sources('1'); "
        "assert engine.__file__.startswith(stowplan_c.__path__[0]), engine.__file__; "
        "[decision] = stowplan.Cluster([a_node('n').obj(), a_pod('p').obj()]).schedule(); "
        "assert decision.node_name == 'n', decision",
    )
}


def main(wheels: Path, tried: dict[str, tuple[list[str], str]]) -> None:
    for name, (commands, code) in tried.items():
        [wheel] = wheels.glob(f"{name}-*.whl")
        with tempfile.TemporaryDirectory() as folder:
            venv.create(folder, with_pip=True)
            bin_ = Path(folder, "bin")
            # `stowplan` itself is found beside the others, where they need it.
            install = [bin_ / "python", "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
            subprocess.run([*install, "--find-links", wheels, wheel], check=True)
            for command in commands:
                program, *arguments = command.split()
                ran = subprocess.run([bin_ / program, *arguments], cwd=folder, capture_output=True, text=True)
                if ran.returncode:
                    sys.exit(f"{wheel.name}: `{command}` ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
            subprocess.run([bin_ / "python", "-c", code], cwd=folder, check=True)
        print(f"{wheel.name}: installed alone, {len(commands)} commands run")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), TRIED_COMPILED if sys.argv[2:] == ["compiled"] else TRIED)
