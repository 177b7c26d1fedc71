"""Finding the SGLang that would be started, without importing it: which interpreter, which version, where its sources are."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from console.engine.server_info import version_tuple
from console.errors import ConsoleError, ExitCode
from profiles.schema import Profile

QUERY_TIMEOUT_S = 30.0
"""An interpreter on a cold network disk takes seconds to start."""
SIMULATED_MODULE = "console.simulate"

_QUERY = """
import importlib.metadata as m, importlib.util as u, json, os, re, sys
spec = u.find_spec("sglang")
roots = list(spec.submodule_search_locations or []) if spec else []
root = roots[0] if roots else ""
try:
    version = m.version("sglang")
except Exception:
    version = ""
    for name in ("_version.py", "version.py"):
        path = os.path.join(root, name)
        if root and os.path.isfile(path):
            found = re.search(r"version(?:__)?\\s*=.*?['\\"](\\d[^'\\"]*)['\\"]", open(path, errors="replace").read())
            version = version or (found.group(1) if found else "")
print(json.dumps({"root": root, "version": version, "python": sys.executable}))
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """One SGLang on this machine."""

    python: str
    """The interpreter that has it."""
    version: tuple[int, ...] | None
    """``(0, 5, 23)``; ``None`` when the sources do not say."""
    version_text: str
    location: Path | None
    """The package's folder."""
    simulated: bool = False

    @property
    def source_root(self) -> Path | None:
        """Folder of SGLang's runtime (``sglang/srt``), for looking at what this version can do."""
        return self.location / "srt" if self.location is not None else None


def locate(profile: Profile) -> Installation:
    """The installation that a profile starts.

    Raises:
        ConsoleError: no interpreter has SGLang, with the ones that were asked.
    """
    engine = profile.engine
    if engine.module.startswith(SIMULATED_MODULE):
        return Installation(engine.python or sys.executable, None, "simulated", None, simulated=True)
    if engine.python:
        return inspect(engine.python, engine.pythonpath)
    asked: list[str] = []
    for python in candidates():
        try:
            return inspect(python, engine.pythonpath)
        except ConsoleError:
            asked.append(python)
    raise ConsoleError(
        "no SGLang found",
        why=f"asked {', '.join(asked)}" if asked else "no Python interpreter found",
        todo="name the interpreter that has it as engine.python in the profile",
        code=ExitCode.USAGE,
    )


def candidates() -> Iterator[str]:
    """Interpreters that may have SGLang, the likeliest first, each once.

    The active environment's, the one of the ``sglang`` command, this console's own, the system's.
    """
    seen: set[str] = set()
    for path in _candidate_paths():
        if path and path not in seen and os.access(path, os.X_OK):
            seen.add(path)
            yield path


def _candidate_paths() -> Iterator[str]:
    if environment := os.environ.get("VIRTUAL_ENV"):
        yield str(Path(environment) / "bin" / "python")
    if environment := os.environ.get("CONDA_PREFIX"):
        yield str(Path(environment) / "bin" / "python")
    if command := shutil.which("sglang"):
        yield _shebang(Path(command))
    yield sys.executable
    yield shutil.which("python3") or ""


def _shebang(script: Path) -> str:
    """The interpreter in a script's first line; empty when it names none."""
    try:
        with script.open("rb") as file:
            first = file.readline(4096)
    except OSError:
        return ""
    if not first.startswith(b"#!"):
        return ""
    words = first[2:].decode("utf-8", errors="replace").split()
    return words[0] if words and "python" in Path(words[0]).name else ""


def inspect(python: str, pythonpath: Iterable[str] = ()) -> Installation:
    """Ask an interpreter for its SGLang.

    Args:
        python: path or command name of the interpreter.
        pythonpath: folders the engine will get in front of its module path.

    Raises:
        ConsoleError: the interpreter does not run, or has no SGLang.
    """
    command = shutil.which(os.path.expanduser(python))  # noqa: PTH111 - which() takes text
    if command is None:
        raise ConsoleError(
            f"{python} is no interpreter on this machine",
            todo="correct engine.python in the profile",
            code=ExitCode.USAGE,
        )
    command = os.path.abspath(command)  # noqa: PTH100 - a venv's python is a link that must not be followed
    folders = [str(Path(folder).expanduser()) for folder in pythonpath]
    inherited = os.environ.get("PYTHONPATH", "")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *([inherited] if inherited else [])])}
    try:
        done = subprocess.run(
            [command, "-c", _QUERY],
            env=env,
            cwd="/",
            capture_output=True,
            timeout=QUERY_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = (
            f"no answer in {QUERY_TIMEOUT_S:.0f} s"
            if isinstance(error, subprocess.TimeoutExpired)
            else str(error.strerror or error)
        )
        raise ConsoleError(f"{python} does not run", why=why, todo="correct engine.python in the profile") from error
    return _installation(command, done)


def _installation(python: str, done: subprocess.CompletedProcess[str]) -> Installation:
    try:
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        root, version = str(answer["root"]), str(answer["version"])
    except (ValueError, IndexError, KeyError, TypeError) as error:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise ConsoleError(f"{python} cannot be asked for SGLang", why=last[0][:300]) from error
    if not root:
        raise ConsoleError(
            f"{python} has no SGLang",
            todo="install it there, or name another interpreter as engine.python",
            code=ExitCode.USAGE,
        )
    numbers = version_tuple(version)
    known = numbers if any(numbers) else None
    return Installation(python, known, version or "unknown", Path(root))
