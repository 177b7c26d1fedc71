"""The probe's needs against the source of every SGLang that has plugins."""

import json
import re
import sys
from pathlib import Path

import pytest

from console.engine.capability import MIXIN, NEEDS, PROCESSOR, SCHEDULER, examine, judge, read_signatures, targets
from tests.data.make_signatures import OUTPUT, VERSIONS

TABLE = {
    version: {
        target: next(entry["found"] for entry in entries if version in entry["in"]) for target, entries in lines.items()
    }
    for lines in [json.loads(OUTPUT.read_text())]
    for version in VERSIONS
}
PROBE = Path(__file__).parents[2] / "console/probe/sglang_console_probe"


def test_the_table_holds_what_is_looked_for():
    assert set(json.loads(OUTPUT.read_text())) == set(targets())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_sglang_with_plugins_can_be_changed_live(version):
    found = judge(TABLE[version])
    assert (found.depth_live, found.swap_live) == (True, True)
    off = {hook for hook, why in found.missing.items() if why}
    assert off == ({"device timer"} if version == "0.5.11" else set())
    assert found.complete is (version != "0.5.11")


def test_the_verify_result_moved_twice():
    def where(version):
        names = [name for need in NEEDS if need.hook == "acceptance" for choice in need.alternatives for name in choice]
        return [name for name in names if TABLE[version][name] is not None]

    assert where("0.5.11") == [f"{MIXIN}._resolve_spec_overlap_token_ids"]
    assert where("0.5.12.post1") == [f"{MIXIN}._resolve_spec_overlap_tokens"]
    assert {tuple(where(version)) for version in VERSIONS[3:]} == {(f"{PROCESSOR}._resolve_spec_v2_tokens",)}


def test_the_probe_hooks_what_is_looked_for():
    """The names in the probe's own source, which this room must not import."""
    hooks = (PROBE / "hooks.py").read_text()
    wanted = {target.rpartition(".")[2] for target in targets()}
    registered = set(re.findall(r'f"\{(?:SCHEDULER|PROCESSOR)\}\.(\w+)"', hooks))
    assert registered == {
        "run_event_loop",
        "set_internal_state",
        "_resolve_spec_v2_tokens",
        "_resolve_spec_overlap_tokens",
        "_resolve_spec_overlap_token_ids",
    }
    assert registered <= wanted
    wrapped = set(re.findall(r'"(\w+)": "(?:draft|verify|extend)"', (PROBE / "stages.py").read_text()))
    assert wrapped == {"draft", "verify", "_draft_extend_for_decode"}
    assert wrapped <= wanted


def test_a_renamed_argument_is_named():
    changed = {**TABLE["0.5.23"], f"{SCHEDULER}.set_internal_state": ["self", "request"]}
    found = judge(changed)
    assert (
        "set_internal_state(self, request) instead of Scheduler.set_internal_state(self, recv_req)" in found["commands"]
    )
    assert (found.depth_live, found.swap_live) == (False, False)
    assert found["stages"] == ""


def test_without_the_policy_by_batch_size_the_older_way_is_taken():
    older = {
        target: None if "AdaptiveSpeculativeParams" in target else found for target, found in TABLE["0.5.23"].items()
    }
    assert judge(older)["live depth"] == ""


@pytest.mark.parametrize("source", ["class Scheduler:\n  def run_event_loop(", "\0", "x = 1"])
def test_source_that_is_none_has_nothing(tmp_path, source):
    file = tmp_path / "srt/managers/scheduler.py"
    file.parent.mkdir(parents=True)
    file.write_text(source)
    found = examine(tmp_path)
    assert all(found.missing.values())
    assert not found.complete
    assert not found.depth_live


def test_methods_and_attributes_are_told_apart(tmp_path):
    file = tmp_path / "srt/utils/device_timer.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "class DeviceTimer:\n def add_reporter(self, reporter, *, x=1): self._intervals = []\n wrap = None\n"
    )
    found = read_signatures(tmp_path)
    prefix = "utils/device_timer.py:DeviceTimer."
    assert found[f"{prefix}add_reporter"] == ["self", "reporter"]
    assert found[f"{prefix}_intervals"] == []
    assert found[f"{prefix}wrap"] is None


def test_reading_imports_nothing_of_sglang(tmp_path):
    examine(tmp_path)
    assert not [name for name in sys.modules if name.partition(".")[0] in {"sglang", "torch"}]
