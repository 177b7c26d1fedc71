"""The window on the log: bounded, exact at its seams, anew when the file is another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.screens.logbook import KEPT_LINES, Logbook, LogPage
from tests.app.fake import FakeLog


def page(log: FakeLog, before: int | None = None, after: int | None = None, limit: int = 500) -> LogPage:
    return LogPage.of(log.page(before, after, limit))


def test_pages_join_without_a_gap_in_both_directions() -> None:
    log = FakeLog(5000)
    book = Logbook()
    book.begin(page(log))
    book.prepend(page(log, before=book.start))
    log.count = 5300
    book.append(page(log, after=book.end))
    assert book.lines() == [f"line {i}" for i in range(4000, 5300)]
    assert (book.start, book.end) == (4000 * log.width, 5300 * log.width)


def test_memory_is_bounded_in_both_directions() -> None:
    log = FakeLog(100_000)
    book = Logbook()
    book.begin(page(log))
    for _ in range(60):
        book.prepend(page(log, before=book.start))
        assert book.count <= KEPT_LINES + 500
    assert book.lines()[0] == f"line {100_000 - 61 * 500}"
    for _ in range(60):
        dropped = book.append(page(log, after=book.end))
        assert dropped >= 0
        assert book.count <= KEPT_LINES + 500
    lines = book.lines()
    numbers = [int(line.split()[1]) for line in lines]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_only_wanted_lines_are_kept_and_empty_stretches_cost_nothing() -> None:
    log = FakeLog(50_000, lambda i: f"line {i} {'ERROR' if i % 10_000 == 0 else 'fine'}")
    book = Logbook("error")
    book.begin(page(log, limit=2000))
    while book.start > 0:
        book.prepend(page(log, before=book.start, limit=2000))
    assert book.lines() == [f"line {i} ERROR" for i in range(0, 50_000, 10_000)]
    assert len(book._spans) <= 6


def test_another_file_or_a_shorter_one_starts_anew() -> None:
    log = FakeLog(100)
    book = Logbook()
    book.begin(page(log))
    other = FakeLog(3)
    other.path = "/rig/new.log"
    assert book.append(page(other, after=book.end)) == 100
    assert book.path == "/rig/new.log"
    book.append(page(other, after=0))
    assert book.lines() == ["line 0", "line 1", "line 2"]


def test_what_was_skipped_is_counted() -> None:
    log = FakeLog(1000)
    book = Logbook()
    book.begin(page(log, after=0, limit=100))
    book.append(page(log, limit=100))
    assert book.lines()[0] == "line 900"
    assert book.skipped_bytes == 800 * log.width


@given(st.lists(st.sampled_from(["older", "newer", "grow"]), max_size=40), st.text(max_size=3))
def test_any_walk_shows_a_run_of_the_wanted_lines(steps: list[str], needle: str) -> None:
    log = FakeLog(3000)
    book = Logbook(needle)
    book.begin(page(log, limit=100))
    for step in steps:
        if step == "grow":
            log.count += 70
        elif step == "newer":
            book.append(page(log, after=book.end, limit=100))
        else:
            book.prepend(page(log, before=book.start, limit=100))
    first, last = book.start // log.width, book.end // log.width
    assert book.lines() == [line for i in range(first, last) if book.wanted(line := f"line {i}")]
