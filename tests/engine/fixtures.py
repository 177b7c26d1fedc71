"""Where the real captures are, and what of them belongs to the engine's room."""

from pathlib import Path

ROOT = Path(__file__).parents[1] / "fixtures"
LOGS = sorted(path for path in ROOT.rglob("*.log"))
OTHERS = sorted(path for path in ROOT.rglob("*") if path.is_file() and path.suffix != ".log")
SCRAPES = sorted([*ROOT.rglob("*.prom"), *ROOT.rglob("metrics.txt")])
LOADS = sorted(path for path in ROOT.rglob("v1_loads*.txt"))
SERVER_INFOS = sorted([*ROOT.rglob("server_info.txt"), *ROOT.rglob("get_server_info.txt")])
MODEL_INFOS = sorted([*ROOT.rglob("model_info.txt"), *ROOT.rglob("get_model_info.txt")])


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))
