"""Small traces and a distribution, in the wire format of their sources."""

from __future__ import annotations

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799600,4808,10
2023-11-16 18:17:04.0319600,3180,8
"""
MOONCAKE = """{"timestamp": 0, "input_length": 900, "output_length": 50, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1600, "output_length": 70, "hash_ids": [0, 1, 5, 9]}
"""
REQUESTS = """arrival_s,prompt_tokens,output_tokens,session_id,model,category
0.0,100,20,s1,m,chat
1.5,50,5,,m,
"""
LENGTHS = '{"cdf": [[64, 0.25], [512, 0.75], [8192, 1.0]], "source": "made up"}'

SOUND: dict[str, str] = {
    "azure-trace": AZURE,
    "mooncake-trace": MOONCAKE,
    "request-trace": REQUESTS,
    "length-cdf": LENGTHS,
}
