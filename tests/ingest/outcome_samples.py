"""Small outcome tables of our own, in the formats of their sources."""

from __future__ import annotations

import json

LONG = """dataset,query_id,arm,correct,benchmark,split,prompt,energy_j,evidence_class,latency_s,output_tokens,cost_usd
toy,q1,small,1,sums,train,What is 2 + 3?,4.5,calibrated,0.25,9,0.000001
toy,q1,large,1,sums,train,What is 2 + 3?,90,calibrated,0.75,8,0.00003
toy,q2,small,0,sums,test,What is 17 x 23?,5.25,calibrated,0.5,12,0.0000012
toy,q2,large,0.5,sums,test,What is 17 x 23?,120,calibrated,1.5,11,0.00004
"""
QUERIES = """task,query_id,question,gold
sums,q1,What is 2 + 3?,5
sums,q2,"What is 17 x 23, in words?",391
"""
ZEROEVAL = """task,query_id,model,hf_generator,correct,answered,prompt_chars,output_chars,output_tokens_cl100k
gsm,gsm-0,gemma-2-27b-it@together,google/gemma-2-27b-it@together,1,1,120,80,21
gsm,gsm-0,Mistral-Large-2,mistralai/Mistral-Large-Instruct-2407,1,1,120,95,25
crux,crux-0,gemma-2-27b-it,google/gemma-2-27b-it,0,1,300,40,11
crux,crux-0,Mistral-Large-2,mistralai/Mistral-Large-Instruct-2407,0,0,300,0,0
"""
LLMROUTER = [
    {"question": "What is 2 + 3?", "scores": {"gemma-2-9b-it": 1.0, "codegemma-7b": 0.0}, "cluster_id": 3},
    {"question": "Name a river.", "scores": {"gemma-2-9b-it": 0.25, "codegemma-7b": None}},
]
LLMROUTER_QUERIES = [
    {"task_name": "sums", "query": "What is 2 + 3?", "ground_truth": "5", "metric": "em"},
    {"task_name": "rivers", "query": "Name a river.", "ground_truth": "Elbe", "metric": "f1"},
]
LLMROUTER_MODELS = {
    "gemma-2-9b-it": {"size": "9B", "input_price": 0.10, "output_price": 0.20, "model": "google/gemma-2-9b-it"},
    "codegemma-7b": {"size": "7B", "input_price": 0.20, "output_price": 0.20, "model": "google/codegemma-7b"},
}
ROUTELLM = """prompt,mistralai/Mixtral-8x7B-Instruct-v0.1,gpt-4-1106-preview,gpt-4-1106-preview_response
"What is 2 + 3?
A. 4
B. 5",True,True,B
What is 2 + 3?,False,True,It is 5.
"""
_BENCH_COLUMNS = (
    "sample_id", "prompt", "eval_name", "a/one", "b/two", "a/one|model_response", "b/two|model_response",
    "a/one|total_cost", "b/two|total_cost", "oracle_model_to_route_to",
)  # fmt: skip
ROUTERBENCH = f"""{",".join(_BENCH_COLUMNS)}
s.1,['What is 2 + 3?'],sums,1.0,0.0,5,6,0.0001,0.000002,a/one
s.2,['Name a river.'],rivers,0.25,,Elbe,,0.0002,,a/one
"""

SOUND: dict[str, str] = {
    "outcomes": LONG,
    "replay-queries": QUERIES,
    "zeroeval-outcomes": ZEROEVAL,
    "llmrouter-outcomes": json.dumps(LLMROUTER),
    "routellm-outcomes": ROUTELLM,
    "routerbench-outcomes": ROUTERBENCH,
    "shadow-pairs": (
        "pair_id,evidence_kind,request_id,control_offer,candidate_offer,observed_at\n"
        "p-1,paired_replay,acme/main/r-1,old,new,2025-07-01T00:00:00Z\n"
    ),
    "request-labels": "request_id,category,tier\nacme/main/r-1,debugging,1\n",
}
OPTIONS: dict[str, dict[str, str]] = {
    "replay-queries": {"dataset": "toy"},
    "zeroeval-outcomes": {"dataset": "zeroeval"},
    "llmrouter-outcomes": {"dataset": "llmrouter"},
    "routellm-outcomes": {"dataset": "routellm", "benchmark": "mmlu"},
    "routerbench-outcomes": {"dataset": "routerbench"},
}
