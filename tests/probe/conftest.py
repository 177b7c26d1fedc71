"""The probe as SGLang sees it: its folder is an entry of sys.path."""

import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "console/probe"


@pytest.fixture(autouse=True, scope="session")
def _on_the_path():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))
