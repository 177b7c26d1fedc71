"""What the probe does with weights, checked by the engine's Python, which has torch."""

import ast
import json
import subprocess
from pathlib import Path

import pytest

from tests.real.probe_engine import engine_python
from tests.real.rig import Places

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).with_name("probe_weights.py")
CHECKS = [
    node.name
    for node in ast.parse(SCRIPT.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
]


@pytest.fixture(scope="module")
def results():
    python = engine_python(Places())
    if not python.exists():
        pytest.skip(f"{python} is not there: run tests/real/run.sh, which makes it")
    done = subprocess.run([python, SCRIPT], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("check", CHECKS)
def test_weights(results, check):
    assert results[check] == ""
