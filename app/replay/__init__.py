"""Replay runs between the lab and the warehouse: progress, storing, reading back, printing."""
