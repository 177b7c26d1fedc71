from __future__ import annotations

from collections.abc import Iterator

import pytest

from panels import glyphs


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    yield
    glyphs.use(ascii=False)
