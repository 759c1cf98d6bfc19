"""The tables of arXiv:2609.23085 as numbers: what `ingest.sample.published` makes documents of.

Table 5, which counts the questions per benchmark, is not in the text at hand; `HELD_OUT` is the one set of counts
with which the percentages of Table 3 are whole questions, add up to 913, and give back Table 2.
"""

from __future__ import annotations

PAPER = "Measured Joules, Learned Routes, arXiv:2609.23085"
CITATION = f"{PAPER}, Table 2"
HELD_OUT_QUERIES = 913

# policy, accuracy, reward (None: the table has none), duration (ms), model energy (J), power (W).
# Power is the mean of per-call power, not energy / duration.
TABLE_2: tuple[tuple[str, float, float | None, int, float, float], ...] = (
    ("always_smallest", 0.189, None, 3780, 91.8, 23.2),
    ("always_medium", 0.791, None, 28672, 4127.9, 125.9),
    ("always_large", 0.735, None, 25706, 5112.4, 174.5),
    ("K-NN", 0.790, None, 23366, 3697.6, 121.3),
    ("UniRoute", 0.618, None, 15371, 2192.2, 84.8),
    ("Smoothie", 0.599, None, 9269, 1070.6, 59.4),
    ("RouteLLM", 0.721, None, 25053, 4958.6, 170.3),
    ("GreenServ (λ=0.5)", 0.567, None, 5584, 277.0, 41.4),
    ("SFT (λe=0.5)", 0.502, 0.400, 7821, 822.8, 45.9),
    ("KL-GRPO (SFT λe=0.5, RL λe=0.4, step 500)", 0.591, 0.686, 10932, 1339.8, 47.1),
    ("KL-GRPO (SFT λe=0.5, RL λe=0.4, step 1500)", 0.609, 0.720, 13118, 1691.9, 55.2),
    ("GRPO (SFT λe=0.5, RL λe=0.4, step 750)", 0.584, 0.666, 7942, 811.8, 48.5),
    ("GRPO (both λe=0.3, step 1000)", 0.573, 0.612, 6002, 297.0, 46.8),
)

# Told in section 4.2 for the same 913 questions, and nowhere else in the text: accuracy, J per query.
FIXED_ARMS_CITATION = f"{PAPER}, section 4.2 and Table 8"
FIXED_ARMS: tuple[tuple[str, float, float], ...] = (("Always-Qwen2.5-7B", 0.640, 281.6),)
# policy, benchmark, accuracy
FIXED_ARM_SLICES: tuple[tuple[str, str, float], ...] = (("Always-Qwen2.5-7B", "BBH", 0.262),)

SLICES_CITATION = f"{PAPER}, Tables 3 and 4"
HELD_OUT: dict[str, int] = {
    "MMLU": 149,
    "GSM8K": 144,
    "BBH": 145,
    "ARC Challenge": 147,
    "HellaSwag": 147,
    "MATH-500": 122,
    "HumanEval": 59,
}
COLUMNS = (
    "always_smallest",
    "GreenServ (λ=0.5)",
    "Smoothie",
    "SFT (λe=0.5)",
    "GRPO (SFT λe=0.5, RL λe=0.4, step 750)",
    "KL-GRPO (SFT λe=0.5, RL λe=0.4, step 1500)",
    "GRPO (both λe=0.3, step 1000)",
    "UniRoute",
    "K-NN",
    "RouteLLM",
    "always_large",
)
# Accuracy in percent, a row per benchmark in the order of HELD_OUT, a column per policy of COLUMNS.
TABLE_3: tuple[tuple[float, ...], ...] = (
    (14.8, 51.7, 49.0, 40.9, 38.9, 45.6, 50.3, 58.4, 63.1, 65.1, 65.1),
    (27.1, 82.6, 86.8, 38.2, 75.7, 61.8, 81.2, 70.8, 89.6, 89.6, 89.6),
    (2.1, 15.2, 42.8, 33.8, 40.7, 52.4, 37.9, 19.3, 69.7, 27.6, 27.6),
    (35.4, 77.6, 76.2, 74.8, 76.2, 78.2, 78.9, 87.1, 88.4, 91.2, 92.5),
    (20.4, 57.1, 53.7, 40.8, 57.8, 58.5, 57.8, 62.6, 72.8, 66.7, 72.8),
    (17.2, 57.4, 62.3, 73.0, 67.8, 73.8, 36.9, 78.7, 86.1, 85.2, 86.9),
    (10.2, 54.2, 33.9, 57.6, 47.5, 54.2, 50.8, 52.5, 93.2, 94.9, 94.9),
)
# Joules per query, the same way; from 1,000 J on the paper rounds to 100 J.
TABLE_4: tuple[tuple[float, ...], ...] = (
    (116.5, 213.6, 228.8, 146.3, 123.9, 154.2, 263.4, 2800, 1100, 3900, 3900),
    (91.1, 306.0, 1500, 159.5, 389.2, 489.1, 331.9, 572.6, 2300, 2400, 2400),
    (62.7, 122.2, 1400, 1600, 2300, 2500, 305.8, 234.0, 3600, 4300, 4400),
    (72.0, 157.3, 161.8, 77.6, 129.7, 180.1, 204.4, 1900, 2000, 3200, 3300),
    (45.5, 127.5, 154.3, 100.5, 382.0, 162.3, 176.6, 1500, 2900, 3400, 3800),
    (167.6, 854.0, 3800, 3500, 2000, 6600, 571.4, 6300, 9600, 8600, 9100),
    (110.3, 223.7, 388.0, 312.1, 178.3, 3900, 238.0, 3300, 7800, 16500, 16500),
)
