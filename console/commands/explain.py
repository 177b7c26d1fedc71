"""``console explain LOG``: why it failed, how it started, what it reached; from a saved log, without a server."""

from __future__ import annotations

import json
import math
import sys

import click

from console.engine import explain as engine_explain
from console.engine.explain import Explanation, Verdict
from console.engine.logtext import sanitize
from console.engine.metrics import MetricsWindow
from console.errors import ConsoleError, ExitCode

WARNINGS_SHOWN = 8


@click.command("explain")
@click.argument("log", metavar="LOG")
@click.option(
    "--metrics",
    "scrapes",
    metavar="FILE",
    multiple=True,
    help="A saved /metrics; several in the order they were taken.",
)
@click.option(
    "--baseline", metavar="TOK_S", type=float, help="Decode speed of one stream without speculation: adds break-even."
)
@click.option("--json", "as_json", is_flag=True, help="The same as JSON, nothing else on stdout.")
def command(log: str, scrapes: tuple[str, ...], baseline: float | None, *, as_json: bool) -> None:
    r"""Post-mortem of a saved server log.

    LOG is what SGLang wrote to stderr, plain or packed with gzip or zstandard; '-' reads standard input. Exit code 4 when the
    log holds a failure or speculation loses against the baseline, 1 when it holds no line of SGLang's.

    \b
    console explain server.log
    console explain server.log --baseline 82
    console explain server.log --metrics before.prom --metrics after.prom --json
    """
    if baseline is not None and not (math.isfinite(baseline) and baseline > 0):
        raise ConsoleError(
            f"--baseline {baseline:g} is no speed", todo="give tokens per second, above 0", code=ExitCode.USAGE
        )
    read = [engine_explain.read_scrape(path) for path in scrapes]
    found = engine_explain.explain(engine_explain.chunks_of(log, sys.stdin.buffer if log == "-" else None), read)
    shown = sanitize(log, limit_chars=200)
    if not found.is_sglang:
        raise ConsoleError(
            f"found no SGLang lines in {shown}",
            why=_what_instead(found),
            todo="give the file that holds the server's stderr",
        )
    verdict = engine_explain.judge(found, baseline) if baseline is not None else None
    if as_json:
        click.echo(json.dumps(_json(found, verdict), ensure_ascii=True, indent=2))
    else:
        for line in report(found, verdict, shown):
            click.echo(_printable(line))
    if found.failures or (verdict is not None and verdict.word == "loses"):
        sys.exit(ExitCode.NO)


def _printable(line: str) -> str:
    """The line in the terminal's own character set; what it lacks is written as an escape."""
    encoding = sys.stdout.encoding or "ascii"
    return line.encode(encoding, "backslashreplace").decode(encoding)


def _what_instead(found: Explanation) -> str:
    lines = found.state.lines
    return "it is empty" if not lines else f"{lines} line{'s' if lines != 1 else ''} of something else"


def _json(found: Explanation, verdict: Verdict | None) -> dict[str, object]:
    """The contract's keys; ``metrics`` and ``verdict`` join them only when their options were given."""
    answer = found.as_json()
    window = found.window
    if window is not None:
        stages = window.stages
        answer["metrics"] = {
            "draft_ms": stages.draft_ms,
            "verify_ms": stages.verify_ms,
            "extend_ms": stages.extend_ms,
            "rounds": window.rounds,
            "cuda_graph_share": window.graph_share,
            "accept_len": window.accept_len,
            "why": window.why,
        }
    if verdict is not None:
        answer["verdict"] = {
            "baseline_tok_s": verdict.baseline_tok_s,
            "break_even_accept_len": verdict.break_even_accept_len,
            "accept_len": verdict.accept_len,
            "cycle_ms": verdict.cycle_ms,
            "running": verdict.running,
            "verdict": verdict.word,
            "why": verdict.why,
        }
    return answer


# ------------------------------------------------------------------------------------------------ for people


def report(found: Explanation, verdict: Verdict | None, name: str) -> list[str]:
    """The report as lines: what happened, causes with advice, speed, start-up, remarks."""
    lines = [f"{name}: {'SIMULATED, ' if found.state.simulated else ''}{_headline(found)}"]
    for cause in found.failures:
        ranks = f" [{', '.join(cause.ranks)}]" if cause.ranks else ""
        lines += ["", f"FAILED  {cause.kind}{ranks}", f"  said  {cause.message}", f"  do    {cause.advice}"]
    lines += _served(found)
    lines += _verdict(verdict)
    lines += _measured(found.window)
    lines += _startup(found)
    if warnings := found.warnings:
        lines += ["", "Remarks"]
        lines += [f"  {text}" for text in warnings[:WARNINGS_SHOWN]]
        if len(warnings) > WARNINGS_SHOWN:
            lines.append(f"  and {len(warnings) - WARNINGS_SHOWN} more (--json shows all)")
    return lines


def _headline(found: Explanation) -> str:
    state = found.state
    counted = f"{state.lines} lines, {state.decode_lines} decode batches"
    if found.failures and not state.ready:
        return f"the start failed ({counted})"
    if found.failures:
        return f"served, then failed ({counted})"
    if state.stopping:
        return f"served, then stopped by SIGTERM ({counted})"
    if state.ready or state.decode_lines:
        return f"served, no failure ({counted})"
    return f"no failure, no decoding ({counted})"


def _number(value: float | None, digits: int = 2, unit: str = "") -> str:
    return "-" if value is None else f"{value:.{digits}f}{unit}"


def _served(found: Explanation) -> list[str]:
    if not found.state.decode_lines:
        return []
    length = found.accept_len
    facts = found.state.facts
    lines = ["", "Decoding"]
    if drafter := facts.get("draft_path"):
        lines.append(f"  drafter        {sanitize(drafter, limit_chars=200)}")
    if length.count:
        spread = f"mean {length.mean:.2f}, last {_number(length.last)}, {length.low:.2f} to {length.high:.2f}"
        lines.append(f"  accept len     {spread}")
    else:
        lines.append("  accept len     - (no speculation in the batch lines)")
    changes = len(found.state.switches)
    depth = "-" if found.depth is None else str(found.depth)
    lines.append(f"  depth          {depth}{f' (last of {changes} changes)' if changes else ''}")
    share = found.graph_share
    lines.append(
        f"  graph share    {'-' if share is None else f'{100 * share:.1f} % of decode passes replayed a graph'}"
    )
    lines.append("  running    accept len   cycle ms   tok/s a stream   lines")
    for bucket in sorted(found.buckets.values(), key=lambda bucket: bucket.upto):
        row = f"  {bucket.label:<10} {_number(bucket.accept_len.mean):>10} {_number(bucket.cycle_ms.median):>10}"
        lines.append(
            f"{row} {_number(bucket.stream_tok_s.median, 1):>16} {max(bucket.cycle_ms.count, bucket.accept_len.count):>7}"
        )
    return lines


def _verdict(verdict: Verdict | None) -> list[str]:
    if verdict is None:
        return []
    lines = ["", f"Against {verdict.baseline_tok_s:g} tok/s without speculation: {verdict.word}"]
    if verdict.break_even_accept_len is not None:
        lines.append(
            f"  break-even at accept len {verdict.break_even_accept_len:.2f} (cycle {_number(verdict.cycle_ms)} ms);"
            f" the log has {_number(verdict.accept_len)} with {verdict.running} running"
        )
    if verdict.why:
        lines.append(f"  {verdict.why}")
    return lines


def _measured(window: MetricsWindow | None) -> list[str]:
    if window is None:
        return []
    stages = window.stages
    lines = ["", f"Metrics over {window.rounds} rounds"]
    draft, verify, extend = (_number(value) for value in (stages.draft_ms, stages.verify_ms, stages.extend_ms))
    lines.append(f"  GPU time       draft {draft}, verify {verify}, extend {extend} ms a round")
    if window.accept_len is not None:
        lines.append(f"  accept len     {window.accept_len:.2f} over the requests that ended")
    if window.graph_share is not None:
        lines.append(f"  graph share    {100 * window.graph_share:.1f} %")
    if window.why:
        lines.append(f"  {window.why}")
    return lines


def _startup(found: Explanation) -> list[str]:
    phases = found.phases
    if not phases:
        return []
    lines = ["", "Start-up"]
    for phase in phases:
        seconds = "not finished" if phase.seconds is None else f"{phase.seconds:.2f} s"
        detail = f"  {sanitize(phase.detail, limit_chars=80)}" if phase.detail else ""
        lines.append(f"  {phase.label:<28} {seconds:>14}{detail}")
    return lines
