"""Places in the source tree."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
STOWPLAN, STOWPLAN_CLUSTER, STOWPLAN_LAB = [
    ROOT / "packages" / name / "src" for name in ("stowplan", "stowplan-cluster", "stowplan-lab")
]
