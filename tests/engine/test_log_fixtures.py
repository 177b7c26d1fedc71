"""Every captured log, against figures counted by hand (grep and eye), not by the reader."""

import json
from dataclasses import dataclass

import pytest

from console.engine.explain import chunks_of, explain
from console.engine.log import LogReader
from tests.engine import fixtures


@dataclass(frozen=True)
class Seen:
    lines: int
    batches: int = 0
    graphs: int = 0
    last: float | None = None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    depth: int | None = None
    ready_s: float | None = None
    failure: str = ""
    access: int = 0
    sglang: bool = True


SERVED = {
    "cpu-0.5.23/combo/g23/stderr.log": Seen(309, 82, 0, 3.21, 3.3180, 1.70, 4.67, 3, 19),
    "cpu-0.5.23/main/main/stderr.log": Seen(190, 37, 0, 1.30, 1.7457, 1.20, 2.30, 2, 17),
    "cpu-0.5.23/main/tiny_nospec/stderr.log": Seen(142, 51, ready_s=13),
    "cpu-0.5.23/served/plugin/stderr.log": Seen(228, 46, 0, 3.10, 2.7591, 1.65, 4.26, 3, 15, "killed"),
    "h200-0.5.17/combo/stderr.log": Seen(1816, 1102, 1102, 3.19, 3.2429, 1.52, 4.73, 3, 38),
    "h200-0.5.17/main/stderr.log": Seen(1021, 346, 346, 1.30, 1.7377, 1.30, 2.30, 1, 53),
    "h200-0.5.17/plugin/stderr.log": Seen(1326, 568, 568, 3.70, 3.0172, 1.49, 4.80, 5, 50, "killed"),
    "h200-0.5.17/small_kv_ready/stderr.log": Seen(134, depth=3, ready_s=38),
    "h200-0.5.17/t8b_nospec/stderr.log": Seen(487, 300, 300, ready_s=49),
    "h200-0.5.17/t8b_spec/stderr.log": Seen(1345, 740, 740, 2.70, 2.1812, 1.10, 5.40, 5, 58),
    "h200-0.5.17/tiers_0_1_2_3_5/stderr.log": Seen(1039, 450, 450, 2.30, 1.6047, 1.00, 3.00, 5, 96),
}
FAILED = {
    "cpu-0.5.23/main/fail_draft_missing/stderr.log": Seen(89, failure="draft-missing"),
    "cpu-0.5.23/main/fail_drafter_bad/stderr.log": Seen(154, depth=3, failure="draft-shape"),
    "cpu-0.5.23/main/fail_port_taken/stderr.log": Seen(80, depth=3, failure="port-taken"),
    "cpu-0.5.23/port_taken_160s.log": Seen(67, failure="port-taken"),
    "h200-0.5.17/fail_adaptive_max_gt_initial/stderr.log": Seen(486, depth=3, failure="adaptive-tier-too-deep"),
    "h200-0.5.17/fail_draft_missing/stderr.log": Seen(60, failure="draft-missing"),
    "h200-0.5.17/fail_drafter_bad/stderr.log": Seen(236, depth=3, failure="draft-shape"),
    "h200-0.5.17/fail_import_missing_module/stderr.log": Seen(264, depth=3, failure="missing-module"),
    "h200-0.5.17/fail_mem_0999/stderr.log": Seen(73, depth=3, failure="oom-kv-pool"),
    "h200-0.5.17/fail_port_taken/stderr.log": Seen(268, depth=3, failure="port-taken"),
    "h200-0.5.17/startup_cut_short/stderr.log": Seen(9),
    "h200-0.5.23-attempt/plugin/stderr.log": Seen(86, depth=5, failure="missing-module"),
}
ACCESS = {
    "cpu-0.5.23/combo/g23/stdout.log": Seen(204, access=201),
    "cpu-0.5.23/main/fail_drafter_bad/stdout.log": Seen(5, access=5),
    "cpu-0.5.23/main/main/stdout.log": Seen(118, access=115),
    "cpu-0.5.23/main/tiny_nospec/stdout.log": Seen(38, access=37),
    "cpu-0.5.23/served/plugin/stdout.log": Seen(190, access=183),
    "h200-0.5.17/combo/dev.log": Seen(37, sglang=False),
    "h200-0.5.17/combo/stdout.log": Seen(591, access=589),
    "h200-0.5.17/main/stdout.log": Seen(373, access=371),
    "h200-0.5.17/plugin/stdout.log": Seen(384, access=378),
    "h200-0.5.17/small_kv_ready/stdout.log": Seen(10, access=10),
    "h200-0.5.17/t8b_nospec/stdout.log": Seen(78, access=78),
    "h200-0.5.17/t8b_spec/stdout.log": Seen(269, access=268),
}
ALL = {**SERVED, **FAILED, **ACCESS}


def test_no_captured_log_is_forgotten():
    assert {fixtures.name(path) for path in fixtures.LOGS} == set(ALL)


@pytest.mark.parametrize("path", fixtures.LOGS, ids=fixtures.name)
def test_figures(path):
    seen = ALL[fixtures.name(path)]
    found = explain(chunks_of(str(path)))
    assert found.state.lines == seen.lines
    assert found.state.decode_lines == seen.batches
    assert found.state.access_lines >= seen.access
    assert found.is_sglang is seen.sglang
    assert found.depth == seen.depth
    assert found.graphs == seen.graphs
    answer = found.as_json()
    if seen.last is None:
        assert answer["accept_len"] is None
    else:
        assert answer["accept_len"] == {
            "last": seen.last,
            "mean": pytest.approx(seen.mean, abs=2e-4),
            "min": seen.low,
            "max": seen.high,
        }
    assert answer["cuda_graph_share"] == (seen.graphs / seen.batches if seen.batches else None)
    assert [cause.kind for cause in found.failures] == ([seen.failure] if seen.failure else [])
    startup = {phase["phase"]: phase["seconds"] for phase in answer["startup"]}
    assert startup.get("ready") == seen.ready_s


@pytest.mark.parametrize(
    ("path", "message", "advice", "ranks"),
    [
        (
            "cpu-0.5.23/main/fail_draft_missing",
            "'/models/no-such-drafter'",
            "the drafter /models/no-such-drafter is not there: correct --speculative-draft-model-path",
            (),
        ),
        (
            "h200-0.5.17/fail_draft_missing",
            "'/models/no-such-drafter'",
            "the drafter /models/no-such-drafter is not there: correct --speculative-draft-model-path",
            (),
        ),
        (
            "cpu-0.5.23/main/fail_drafter_bad",
            "mat1 and mat2 shapes cannot be multiplied (6x1536 and 768x256)",
            "the target delivers 1536 values where the drafter takes 768",
            ("TP0",),
        ),
        (
            "h200-0.5.17/fail_drafter_bad",
            "input.size(1) == weight.size(0) (512 vs. 256)",
            "the target's hidden size is 512, the drafter's 256",
            ("TP0",),
        ),
        ("cpu-0.5.23/main/fail_port_taken", "[Errno 98]", "another process holds port 30007", ()),
        ("h200-0.5.17/fail_port_taken", "[Errno 98]", "does not end by itself and keeps its GPU memory", ()),
        (
            "h200-0.5.17/fail_adaptive_max_gt_initial",
            "shared logits buffer holds 128 rows but caller needs 192",
            "--speculative-num-steps 5 --speculative-num-draft-tokens 6",
            ("TP0",),
        ),
        ("h200-0.5.17/fail_import_missing_module", "No module named 'deep_gemm'", "deep_gemm is missing", ("TP0",)),
        ("h200-0.5.23-attempt/plugin", "No module named 'cutlass'", "the package is nvidia-cutlass-dsl", ("TP0",)),
        (
            "h200-0.5.17/fail_mem_0999",
            "Tried to allocate 7.72 GiB",
            "lower --mem-fraction-static (now 0.999)",
            ("TP0",),
        ),
        (
            "h200-0.5.17/plugin",
            "Subprocess scheduler_0 (pid=1885) crashed with exit code -9",
            "killed from outside",
            (),
        ),
    ],
)
def test_the_cause_is_named_with_advice(path, message, advice, ranks):
    (cause,) = explain(chunks_of(str(fixtures.ROOT / path / "stderr.log"))).failures
    assert message in cause.message
    assert advice in cause.advice
    assert cause.ranks == ranks
    assert "\n" not in cause.message + cause.advice


@pytest.mark.parametrize("path", sorted(fixtures.ROOT.rglob("result.json")), ids=fixtures.name)
def test_a_failure_is_told_exactly_where_the_start_came_to_nothing(path):
    result = json.loads(path.read_text())
    failures = explain(chunks_of(str(path.parent / "stderr.log"))).failures
    cut_short = path.parent.name == "startup_cut_short"
    assert bool(failures) is (result["became_ready_s"] is None and not cut_short)


def test_phases_of_the_captured_start_on_a_gpu():
    found = explain(chunks_of(str(fixtures.ROOT / "h200-0.5.17/main/stderr.log")))
    assert [(phase.name, phase.seconds) for phase in found.phases] == [
        ("imports", 26.0),
        ("distributed", 0.04),
        ("weights_target", 0.10),
        ("weights_draft", 0.01),
        ("kv_pool", 0.40),
        ("graphs_target_prefill", 2.61),
        ("graphs_target_verify", 1.20),
        ("graphs_draft_prefill", 1.08),
        ("graphs_draft_decode", 2.99),
        ("graphs_draft_extend", 1.32),
        ("tiers", pytest.approx(10.54)),
        ("warmup", 4.0),
        ("ready", 53.0),
    ]
    detail = {phase.name: phase.detail for phase in found.phases}
    assert detail["weights_draft"] == "LlamaForCausalLMEagle3"
    assert detail["tiers"] == "depth 1, 2, 3"
    assert detail["kv_pool"] == "262144 tokens"


def test_a_start_without_speculation_has_no_drafter_phases():
    names = [
        phase.name for phase in explain(chunks_of(str(fixtures.ROOT / "h200-0.5.17/t8b_nospec/stderr.log"))).phases
    ]
    assert "weights_draft" not in names
    assert "tiers" not in names
    assert "graphs_target_decode" in names


def test_progress_of_the_running_phase_follows_the_bar():
    data = (fixtures.ROOT / "h200-0.5.17/main/stderr.log").read_bytes()
    reader = LogReader()
    reader.feed(data[: data.index(b"29/58")] + b"29/58 [00:01\r")
    running = [phase for phase in reader.state.phases if phase.seconds is None]
    assert [(phase.name, phase.progress, phase.detail) for phase in running] == [
        ("graphs_target_prefill", 0.5, "29/58")
    ]


def test_switches_are_kept_with_their_depths():
    found = explain(chunks_of(str(fixtures.ROOT / "h200-0.5.17/main/stderr.log")))
    assert [(before, after) for _, before, after in found.state.switches] == [(5, 2), (2, 1)]


def test_a_refused_swap_is_a_remark_and_no_failure():
    found = explain(chunks_of(str(fixtures.ROOT / "h200-0.5.17/plugin/stderr.log")))
    assert found.state.errors == 1
    assert any("/models/nope/config.json" in text and "not the server" in text for text in found.warnings)


def test_a_cut_start_says_where_it_ends():
    found = explain(chunks_of(str(fixtures.ROOT / "h200-0.5.17/startup_cut_short/stderr.log")))
    assert found.warnings[0] == "the log ends in the middle of a start, in phase Imports and argument checks"


@pytest.mark.parametrize("path", fixtures.OTHERS, ids=fixtures.name)
def test_no_other_captured_file_passes_for_a_log(path):
    reader = LogReader()
    reader.feed(path.read_bytes())
    reader.close()
    assert reader.state.sglang_lines == 0
    assert reader.state.access_lines == 0
    assert reader.state.failures == ()
