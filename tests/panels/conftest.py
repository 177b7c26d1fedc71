"""A fixed time zone and the UTF-8 characters, whatever machine the tests run on."""

from __future__ import annotations

import time

import pytest

from panels import glyphs


@pytest.fixture(autouse=True)
def _utc(monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(autouse=True)
def _unicode():
    glyphs.use(ascii=False)
    yield
    glyphs.use(ascii=False)


@pytest.fixture
def ascii_terminal():
    glyphs.use(ascii=True)
