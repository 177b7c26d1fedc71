"""The folder is a distribution, loads nothing heavy, and stays away from processes that are no scheduler."""

import ast
import importlib.metadata
import multiprocessing
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.probe.conftest import FOLDER

ROOT = FOLDER.parents[1]
SOURCES = sorted((FOLDER / "sglang_console_probe").glob("*.py"))
FOUND_IN_SGLANG = {"torch", "zmq", "sglang", "setproctitle", "huggingface_hub", "sglang_console_probe"}


def test_the_folder_is_a_distribution_with_the_entry_point():
    (found,) = importlib.metadata.distributions(path=[str(FOLDER)])
    (entry,) = found.entry_points
    assert (entry.group, entry.value) == ("sglang.srt.plugins", "sglang_console_probe:register")
    assert entry.load().__name__ == "register"
    from sglang_console_probe import VERSION

    assert found.version == VERSION


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_only_what_sglang_has_is_imported_and_late(source):
    tree = ast.parse(source.read_text(), feature_version=(3, 10))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            assert top in FOUND_IN_SGLANG | set(sys.stdlib_module_names)
            at_module_level = node in tree.body
            assert not at_module_level or top not in FOUND_IN_SGLANG - {"sglang_console_probe"}


def test_it_imports_without_torch_or_sglang():
    names = ", ".join(f"sglang_console_probe.{path.stem}" for path in SOURCES if path.stem != "__init__")
    code = f"import sys, {names}; assert not {{'torch', 'zmq', 'sglang', 'console'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(FOLDER)!r}); {code}"], check=True)


def test_nothing_of_ours_imports_it():
    for path in (ROOT / "console").rglob("*.py"):
        if FOLDER not in path.parents:
            text = path.read_text()
            assert "import sglang_console_probe" not in text
            assert "from sglang_console_probe" not in text
            assert "console.probe" not in text


@pytest.mark.parametrize("folder", ["", "set"])
def test_the_launcher_gets_no_hooks(monkeypatch, tmp_path, folder):
    monkeypatch.setenv("SGLANG_CONSOLE_PROBE_DIR", str(tmp_path) if folder else "")
    import sglang_console_probe
    from sglang_console_probe import role

    assert not role.is_scheduler()  # this process has no multiprocessing parent
    sglang_console_probe.register()
    assert "sglang" not in sys.modules


@pytest.mark.parametrize(
    ("title", "scheduler"),
    [
        ("sglang::detokenizer", False),
        ("sglang::data_parallel_controller", False),
        ("python -m sglang", True),
        ("", True),
    ],
)
def test_which_child_is_a_scheduler(monkeypatch, title, scheduler):
    from sglang_console_probe import role

    monkeypatch.setattr(multiprocessing, "parent_process", lambda: object())
    monkeypatch.setattr(role, "title", lambda: title)
    assert role.is_scheduler() is scheduler


def test_an_error_while_registering_stays_inside(monkeypatch, tmp_path, caplog):
    import sglang_console_probe
    from sglang_console_probe import role

    monkeypatch.setenv("SGLANG_CONSOLE_PROBE_DIR", str(tmp_path))
    monkeypatch.setattr(role, "is_scheduler", lambda: True)  # and there is no sglang here: install() fails
    sglang_console_probe.register()
    assert "the server is not affected" in caplog.text


def test_the_wheel_carries_the_distribution(tmp_path):
    pytest.importorskip("hatchling", reason="hatchling is not installed; the wheel is checked where it is")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
    )
    (wheel,) = Path(tmp_path).glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in FOLDER.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            assert str(path.relative_to(ROOT)) in names
