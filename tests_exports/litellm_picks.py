"""Run by the Python of .venv-exports: what LiteLLM's own Router picks, as JSON counts per deployment.

stdin: {"config": the proxy's config, "model": a model name, "n": picks, "seed": int}
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # its list of prices comes from the net otherwise

from litellm import Router


def main() -> None:
    told = json.load(sys.stdin)
    config = told["config"]
    router = Router(model_list=config["model_list"], **config.get("router_settings", {}))
    random.seed(told["seed"])
    picked: Counter[str] = Counter()
    for _ in range(told["n"]):
        found = router.get_available_deployment(
            model=told["model"], messages=[{"role": "user", "content": "hi"}], request_kwargs={}
        )
        picked[found["litellm_params"]["model"]] += 1
    sys.stdout.write("\n" + json.dumps(picked) + "\n")


if __name__ == "__main__":
    main()
