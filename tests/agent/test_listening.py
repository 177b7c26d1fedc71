"""The agent's socket: removed by somebody, it is made again, and its mode is kept."""

import asyncio
import contextlib
import shutil

import pytest
from aiohttp import ClientError, ClientSession, UnixConnector, web

from console.agent import listening
from console.agent.listening import Listening


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(listening, "LOOK_PERIOD_S", 0.02)


async def answers(path):
    with contextlib.suppress(ClientError, OSError):
        async with ClientSession(connector=UnixConnector(str(path))) as session, session.get("http://x/") as answer:
            return answer.status == 404
    return False


@contextlib.asynccontextmanager
async def listens(folder):
    runner = web.AppRunner(web.Application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    door = Listening(runner, folder / "agent.sock", lambda: folder.mkdir(exist_ok=True))
    await door.begin()
    keeping = asyncio.create_task(door.keep())
    try:
        yield folder / "agent.sock"
    finally:
        keeping.cancel()
        door.end()
        await runner.cleanup()


def remove(path):
    path.unlink()


def replace(path):
    path.unlink()
    path.write_text("")


def remove_folder(path):
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [remove, replace, remove_folder])
async def test_it_listens_again(tmp_path, harm):
    folder = tmp_path / "run"
    folder.mkdir()
    async with listens(folder) as path:
        assert await answers(path)
        harm(path)
        async with asyncio.timeout(5):
            while not await answers(path):
                await asyncio.sleep(0.02)
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


async def test_a_folder_that_cannot_be_made_is_tried_again(tmp_path, caplog):
    folder = tmp_path / "run"
    folder.mkdir()
    async with listens(folder) as path:
        shutil.rmtree(folder)
        folder.write_text("in the way")
        async with asyncio.timeout(5):
            while "cannot be made again" not in caplog.text:
                await asyncio.sleep(0.02)
        folder.unlink()
        async with asyncio.timeout(5):
            while not await answers(path):
                await asyncio.sleep(0.02)
