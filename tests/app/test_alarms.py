"""Alarms on the deck: acknowledged by a key, rung for once."""

from __future__ import annotations

import msgspec
import pytest

from console import rig
from console.screens.bell import Bell
from tests.app.fake import AT_S, FakeAgent, make, serving, shows, until

SIZE = (120, 36)
WARN = rig.Alarm("loses", "warn", AT_S - 60, "speculation loses")
ERROR = rig.Alarm("gpu-lost-3", "error", AT_S - 5, "GPU 3 is [b]lost[/b]")


def seen(alarm: rig.Alarm) -> rig.Alarm:
    return msgspec.structs.replace(alarm, acknowledged_by="ann")


async def test_the_gravest_that_nobody_has_seen_is_acknowledged() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(serving(alarms=(ERROR, WARN)))
        await shows(app, "GPU 3 is [b]lost[/b]")
        await shows(app, "a alarm seen")
        await pilot.press("a")
        await until(lambda: agent.acknowledged == ["gpu-lost-3"], "the acknowledgement")
        agent.push(serving(alarms=(seen(ERROR), WARN)))
        await shows(app, "(seen by")
        await pilot.press("a")
        await until(lambda: agent.acknowledged == ["gpu-lost-3", "loses"], "the second one")
        agent.push(serving(alarms=(seen(ERROR), seen(WARN))))
        await until(lambda: not app.can("acknowledge"), "nothing to acknowledge")
        await pilot.press("a")
        assert len(agent.acknowledged) == 2


async def test_a_read_only_console_acknowledges_nothing() -> None:
    agent = FakeAgent()
    app = make(agent, read_only=True)
    async with app.run_test(size=SIZE) as pilot:
        agent.push(serving(alarms=(ERROR,)))
        await shows(app, "GPU 3")
        await pilot.press("a")
        assert agent.acknowledged == []


def test_it_rings_once_for_an_error_that_is_new() -> None:
    bell = Bell()
    assert not bell.rings(serving(alarms=(ERROR,))), "it stood there before anybody looked"
    assert not bell.rings(serving(alarms=(ERROR, WARN))), "a warning is no reason"
    other = msgspec.structs.replace(ERROR, id="xid-1")
    assert bell.rings(serving(alarms=(ERROR, other)))
    assert not bell.rings(serving(alarms=(ERROR, other)))
    assert not bell.rings(serving())
    again = msgspec.structs.replace(other, since_s=AT_S + 50)
    assert bell.rings(serving(alarms=(again,))), "it is back"
    assert not bell.rings(serving(alarms=(again, seen(ERROR)))), "somebody has answered for it"


@pytest.mark.parametrize("enabled", [True, False])
async def test_the_terminal_rings_when_it_may(enabled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = FakeAgent()
    app = make(agent, bell=enabled)
    rung: list[int] = []
    monkeypatch.setattr(type(app), "bell", lambda _app: rung.append(1))
    async with app.run_test(size=SIZE):
        agent.push(serving())
        await shows(app, "READY")
        agent.push(serving(alarms=(ERROR,)))
        await shows(app, "GPU 3")
        assert len(rung) == int(enabled)
        app.action_toggle_bell()
        agent.push(serving(alarms=(msgspec.structs.replace(ERROR, id="b", text="another one"), ERROR)))
        await shows(app, "another one")
        assert len(rung) == 1
