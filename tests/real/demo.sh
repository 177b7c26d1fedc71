#!/usr/bin/env bash
# The deck on the real SGLang on the CPU, under load. The engine stops when the deck is left.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/real/engine.sh
exec "${PYTHON:-.venv/bin/python}" -m tests.real.demo "$@"
