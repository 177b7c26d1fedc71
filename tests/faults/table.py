"""The table of a run, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from tests.faults.kinds import Tally

HEAD = ("fault", "tried", "survived", "noticed, median", "max", "noticed", "lost")


def markdown(tallies: Iterable[Tally]) -> str:
    """One row a kind, then the sum."""
    found = list(tallies)
    rows = [_row(tally) for tally in found]
    tried, survived = sum(tally.tried for tally in found), sum(tally.survived for tally in found)
    kinds = sum(tally.tried > 0 for tally in found)
    rows.append((f"**{kinds} kinds**", f"**{tried}**", f"**{survived}**", "", "", "", ""))
    lines = ["| " + " | ".join(row) + " |" for row in (HEAD, ("---", "--:", "--:", "--:", "--:", "---", "---"), *rows)]
    return "\n".join(lines)


def _row(tally: Tally) -> tuple[str, ...]:
    if not tally.tried:
        return (tally.kind.name, "0", "-", "-", "-", tally.skipped or "the time was over", "-")
    times = tally.noticed_s
    median = f"{statistics.median(times):.2f} s" if times else "-"
    most = f"{max(times):.2f} s" if times else "-"
    lost = "; ".join(f"{what} ({count}x)" for what, count in sorted(tally.lost.items())) or "nothing"
    if tally.failures:
        lost = "see below"
    return (tally.kind.name, str(tally.tried), str(tally.survived), median, most, tally.kind.noticed, lost)
