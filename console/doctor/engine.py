"""Python, this console, and the SGLang that a launch would start."""

from __future__ import annotations

import itertools
import platform
import sys
from typing import TYPE_CHECKING

from console import __version__
from console.doctor.finding import Finding, fail, ok, warn
from console.errors import ConsoleError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from profiles.schema import Profile

LEAST_PYTHON = (3, 11)
PLUGINS_SINCE = (0, 5, 11)
"""The first SGLang with the plugin framework that loads the probe."""


def check_self() -> Iterator[Finding]:
    """The interpreter and this console."""
    version = platform.python_version()
    if sys.version_info < LEAST_PYTHON:
        yield fail(
            "python", f"Python {version}", f"the console needs {'.'.join(map(str, LEAST_PYTHON))}", version=version
        )
    else:
        yield ok("python", f"Python {version} at {sys.executable}", version=version, path=sys.executable)
    yield ok("console", f"console {__version__}", version=__version__)


def check_sglang(profile: Profile) -> Finding:
    """Where SGLang is and which version, asked of the interpreter that would start it."""
    from console.engine.locate import locate

    try:
        found = locate(profile)
    except ConsoleError as error:
        todo = error.todo or "install SGLang, or name its interpreter as engine.python in a profile"
        why = f" ({error.why})" if error.why else ""
        return fail("sglang", f"{error.what}{why}", todo, profile=profile.name)
    data = {"version": found.version_text, "python": found.python, "location": str(found.location or "")}
    if found.simulated:
        return ok("sglang", "the profile starts the simulated engine", **data)
    message = f"SGLang {found.version_text} at {found.location}, started by {found.python}"
    if found.version is not None and found.version < PLUGINS_SINCE:
        todo = "0.5.11 or later loads the console's probe: stage times, live depth and live swap"
        return warn("sglang", message, todo, **data)
    return ok("sglang", message, **data)


def check_probe(profile: Profile) -> Iterator[Finding]:
    """What the console's probe finds in that SGLang, read from its source; nothing where there is none to read."""
    from console.engine.capability import examine
    from console.engine.locate import locate

    try:
        found = locate(profile)
    except ConsoleError:
        return  # said already, where SGLang is looked for
    too_old = found.version is not None and found.version < PLUGINS_SINCE
    if found.simulated or found.location is None or too_old or not profile.engine.probe:
        return
    capability = examine(found.location)
    hooks = {hook: why or "there" for hook, why in capability.missing.items()}
    data = {"hooks": hooks, "depth_live": capability.depth_live, "swap_live": capability.swap_live}
    if capability.complete:
        yield ok("probe", f"everything the probe hooks is there: {', '.join(hooks)}", **data)
        return
    lacks = "; ".join(why for why in capability.missing.values() if why)
    lost = [name for name, can in (("depth", capability.depth_live), ("drafter", capability.swap_live)) if not can]
    todo = f"{' and '.join(lost)} will change by restart" if lost else "the other figures are not affected"
    yield warn("probe", lacks, todo, **data)


def check_profiles() -> Iterator[Finding]:
    """Files among the profiles that hold none."""
    from profiles import store

    found = store.listing()
    for problem in found.problems:
        todo = f"correct {problem.path}, or move it away; the other profiles are not affected"
        yield warn("profiles", problem.message, todo, path=str(problem.path))
    if not found.problems:
        yield ok("profiles", f"{len(found.entries)} profiles can be loaded", count=len(found.entries))


def needs_gpu(profile: Profile) -> bool:
    """Whether a launch of this profile needs an NVIDIA GPU."""
    if profile.engine.simulated or profile.engine.module.startswith("console.simulate"):
        return False
    arguments = profile.engine.args
    return "--device=cpu" not in arguments and ("--device", "cpu") not in itertools.pairwise(arguments)
