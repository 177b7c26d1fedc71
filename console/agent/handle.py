"""What the supervisor tells the measuring half of an engine, and what it asks of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from console import rig
from console.agent.record import Start
from console.engine.log import LogEvent
from profiles.schema import Profile


@dataclass(frozen=True, slots=True)
class Handle:
    """An engine that was started, adopted or attached."""

    url: str
    api_key: str = ""
    admin_key: str = ""
    pid: int | None = None
    profile: Profile | None = None
    started_at: float | None = None


class Measured(Protocol):
    """The measuring half as the control half sees it; see :class:`console.agent.measure.Measure`."""

    def engine_changed(self, handle: Handle | None) -> None:
        """Another engine, or none."""

    def log_batch(self, event: LogEvent) -> None:
        """A line of the engine's log that matters."""

    def gpu_pids(self) -> dict[int, int]:
        """GPU memory by process."""

    @property
    def fingerprint(self) -> str:
        """Of the rig as it runs now."""

    def stage_totals(self) -> dict[str, tuple[float, int]]:
        """Seconds and rounds of each stage of speculation since the engine's start."""

    def environments(self) -> dict[int | None, dict[str, str]]:
        """By rank, the speed-relevant environment that its probe reports; the launcher's under ``None``."""

    def probe_status(self) -> rig.ProbeStatus:
        """What the probe in the engine can do now."""

    def probe_depths(self) -> tuple[int | None, int | None, tuple[int, ...]]:
        """Depth in use, depth pinned, prebuilt depths."""

    def profile_changed(self, profile: Profile) -> None:
        """The running engine's profile holds other targets from now on."""

    @property
    def http_answered_at_s(self) -> float | None:
        """When the engine's HTTP server last answered."""

    @property
    def http_error(self) -> str:
        """Why it does not answer; empty while it does."""

    def snapshot(
        self,
        engine: rig.Engine,
        operation: rig.Operation | None,
        events: tuple[rig.Event, ...],
        log_tail: tuple[str, ...],
    ) -> rig.Snapshot:
        """What is known now."""

    def record_operation(self, operation: rig.Operation) -> None:
        """Keep the newest state of an operation."""

    def record_event(self, event: rig.Event) -> None:
        """Keep an event."""

    def record_start(self, start: Start) -> None:
        """Keep how long a start took."""

    def starts(self, profile: str) -> list[Start]:
        """Earlier starts of a profile that got ready, newest first. Blocks."""

    def acknowledge(self, alarm_id: str, by: str) -> bool:
        """Note who has seen an alarm; False when it does not hold."""

    def history(self, kind: str, since: float, until: float) -> list[dict[str, Any]]:
        """Rows of the journal, oldest first. Blocks."""


def engine_client(handle: Handle) -> Any:
    """An HTTP client of an engine, to be entered; the room that knows HTTP is imported when it is needed."""
    from console.engine.http import EngineClient

    return EngineClient(handle.url, api_key=handle.api_key, admin_key=handle.admin_key)
