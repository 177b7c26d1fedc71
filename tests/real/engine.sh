# Sourced from the repository's root: makes the engine's environment and checkpoints, and names them for the tests.
export ENGINE_VENV=${ENGINE_VENV:-$PWD/.venv-engine}
export ENGINE_CHECKPOINTS=${ENGINE_CHECKPOINTS:-$PWD/.cache/engine-checkpoints}
tests/real/install.sh "$ENGINE_VENV"
if [ ! -e "$ENGINE_CHECKPOINTS/info.json" ]; then      # written last
  mkdir -p "$ENGINE_CHECKPOINTS"
  "$ENGINE_VENV/bin/python" tests/real/make_checkpoints.py "$ENGINE_CHECKPOINTS"
fi
