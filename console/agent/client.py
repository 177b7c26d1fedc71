"""The agent as its clients see it: plain, blocking HTTP over its Unix socket, nothing imported that starts slowly."""

from __future__ import annotations

import contextlib
import getpass
import http.client
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

import msgspec

from console import rig
from console.agent import left
from console.agent.chart import Chart
from console.agent.configuration import Configuration
from console.agent.ledger import Entry
from console.environment import Matrix
from console.errors import ConsoleError, ExitCode
from console.paths import RigPaths, rig_names

if TYPE_CHECKING:
    from console.agent.pulls import Pull
    from console.agent.shelf import Shelved

DEFAULT_RIG = "default"
ANSWER_S = 10.0
OPERATION_S = 60.0
"""A preview may ask an interpreter on a cold disk, and the hub for a drafter's header."""
SILENCE_S = 15.0
"""A stream without a line for so long is broken: the agent sends two a second."""

T = TypeVar("T")


class AgentGoneError(ConsoleError):
    """The agent does not answer (any more)."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(
            f"no agent answers for rig {name}",
            why=why,
            todo="console run PROFILE starts one",
            code=ExitCode.UNREACHABLE,
        )


class AgentError(ConsoleError):
    """The agent answered with an error; its line is shown as it stands.

    Attributes:
        status: HTTP status: 409 busy or too late, 422 refused.
    """

    def __init__(self, line: str, *, code: ExitCode, status: int) -> None:
        super().__init__(line, code=code)
        self.status = status


class _Connection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket instead of a host."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Stream:
    """Snapshots as they come. Iterate in one thread; :meth:`close` from any."""

    def __init__(self, connection: _Connection, response: http.client.HTTPResponse, name: str) -> None:
        self._connection = connection
        self._response = response
        self._name = name
        self._closed = threading.Event()
        self._socket = connection.sock
        self._decoder = msgspec.json.Decoder(rig.Snapshot)

    def __iter__(self) -> Iterator[rig.Snapshot]:
        """Yield snapshots until :meth:`close`.

        Raises:
            AgentGoneError: the agent ended, or has been silent for too long.
        """
        why = "it ended"
        try:
            while not self._closed.is_set():
                line = self._response.readline()
                if not line.endswith(b"\n"):
                    break
                yield _decode(self._decoder, line)
        except TimeoutError:
            why = f"nothing came for {SILENCE_S:g} s"
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = str(error)
        finally:
            with contextlib.suppress(OSError):
                self._connection.close()
        if not self._closed.is_set():
            raise AgentGoneError(self._name, why)

    def close(self) -> None:
        """End the iteration, wherever it waits."""
        self._closed.set()
        with contextlib.suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)


class AgentClient:
    """One rig's agent. A connection a request; safe to use from several threads.

    Args:
        paths: the rig's files.
    """

    def __init__(self, paths: RigPaths) -> None:
        self.rig = paths.name
        self._paths = paths

    # ------------------------------------------------------------------------------------------ what is known

    def ping(self) -> dict[str, Any]:
        """Who answers.

        Raises:
            AgentGoneError: nobody.
            ConsoleError: an agent of another version.
        """
        answer: dict[str, Any] = self._ask("GET", "/v1/ping")
        if answer.get("schema") != rig.SCHEMA:
            raise _other_version(f"schema {answer.get('schema')}")
        return answer

    def snapshot(self) -> rig.Snapshot:
        """Everything known now."""
        return _decode(msgspec.json.Decoder(rig.Snapshot), self._raw("GET", "/v1/snapshot"))

    def snapshot_json(self) -> bytes:
        """The same as the agent sends it."""
        return self._raw("GET", "/v1/snapshot")

    def stream(self) -> Stream:
        """Snapshots, twice a second and after each change."""
        connection = self._connect(SILENCE_S)
        try:
            connection.request("GET", "/v1/stream")
            return Stream(connection, connection.getresponse(), self.rig)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise AgentGoneError(self.rig, str(error)) from error

    def log(self, before: int | None = None, after: int | None = None, limit: int = 200) -> dict[str, Any]:
        """A page of the engine's log: ``path``, ``size``, ``start``, ``end``, ``lines``."""
        wanted = {"before": before, "after": after, "limit": limit}
        query = urlencode({name: value for name, value in wanted.items() if value is not None})
        answer: dict[str, Any] = self._ask("GET", f"/v1/log?{query}")
        return answer

    def history(self, kind: str, since: float | None = None, until: float | None = None) -> list[dict[str, Any]]:
        """Rows of the journal, oldest first; ``kind`` is operations, events, series or starts."""
        wanted = {"kind": kind, "since": since, "until": until}
        query = urlencode({name: value for name, value in wanted.items() if value is not None})
        rows: list[dict[str, Any]] = self._ask("GET", f"/v1/history?{query}", timeout_s=OPERATION_S)
        return rows

    def environment(self) -> Matrix:
        """The engine's environment: asked for, launcher, each worker."""
        return _decode(msgspec.json.Decoder(Matrix), self._raw("GET", "/v1/environment"))

    def running(self) -> Configuration:
        """What was launched, with what was changed since.

        Raises:
            AgentError: no engine of this rig runs.
        """
        return _decode(msgspec.json.Decoder(Configuration), self._raw("GET", "/v1/running"))

    def runs(self, kind: str = "", limit: int = 50) -> list[Entry]:
        """The newest baselines and calibrations, oldest of them first."""
        query = urlencode({"kind": kind, "limit": limit})
        return _decode(msgspec.json.Decoder(list[Entry]), self._raw("GET", f"/v1/runs?{query}"))

    def series(self, since: float, until: float, step: float) -> Chart:
        """Figures over time, averaged into steps of ``step`` seconds."""
        query = urlencode({"since": since, "until": until, "step": step})
        raw = self._raw("GET", f"/v1/series?{query}", timeout_s=OPERATION_S)
        return _decode(msgspec.json.Decoder(Chart), raw)

    def acknowledge(self, alarm_id: str, by: str | None = None) -> None:
        """Note that somebody has seen an alarm.

        Raises:
            AgentError: it does not hold any more (status 404).
        """
        self._ask("POST", "/v1/alarms/ack", {"id": alarm_id, "by": by or who()})

    # ------------------------------------------------------------------------------------------ drafters

    def drafters(self) -> Shelved:
        """Drafters on disk and in the profile, judged against what runs, with what each did on this rig."""
        from console.agent.shelf import Shelved

        raw = self._raw("GET", "/v1/drafters", timeout_s=OPERATION_S)
        return _decode(msgspec.json.Decoder(Shelved), raw)

    def check_drafter(self, name: str) -> dict[str, Any]:
        """One drafter in full, as ``console check --json`` prints it."""
        answer: dict[str, Any] = self._ask("GET", f"/v1/drafters?{urlencode({'name': name})}", timeout_s=OPERATION_S)
        return answer

    def pulls(self) -> list[Pull]:
        """Downloads, oldest first."""
        from console.agent.pulls import Pull

        return _decode(msgspec.json.Decoder(list[Pull]), self._raw("GET", "/v1/pulls"))

    def pull(self, repository: str, *, everything: bool = False, by: str | None = None) -> Pull:
        """Begin a download; it goes on when this console ends.

        Raises:
            AgentError: no repository name, or it is being pulled already (status 422).
        """
        from console.agent.pulls import Pull

        return self._order("/v1/pulls", {"repository": repository, "everything": everything, "by": by or who()}, Pull)

    def cancel_pull(self, pull_id: str) -> Pull:
        """Stop a download; what came is kept."""
        from console.agent.pulls import Pull

        return self._order("/v1/pulls/cancel", {"id": pull_id}, Pull)

    # ------------------------------------------------------------------------------------------ operations

    def preview(self, kind: str, args: Mapping[str, Any]) -> rig.Preview:
        """What an operation would do."""
        return self._order("/v1/preview", {"kind": kind, "args": dict(args)}, rig.Preview)

    def operate(self, kind: str, args: Mapping[str, Any], by: str | None = None) -> rig.Operation:
        """Begin an operation.

        Raises:
            AgentError: another one runs (status 409), or it is refused (422).
        """
        return self._order("/v1/operations", {"kind": kind, "args": dict(args), "by": by or who()}, rig.Operation)

    def cancel(self, by: str | None = None) -> rig.Operation:
        """Take the running operation back.

        Raises:
            AgentError: there is none, or it is past the point of no return.
        """
        return self._order("/v1/operations/cancel", {"by": by or who()}, rig.Operation)

    def stop_agent(self) -> None:
        """The agent ends, the engine lives."""
        self._ask("POST", "/v1/agent/stop", {})

    # ------------------------------------------------------------------------------------------ inside

    def _order(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        raw = self._raw("POST", path, body, timeout_s=OPERATION_S)
        return _decode(msgspec.json.Decoder(kind), raw)

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S) -> Any:
        try:
            return msgspec.json.decode(self._raw(method, path, body, timeout_s=timeout_s))
        except msgspec.DecodeError as error:
            raise _other_version(str(error)) from error

    def _raw(self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout_s: float = ANSWER_S) -> bytes:
        payload = None if body is None else msgspec.json.encode(body)
        connection = self._connect(timeout_s)
        try:
            connection.request(method, path, payload, {"Content-Type": "application/json"} if payload else {})
            response = connection.getresponse()
            raw = response.read()
        except TimeoutError as error:
            raise AgentGoneError(self.rig, f"it did not answer within {timeout_s:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            raise AgentGoneError(self.rig, str(error) or type(error).__name__) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise _agent_error(raw, response.status)
        return raw

    def _connect(self, timeout_s: float) -> _Connection:
        """A connection, after a look at whose socket it is."""
        path = self._paths.socket
        try:
            owner = path.parent.stat().st_uid
            if owner != os.geteuid():
                raise AgentGoneError(self.rig, f"{path.parent} belongs to user {owner}")
            connection = _Connection(path, timeout_s)
            connection.connect()
        except FileNotFoundError as error:
            raise AgentGoneError(self.rig) from error
        except OSError as error:
            why = "it is not running" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)
            raise AgentGoneError(self.rig, why) from error
        return connection


def _decode(decoder: msgspec.json.Decoder[T], raw: bytes) -> T:
    try:
        found = decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise _other_version(str(error)) from error
    if isinstance(found, rig.Snapshot) and found.schema != rig.SCHEMA:
        raise _other_version(f"schema {found.schema}")
    return found


def _other_version(why: str) -> ConsoleError:
    return ConsoleError(
        "the running agent is of another version than this console",
        why=why,
        todo="restart it: console agent stop (safe: the engine runs on), then try again",
    )


def _agent_error(raw: bytes, status: int) -> AgentError:
    try:
        body = msgspec.json.decode(raw)
        line, code = str(body["error"]), ExitCode(body["code"])
    except (msgspec.DecodeError, KeyError, TypeError, ValueError):
        line, code = f"the agent answered with HTTP status {status}", ExitCode.FAILED
    return AgentError(line, code=code, status=status)


def who() -> str:
    """Who asks, for the history: user, terminal, and where an ssh session comes from."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"uid {os.getuid()}"
    terminal = ""
    with contextlib.suppress(OSError):
        terminal = os.ttyname(0).removeprefix("/dev/")
    client = os.environ.get("SSH_CONNECTION", "").partition(" ")[0]
    return name + (f"@{terminal}" if terminal else "") + (f" from {client}" if client else "")


def running_rigs() -> list[str]:
    """Rigs whose agent answers, or whose engine waits for one."""
    found = []
    for name in rig_names():
        paths = RigPaths(name)
        try:
            AgentClient(paths).ping()
        except AgentGoneError:
            if left.is_there(paths.state):
                found.append(name)
        except ConsoleError:
            found.append(name)  # of another version, but it runs
        else:
            found.append(name)
    return found


def choose(name: str | None) -> str:
    """The rig that is meant: the named one, else the only one that runs, else ``default``.

    Raises:
        ConsoleError: several run and none of them is ``default``.
    """
    if name is not None:
        return RigPaths(name).name
    running = running_rigs()
    if len(running) == 1:
        return running[0]
    if not running or DEFAULT_RIG in running:
        return DEFAULT_RIG
    raise ConsoleError("which rig?", why=f"{', '.join(running)} run", todo="name one with --rig", code=ExitCode.USAGE)


def connect(name: str | None = None) -> AgentClient:
    """A client of a running agent.

    Raises:
        ConsoleError: no agent runs (exit code 3), or it is of another version.
    """
    client = AgentClient(RigPaths(choose(name)))
    client.ping()
    return client
