"""Checks of this box: each finding is one line with what to do about it."""
