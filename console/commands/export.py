"""``console export``: the journal's figures over time, for a spreadsheet or a notebook."""

from __future__ import annotations

import contextlib
import csv
import math
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click

from console.commands._times import SPAN
from console.errors import ConsoleError, ExitCode

if TYPE_CHECKING:
    from console.cli import RigContext

Row = Sequence[float | None]
FORMATS = ("csv", "json", "parquet")


@click.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False), required=False)
@click.option("--since", type=SPAN, help="How far back: 90s, 30m, 2h, 7d. [default: everything]")
@click.option("--format", "form", type=click.Choice(FORMATS), help="[default: by FILE's ending, else csv]")
@click.pass_obj
def command(obj: RigContext, /, file: Path | None, since: float | None, form: str | None) -> None:
    """Write the recorded figures, a row a second, to FILE or to stdout: time, cycle, stages, accept_len, depth, tok/s, power.

    Works with and without a running agent. An empty cell is "not measured", never zero. JSON is one object a line.
    Parquet needs pyarrow (pip install 'sglang-console[parquet]') and a FILE. Exit code 3: nothing was recorded in that time.
    """
    from console.agent import series
    from console.commands.history import rig_with_a_past

    paths = rig_with_a_past(obj)
    form = form or _by_ending(file)
    since_s = 0.0 if since is None else time.time() - since
    rows = series.rows(paths.history, since_s, math.inf)
    first = next(rows, None) if paths.history.exists() else None
    if first is None:
        raise ConsoleError(
            f"rig {paths.name} has no figures in that time",
            why="nothing was recorded" if paths.history.exists() else f"{paths.history} does not exist",
            todo="a longer --since" if since is not None else "",
            code=ExitCode.UNREACHABLE,
        )
    count = _write(form, file, series.COLUMNS, _chained(first, rows))
    if file is not None:
        click.echo(f"{count} rows of rig {paths.name} written to {file}", err=True)


def _by_ending(file: Path | None) -> str:
    ending = file.suffix.lower().lstrip(".") if file is not None else ""
    return {"jsonl": "json", "ndjson": "json"}.get(ending, ending if ending in FORMATS else "csv")


def _chained(first: Row, rest: Iterable[Row]) -> Iterator[Row]:
    yield first
    yield from rest


def _write(form: str, file: Path | None, columns: Sequence[str], rows: Iterable[Row]) -> int:
    """Write all rows; how many."""
    if form == "parquet":
        return _write_parquet(file, columns, rows)
    write = _write_csv if form == "csv" else _write_json
    if file is None:
        return write(sys.stdout, columns, rows)
    with _replacing(file) as out:
        return write(out, columns, rows)


@contextlib.contextmanager
def _replacing(file: Path) -> Iterator[IO[str]]:
    """A file that stands there whole or not at all."""
    part = file.with_name(f".{file.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as out:
            yield out
        part.replace(file)
    except OSError as error:
        raise ConsoleError(f"{file} cannot be written", why=error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def _write_csv(out: IO[str], columns: Sequence[str], rows: Iterable[Row]) -> int:
    """A header, then a row a second; ``time`` is local with its offset, for people."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["time", *columns])
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - counted
        at_s, *figures = row
        unix = "" if at_s is None else f"{at_s:.3f}"
        writer.writerow([_local(at_s), unix, *("" if value is None else f"{value:.10g}" for value in figures)])
    return count


def _write_json(out: IO[str], columns: Sequence[str], rows: Iterable[Row]) -> int:
    """An object a line."""
    import msgspec

    encoder = msgspec.json.Encoder()
    count = 0
    for count, row in enumerate(rows, 1):  # noqa: B007 - counted
        out.write(encoder.encode(dict(zip(columns, row, strict=True))).decode() + "\n")
    return count


def _write_parquet(file: Path | None, columns: Sequence[str], rows: Iterable[Row]) -> int:
    if file is None:
        raise ConsoleError("Parquet needs a FILE", why="it is no text", code=ExitCode.USAGE)
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise ConsoleError(
            "Parquet needs pyarrow",
            why="it is not installed",
            todo="pip install 'sglang-console[parquet]'",
            code=ExitCode.USAGE,
        ) from error
    schema = pa.schema([(name, pa.float64()) for name in columns])
    part = file.with_name(f".{file.name}.part")
    count = 0
    try:
        with parquet.ParquetWriter(part, schema) as writer:
            for batch in _batches(rows):
                arrays = [pa.array(values, pa.float64()) for values in zip(*batch, strict=True)]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
                count += len(batch)
        part.replace(file)
    except OSError as error:
        raise ConsoleError(f"{file} cannot be written", why=error.strerror or str(error)) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
    return count


def _batches(rows: Iterable[Row], size: int = 50_000) -> Iterator[list[Row]]:
    batch: list[Row] = []
    for row in rows:
        batch.append(row)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def _local(at_s: float | None) -> str:
    """ISO 8601 with the offset of this machine's zone."""
    from datetime import UTC, datetime

    if at_s is None:
        return ""
    try:
        return datetime.fromtimestamp(at_s, UTC).astimezone().isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return ""
