"""SGLang's flags and SGLang's refusals."""

from __future__ import annotations

import json

import pytest

from console.simulate.faults import FaultError
from console.simulate.options import DEFAULT_TIERS, OptionError, parse

EAGLE = ["--speculative-algorithm", "eagle3", "--speculative-draft-model-path", "sim/own-37k"]


def test_defaults_are_sglangs():
    options = parse([], {})
    assert (options.tp, options.speculative, options.depth, options.max_running) == (1, False, 0, 256)
    assert options.state_file is None


def test_unknown_flags_are_ignored():
    options = parse(["--mem-fraction-static", "0.8", "--trust-remote-code", "--port", "31000"], {})
    assert options.port == 31000


def test_algorithm_is_upper_case_and_nextn_is_eagle():
    assert parse(EAGLE, {}).algorithm == "EAGLE3"
    assert parse(["--speculative-algorithm", "NEXTN"], {}).algorithm == "EAGLE"


def test_none_of_the_three_numbers_means_sglangs_choice():
    options = parse(EAGLE, {})
    assert (options.depth, options.topk, options.draft_tokens) == (3, 1, 4)


def test_steps_without_topk_is_refused_in_sglangs_words():
    with pytest.raises(OptionError, match="NoneType"):
        parse([*EAGLE, "--speculative-num-steps", "2"], {})


def test_topk_one_forces_the_verify_width():
    numbers = ["--speculative-num-steps", "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "9"]
    assert parse([*EAGLE, *numbers], {}).draft_tokens == 3


def test_adaptive_without_config_has_sglangs_table():
    options = parse([*EAGLE, "--speculative-adaptive"], {})
    assert options.tiers is not None
    assert options.tiers.slots == DEFAULT_TIERS
    assert options.tiers.steps == (0, 1, 3, 5, 7)


def test_adaptive_config_slots_inherit_top_level_keys(tmp_path):
    config = tmp_path / "tiers.json"
    config.write_text(json.dumps({"warmup_batches": 7, "1": {"candidate_steps": [0, 2, 1]}}))
    options = parse([*EAGLE, "--speculative-adaptive", "--speculative-adaptive-config", str(config)], {})
    assert options.tiers is not None
    assert options.tiers.steps == (0, 1, 2)
    assert options.tiers.warmup_batches == 7


@pytest.mark.parametrize("text", ["{", '{"1": {}}', '{"1": {"candidate_steps": 3}}'])
def test_a_broken_adaptive_config_is_refused(tmp_path, text):
    config = tmp_path / "tiers.json"
    config.write_text(text)
    with pytest.raises(OptionError, match=str(config)):
        parse([*EAGLE, "--speculative-adaptive", "--speculative-adaptive-config", str(config)], {})


def test_a_depth_outside_the_candidates_is_refused():
    numbers = ["--speculative-num-steps", "2", "--speculative-eagle-topk", "1"]
    with pytest.raises(OptionError, match="candidate_steps"):
        parse([*EAGLE, *numbers, "--speculative-adaptive"], {})


def test_the_probe_folder_comes_from_the_environment(tmp_path):
    options = parse([], {"SGLANG_CONSOLE_PROBE_DIR": str(tmp_path)})
    assert options.probe
    assert options.state_file == tmp_path / "simulated-engine.json"
    assert not parse(["--sim-no-probe"], {"SGLANG_CONSOLE_PROBE_DIR": str(tmp_path)}).probe


@pytest.mark.parametrize(("value", "on"), [("1", True), ("true", True), ("0", False), ("", False)])
def test_device_timer_is_sglangs_variable(value, on):
    assert parse([], {"SGLANG_ENABLE_METRICS_DEVICE_TIMER": value}).device_timer is on


def test_faults_come_from_flags_and_environment():
    options = parse(["--sim-fault", "lost_gpu:3"], {"SGLANG_SIM_FAULTS": "silent,exit_code:-9"})
    assert options.faults.argument("lost_gpu", -1) == 3
    assert "silent" in options.faults
    assert options.exit_code == -9


@pytest.mark.parametrize("text", ["melt", "lost_gpu:three"])
def test_an_unknown_fault_is_refused(text):
    with pytest.raises(FaultError):
        parse(["--sim-fault", text], {})


@pytest.mark.parametrize("text", ['{"api-key": "from-file", "port": 30001}', "api-key: from-file\nport: 30001\n"])
def test_a_config_file_adds_flags_and_the_command_line_wins(tmp_path, text):
    config = tmp_path / "more.yaml"
    config.write_text(text)
    options = parse(["--config", str(config), "--port", "30002"], {})
    assert options.api_key == "from-file"
    assert options.port == 30002


def test_a_missing_config_file_is_refused(tmp_path):
    with pytest.raises(OptionError, match=r"gone\.yaml"):
        parse(["--config", str(tmp_path / "gone.yaml")], {})
