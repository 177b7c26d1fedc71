"""What the app needs from the agent's client. The real one is :mod:`console.agent.client`; tests bring their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

from console.errors import ConsoleError
from console.rig import Operation, Preview, Snapshot

if TYPE_CHECKING:
    from console.agent.chart import Chart
    from console.agent.ledger import Entry
    from console.agent.pulls import Pull
    from console.agent.shelf import Shelved
    from console.environment import Matrix


class Agent(Protocol):
    """A connection to the agent. Every call blocks and raises :class:`~console.errors.ConsoleError` with one clear line."""

    def stream(self) -> Iterable[Snapshot]:
        """Snapshots as they come; ends or raises when the agent goes. Its ``close`` may be called from another thread."""

    def preview(self, kind: str, args: Mapping[str, object]) -> Preview:
        """What an operation would do."""

    def operate(self, kind: str, args: Mapping[str, object]) -> Operation:
        """Begin an operation, in the name of whoever runs this console."""

    def cancel(self) -> object:
        """Cancel the running operation, while that is possible."""

    def runs(self, kind: str = "", limit: int = 50) -> Sequence[Entry]:
        """The newest baselines and calibrations, oldest of them first."""

    def environment(self) -> Matrix:
        """The engine's environment: asked for, launcher, each worker."""

    def log(self, before: int | None = None, after: int | None = None, limit: int = 200) -> Mapping[str, Any]:
        """Lines before an offset, after one, or the last ones: ``path``, ``size``, ``start``, ``end``, ``lines``."""

    def history(self, kind: str, since: float | None = None, until: float | None = None) -> Iterable[Mapping[str, Any]]:
        """Rows of the journal, oldest first; ``kind`` is operations, events or starts."""

    def series(self, since: float, until: float, step: float) -> Chart:
        """Figures over time, averaged into steps of so many seconds."""

    def drafters(self) -> Shelved:
        """Drafters on disk and in the profile, judged against what runs."""

    def check_drafter(self, name: str) -> Mapping[str, Any]:
        """One drafter in full, as ``console check --json`` prints it."""

    def pulls(self) -> Sequence[Pull]:
        """Downloads, oldest first."""

    def pull(self, repository: str) -> Pull:
        """Begin a download, in the name of whoever runs this console."""

    def cancel_pull(self, pull_id: str) -> Pull:
        """Stop a download; what came is kept."""

    def acknowledge(self, alarm_id: str) -> object:
        """Note that somebody has seen an alarm."""


class CannotBeginError(ConsoleError):
    """Connecting failed, and no later attempt can do better: the app ends with this line."""

    @classmethod
    def because(cls, error: ConsoleError) -> Self:
        """The same error, as one that ends the app."""
        return cls(error.what, why=error.why, todo=error.todo, code=error.code)


Connect = Callable[[], Agent]
"""Connects to the agent, starting it when none runs. Called in a thread, again after every loss.

Raises :class:`~console.errors.ConsoleError` when it will be tried again, :class:`CannotBeginError` when that is useless.
"""
