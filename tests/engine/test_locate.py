import sys

import pytest

from console.engine import locate
from console.errors import ConsoleError
from profiles.schema import EngineSection, Profile


def profile(**engine):
    return Profile(name="t", engine=EngineSection(model="m", **engine))


@pytest.fixture
def package(tmp_path):
    """A folder that looks like an installed SGLang and breaks when it is imported."""
    (tmp_path / "sglang").mkdir()
    (tmp_path / "sglang" / "__init__.py").write_text("raise SystemExit('imported')\n")
    return tmp_path


def installed(package, version):
    info = package / f"sglang-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: sglang\nVersion: {version}\n")
    return package


def test_version_comes_from_metadata_without_importing(package):
    found = locate.locate(profile(python=sys.executable, pythonpath=(str(installed(package, "0.5.23")),)))
    assert (found.version, found.version_text) == ((0, 5, 23), "0.5.23")
    assert found.location == package / "sglang"
    assert found.source_root == package / "sglang" / "srt"


def test_version_of_a_source_tree(package):
    (package / "sglang" / "version.py").write_text('__version__ = "0.5.19.post2"\n')
    assert locate.inspect(sys.executable, [str(package)]).version == (0, 5, 19, 2)


@pytest.mark.parametrize("version", ["0.0.0.dev1+g1234", ""])
def test_an_unknown_version_is_none(package, version):
    folder = installed(package, version) if version else package
    assert locate.inspect(sys.executable, [str(folder)]).version is None


def test_a_link_to_an_interpreter_is_not_followed(package, tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    assert locate.inspect(str(link), [str(installed(package, "0.5.23"))]).python == str(link)


@pytest.mark.parametrize(
    ("script", "line"),
    [
        ("exit 0", "cannot be asked"),
        ("echo oops >&2; exit 3", "oops"),
        ("echo '{}'", "cannot be asked"),
        ('echo \'{"root": "", "version": ""}\'', "has no SGLang"),
    ],
)
def test_strange_interpreters_are_one_line(tmp_path, script, line):
    fake = tmp_path / "python"
    fake.write_text(f"#!/bin/sh\n{script}\n")
    fake.chmod(0o700)
    with pytest.raises(ConsoleError, match=line):
        locate.inspect(str(fake))


def test_no_interpreter_at_all():
    with pytest.raises(ConsoleError, match="/no/such/python is no interpreter"):
        locate.inspect("/no/such/python")


def test_nothing_found_names_who_was_asked(monkeypatch, tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o700)
    monkeypatch.setattr(locate, "_candidate_paths", lambda: iter([str(fake), str(fake), ""]))
    with pytest.raises(ConsoleError, match=f"asked {fake} - name the interpreter"):
        locate.locate(profile())


def test_the_sglang_command_leads_to_its_interpreter(monkeypatch, tmp_path):
    script = tmp_path / "sglang"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    assert next(locate.candidates()) == sys.executable


def test_the_simulated_engine_needs_no_sglang():
    found = locate.locate(profile(module="console.simulate"))
    assert found.simulated
    assert found.python == sys.executable
    assert found.source_root is None
