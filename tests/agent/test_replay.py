"""A recording in the place of an agent: the position moves with the clock and by keys; nothing can be changed."""

import msgspec
import pytest

from console import rig
from console.agent.record import Journal
from console.agent.replay import SPEEDS, Player, ReplayClient, ReplayError
from console.cli import main

NOW = 1_800_000_000.0


@pytest.fixture
def path(tmp_path):
    """Twenty seconds, a gap of an hour, twenty seconds."""
    journal = Journal(tmp_path / "history.sqlite", clock=lambda: NOW + 4000)
    for number in [*range(20), *range(3600, 3620)]:
        figure = rig.Figure(float(number), rig.Source.PROBE, NOW + number)
        journal.sample(rig.Snapshot(seq=number, at_s=NOW + number, rig="box", load=rig.Load(tok_s=figure)))
        if number % 5 == 4:
            assert journal._flush()
    journal.event(rig.Event(NOW + 3605, "info", "later"))
    assert journal._flush()
    journal._close()
    return tmp_path / "history.sqlite"


class Clock:
    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def player():
    clock = Clock()
    made = Player(clock=clock)
    made.tick = lambda seconds: setattr(clock, "now_s", clock.now_s + seconds)
    made.begin(NOW, NOW + 3619)
    return made


TIMES = [*range(20), *range(3600, 3620)]


def after(at_s):
    return next((NOW + number for number in TIMES if NOW + number > at_s), None)


def before(at_s):
    return next((NOW + number for number in reversed(TIMES) if NOW + number < at_s), None)


def moved(player, seconds=0.0):
    player.tick(seconds)
    return player.advance(after, before).at_s - NOW


def test_it_moves_with_the_clock_at_its_speed(player):
    assert moved(player, 3.0) == 3.0
    player.faster(1)
    assert player.where.speed == 2.0
    assert moved(player, 2.0) == 7.0
    player.pause()
    assert moved(player, 100.0) == 7.0
    player.pause()
    assert moved(player, 1.0) == 9.0


def test_speeds_end(player):
    for _ in range(20):
        player.faster(1)
    assert player.where.speed == max(SPEEDS)
    for _ in range(40):
        player.faster(-1)
    assert player.where.speed == min(SPEEDS)


def test_seeking_stays_within_and_gaps_are_passed_over(player):
    player.seek(-10)
    assert moved(player) == 0.0
    player.seek(19.0)
    assert moved(player, 0.5) == 3600.0
    assert player.where.note == "nothing was recorded for 3581 s before"
    assert moved(player, 1.0) == 3601.0
    assert player.where.note == ""
    player.seek(1e9)
    assert moved(player, 1.0) == 3619.0
    assert (player.where.paused, player.where.note) == (True, "the end of the recording")


def test_steps_pause_and_cross_gaps(player):
    player.seek(18.5)
    player.step(1)
    player.step(1)
    assert moved(player) == 3600.0
    player.step(-1)
    assert moved(player, 50.0) == 19.0
    assert player.where.paused
    for _ in range(40):
        player.step(-1)
    assert moved(player) == 0.0


def test_the_stream_is_that_of_an_agent(path):
    player = Player(speed=1.0)
    client = ReplayClient(path, player)
    stream = client.stream()
    seen = []
    for snapshot in stream:
        seen.append(snapshot.seq)
        if len(seen) == 1:
            player.step(1)
        elif len(seen) == 2:
            player.seek(3605)
        elif len(seen) == 3:
            assert [row["text"] for row in client.history("events")] == ["later"]
            player.seek(-3605)
            assert client.history("events") == [], "what came later is not known yet"
        else:
            stream.close()
    assert seen[:4] == [0, 1, 3606, 1]


def test_nothing_can_be_changed(path):
    client = ReplayClient(path, Player())
    for call in (
        lambda: client.preview("stop", {}),
        lambda: client.operate("stop", {}),
        client.cancel,
        client.log,
        lambda: client.acknowledge("x"),
    ):
        with pytest.raises(ReplayError, match="this is a replay"):
            call()
    assert client.series(NOW, NOW + 20, 10.0).columns["tok_s"] == (4.5, 14.5)


def test_ndjson_without_the_deck(path, capsysbinary):
    main(["replay", str(path), "--json"])
    lines = capsysbinary.readouterr().out.splitlines()
    found = [msgspec.json.decode(line, type=rig.Snapshot) for line in lines]
    assert [snapshot.seq for snapshot in found] == [*range(20), *range(3600, 3620)]
    assert found[3].history.tok_s[-2:] == (2.0, 3.0)


def test_no_journal_and_no_terminal_are_one_line(path, tmp_path, capsys):
    for argv, words in (
        (["replay", str(tmp_path / "none"), "--json"], "does not exist"),
        (["replay", str(path)], "needs a terminal"),
    ):
        with pytest.raises(SystemExit) as done:
            main(argv)
        assert done.value.code == 2
        err = capsys.readouterr().err
        assert words in err
        assert len(err.splitlines()) == 1
