"""For all tests."""

from hypothesis import settings

settings.register_profile("rig", deadline=None)  # a busy machine is no failure
settings.load_profile("rig")
