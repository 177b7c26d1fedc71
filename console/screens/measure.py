"""A baseline or a calibration before it begins: what is to be measured, and what the agent says to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input

from console.errors import ConsoleError
from console.rig import Preview
from console.screens.base import Dialog
from console.screens.keybar import KeyBar
from console.screens.sentence import Sentence
from panels.preview import PreviewPanel

_SETTLE_S = 0.3
"""Typing within this time becomes one question to the agent."""
_LONGEST = 5
"""Digits of a whole number that can mean something here."""


@dataclass(frozen=True, slots=True)
class Field:
    """One choice: its argument, its name on the screen, what stands there at first."""

    key: str
    label: str
    value: str
    many: bool = False
    """A list of whole numbers; empty: the operation's own choice."""
    text: bool = False


_COMMON = (
    Field("repetitions", "repetitions", "3"),
    Field("tokens", "answer tokens", "256"),
    Field("busy", "others may run", "0"),
    Field("prompts", "prompts", "shipped", text=True),
)
FIELDS: dict[str, tuple[Field, ...]] = {
    "baseline": (Field("concurrency", "requests at once", "1"), *_COMMON),
    "calibrate": (
        Field("concurrency", "requests at once", "1,4,16", many=True),
        Field("depths", "depths", "", many=True),
        *_COMMON,
    ),
}
TITLES = {
    "baseline": "Measure the baseline: this rig without speculation",
    "calibrate": "Calibrate: each depth at each load",
}


class Answered(Message):
    """What the agent says to the choices of a moment."""

    def __init__(self, serial: int, args: Mapping[str, object], preview: Preview | None, problem: str = "") -> None:
        self.serial = serial
        self.args = args
        self.preview = preview
        self.problem = problem
        super().__init__()


class MeasureScreen(Dialog[tuple[Preview, Mapping[str, object]]]):
    """Choices above, the preview below; answers with both when the operator agrees.

    Args:
        kind: baseline or calibrate.
    """

    HEADING: ClassVar[str] = "Baseline and calibration"
    DEFAULT_CSS = """
    MeasureScreen Horizontal { height: 1; background: $surface; }
    MeasureScreen Horizontal Sentence { width: 18; background: $surface; }
    MeasureScreen Input { height: 1; border: none; padding: 0 1; width: 1fr; }
    MeasureScreen VerticalScroll { height: auto; max-height: 12; margin-top: 1; background: $surface; }
    MeasureScreen PreviewPanel, MeasureScreen #problem { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The boxes take enter for themselves and say so by an event; ctrl+s is what keeps the key in the last line.
        Binding("ctrl+s,enter", "begin", "begin", id="yes", key_display="enter", tooltip="Measure now"),
        Binding("f2", "results", "last results", id="measure-results", tooltip="The calibrations that are kept"),
        Binding("escape", "leave", "no", id="no", tooltip="Measure nothing"),
    ]

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        self._serial = 0
        self._answer: Answered | None = None

    def compose(self) -> ComposeResult:
        """A row a choice, what is wrong, the preview, the keys."""
        with Vertical(classes="box"):
            yield Sentence(TITLES[self.kind], "title")
            for field in FIELDS[self.kind]:
                with Horizontal():
                    yield Sentence(field.label, "label")
                    yield Input(value=field.value, placeholder=self._placeholder(field), id=f"field-{field.key}")
            yield Sentence("asking what this would do", "dim", id="problem")
            with VerticalScroll():
                yield PreviewPanel(Preview(self.kind, " "))
            yield KeyBar()

    def _placeholder(self, field: Field) -> str:
        steps = self.console.latest.engine.candidate_steps if self.console.latest is not None else ()
        return f"every prebuilt one: {', '.join(map(str, steps))}" if field.key == "depths" else field.label

    def on_mount(self) -> None:
        """Ask for what stands there."""
        self.query_one("#field-concurrency", Input).focus()
        self._ask()

    def on_input_changed(self) -> None:
        """Other choices: what was answered holds no more."""
        self._serial += 1
        self._answer = None
        serial = self._serial
        self.set_timer(_SETTLE_S, lambda: self._ask() if serial == self._serial else None)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter in a box."""
        event.stop()
        self.action_begin()

    def _ask(self) -> None:
        serial = self._serial
        try:
            args = arguments(
                self.kind, {f.key: self.query_one(f"#field-{f.key}", Input).value for f in FIELDS[self.kind]}
            )
        except ConsoleError as error:
            self.on_answered(Answered(serial, {}, None, error.line))
            return

        def work() -> None:
            try:
                preview = self.console.agent().preview(self.kind, args)
            except ConsoleError as error:
                self.post_message(Answered(serial, args, None, error.line))
            else:
                self.post_message(Answered(serial, args, preview))

        self.run_worker(work, thread=True, group="preview", exit_on_error=False)

    def on_answered(self, message: Answered) -> None:
        """Show it, unless something else has been typed since."""
        if message.serial != self._serial:
            return
        self._answer = message
        self.query_one("#problem", Sentence).say(message.problem, "bad")
        panel = self.query_one(PreviewPanel)
        panel.display = message.preview is not None
        if message.preview is not None:
            panel.propose(message.preview)

    def action_begin(self) -> None:
        """Begin what is shown; what is refused or not yet answered is not begun."""
        answer = self._answer
        if answer is None:
            self.console.tell("one moment: asking what this would do", "warning")
        elif answer.preview is None or answer.preview.refused:
            self.console.tell(answer.problem or (answer.preview.refused if answer.preview else ""), "error")
        else:
            self.dismiss((answer.preview, answer.args))

    def action_results(self) -> None:
        """What was measured before."""
        from console.screens.calibration import CalibrationScreen

        self.dismiss(None)
        self.console.push_screen(CalibrationScreen())

    def action_leave(self) -> None:
        """Measure nothing."""
        self.dismiss(None)


def arguments(kind: str, typed: Mapping[str, str]) -> dict[str, object]:
    """The operation's arguments from what was typed.

    Raises:
        ConsoleError: something that must be a whole number is none.
    """
    found: dict[str, object] = {}
    for field in FIELDS[kind]:
        text = typed[field.key].strip()
        if field.text:
            found[field.key] = text or field.value
        elif field.many:
            if text or field.value:
                found[field.key] = _numbers(field, text or field.value)
        else:
            number = _numbers(field, text or field.value)
            found[field.key] = number if field.key == "concurrency" else number[0]
    return found


def _numbers(field: Field, text: str) -> list[int]:
    words = text.replace(",", " ").split()
    bad = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) <= _LONGEST)), None)
    if bad is not None:
        raise ConsoleError(f"{field.label}: {bad!r} is no whole number", todo="write 1,4,16" if field.many else "")
    if not words or (len(words) > 1 and not field.many):
        raise ConsoleError(f"{field.label}: one whole number is wanted")
    return [int(word) for word in words]
