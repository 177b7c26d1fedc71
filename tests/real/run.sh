#!/usr/bin/env bash
# The tests on the real SGLang on the CPU: builds .venv-engine and two drafters once, then runs pytest -m real.
# usage: [LONG=1] tests/real/run.sh [pytest arguments]         LONG=1 adds eight tensor-parallel ranks (minutes)
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/real/engine.sh
marks="real and not long"
[ "${LONG:-0}" = 1 ] && marks=real
exec "${PYTHON:-.venv/bin/python}" -m pytest -m "$marks" tests/real "$@"
