"""The dashboard shows what the agent exports: every metric and label in it exists, every exported one is on it."""

import json
import re
from pathlib import Path

import pytest

from console import rig
from console.agent import export

DASHBOARD = json.loads((Path(__file__).parents[1] / "docs" / "grafana-dashboard.json").read_text())
METRIC = re.compile(rf"{export.PREFIX}\w+")
SCRAPED = {"instance", "job"}
"""Labels that Prometheus adds."""
STAGE = rig.Stage(mean_ms=1.0)
ONE = rig.Figure(1.0)
FULL = rig.Snapshot(
    rig="box",
    engine=rig.Engine(state=rig.EngineState.READY),
    gpus=(
        rig.Gpu(
            0,
            rank=0,
            **{field: 1.0 for field, *_ in export.GPU_CELLS if field not in {"mem_used_bytes", "mem_total_bytes"}},
            mem_used_bytes=1,
            mem_total_bytes=2,
        ),
    ),
    cycle=rig.Cycle(total_ms=ONE, draft=STAGE, verify=STAGE, extend=STAGE, gap=STAGE, graph_share=ONE),
    acceptance=rig.Acceptance(accept_len=ONE, depth=ONE, positions=(rig.Position(1, rig.Share(0.5)),)),
    load=rig.Load(running=ONE, queued=ONE, tok_s=ONE, tok_s_stream=ONE, token_usage=ONE),
    targets=rig.Targets(
        baseline=rig.Baseline(tok_s=82.0),
        break_even_accept_len=2.0,
        margin=-0.5,
        speedup=0.8,
        verdict=rig.Verdict.LOSES,
    ),
    alarms=(rig.Alarm("loses", "warn", 1.0, "it loses"),),
)


def exported() -> dict[str, set[str]]:
    """Labels by metric, of a snapshot in which everything is known."""
    found: dict[str, set[str]] = {}
    for line in export.render(FULL).splitlines():
        if not line.startswith("#"):
            name, labels = re.fullmatch(r"(\w+)(?:\{(.*)\})? \S+", line).groups()
            found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels or ""))
    return found


def targets() -> list[dict]:
    return [target for panel in DASHBOARD["panels"] for target in panel["targets"]]


def test_every_metric_on_it_is_exported_and_the_other_way_round():
    text = json.dumps(DASHBOARD)
    assert set(METRIC.findall(text)) == set(exported())


@pytest.mark.parametrize("target", targets(), ids=lambda target: target["expr"])
def test_every_label_it_names_exists(target):
    known = exported()
    labels = set(SCRAPED).union(*(known[name] for name in METRIC.findall(target["expr"])))
    used = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) | set(re.findall(r"[{,](\w+)=", target["expr"]))
    assert used <= labels


def test_it_can_be_imported():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {entry["name"] for entry in DASHBOARD["templating"]["list"]}
    text = json.dumps(DASHBOARD["panels"])
    assert {name for name in re.findall(r"\$\{?(\w+)\}?", text) if not name.startswith("__")} <= variables
    taken = set()
    for panel in DASHBOARD["panels"]:
        assert panel["title"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize(("verdict", "value"), [("PAYS", "1"), ("LOSES", "0"), ("UNCLEAR", None)])
def test_whether_it_pays(verdict, value):
    text = export.render(rig.Snapshot(targets=rig.Targets(verdict=rig.Verdict[verdict])))
    found = re.search(r"^sglang_console_speculation_pays (\S+)$", text, flags=re.MULTILINE)
    assert (found[1] if found else None) == value
