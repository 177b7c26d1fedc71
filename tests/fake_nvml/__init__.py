"""The fake NVML library, built once a session, and a fixture that puts it under nvidia-ml-py."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("fake_nvml.c")
VARIABLES = ("FAKE_NVML_", "FAKE_PIDS")


def build(folder: Path) -> Path:
    """Compile the library into a folder that can stand in LD_LIBRARY_PATH; returns the file."""
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE], check=True, timeout=60
    )
    return library


@pytest.fixture(scope="session")
def fake_nvml_library(tmp_path_factory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("the fake NVML library needs gcc")
    return build(tmp_path_factory.mktemp("fake-nvml"))


class FakeNvml:
    """Faults by environment, calls counted."""

    def __init__(self, library, monkeypatch):
        self.library = library
        self._monkeypatch = monkeypatch

    def set(self, **variables):
        for name, value in variables.items():
            self._monkeypatch.setenv(name if name == "FAKE_PIDS" else f"FAKE_NVML_{name.upper()}", str(value))

    def unset(self, *names):
        for name in names:
            self._monkeypatch.delenv(f"FAKE_NVML_{name.upper()}", raising=False)

    @property
    def calls(self):
        return int(self.library.fake_calls())


@pytest.fixture
def fake_nvml(fake_nvml_library, monkeypatch):
    import pynvml

    for name in list(os.environ):
        if name.startswith(VARIABLES):
            monkeypatch.delenv(name)
    library = ctypes.CDLL(str(fake_nvml_library))
    library.fake_calls.restype = ctypes.c_ulong
    library.fake_reset()
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    return FakeNvml(library, monkeypatch)
