"""Extract the signatures that the probe relies on from SGLang's wheels: python tests/data/make_signatures.py [WHEEL_FOLDER]

Downloads each wheel without its dependencies (5 to 30 MB each) into the folder, or into one that is thrown away, reads its source without
importing it, and writes sglang_signatures.json beside this file. Run it when a new SGLang comes out, and add the version below.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from console.engine.capability import read_signatures, targets

VERSIONS = (
    *("0.5.11", "0.5.12", "0.5.12.post1", "0.5.13", "0.5.13.post1", "0.5.14", "0.5.15", "0.5.16", "0.5.17"),
    *("0.5.18", "0.5.19", "0.5.20", "0.5.21", "0.5.22", "0.5.23"),
)
OUTPUT = Path(__file__).with_name("sglang_signatures.json")


def wheel(version: str, folder: Path) -> Path:
    """The wheel of a version, downloaded unless it lies in the folder."""
    pattern = f"sglang-{version}-*.whl"
    if not (found := sorted(folder.glob(pattern))):
        options = ["--no-deps", "--only-binary=:all:", "--python-version", "3.11", "-q", "-d", str(folder)]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, f"sglang=={version}"], check=True)
        found = sorted(folder.glob(pattern))
    return found[0]


def signatures(path: Path) -> dict[str, list[str] | None]:
    """What the wheel's source has."""
    files = {f"sglang/srt/{target.partition(':')[0]}" for target in targets()}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if name in files])
        return read_signatures(Path(folder) / "sglang")


def main() -> None:
    """Write the table."""
    with tempfile.TemporaryDirectory() as thrown_away:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else thrown_away)
        folder.mkdir(parents=True, exist_ok=True)
        table = {version: signatures(wheel(version, folder)) for version in VERSIONS}
    # a target a line, with the versions of each shape: a change of SGLang's is a change of one line
    lines = []
    for target in targets():
        shapes: dict[str, list[str]] = {}
        for version, found in table.items():
            shapes.setdefault(json.dumps(found[target]), []).append(version)
        entries = [{"found": json.loads(shape), "in": versions} for shape, versions in shapes.items()]
        lines.append(f" {json.dumps(target)}: {json.dumps(entries)}")
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
