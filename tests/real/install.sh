#!/usr/bin/env bash
# The real SGLang 0.5.23 with EAGLE-3 on a CPU: scheduler, HTTP server, EAGLE-3 worker and all. Everything is tested but speed.
# usage: tests/real/install.sh VENV        (about two minutes and 2 GB; does nothing when VENV is complete)
# ENGINE_PYTHON names the interpreter; the pinned wheels exist for Python 3.11 and 3.12.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:?usage: install.sh VENV}
sglang=0.5.23 torch=2.13.0
stamp="$venv/.engine-$sglang-$torch-$(cksum <"$here/engine-requirements.txt" | cut -d' ' -f1)"
[ -e "$stamp" ] && exit 0

fits() { "$1" -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 12))' 2>/dev/null; }
python=
for candidate in ${ENGINE_PYTHON:-python3.11 python3.12 python3}; do
  if command -v "$candidate" >/dev/null && fits "$candidate"; then python=$candidate && break; fi
done
if [ -z "$python" ]; then
  echo "install.sh: no Python for the engine: SGLang $sglang is pinned to wheels for Python 3.11 and 3.12, with venv;" \
    "python3 here is $(python3 --version 2>&1). Install one of the two, or name it: ENGINE_PYTHON=/path/to/python3.11" >&2
  exit 1
fi

echo "installing SGLang $sglang for the CPU into $venv with $("$python" --version): about two minutes, 2 GB" >&2
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip -q --disable-pip-version-check)
# --no-deps: the pinned list is complete for the CPU and leaves out two gigabytes of CUDA
"${pip[@]}" install --no-deps "torch==$torch" -r "$here/engine-requirements.txt"
"${pip[@]}" install --no-deps "sglang==$sglang"
if ! "$venv/bin/python" -c 'import torch'; then
  echo "install.sh: torch does not import: this index serves a CUDA build; set PIP_INDEX_URL or PIP_EXTRA_INDEX_URL to one with torch $torch for the CPU" >&2
  exit 1
fi
touch "$stamp"
