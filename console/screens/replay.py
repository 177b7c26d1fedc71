"""The deck on a recording: the same screens, keys that move through time, nothing that changes anything."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from console.agent.replay import Player
from console.app import ConsoleApp
from console.screens.agent import Connect
from console.screens.notice import Notice

_NOT_RECORDED = frozenset({"log", "filter_log", "freeze", "save", "environment", "baseline", "calibrate", "drafters"})
"""Actions for which a running rig is needed; ``freeze`` is the pause of a replay."""
SHORT_S, LONG_S = 10.0, 60.0


class ReplayApp(ConsoleApp):
    """The console on a recording.

    Args:
        connect: opens the recording.
        player: the position in it.
        rig: name that stands in the header until the first snapshot.
        ascii_only: draw with ASCII characters only.
    """

    HEADING: ClassVar[str] = "Replay"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", id="replay-pause", tooltip="Hold the recording still, or let it go on"),
        Binding("left", f"seek(-{SHORT_S:g})", "10s", id="replay-back", tooltip="Ten seconds back"),
        Binding("right", f"seek({SHORT_S:g})", "10s", id="replay-on", tooltip="Ten seconds on"),
        Binding("shift+left", f"seek(-{LONG_S:g})", "1m", id="replay-far-back", tooltip="A minute back"),
        Binding("shift+right", f"seek({LONG_S:g})", "1m", id="replay-far-on", tooltip="A minute on"),
        Binding("comma", "step(-1)", "step", id="replay-step-back", tooltip="The snapshot before, and pause"),
        Binding("full_stop", "step(1)", "step", id="replay-step-on", tooltip="The next snapshot, and pause"),
        Binding("less_than_sign", "speed(-1)", "speed", id="replay-slower", tooltip="Slower"),
        Binding("greater_than_sign", "speed(1)", "speed", id="replay-faster", tooltip="Faster, up to 300 times"),
    ]

    def __init__(self, connect: Connect, *, player: Player, rig: str | None = None, ascii_only: bool = False) -> None:
        super().__init__(connect, rig=rig, read_only=True, ascii_only=ascii_only, bell=False)
        self._player = player

    def action_seek(self, by_s: float) -> None:
        """Back or forth."""
        self._player.seek(by_s)
        self._announce()

    def action_pause(self) -> None:
        """Hold still, or go on."""
        self._player.pause()
        self._announce()

    def action_step(self, direction: int) -> None:
        """One snapshot."""
        self._player.step(direction)
        self._announce()

    def action_speed(self, direction: int) -> None:
        """Faster or slower."""
        self._player.faster(direction)
        self._announce()

    def can(self, action: str) -> bool:
        """What a recording can show."""
        return action not in _NOT_RECORDED and super().can(action)

    def why_not(self) -> str:
        """Why nothing can be changed."""
        return "this is a replay; nothing can be changed"

    def _announce(self) -> None:
        """The row above the deck: where the replay stands."""
        from panels.text import clock, date

        if self.latest is None or not self._connected:
            super()._announce()
            return
        where = self._player.where
        parts = [f"{date(where.at_s)} {clock(where.at_s)}"]
        parts.append("paused" if where.paused else f"{where.speed:g}x")
        length_s = where.last_s - where.first_s
        if length_s > 0:
            parts.append(
                f"{100 * (where.at_s - where.first_s) / length_s:.0f} % of {date(where.first_s)} "
                f"{clock(where.first_s)} to {date(where.last_s)} {clock(where.last_s)}"
            )
        if where.note:
            parts.append(where.note)
        self.screen_stack[0].query_one(Notice).say("REPLAY", "  ".join(parts))
