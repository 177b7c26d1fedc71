"""The what-if screen by its keys."""

from __future__ import annotations

import msgspec
import pytest

from console import economics, rig
from console.screens.targets import TargetsScreen
from tests.app.fake import FakeAgent, make, screen_text, serving, shows, until


def losing() -> rig.Snapshot:
    baseline = rig.Baseline(tok_s=82.0, at_s=1.0)
    targets = economics.targets(baseline, 30.0, 2, 2.0, [100.0, 150.0], verify_ms=25.0)
    return msgspec.structs.replace(serving(), targets=targets)


@pytest.mark.parametrize("size", [(80, 24), (130, 45)])
async def test_sliders_change_the_verdict_and_go_back(size: tuple[int, int]) -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=size) as pilot:
        agent.push(losing())
        await shows(app, "READY")
        await pilot.press("t")
        await until(lambda: isinstance(app.screen, TargetsScreen), "the targets")
        await shows(app, "> verify")
        await shows(app, "SPECULATION LOSES")
        await pilot.press("shift+left", "left", "left", "left", "left")
        await shows(app, "ASSUMED: verify 18.0 ms")
        await shows(app, "assumed, measured 25.0")
        await shows(app, "SPECULATION PAYS")
        agent.push(msgspec.structs.replace(losing(), seq=2))
        await until(lambda: app.latest is not None and app.latest.seq == 2, "the next snapshot")
        await shows(app, "SPECULATION PAYS")
        await pilot.press("0")
        await shows(app, "SPECULATION LOSES")
        await pilot.press("down", "down", "right", "right", "right")
        await shows(app, "ASSUMED: depth 5")
        await pilot.press("backspace")
        await until(lambda: "ASSUMED" not in screen_text(app), "what is measured")
        assert agent.asked == [], "nothing of this touches the engine"


async def test_the_curve_has_two_axes_and_published_drafters_their_source() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(140, 46)) as pilot:
        agent.push(losing())
        await shows(app, "READY")
        await pilot.press("t")
        await shows(app, "by depth; dotted: no speculation")
        await shows(app, "SGLang issue 26506")
        await pilot.press("a")
        await shows(app, "by accuracy a token; dotted")
        await shows(app, "80%")


async def test_nothing_measured_is_said() -> None:
    agent = FakeAgent()
    app = make(agent)
    async with app.run_test(size=(120, 36)) as pilot:
        agent.push(serving())
        await shows(app, "READY")
        await pilot.press("t")
        await shows(app, "not measured")
        await shows(app, "needs a cycle, a depth and an accuracy")
