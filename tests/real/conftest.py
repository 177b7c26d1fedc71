"""Rigs on the real SGLang."""

import pytest

from tests.real.rig import Places, RealRig


@pytest.fixture(scope="session")
def places() -> Places:
    found = Places()
    if found.missing:
        pytest.fail(found.missing)
    return found


@pytest.fixture
def fresh_rig(places, tmp_path_factory):
    """A rig for one test; ended whatever happens."""
    made = []

    def make(tp: int = 1) -> RealRig:
        made.append(RealRig(tmp_path_factory.mktemp("real"), places, tp))
        return made[-1]

    yield make
    for rig in made:
        rig.end()


@pytest.fixture(scope="module")
def serving(places, tmp_path_factory):
    """One rig with one rank, started once for a module's tests, which run in their order."""
    rig = RealRig(tmp_path_factory.mktemp("real"), places)
    try:
        rig.start()
        yield rig
    finally:
        rig.end()
