"""The engine's environment: asked for, launcher, each worker; what differs stands above everything."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from console.environment import Matrix, Variable
from console.errors import ConsoleError
from console.rig import Snapshot
from console.screens.base import SubScreen
from console.screens.keybar import KeyBar
from panels import glyphs
from panels.base import Frame
from panels.columns import Column, choose, headings, line
from panels.header import Header
from panels.rows import EMPTY, Row, crop_middle, wrap
from panels.scroll import ScrollingPanel
from panels.text import clean

COLUMNS = (
    Column("name", "variable", 20, flex=2, most=36),
    Column("asked", "asked for", 10, keep=2, flex=1, most=18),
    Column("launcher", "launcher", 9, keep=1, flex=2, most=24),
    Column("workers", "workers", 9, flex=3, most=40),
    Column("by", "set by", 12, keep=3, flex=2, most=40),
)


class Answered(Message):
    """The agent has told it, or not."""

    def __init__(self, matrix: Matrix | None, problem: str = "") -> None:
        self.matrix = matrix
        self.problem = problem
        super().__init__()


class EnvironmentView(ScrollingPanel):
    """The matrix as rows."""

    def __init__(self) -> None:
        super().__init__()
        self._frame = Frame.NONE
        self._snapshot = Snapshot()
        self._matrix: Matrix | None = None
        self._why = "asking the agent"

    def fill(self, matrix: Matrix | None, why: str = "") -> None:
        """Show a matrix, or why there is none."""
        self._matrix, self._why = matrix, why
        self._redraw()

    def body(self, snapshot: Snapshot, cells: int, rows: int) -> list[Row]:  # noqa: ARG002 - variables, not figures
        """Differences, then every variable."""
        if self._matrix is None:
            return wrap(clean(self._why), cells, "bad" if self._why != "asking the agent" else "dim", rows)
        return self.window(matrix_rows(self._matrix, cells), rows)


def matrix_rows(matrix: Matrix, cells: int) -> list[Row]:
    """The whole matrix as rows of ``cells``."""
    look = glyphs.active()
    out: list[Row] = []
    for words in matrix.differences:
        out += wrap(f"{look.warn} {clean(words)}", cells, "warn", 2)
    if not matrix.differences and matrix.variables and not (matrix.launcher_why or matrix.workers_why):
        out.append(((f"{look.done} as asked for, on every worker", "good"),))
    for who, why in (("launcher", matrix.launcher_why), ("workers", matrix.workers_why)):
        if why:
            out += wrap(f"{who}: not known: {clean(why)}", cells, "dim", 2)
    columns = choose(COLUMNS, cells, gap=2)
    out += [EMPTY, headings(columns, gap=2)]
    widths = {column.key: column.cells for column in columns}
    for variable in matrix.variables:
        texts = texts_of(variable, matrix)
        role = "warn" if variable.differences else "text"
        looks = {"name": role, "by": "dim", "asked": "label"}
        out.append(
            line(
                columns,
                {
                    key: ((crop_middle(clean(text), widths.get(key, 0)), looks.get(key, role)),)
                    for key, text in texts.items()
                },
                gap=2,
            )
        )
    if not matrix.variables:
        out.append((("no variable that decides speed is set", "dim"),))
    return out


def texts_of(variable: Variable, matrix: Matrix) -> dict[str, str]:
    """One variable by column; a dash: it is not set there."""
    dash = glyphs.active().dash
    values = list(dict.fromkeys(worker.value for worker in variable.workers))
    if not values:
        workers = "?" if matrix.workers_why else "not reported"
    elif len(values) == 1:
        workers = _value(values[0])
    else:
        workers = " ".join(f"{worker.rank}:{_value(worker.value)}" for worker in variable.workers)
    return {
        "name": variable.name,
        "asked": f"set {variable.wanted}" if variable.asked == "set" else variable.asked or dash,
        "launcher": "?" if matrix.launcher_why else _value(variable.launcher),
        "workers": workers,
        "by": variable.by,
    }


def _value(value: str | None) -> str:
    return glyphs.active().dash if value is None else value or '""'


class EnvironmentScreen(SubScreen):
    """Read once, and again by f5: an environment does not change while its process lives."""

    HEADING: ClassVar[str] = "Environment"
    DEFAULT_CSS = """
    EnvironmentScreen Header { height: 2; }
    EnvironmentScreen EnvironmentView { padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f5", "reload", "reload", id="environment-reload", tooltip="Ask the agent again")
    ]

    def compose(self) -> ComposeResult:
        """Header and matrix."""
        yield Header()
        yield EnvironmentView()
        yield KeyBar()

    def on_mount(self) -> None:
        """Ask in a worker."""
        self.query_one(EnvironmentView).focus()
        self.action_reload()

    def action_reload(self) -> None:
        """Ask the agent again."""

        def ask() -> None:
            try:
                self.post_message(Answered(self.console.agent().environment()))
            except ConsoleError as error:
                self.post_message(Answered(None, error.line))

        self.run_worker(ask, thread=True, exclusive=True, exit_on_error=False)

    def on_answered(self, message: Answered) -> None:
        """Show it."""
        self.query_one(EnvironmentView).fill(message.matrix, message.problem)

    def show(self, snapshot: Snapshot) -> None:
        """The header lives on."""
        self.query_one(Header).show(snapshot)
