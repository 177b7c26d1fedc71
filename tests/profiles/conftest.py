"""A config folder of its own for every test."""

from __future__ import annotations

import pytest

from profiles import store


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("SGLANG_CONSOLE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def put():
    """Write a file into the operator's profile folder."""

    def write(name, content):
        path = store.folder() / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
