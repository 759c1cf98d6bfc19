"""Tests of ingest/power, on the real NVML binding over a compiled stand-in for the driver's library."""
