"""Replay runs between the lab and the warehouse: progress, storing, reading back, printing."""

LANGUAGE = "trl:"  # begins the name of a policy that is a folder of weights
