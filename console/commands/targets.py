"""``console targets``: break-even and goals, from numbers or from the running rig."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console import rig

FLAT = "assumes verify cost flat in width: the cycle stays what it is when depth changes"


@dataclass(frozen=True)
class Question:
    """The numbers the answer rests on; ``None`` is not known."""

    baseline_tok_s: float | None
    cycle_ms: float | None
    depth: int | None
    accept_len: float | None
    goals_tok_s: tuple[float, ...]
    verify_ms: float | None = None
    bounds: tuple[float, float] | None = None
    stale: bool = False
    """The rig differs from the one the baseline was measured on."""
    note: str = ""
    """What is to be known of the baseline, e.g. how the rig has changed since."""
    verdict: tuple[rig.Verdict, str] | None = None
    """The agent's own, with its reason, while every number is its own."""
    simulated: bool | None = None
    """``None`` when nothing was read from a rig."""


@click.command("targets")
@click.option("--baseline", metavar="TOK_S", type=float, help="Decode speed per stream without speculation.")
@click.option("--cycle-ms", metavar="MS", type=float, help="One round: draft, verify, draft-extend and the gap.")
@click.option("--depth", metavar="K", type=int, help="Draft tokens a round; 0 is speculation off.")
@click.option("--accept-len", metavar="L", type=float, help="Tokens a round wins, the bonus token included.")
@click.option(
    "--goal", "goals", metavar="TOK_S", type=float, multiple=True, help="A speed wanted of one stream; may be repeated."
)
@click.option("--json", "as_json", is_flag=True, help="Nothing but JSON on stdout.")
@click.pass_obj
def command(
    obj: object,
    /,
    baseline: float | None,
    cycle_ms: float | None,
    depth: int | None,
    accept_len: float | None,
    goals: tuple[float, ...],
    as_json: bool,
) -> None:
    r"""Say whether speculation pays, and what each goal asks of the drafter.

    With --baseline and --cycle-ms it computes from the numbers alone. Without one of them it reads the running rig and
    puts the given numbers in place of the measured ones: a what-if.

    \b
      console targets --baseline 82 --cycle-ms 30 --depth 2 --goal 150
      console targets --cycle-ms 20          what if a round took 20 ms on this rig?

    Exit code 4: the accept_len that is known is below break-even.
    """
    question = Question(baseline, cycle_ms, depth, accept_len, goals)
    _refuse_bad_numbers(question)
    if baseline is None or cycle_ms is None:
        question = _complete(question, getattr(obj, "rig", None))
    answer = _answer(question)
    if as_json:
        click.echo(json.dumps(as_document(answer, question.simulated), indent=1, allow_nan=False))
    else:
        _print(answer, question)
    if answer.margin is not None and answer.depth != 0 and answer.verdict == "loses":
        sys.exit(ExitCode.NO)


def _refuse_bad_numbers(question: Question) -> None:
    """Exit code 2 and one line for a number that cannot be true."""
    from console.economics import guard

    try:
        for name, value in (("--baseline", question.baseline_tok_s), ("--cycle-ms", question.cycle_ms)):
            if value is not None:
                guard.positive(name, value)
        for value in question.goals_tok_s:
            guard.positive("--goal", value)
        if question.depth is not None:
            guard.depth(question.depth)
        if question.accept_len is not None:
            guard.measured_accept_len(question.accept_len, question.depth)
        if question.baseline_tok_s is not None and question.cycle_ms is not None:
            odd = guard.unit_suspicion(question.baseline_tok_s, question.cycle_ms)
            if odd:
                raise guard.NumberError(odd)  # noqa: TRY301 - one place turns all of them into a line
    except guard.NumberError as error:
        raise ConsoleError(
            str(error), todo="speeds are tok/s of one stream, the cycle is milliseconds", code=ExitCode.USAGE
        ) from error


def _complete(question: Question, name: str | None) -> Question:
    """The question with what it lacks read from the running rig.

    Raises:
        ConsoleError: code 3 when nothing runs, or when the rig does not know the figure either.
    """
    from console.agent.client import connect

    try:
        snapshot = connect(name).snapshot()
    except ConsoleError as error:
        if error.code is not ExitCode.UNREACHABLE:
            raise
        lacking = " and ".join(
            flag
            for flag, value in (("--baseline", question.baseline_tok_s), ("--cycle-ms", question.cycle_ms))
            if value is None
        )
        raise ConsoleError(
            error.what, why=error.why, todo=f"start a rig, or give {lacking}", code=ExitCode.UNREACHABLE
        ) from error
    return fill(question, snapshot)


def fill(question: Question, snapshot: rig.Snapshot) -> Question:
    """Measured numbers where none was given.

    A measured accept_len belongs to the depth it was measured at, and a measured verify time to its cycle: another depth or
    cycle leaves them unknown.
    """
    from console.economics import accept_len_bounds
    from console.economics.targets import BREAK_EVEN

    measured = snapshot.targets
    given = (question.baseline_tok_s, question.cycle_ms, question.depth, question.accept_len)
    same_depth = question.depth is None or question.depth == measured.depth
    accept_len, bounds = question.accept_len, None
    if accept_len is None and same_depth:
        accept_len, bounds = measured.accept_len, accept_len_bounds(snapshot.acceptance.positions)
    verify = snapshot.cycle.verify
    filled = replace(
        question,
        baseline_tok_s=measured.baseline.tok_s if question.baseline_tok_s is None else question.baseline_tok_s,
        cycle_ms=measured.cycle_ms if question.cycle_ms is None else question.cycle_ms,
        depth=measured.depth if question.depth is None else question.depth,
        accept_len=accept_len,
        goals_tok_s=question.goals_tok_s or tuple(goal.tok_s for goal in measured.goals if goal.label != BREAK_EVEN),
        verify_ms=(verify.mean_ms or verify.p50_ms) if question.cycle_ms is None else None,
        bounds=bounds,
        stale=measured.baseline.stale and question.baseline_tok_s is None,
        note=measured.baseline.note if question.baseline_tok_s is None else "",
        verdict=(measured.verdict, measured.why) if given == (None, None, None, None) else None,
        simulated=snapshot.simulated,
    )
    for flag, value, what in (
        ("--baseline", filled.baseline_tok_s, "baseline"),
        ("--cycle-ms", filled.cycle_ms, "cycle"),
    ):
        if value is None:
            raise ConsoleError(
                f"rig {snapshot.rig} has no {what} yet",
                why=measured.why,
                todo=f"give {flag}",
                code=ExitCode.UNREACHABLE,
            )
    return filled


def _answer(question: Question) -> rig.Targets:
    import msgspec

    from console import rig
    from console.economics import targets

    found = targets(
        rig.Baseline(tok_s=question.baseline_tok_s, stale=question.stale, note=question.note),
        question.cycle_ms,
        question.depth,
        question.accept_len,
        question.goals_tok_s,
        verify_ms=question.verify_ms,
        accept_len_bounds=question.bounds,
    )
    if question.verdict is None:
        return found
    return msgspec.structs.replace(found, verdict=question.verdict[0], why=question.verdict[1])


def as_document(answer: rig.Targets, simulated: bool | None) -> dict[str, Any]:
    """The answer with the keys of the command line's contract; what follows from accept_len only when that is known."""
    document: dict[str, Any] = {
        "baseline_tok_s": answer.baseline.tok_s,
        "cycle_ms": answer.cycle_ms,
        "depth": answer.depth,
        "break_even_accept_len": _rounded(answer.break_even_accept_len),
        "ceiling_tok_s": _rounded(answer.ceiling_tok_s),
        "goals": [
            {
                "tok_s": goal.tok_s,
                "accept_len": _rounded(goal.accept_len),
                "accuracy_unlimited": _rounded(goal.accuracy_unlimited),
                "accuracy_at_depth": _rounded(goal.accuracy_at_depth),
                "reachable": goal.reachable,
                "min_depth": goal.min_depth,
            }
            for goal in answer.goals
        ],
    }
    if answer.accept_len is not None:
        document |= {
            "accept_len": _rounded(answer.accept_len),
            "speed_tok_s": _rounded(answer.speed_tok_s),
            "speedup": _rounded(answer.speedup),
            "margin": _rounded(answer.margin),
            "verdict": str(answer.verdict),
            "why": answer.why,
        }
    if simulated is not None:
        document["simulated"] = simulated
    return document


def _rounded(value: float | None) -> float | None:
    """Six digits: the figures carry no more, and 2.46 stays 2.46."""
    return None if value is None or not math.isfinite(value) else round(value, 6)


def _print(answer: rig.Targets, question: Question) -> None:
    """Verdict, a table of goals, and what would have to be true."""
    if question.simulated:
        click.echo("SIMULATED")
    unclear = answer.verdict == "cannot tell yet"
    click.echo(_safe(f"{answer.verdict}: {answer.why}" if unclear else f"speculation {answer.verdict}: {answer.why}"))
    click.echo(f"  baseline     {answer.baseline.tok_s:g} tok/s a stream without speculation")
    click.echo(
        f"  cycle        {answer.cycle_ms:.4g} ms" + ("" if answer.depth is None else f" at depth {answer.depth}")
    )
    if answer.ceiling_tok_s is not None:
        click.echo(f"  ceiling      {answer.ceiling_tok_s:.1f} tok/s, a perfect drafter at this depth")
    if answer.speed_tok_s is not None and answer.speedup is not None:
        now = f"{answer.speed_tok_s:.1f} tok/s at accept_len {answer.accept_len:.2f}"
        click.echo(f"  now          {now}, {answer.speedup:.2f}x the baseline")
    click.echo()
    at_depth = "at depth ?" if answer.depth is None else f"at depth {answer.depth}"
    row = "  {:<12}{:>8}{:>12}{:>14}{:>13}{:>11}"
    click.echo(row.format("goal", "tok/s", "accept_len", at_depth, "unlimited", "min depth"))
    for goal in answer.goals:
        click.echo(
            row.format(
                goal.label or "goal",
                f"{goal.tok_s:g}",
                f"{goal.accept_len:.2f}",
                _at_depth(goal, answer.depth),
                _percent(goal.accuracy_unlimited),
                "-" if goal.min_depth is None else str(goal.min_depth),
            )
        )
    click.echo("  (per-step accuracy needed, the same at every position)")
    click.echo()
    for line in what_would_do(answer):
        click.echo(f"  {line}")
    click.echo(f"  note: {FLAT}")


def _safe(text: str) -> str:
    """The reason may quote a profile's note: control characters are shown, not sent, and any locale can print it."""
    return "".join(char if " " <= char <= "~" else ascii(char)[1:-1] for char in text)


def _at_depth(goal: rig.Goal, depth: int | None) -> str:
    if depth is None:
        return "-"
    return "unreachable" if goal.accuracy_at_depth is None else _percent(goal.accuracy_at_depth)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"


def what_would_do(answer: rig.Targets) -> list[str]:
    """What would have to be true instead, a line for each goal not met today."""
    from console.economics import required_cycle_ms

    lines = []
    for goal in answer.goals:
        if answer.speed_tok_s is not None and answer.speed_tok_s >= goal.tok_s:
            continue
        ways = [_accuracy_needed(goal, answer.depth)]
        if goal.verify_ms_needed is not None:
            ways.append(f"verify in {goal.verify_ms_needed:.1f} ms at today's accept_len")
        elif answer.accept_len is not None:
            ways.append(f"a cycle of {required_cycle_ms(goal.tok_s, answer.accept_len):.1f} ms at this accept_len")
        lines.append(f"{goal.tok_s:g} tok/s needs " + ", or ".join(ways))
    return lines


def _accuracy_needed(goal: rig.Goal, depth: int | None) -> str:
    """The accuracy at the depth in use, or the least depth that could do and what it would ask there."""
    from console.economics import accuracy_for

    if depth is not None and goal.accuracy_at_depth is not None:
        return f"accuracy {_percent(goal.accuracy_at_depth)} at depth {depth}"
    if goal.min_depth is None or goal.accept_len is None:
        return "more than any depth gives"
    try:
        there = accuracy_for(goal.accept_len, goal.min_depth)
    except ValueError:
        return "a depth beyond reason"
    return f"depth {goal.min_depth} or more ({_percent(there)} at depth {goal.min_depth})"
