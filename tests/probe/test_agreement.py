"""All ranks decide the same: threads stand for ranks, the folder is real."""

import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def vote(folder, whys, *, of=None, deadline_s=5.0, delays=None, absent=(), number=1):
    """Every rank votes; what each of them holds to be decided."""
    from sglang_console_probe.agree import Agreement

    found = {}

    def run(rank):
        time.sleep((delays or {}).get(rank, 0))
        agreement = Agreement(Path(folder), number, rank, len(whys))
        found[rank] = agreement.reach("ready", whys[rank], (of or {}).get(rank, "same"), deadline_s)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(len(whys)) if rank not in absent]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_all_agree(tmp_path):
    found = vote(tmp_path, [""] * 8)
    assert [verdict.go for verdict in found.values()] == [True] * 8


def test_one_refuses_and_all_say_why(tmp_path):
    found = vote(tmp_path, ["", "", "no room", ""])
    assert {(verdict.go, verdict.why) for verdict in found.values()} == {(False, "rank 2: no room")}


def test_the_same_reason_on_all_ranks_is_said_once(tmp_path):
    found = vote(tmp_path, ["no"] * 3)
    assert {verdict.why for verdict in found.values()} == {"no"}


def test_ranks_that_see_different_files_do_not_agree(tmp_path):
    found = vote(tmp_path, [""] * 2, of={0: "old", 1: "new"})
    assert {(verdict.go, verdict.why) for verdict in found.values()} == {(False, "the ranks see different files")}


def test_a_silent_rank_is_not_waited_for_for_ever(tmp_path):
    begun = time.monotonic()
    found = vote(tmp_path, [""] * 3, absent=(1,), deadline_s=0.2)
    assert time.monotonic() - begun < 3
    assert {(verdict.go, verdict.why) for verdict in found.values()} == {(False, "rank 1: no answer within 0.2 s")}


def test_a_late_rank_obeys_what_was_decided_without_it(tmp_path):
    found = vote(tmp_path, [""] * 3, delays={2: 0.6}, deadline_s=0.2)
    assert [verdict.go for verdict in found.values()] == [False] * 3


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(["", "", "", "no"]), min_size=2, max_size=5),
    st.lists(st.floats(0, 0.06), min_size=5, max_size=5),
)
def test_whatever_the_timing_nobody_decides_alone(tmp_path_factory, whys, delays):
    """The deadline falls into the middle of the votes: some time out while others see them all."""
    folder = tmp_path_factory.mktemp("votes")
    found = vote(folder, whys, delays=dict(enumerate(delays)), deadline_s=0.03)
    assert len(found) == len(whys)
    assert len({verdict.go for verdict in found.values()}) == 1
    if any(whys):
        assert not found[0].go


def test_a_rank_that_takes_no_part_says_so_at_once(tmp_path):
    from sglang_console_probe.agree import Agreement

    Agreement(tmp_path, 1, 1, 2).decline("its commands are off")
    begun = time.monotonic()
    found = vote(tmp_path, ["", ""], absent=(1,), deadline_s=20)
    assert time.monotonic() - begun < 5
    assert (found[0].go, found[0].why) == (False, "rank 1: its commands are off")


def test_a_single_rank_needs_no_files(tmp_path):
    assert vote(tmp_path, [""])[0].go
    assert not vote(tmp_path, ["no"])[0].go
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_no_agreement(tmp_path):
    from sglang_console_probe.agree import Agreement

    with pytest.raises(OSError, match="No such file"):
        Agreement(tmp_path / "gone", 1, 0, 2).reach("ready", "")
