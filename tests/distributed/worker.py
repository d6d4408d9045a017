"""What each rank does, started by torchrun: `-m tests.distributed.worker PLAN FOLDER`.

PLAN is "KIND:SCENARIO,SCENARIO;KIND:...": how the model is wrapped, and functions of `probing` and `training`. Rank r
of p writes what it saw to FOLDER/p-r.json.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from tests.distributed import probing, training
from tests.distributed.models import RANK, WORLD

SCENARIOS = vars(probing) | vars(training)


def store() -> dist.Store:
    """torchrun's own, with a prefix for each restart: else gloo finds the addresses of processes that are gone."""
    agent = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
    return dist.PrefixStore(f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}", agent)


def main() -> None:
    torch.set_num_threads(1)
    plan, folder = sys.argv[1], Path(sys.argv[2])
    dist.init_process_group("gloo", timeout=timedelta(seconds=120), store=store(), rank=RANK, world_size=WORLD)
    answers = {
        kind: {name: SCENARIOS[name](kind, folder) for name in names.split(",")}
        for kind, names in (part.split(":") for part in plan.split(";"))
    }
    (folder / f"{WORLD}-{RANK}.json").write_text(json.dumps(answers))
    sys.stdout.flush()
    if "raises" not in plan:
        dist.barrier()
        dist.destroy_process_group()
    os._exit(0)  # Gloo's threads now and then abort a process that has done all it had to, on its way out.


if __name__ == "__main__":
    main()
